import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { k6OrSkip } from "./run-k6.fixture.ts";
import { runK6Script } from "./user-script.ts";

const binary = k6OrSkip();

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "floodgate-script-"));
});
afterAll(() => rm(folder, { recursive: true }));

const run = async (text: string, args: string[] = [], environment: Record<string, string> = {}) => {
  const script = join(folder, "own.ts");
  await writeFile(script, text);
  const account = join(folder, "account.json");
  return runK6Script({ binary: binary as string, script, args: ["--quiet", ...args], account, environment });
};

describe.skipIf(binary === null)("a script of the user's own", () => {
  test("runs with the user's arguments and what the runner hands over", async () => {
    const text = `export default () => { if (__ENV.GIVEN !== "x") throw new Error("no"); };
      export const options = { iterations: 1 };
      export const setup = () => { if (__ENV.GIVEN !== "x") throw new Error("no"); };`;
    expect(await run(text, ["--iterations", "2"], { GIVEN: "x" })).toEqual([]);
  });

  test("that crosses a threshold fails, and one that throws outside an iteration is inconclusive", async () => {
    const threshold = `import { Counter } from "k6/metrics";
      const seen = new Counter("seen");
      export const options = { iterations: 1, thresholds: { seen: ["count>5"] } };
      export default () => { seen.add(1); };`;
    expect(await run(threshold)).toMatchObject([{ verdict: "fail", reason: /threshold/ }]);
    expect(await run("throw new Error('no')")).toMatchObject([{ verdict: "inconclusive", reason: /code 107/ }]);
    const setup = "export const setup = () => { throw new Error('no login'); }; export default () => {};";
    expect(await run(setup)).toMatchObject([{ verdict: "inconclusive", reason: /code 107/ }]);
  });

  test("with options that k6 does not take is inconclusive", async () => {
    expect(await run("export default () => {};", ["--duration", "x"])).toMatchObject([{ verdict: "inconclusive" }]);
  });
});
