import { spawn, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isAlive, type ProcessId, signalProcess, startTimeOf } from "../supervision/processes.ts";
import { REPOSITORY } from "../supervision/repository.ts";
import { waitUntil } from "../supervision/waiting.ts";

const hasNpm = spawnSync("npm", ["--version"], { stdio: "ignore" }).status === 0;
const isBuilt = ["k6", "toxiproxy"].every((name) => existsSync(join(REPOSITORY, ".tools", name)));
const canRun = hasNpm && isBuilt && process.platform === "linux";
if (!canRun) process.stderr.write("SKIPPED: killing npm needs Linux, npm, .tools/k6 and .tools/toxiproxy\n");

/** Processes that name this folder in their command line. */
const processesAbout = (folder: string): ProcessId[] =>
  readdirSync("/proc").flatMap((name) => {
    try {
      if (!/^\d+$/.test(name) || !readFileSync(`/proc/${name}/cmdline`, "utf8").includes(folder)) return [];
    } catch {
      return [];
    }
    const start = startTimeOf(Number(name));
    return start === null ? [] : [{ pid: Number(name), start }];
  });

test.skipIf(!canRun)("a run ends in order when the npm that started it is killed", async () => {
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
    npm.kill("SIGKILL");
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
