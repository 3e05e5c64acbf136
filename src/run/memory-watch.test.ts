import { spawn } from "node:child_process";
import { expect, test } from "vitest";

const MODULE = new URL("./recorded-run.ts", import.meta.url).href;

const run = async (body: string): Promise<{ code: number | null; out: string }> => {
  const script = `
    import { setTimeout as wait } from "node:timers/promises";
    const { watchMemory } = await import(${JSON.stringify(MODULE)});
    const { promise: exhausted, reject } = Promise.withResolvers();
    const release = watchMemory(reject);
    const kept = [];
    ${body}
    release();`;
  const child = spawn(process.execPath, ["--max-old-space-size=100", "--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  let out = "";
  child.stdout.on("data", (text: Buffer) => {
    out += text.toString();
  });
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, out };
};

test("a heap that fills is told before the process dies of it", async () => {
  const { code, out } = await run(`
    let told = "";
    exhausted.catch((error) => { told = error.message; });
    while (told === "") {
      if (process.memoryUsage().heapUsed < 97e6) kept.push(Array.from({ length: 50_000 }, (_, i) => ({ i })));
      await wait(1);
    }
    process.stdout.write(told);`);
  expect(out).toContain("the memory of this process is full");
  expect(code).toBe(0);
});

test("a heap with much garbage and little in use is none", async () => {
  const { out } = await run(`
    let told = "nothing";
    exhausted.catch((error) => { told = error.message; });
    const until = performance.now() + 1_200;
    while (performance.now() < until) { Array.from({ length: 200_000 }, (_, i) => ({ i })); await wait(1); }
    process.stdout.write(told);`);
  expect(out).toBe("nothing");
});
