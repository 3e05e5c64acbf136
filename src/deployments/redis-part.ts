/**
 * A Redis of the run's own as the limiter: in a folder of its own, on a port that the system chooses, everything on disk
 * before it answers, so that a kill loses nothing that was answered.
 */
import { mkdirSync } from "node:fs";
import { freePort } from "../supervision/free-port.ts";
import type { Supervisor } from "../supervision/supervisor.ts";
import { redisProbe } from "../tools/link-probe.ts";
import { openPart, type Part } from "./part.ts";

export type RedisPart = {
  part: Part;
  url: string;
  /** What its next start is given beside its settings, e.g. to make it slow. */
  nextArgs: string[];
};

const READY_MS = 10_000;
const TRIES = 4;
const HOST = "127.0.0.1";

const settings = (port: number, folder: string): string[] => [
  ...["--port", `${port}`, "--bind", HOST, "--dir", folder, "--save", ""],
  ...["--appendonly", "yes", "--appendfsync", "always", "--loglevel", "notice"],
];

export const startRedisPart = async (options: {
  supervisor: Supervisor;
  path: string;
  folder: string;
  log: string;
}): Promise<RedisPart> => {
  const { supervisor, path, folder, log } = options;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const nextArgs: string[] = [];
  const startOn = async (port: number) => {
    const child = await supervisor.start({
      name: "limiter",
      command: path,
      args: [...settings(port, folder), ...nextArgs],
      ends: "by-signal",
      files: { stdout: log, stderr: log },
    });
    // It also listens while it reads its files, and refuses everything until it has.
    await child.waitForLine(nextArgs.length === 0 ? /Ready to accept connections/ : /Server initialized/, {
      deadlineMs: READY_MS,
    });
    return { child, at: port };
  };
  const launch = async (again: number | null) => {
    if (again !== null) return startOn(again);
    for (let tried = 1; ; tried += 1) {
      try {
        // redis-server takes 0 for "no port"; another may be quicker than we are.
        return await startOn(await freePort());
      } catch (error) {
        if (tried === TRIES) throw error;
      }
    }
  };
  const { part, at } = await openPart("limiter", launch, (port, giveUpMs) => redisProbe(HOST, port, giveUpMs));
  return { part, url: `redis://${HOST}:${at}`, nextArgs };
};
