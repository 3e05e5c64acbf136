/** A role of the reference platform as a process of its own: `floodgate serve`, given its addresses and nothing else. */

import { join } from "node:path";
import { REPOSITORY } from "../supervision/repository.ts";
import type { Supervisor } from "../supervision/supervisor.ts";
import { httpProbe } from "../tools/link-probe.ts";
import { openPart, type Part } from "./part.ts";

type RoleUrls = {
  api?: string;
  keys?: string;
  limiter?: string;
  front?: string;
  control?: { api?: string; keys?: string; limiter?: string; front?: string };
};
type RoleName = "api" | "keys" | "limiter" | "front";

export type ServePart = { part: Part; url: string; control: string };

export type RoleStarter = (name: string, role: RoleName, args: readonly string[]) => Promise<ServePart>;

const READY_MS = 20_000;
const ENTRY = join(REPOSITORY, "src/cli/floodgate.mjs");

const portOf = (url: string): string => new URL(url).port;

/** `secrets` go by the environment; `logOf` says where the output of a process of that name is kept. */
export const roleStarter = (options: {
  supervisor: Supervisor;
  secrets: Record<string, string>;
  logOf(name: string): string;
  /** The words of the command that serves a role; `serve` where absent. */
  serve?: readonly string[];
}): RoleStarter => {
  const { supervisor, secrets, logOf, serve = ["serve"] } = options;
  return async (name, role, args) => {
    const log = logOf(name);
    const launch = async (again: { url: string; control: string } | null) => {
      const ports =
        again === null
          ? ["--port", "0", "--control-port", "0"]
          : ["--port", portOf(again.url), "--control-port", portOf(again.control)];
      const child = await supervisor.start({
        name,
        command: process.execPath,
        args: ["--disable-warning=ExperimentalWarning", ENTRY, ...serve, "--role", role, ...ports, ...args],
        env: { ...secrets, FLOODGATE_END_WITH_STDIN: "1" },
        ends: "at-stdin-eof",
        files: { stderr: log },
      });
      const line = await child.waitForLine(/^\{.*\}$/, { deadlineMs: READY_MS });
      const urls = JSON.parse(line) as RoleUrls;
      return { child, at: { url: urls[role] as string, control: urls.control?.[role] as string } };
    };
    const { part, at } = await openPart(name, launch, ({ url }, giveUpMs) =>
      httpProbe(new URL(url).host, "/health", giveUpMs),
    );
    return { part, ...at };
  };
};
