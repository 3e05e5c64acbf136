/**
 * Runs the Go parser of event streams (src/native/eventstream) in a child process, which is built from source and answers
 * each line with a line. Without Go or the source, the reason is returned, so that a test is skipped with it.
 */
import { type ChildProcessByStdio, execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

type GoEvent = { id: string; ownId: string | null; name: string; data: string; comment: string };
type GoRead = { events: GoEvent[]; error: string };

export type GoReader = { read(chunks: Uint8Array[]): Promise<GoRead>; close(): Promise<void> };

const NATIVE = fileURLToPath(new URL("../../src/native", import.meta.url));
const run = promisify(execFile);

/** Returns why the Go reader cannot run here; `null` if it can. */
export const missingGoReader = async (): Promise<string | null> => {
  if (!existsSync(join(NATIVE, "eventstream", "reader_test.go"))) return "src/native/eventstream does not exist";
  try {
    await run("go", ["version"]);
    return null;
  } catch {
    return "Go is not installed";
  }
};

export const startGoReader = async (): Promise<GoReader> => {
  const folder = await mkdtemp(join(tmpdir(), "floodgate-go-reader-"));
  const binary = join(folder, "reader");
  await run("go", ["test", "-c", "-o", binary, "./eventstream"], { cwd: NATIVE, timeout: 120_000 });
  const child: ChildProcessByStdio<Writable, Readable, null> = spawn(binary, {
    env: { ...process.env, FLOODGATE_SSE_READER: "1" },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const waiting: ((line: string) => void)[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => waiting.shift()?.(line));
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  return {
    read: async (chunks) => {
      const answer = new Promise<string>((resolve) => waiting.push(resolve));
      child.stdin.write(
        `${JSON.stringify({ chunks: chunks.map((chunk) => Buffer.from(chunk).toString("base64")) })}\n`,
      );
      return JSON.parse(await answer) as GoRead;
    },
    close: async () => {
      child.stdin.end();
      await exited;
      await rm(folder, { recursive: true, force: true });
    },
  };
};
