import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { createServer } from "node:net";
import { availableParallelism } from "node:os";
import { afterEach, describe, expect, test } from "vitest";
import { givenWayTicks, givingWay, machineTime, TICKS_PER_S } from "../supervision/processes.ts";
import { waitUntil } from "../supervision/waiting.ts";
import { idleOtherCores, portHere, watchMachineUse } from "./witnesses.ts";

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) {
    child.kill("SIGKILL");
    try {
      process.kill(-(child.pid as number), "SIGKILL");
    } catch {
      // It leads no group, or nobody of its group is left.
    }
  }
});

/** Longer than a test takes, which ends it. */
const LONG_MS = 240_000;

/** Burns a core for so long; `detached` through a shell that ends at once, so that it is nobody's child here. */
const burn = (forMs: number, isOurs: boolean, as = ""): void => {
  const code = `const until = Date.now() + ${forMs}; while (Date.now() < until);`;
  const child = isOurs
    ? spawn(process.execPath, ["-e", code], { stdio: "ignore" })
    : spawn("sh", ["-c", `${as} '${process.execPath}' -e '${code}' & exit 0`], { stdio: "ignore", detached: true });
  children.push(child);
};
const canPin = availableParallelism() > 1 && spawnSync("taskset", ["-c", "0", "true"]).status === 0;
const canGiveWay = spawnSync("chrt", ["-i", "0", "true"]).status === 0;

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe.skipIf(process.platform !== "linux")("who used the cores", () => {
  test("what comes from this process is ours, what does not is others'", async () => {
    const ended = watchMachineUse("http://192.0.2.1/v1");
    burn(1_500, true);
    await wait(1_600);
    const own = ended();
    const again = watchMachineUse("http://192.0.2.1/v1");
    for (let i = 0; i < availableParallelism(); i++) burn(1_500, false);
    await wait(1_600);
    const others = again();
    expect(own.target_cores).toBeNull();
    // The machine may be busy with something else: only the difference is ours to tell.
    expect(others.other_cores).toBeGreaterThan(0.3);
  });

  test.skipIf(!canGiveWay)("what gives way to everybody takes no core from anybody", async () => {
    for (let i = 0; i < availableParallelism(); i++) burn(LONG_MS, false, "exec chrt -i 0");
    await waitUntil(async () => givingWay().size >= availableParallelism(), { forMs: 60_000, pollMs: 20 });
    const measured = async () => {
      const [before, machine] = [givingWay(), machineTime()];
      const ended = watchMachineUse(null);
      const beganMs = performance.now();
      await wait(1_600);
      const { other_cores: others } = ended();
      const seconds = (performance.now() - beganMs) / 1000;
      const [after, now] = [givingWay(), machineTime()];
      const idle = ((now?.idle ?? 0) + (now?.steal ?? 0) - (machine?.idle ?? 0) - (machine?.steal ?? 0)) / TICKS_PER_S;
      const all = ((now?.all ?? 0) - (machine?.all ?? 0)) / TICKS_PER_S;
      return { others, used: (all - idle) / seconds, givenWay: givenWayTicks(before, after) / TICKS_PER_S / seconds };
    };
    // While others want every core, those who give way get none.
    let seen = await measured();
    for (const untilMs = performance.now() + 120_000; seen.givenWay <= 0.1 && performance.now() < untilMs; )
      seen = await measured();
    expect(seen.givenWay).toBeGreaterThan(0.1);
    // What is left is what others used who did not give way.
    expect(seen.others).toBeLessThan(seen.used - 0.8 * seen.givenWay);
  });

  test.skipIf(!canPin)("on the core that a run is pinned to, others are seen, however idle the rest is", async () => {
    burn(LONG_MS, false, "exec taskset -c 0");
    const module = new URL("witnesses.ts", import.meta.url).href;
    const code = `const ended = (await import(${JSON.stringify(module)})).watchMachineUse(null);
      await new Promise((resolve) => setTimeout(resolve, 1_500)); console.log(JSON.stringify(ended()));`;
    const args = ["-c", "0", process.execPath, "--input-type=module", "-e", code];
    const child = spawn("taskset", args, { stdio: ["ignore", "pipe", "inherit"] });
    children.push(child);
    const used = JSON.parse((await child.stdout.toArray()).join(""));
    expect(used.cores).toBe(1);
    expect(used.other_cores).toBeGreaterThan(0.3);
    expect(used.other_cores).toBeLessThanOrEqual(1.1);
  });

  test("whose work it was is looked up after a stage only where others did some", async () => {
    const { signal } = new AbortController();
    const look = (used: number | null) =>
      idleOtherCores({ cores: 2, target_cores: null, other_cores: used }, "http://192.0.2.1/v1", signal);
    expect(await look(0.1)).toEqual({});
    expect(await look(null)).toEqual({});
    for (let i = 0; i < availableParallelism(); i++) burn(LONG_MS, false);
    expect((await look(1.5)).idle_other_cores).toBeGreaterThan(0.2);
  });

  test("a deployment on this machine is found by the port that it listens on", async () => {
    const code =
      "const s = require('node:http').createServer((q, r) => { const u = process.cpuUsage().user + 2e5; while (process.cpuUsage().user < u); r.end(); });" +
      "s.listen(0, '127.0.0.1', () => console.log(s.address().port));";
    const child = spawn(process.execPath, ["-e", code], { stdio: ["ignore", "pipe", "ignore"] });
    children.push(child);
    const port = await new Promise<string>((resolve) =>
      child.stdout.once("data", (text) => resolve(String(text).trim())),
    );
    const ended = watchMachineUse(`http://127.0.0.1:${port}/v1`);
    await fetch(`http://127.0.0.1:${port}/`);
    // How much that is of the time is for the machine to say.
    expect(ended().target_cores).toBeGreaterThan(0);
  });

  test("a port where nobody listens is nobody's", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = server.address() as { port: number };
    await new Promise((resolve) => server.close(resolve));
    expect(watchMachineUse(`http://127.0.0.1:${port}`)().target_cores).toBeNull();
  });
});

test("only an address on this machine has a port here", () => {
  expect(portHere("http://127.0.0.1:8080/v1")).toBe(8080);
  expect(portHere("https://localhost/v1")).toBe(443);
  expect(portHere("https://api.example/v1")).toBeNull();
});
