/**
 * For tests: a real toxiproxy and a small real upstream that counts. Where toxiproxy has not been built the tests that
 * need it are skipped, and say so; nothing stands in for it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { join } from "node:path";
import { type StartChild, startToxiproxy, type ToxiproxyServer } from "./toxiproxy-server.ts";

const BUILT = join(import.meta.dirname, "../../.tools/toxiproxy");

/** The path, or `null` with a sentence on stderr. */
export const toxiproxyOrSkip = (): string | null => {
  const path = process.env.FLOODGATE_TOXIPROXY ?? BUILT;
  if (existsSync(path)) return path;
  process.stderr.write(
    `SKIPPED: no toxiproxy at FLOODGATE_TOXIPROXY or .tools/toxiproxy; \`floodgate dev tools\` builds it\n`,
  );
  return null;
};

const startBySpawn: StartChild = async ({ command, args = [], env }) => {
  const child: ChildProcess = spawn(command, args, { env: { ...process.env, ...env }, stdio: "ignore" });
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  await new Promise<void>((resolve, reject) => child.once("spawn", resolve).once("error", reject));
  return {
    pid: child.pid as number,
    exited,
    stop: async () => {
      child.kill("SIGKILL");
      await exited;
    },
  };
};

export type Upstream = { address: string; served: () => number; close: () => Promise<void> };

/** Answers every request with `size` bytes and counts it. */
export const startUpstream = (size = 100): Promise<Upstream> =>
  new Promise((resolve) => {
    let served = 0;
    const server: Server = createServer((_, response) => {
      served++;
      response.end("x".repeat(size));
    });
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      resolve({
        address: `127.0.0.1:${port}`,
        served: () => served,
        close: () =>
          new Promise((closed) => {
            server.close(() => closed());
            server.closeAllConnections();
          }),
      });
    });
  });

export const startForTests = (...command: string[]): Promise<ToxiproxyServer> =>
  startToxiproxy({ command, start: startBySpawn });
