/** A Redis of our own on a free loopback port, as durable as the platform asks for; gone with its folder at the end. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../supervision/free-port.ts";

type RedisProcess = { url: string; pid: number; end(): Promise<void> };

const START_MS = 10_000;

const answers = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port }, () => socket.write("PING\r\n"));
    socket.once("data", (data) => {
      socket.destroy();
      resolve(data.toString().startsWith("+PONG"));
    });
    socket.once("error", () => resolve(false));
  });

/** `null` where there is no `redis-server`. */
export const startRedis = async (): Promise<RedisProcess | null> => {
  if (spawnSync("redis-server", ["--version"]).status !== 0) return null;
  const folder = mkdtempSync(join(tmpdir(), "floodgate-bench-"));
  const port = await freePort();
  const child: ChildProcess = spawn(
    "redis-server",
    [
      ...["--port", String(port), "--bind", "127.0.0.1", "--loglevel", "warning", "--tcp-backlog", "4096"],
      ...["--save", "", "--appendonly", "yes", "--appendfsync", "always", "--dir", folder],
    ],
    { stdio: "ignore" },
  );
  const kill = (): void => {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  };
  process.once("exit", kill);
  const end = async (): Promise<void> => {
    const gone = child.exitCode === null ? new Promise((resolve) => child.once("exit", resolve)) : null;
    child.kill("SIGKILL");
    await gone;
    process.off("exit", kill);
    rmSync(folder, { recursive: true, force: true });
  };
  for (const untilMs = performance.now() + START_MS; !(await answers(port)); ) {
    if (child.exitCode !== null || performance.now() > untilMs) {
      await end();
      throw new Error("redis-server did not answer within 10 s");
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return { url: `redis://127.0.0.1:${port}`, pid: child.pid as number, end };
};
