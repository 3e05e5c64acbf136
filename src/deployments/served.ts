/**
 * Reference platforms for commands that need target files and were given none: `serve` in processes that end with this
 * one.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { REPOSITORY } from "../supervision/repository.ts";

const ENTRY = join(REPOSITORY, "src/cli/floodgate.mjs");
/** Those of the README's example: 24 streams of 200 ms. */
const OPTIONS = ["--tenants", "12", "--slots", "24", "--service-ms", "200", "--log-level", "error"];
const READY_MS = 30_000;
const END_MS = 5_000;

/** Of another deployment, perhaps; this one makes up its own. */
const { FLOODGATE_SESSION_SECRET: _session, FLOODGATE_ADMIN_SECRET: _admin, ...ENV } = process.env;

const start = async (file: string): Promise<ChildProcess> => {
  const child = spawn(process.execPath, [ENTRY, "serve", "--port", "0", ...OPTIONS, "--write-target", file], {
    stdio: ["pipe", "pipe", "ignore"],
    env: { ...ENV, FLOODGATE_END_WITH_STDIN: "1" },
  });
  const first = once(createInterface({ input: child.stdout as NodeJS.ReadableStream }), "line", {
    signal: AbortSignal.timeout(READY_MS),
  });
  const gone = once(child, "exit").then(([code]) => {
    throw new Error(`the reference platform did not start: it ended with ${code}`);
  });
  gone.catch(() => undefined);
  try {
    await Promise.race([first, gone]);
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  }
  return child;
};

const end = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit", { signal: AbortSignal.timeout(END_MS) });
  child.stdin?.end();
  await exited.catch(() => child.kill("SIGKILL"));
};

/** Hands the target files of `count` platforms to `work`; whatever becomes of it, the platforms end and the files go. */
export const withServed = async <T>(count: number, work: (files: string[]) => Promise<T>): Promise<T> => {
  const folder = await mkdtemp(join(tmpdir(), "floodgate-served-"));
  const children: ChildProcess[] = [];
  try {
    const files = Array.from({ length: count }, (_, at) => join(folder, `served-${at + 1}.json`));
    for (const file of files) children.push(await start(file));
    return await work(files);
  } finally {
    await Promise.all(children.map(end));
    await rm(folder, { recursive: true, force: true });
  }
};
