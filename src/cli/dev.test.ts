/** `dev mutants` as a user runs it: a process, its output, its exit code. */
import { afterAll, describe, expect, test } from "vitest";
import { runCommand, startCommandsInTurn } from "./command.fixture.ts";

const run = (...args: string[]) => runCommand(["dev", "mutants", ...args]);

describe("dev mutants", () => {
  /** Plays the commands that try no mutant. */
  const inTurn = startCommandsInTurn();
  afterAll(inTurn.kill);

  test("tells as JSON who must kill, who did, and that the healthy platform was acquitted, and exits 0", async () => {
    const { code, out } = await run("forgets-the-new-month", "slows-the-tail", "--columns", "load", "--json");
    const { exit_code, columns, rows, trials } = JSON.parse(out);
    expect({ code, exit_code, columns }).toEqual({ code: 0, exit_code: 0, columns: ["load"] });
    expect(trials.map(({ mutant, stage, verdict }: Record<string, string>) => [mutant, stage, verdict])).toEqual([
      ["nobody", "answers", "acquitted"],
      ["nobody", "month-edge", "acquitted"],
      ["forgets-the-new-month", "month-edge", "killed"],
      ["slows-the-tail", "answers", "not-seen"],
    ]);
    expect(rows[1]).toMatchObject({
      mutant: "forgets-the-new-month",
      must: { column: "load", stage: "month-edge", by: ["admits-what-is-allowed"] },
      cells: {
        load: { verdict: "killed", must: true, by: ["admits-what-is-allowed"] },
        gate: { verdict: "not-tried" },
      },
    });
    expect(rows[2].cells).toMatchObject({ load: { verdict: "not-seen" }, gate: { verdict: "not-tried", must: true } });
  });

  test("prints the matrix of mutant and judge, and below it who must kill and who did", async () => {
    const { code, out, err } = await run("forgets-the-new-month", "--columns", "verify", "load");
    expect(code, err).toBe(0);
    expect(out).toMatch(/^MUTANT +verify +load\nnobody +clean +clean\nforgets-the-new-month +(seen|no) +KILLED\n/);
    expect(out).toContain("  must: load/month-edge: admits-what-is-allowed\n");
    expect(out).toContain("  did:  load/month-edge: admits-what-is-allowed*\n");
    expect(err).toContain("1 of 1 mutants killed by everybody who must; 0 missed");
  });

  test("says of every mutant what it does and who must catch it", async () => {
    const { out } = await inTurn.run(["dev", "mutants", "--list"]);
    expect(out).toMatch(/admits-one-too-many {2}on edge-of-quota, by admits-at-most-the-allowance\n {4}\S/);
  });

  test.each([
    [["steals-the-crown"], `there is no mutant "steals-the-crown"`],
    [["--stage", "opera"], "no stage is called opera"],
    [["--columns", "opera"], "no column is called opera"],
  ])("%s is a mistake of the user: a sentence and exit 2", async (args, sentence) => {
    const { code, err } = await inTurn.run(["dev", "mutants", ...args]);
    expect(err).toContain(sentence);
    expect(code).toBe(2);
  });
});
