/** `dev mutants` as a user runs it: a process, its output, its exit code. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const ENTRY = fileURLToPath(new URL("./floodgate.mjs", import.meta.url));

const run = (...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> =>
  new Promise((resolve) => {
    execFile(process.execPath, [ENTRY, "dev", "mutants", ...args], (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : (error.code as number), stdout, stderr }),
    );
  });

describe("dev mutants", () => {
  test("tells the verdict of a mutant and of the healthy platform as JSON, and exits 0 when both are right", async () => {
    const { code, stdout } = await run("forgets-the-new-month", "slows-the-tail", "--json", "--quiet");
    const { exit_code, trials, not_tried } = JSON.parse(stdout);
    expect({ code, exit_code }).toEqual({ code: 0, exit_code: 0 });
    expect(trials.map(({ mutant, stage, verdict }: Record<string, string>) => [mutant, stage, verdict])).toEqual([
      ["nobody", "month-edge", "acquitted"],
      ["forgets-the-new-month", "month-edge", "killed"],
    ]);
    expect(not_tried).toEqual([{ mutant: "slows-the-tail", stage: "gate", intended: ["gate"] }]);
  });

  test("prints a table with who must kill and who did", async () => {
    const { code, stdout, stderr } = await run("forgets-the-new-month");
    expect(code, stderr).toBe(0);
    expect(stdout).toMatch(/killed +forgets-the-new-month +month-edge +admits-what-is-allowed +admits-what-is-allowed/);
  });

  test("says of every mutant what it does and who must catch it", async () => {
    const { stdout } = await run("--list");
    expect(stdout).toMatch(/admits-one-too-many {2}on edge-of-quota, by admits-at-most-the-allowance\n {4}\S/);
  });

  test.each([
    [["steals-the-crown"], "no mutant is called steals-the-crown"],
    [["--stage", "opera"], "no stage is called opera"],
  ])("%s is a mistake of the user: a sentence and exit 2", async (args, sentence) => {
    const { code, stderr } = await run(...args);
    expect(stderr).toContain(sentence);
    expect(code).toBe(2);
  });
});
