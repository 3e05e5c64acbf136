import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { hasEnded, isAlive, type ProcessId, signalProcess, startTimeOf } from "../supervision/processes.ts";
import { REPOSITORY } from "../supervision/run-folder.ts";
import { waitUntil } from "../supervision/waiting.ts";
import { processesAbout } from "./command.fixture.ts";

const hasNpm = spawnSync("npm", ["--version"], { stdio: "ignore" }).status === 0;
const isBuilt = ["k6", "toxiproxy"].every((name) => existsSync(join(REPOSITORY, ".tools", name)));
const canRun = hasNpm && isBuilt && process.platform === "linux";
if (!canRun) process.stderr.write("SKIPPED: killing npm needs Linux, npm, .tools/k6 and .tools/toxiproxy\n");

const ENDS = [
  ["is killed", "SIGKILL"],
  ["is asked to end, which it does after the run", "SIGTERM"],
] as const;

test.skipIf(!canRun).each(ENDS)("a run ends in order when the npm that started it %s", async (_how, by) => {
  const parent = await mkdtemp(join(tmpdir(), "floodgate-npm-"));
  const out = join(parent, "run");
  let seen: ProcessId[] = [];
  const npm = spawn("npm", ["start", "--silent", "--", "--out", out], {
    cwd: REPOSITORY,
    stdio: ["ignore", "pipe", "pipe"],
  });
  try {
    let said = "";
    npm.stderr.on("data", (chunk: Buffer) => {
      said += chunk.toString();
    });
    const started = await waitUntil(async () => said.includes("stage 1 of"), { forMs: 60_000, pollMs: 20 });
    expect(started.met, said).toBe(true);
    seen = processesAbout(out);
    expect(seen.length).toBeGreaterThan(3);
    npm.kill(by);
    // A container ends with its first process: what npm does not wait for is cut off there.
    if (by === "SIGTERM") {
      expect(await once(npm, "exit")).toEqual([143, null]);
      expect(existsSync(join(out, "junit.xml"))).toBe(true);
    }
    await waitUntil(async () => !seen.some(isAlive), { forMs: 20_000, pollMs: 50 });
    expect(processesAbout(out)).toEqual([]);
    expect(JSON.parse(readFileSync(join(out, "run.json"), "utf8"))).toMatchObject({
      verdict: "inconclusive",
      exit_code: 143,
    });
  } finally {
    for (const one of [...seen, ...processesAbout(out)]) signalProcess(one, "SIGKILL");
    await rm(parent, { recursive: true, force: true, maxRetries: 3 });
  }
});

test.skipIf(process.platform !== "linux")("a process that cannot be looked up has not ended", async () => {
  const child = spawn("sleep", ["60"], { stdio: "ignore" });
  const of = { pid: child.pid as number, start: startTimeOf(child.pid as number) as string };
  try {
    expect(hasEnded(of)).toBe(false);
    expect(hasEnded({ ...of, start: "" }), "hidden when it was first looked at").toBe(false);
    expect(hasEnded({ ...of, start: `${Number(of.start) - 1}` }), "its id was given to another").toBe(true);
    // The program opens as many files as it may, so that it can read nothing of /proc.
    const program = `
      const { openSync } = await import("node:fs");
      const { hasEnded, isAlive } = await import(${JSON.stringify(join(REPOSITORY, "src/supervision/processes.ts"))});
      const { spawnChild } = await import(${JSON.stringify(join(REPOSITORY, "src/supervision/child.ts"))});
      const other = ${JSON.stringify(of)};
      try { for (;;) openSync("/dev/null"); } catch {}
      const found = [isAlive(other), hasEnded(other), hasEnded({ pid: 2 ** 22 + 1, start: "1" })];
      try { spawnChild("/bin/sh", ["-c", "exit"], { stdio: "pipe" }); } catch ({ message }) { found.push(message); }
      process.stdout.write(JSON.stringify(found));`;
    const shell = `ulimit -n 60; exec "$0" --input-type=module -e "$1"`;
    const { stdout, stderr } = spawnSync("bash", ["-c", shell, process.execPath, program], { encoding: "utf8" });
    expect(JSON.parse(stdout || stderr)).toEqual([
      ...[false, false, true],
      expect.stringMatching(/^could not start sh: this process has as many files open as it may \(ulimit -n\)/),
    ]);
  } finally {
    child.kill("SIGKILL");
  }
  await waitUntil(async () => hasEnded(of), { forMs: 30_000, pollMs: 10 });
  expect(hasEnded(of)).toBe(true);
});
