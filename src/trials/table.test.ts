import { describe, expect, test } from "vitest";
import { MUTANTS } from "../mutants/catalogue.ts";
import { nobody } from "../mutants/mutant.ts";
import { matrixOf, mutantsTable } from "./table.ts";
import { COLUMNS, isRight, isWrong, type Trial } from "./trials.ts";

const TAIL = MUTANTS.filter(({ name }) => name === "slows-the-tail");

const trial = (more: Partial<Trial>): Trial => ({
  mutant: "slows-the-tail",
  column: "gate",
  stage: "gate",
  own: true,
  intended: ["gate/latency_ms_p99"],
  by: [],
  verdict: "survived",
  reasons: [],
  attempts: 1,
  durationMs: 1,
  ...more,
});

const cells = (...trials: Trial[]): string[] => {
  const lines = mutantsTable(matrixOf(TAIL, trials)).split("\n");
  return lines.slice(1, 3).map((line) => line.replace(/ +/g, " "));
};

describe("the matrix of mutants", () => {
  test("says what is decided where it counts in capitals, and elsewhere only who saw it", () => {
    const killed = trial({ verdict: "killed", by: ["gate/latency_ms_p99"] });
    const elsewhere = { own: false, intended: [] };
    expect(
      cells(
        killed,
        trial({ column: "verify", stage: "verify", ...elsewhere, verdict: "seen", by: ["verify/x"] }),
        trial({ column: "load", stage: "answers", ...elsewhere, verdict: "not-seen" }),
        trial({
          column: "properties",
          stage: "real-server",
          ...elsewhere,
          verdict: "undecided",
          reasons: ["too slow"],
        }),
        trial({ mutant: nobody.name, verdict: "acquitted" }),
        trial({ mutant: nobody.name, column: "load", stage: "answers", verdict: "false-positive", by: ["x"] }),
      ),
    ).toEqual(["nobody - - FALSE - clean", "slows-the-tail open seen no - KILLED"]);
  });

  test.each([
    ["survived", "MISSED", true],
    ["wrong-judge", "WRONG", true],
    ["undecided", "OPEN", false],
  ] as const)("a mutant that must be caught and is %s is shown as %s, with the reason", (verdict, word, wrong) => {
    const one = trial({ verdict, reasons: ["gate/latency_ms_p99: pass: as fast as before"] });
    expect(cells(one)[1]).toBe(`slows-the-tail - - - - ${word}`);
    expect(mutantsTable(matrixOf(TAIL, [one]))).toContain(`${verdict.toUpperCase()}: gate: gate/latency_ms_p99: pass`);
    expect([isRight(one), isWrong(one)]).toEqual([false, wrong]);
  });

  test("is not decided in the column where it must be caught by what another stage of it saw", () => {
    const own = trial({ verdict: "survived" });
    const other = trial({ stage: "another", own: false, verdict: "seen", by: ["gate/goodput"] });
    expect(cells(own, other)[1]).toBe("slows-the-tail - - - - MISSED");
  });

  test("marks those who were meant to and counts the others beyond a few", () => {
    const by = ["gate/a", "gate/b", "gate/c", "gate/d", "gate/latency_ms_p99"];
    const text = mutantsTable(matrixOf(TAIL, [trial({ verdict: "killed", by })]));
    expect(text).toContain("  did:  gate: latency_ms_p99*, a, b, c +1\n");
  });

  test("names all laws that saw it in one place", () => {
    const law = { column: "properties", own: false, intended: [], verdict: "seen" } as const;
    const trials = [
      trial({ ...law, stage: "order", by: ["order"] }),
      trial({ ...law, stage: "repair", by: ["repair"] }),
    ];
    expect(mutantsTable(matrixOf(TAIL, trials))).toContain("  did:  properties: order, repair\n");
  });

  test("fits a terminal of 80 columns, whatever was said", () => {
    const reasons = [`real-server: undecided: ${"a long explanation of it ".repeat(20)}`];
    const trials = MUTANTS.flatMap(({ name }) => [
      trial({ mutant: name, verdict: "survived", reasons }),
      trial({ mutant: name, column: "properties", own: false, verdict: "undecided", reasons }),
    ]);
    const lines = mutantsTable(matrixOf(MUTANTS, trials), COLUMNS).split("\n");
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
  });

  test("tells a reason that holds for many once", () => {
    const trials = MUTANTS.map(({ name }) =>
      trial({ mutant: name, column: "properties", own: false, verdict: "undecided", reasons: ["it is not there"] }),
    );
    const text = mutantsTable(matrixOf(MUTANTS, trials));
    expect(text.match(/it is not there/g)).toHaveLength(1);
    expect(text).toContain(`open: properties: it is not there (${MUTANTS.length} mutants)`);
  });
});
