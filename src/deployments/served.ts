/** Starts reference platforms for commands without a target file: `serve` in processes that end with this one. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Started, startChild } from "../supervision/child.ts";
import { signalGroup } from "../supervision/processes.ts";
import { inTime } from "../supervision/waiting.ts";
import { ENTRY, SERVE_READY_MS } from "./part.ts";

/** The platform as in the README's example of `serve`. */
const SERVED = { tenants: 12, slots: 24, "service-ms": 200 };
const OPTIONS = Object.entries(SERVED).flatMap(([name, value]) => [`--${name}`, `${value}`]);
/** The same in words. */
export const SERVED_TEXT = `${SERVED.slots} slots of ${SERVED["service-ms"]} ms, ${SERVED.tenants} tenants`;
/** The environment's secrets may belong to another deployment, so each platform makes its own. */
const OWN_SECRETS = { FLOODGATE_SESSION_SECRET: "", FLOODGATE_ADMIN_SECRET: "" };
const END_MS = 5_000;

const end = async ({ stdin, exited, group }: Started): Promise<void> => {
  stdin?.end();
  if ((await inTime(exited, END_MS)) === "late") signalGroup(group, "SIGKILL");
};

/** Starts `count` platforms and calls `work` with their target files. Afterwards platforms and files are gone. */
export const withServed = async <T>(
  count: number,
  work: (files: string[]) => Promise<T>,
  options: readonly string[] = OPTIONS,
): Promise<T> => {
  await using atEnd = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "floodgate-served-"));
  atEnd.defer(() => rm(folder, { recursive: true, force: true }));
  const files = Array.from({ length: count }, (_, at) => join(folder, `served-${at + 1}.json`));
  for (const file of files) {
    const child = await startChild({
      ...{ name: "the reference platform", command: process.execPath, ends: "at-stdin-eof" },
      args: [ENTRY, "serve", "--port", "0", "--log-level", "error", ...options, "--write-target", file],
      env: { ...OWN_SECRETS, FLOODGATE_END_WITH_STDIN: "1" },
    });
    atEnd.defer(() => end(child));
    await child.waitForLine(/^\{/, { deadlineMs: SERVE_READY_MS });
  }
  return await work(files);
};
