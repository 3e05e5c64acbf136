/** A Redis of our own for tests: Debian's `redis-server` as a child on a free loopback port, everything on disk at once. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { freePort } from "../../tools/link-probe.ts";

export const hasRedisServer = spawnSync("redis-server", ["--version"]).status === 0;

export type RedisServer = {
  url: string;
  port: number;
  /** One command on a connection of its own. */
  call(command: string, ...args: (string | number)[]): Promise<unknown>;
  signal(name: NodeJS.Signals): void;
  /** Starts it again on the same port and files, after a kill. */
  restart(): Promise<void>;
  /** The same, but takes its time to read its files, and answers `LOADING` when this resolves. */
  restartSlowly(): Promise<void>;
  stop(): Promise<void>;
};

export const startRedisServer = async (): Promise<RedisServer> => {
  const folder = mkdtempSync(join(tmpdir(), "floodgate-redis-"));
  const port = await freePort();
  const url = `redis://127.0.0.1:${port}`;
  let child: ChildProcess;
  const call = async (command: string, ...args: (string | number)[]): Promise<unknown> => {
    const redis = new Redis(url, { lazyConnect: true, enableReadyCheck: false, retryStrategy: () => null });
    redis.on("error", () => {});
    try {
      return await redis.call(command, ...args);
    } finally {
      redis.disconnect();
    }
  };
  /** Microseconds for each key read, and looking at clients meanwhile. */
  const slow = ["--key-load-delay", "50000", "--loading-process-events-interval-bytes", "1024"];
  const start = async (until: "PONG" | "LOADING" = "PONG"): Promise<void> => {
    const settings = ["--save", "", "--appendonly", "yes", "--appendfsync", "always", "--dir", folder];
    if (until === "LOADING") settings.push(...slow);
    child = spawn(
      "redis-server",
      ["--port", String(port), "--bind", "127.0.0.1", "--loglevel", "warning", ...settings],
      {
        stdio: "ignore",
      },
    );
    for (const deadline = Date.now() + 10_000; ; ) {
      const said = await call("PING").catch((error: Error) => error.message);
      if (String(said).startsWith(until)) return;
      if (child.exitCode !== null || Date.now() > deadline) throw new Error("redis-server did not start");
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const ended = (): Promise<void> =>
    new Promise((resolve) => {
      if (child.exitCode !== null || child.signalCode !== null) resolve();
      else child.once("exit", () => resolve());
    });
  await start();
  return {
    url,
    port,
    call,
    signal: (name) => {
      child.kill(name);
    },
    restart: async () => {
      await ended();
      await start();
    },
    restartSlowly: async () => {
      await ended();
      await start("LOADING");
    },
    stop: async () => {
      child.kill("SIGKILL");
      await ended();
      rmSync(folder, { recursive: true, force: true });
    },
  };
};
