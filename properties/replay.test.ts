/**
 * The promise under every failure: the line that it printed, copied into a shell, fails again with the same counterexample,
 * and judges that one law alone. Tried with the real command on laws that are broken on purpose (laws/planted.test.ts).
 */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

type Ended = { code: number; out: string; err: string };

const inShell = (line: string): Promise<Ended> =>
  new Promise((resolve) => {
    const own = Object.entries(process.env).filter(([name]) => !name.startsWith("FLOODGATE_PROPERTY_"));
    const env = { ...Object.fromEntries(own), FLOODGATE_PROPERTY_PLANTED: "yes", NO_COLOR: "1", FORCE_COLOR: "0" };
    execFile("sh", ["-c", line], { cwd: ROOT, env, maxBuffer: 1 << 26 }, (error, out, err) => {
      resolve({ code: error === null ? 0 : (error.code as unknown as number), out, err });
    });
  });

const counterexamplesIn = (out: string): string[] =>
  [...out.matchAll(/Counterexample: (.*)/g)].map((found) => (found[1] as string).replace(/ \/\*.*\*\//, ""));
const replayLinesIn = (out: string): string[] => [
  ...new Set([...out.matchAll(/Replay: (npm run properties -- .*)/g)].map((found) => (found[1] as string).trim())),
];
const testsIn = (out: string): string => /^ *Tests {2}(.*)$/m.exec(out)?.[1] ?? "";

describe("a law that fails", { concurrent: true }, () => {
  let first: Ended;
  beforeAll(async () => {
    first = await inShell("npm run properties -- --seed 41 properties/laws/planted.test.ts");
  });

  test.each([
    [
      "alone",
      "every number is small",
      /^npm run properties -- --seed 41 --only 'planted: every number is small' --path \d+(:\d+)* properties\/laws\/planted\.test\.ts$/,
      /^\[1000,""\]$/,
    ],
    [
      "over a model",
      "a counter never reaches three",
      /^npm run properties -- --seed 41 --only 'planted: a counter never reaches three' --path \d+(:\d+)* --commands \S+ properties\/laws\/planted\.test\.ts$/,
      /^\[up,up,up\]$/,
    ],
  ])(
    "%s prints a line that fails again with the same counterexample, and runs nothing else",
    async (_, name, shape, smallest) => {
      expect(first.code).toBe(1);
      const line = replayLinesIn(first.out + first.err).find((each) => shape.test(each)) ?? "";
      expect(line).toMatch(shape);
      const found = counterexamplesIn(first.out + first.err).find((each) => smallest.test(each));
      expect(found).toMatch(smallest);

      const again = await inShell(line);
      expect(again.code).toBe(1);
      expect(counterexamplesIn(again.out + again.err)[0]).toBe(found);
      expect(replayLinesIn(again.out + again.err)).toEqual([line]);
      expect(again.out).toContain(`planted: ${name} [seed `);
      expect(testsIn(again.out)).toMatch(/^1 failed \| 1 skipped/);
    },
  );
});

describe("a wrong replay is refused in one sentence:", { concurrent: true }, () => {
  const FILE = "properties/order.property.test.ts";
  const LAW = `--only "P1 the first failing check decides"`;
  test.each([
    ["a path without a seed", `${LAW} --path 0:1 ${FILE}`, "needs --seed, --only and a file"],
    ["a path without a law", `--seed 20261 --path 0 ${FILE}`, "needs --seed, --only and a file"],
    ["a path without a file", `--seed 20261 ${LAW} --path 0`, "needs --seed, --only and a file"],
    ["a law that is not there", `--seed 20261 --only "P0" --path 0 ${FILE}`, `has no law called "P0"`],
    ["a file that is not there", `--seed 20261 ${LAW} --path 0 properties/none.test.ts`, "has no law called"],
    ["a seed that is no number", "--seed x", "should be an integer"],
    ["a path that is no path", `--seed 20261 ${LAW} --path 0:x ${FILE}`, "should be numbers with colons between them"],
    ["a path beyond all cases", `--seed 20261 ${LAW} --path 99999999999 ${FILE}`, "leads nowhere"],
    ["commands without a path", "--seed 20261 --commands AA:B", "belongs to a --path"],
    [
      "a path that the law never takes",
      `--seed 41 --only "planted: every number is small" --path 0:77777 properties/laws/planted.test.ts`,
      "leads to no case of",
    ],
  ])("%s", async (_, options, sentence) => {
    const { code, out, err } = await inShell(`"${process.execPath}" properties/replay.ts ${options}`);
    expect([code, out]).toEqual([2, ""]);
    expect(err).toContain(sentence);
    expect(err.trim().split("\n")).toHaveLength(1);
  });
});

test("a case that holds by now is said to hold", async () => {
  const { code, out } = await inShell(
    `"${process.execPath}" properties/replay.ts --seed 20261 --only "P9 what stands behind the first given source has no say" --path 3 properties/style-precedence.property.test.ts`,
  );
  expect(code).toBe(0);
  expect(out).toContain('The case at 3 holds now: "P9 what stands behind the first given source has no say".');
  expect(testsIn(out)).toMatch(/^1 passed \| 2 skipped/);
});
