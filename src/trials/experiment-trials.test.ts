import { expect, test } from "vitest";
import { EXPERIMENTS } from "../faults/experiments.ts";
import { claimOf } from "../history/claim.fixture.ts";
import type { Claim } from "../history/run-document.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { MUTANTS } from "../mutants/catalogue.ts";
import { EXPERIMENT_TRIALS, type ExperimentTrial, experimentsOf, healthyFaults, judgeTrial } from "./table.ts";

const TRIAL: ExperimentTrial = { mutant: "m", on: "bad", by: ["recovers"], passes: "good" };
const claim = (id: string, verdict: Claim["verdict"], level: Claim["level"] = "must"): Claim =>
  claimOf(id, { level, verdict, reason: "r", expected: "e", got: "g", replay: "-" });
const verdictOf = (...claims: Claim[]): string => judgeTrial(TRIAL, { claims }).verdict;

test("names mutants, experiments and invariants that there are, and an experiment is not both", () => {
  const ids = INVARIANTS.map(({ id }) => id);
  for (const { mutant, on, by, passes } of EXPERIMENT_TRIALS) {
    expect(MUTANTS.map(({ name }) => name)).toContain(mutant);
    for (const name of [on, passes]) expect([...EXPERIMENTS.keys()]).toContain(name);
    for (const id of by) expect(ids).toContain(id);
    expect(passes).not.toBe(on);
  }
  expect(experimentsOf(EXPERIMENT_TRIALS).length).toBeLessThan(2 * EXPERIMENT_TRIALS.length);
});

test("a mutant is killed where it must be by everybody who must, and nowhere else", () => {
  const killed = [claim("recovers/bad", "fail"), claim("recovers/good", "pass")];
  expect(verdictOf(...killed)).toBe("killed");
  expect(verdictOf(...killed, claim("refusals-in-budget/limiter", "fail", "should"))).toBe("killed");
  expect(verdictOf(...killed, claim("fails-closed/good", "fail"))).toBe("false-positive");
  expect(verdictOf(claim("fails-closed/bad", "fail"), claim("recovers/bad", "pass"))).toBe("wrong-judge");
  expect(verdictOf(claim("recovers/bad", "pass"))).toBe("survived");
});

test("what could not be judged is undecided: where it must be caught, and where it must pass", () => {
  expect(verdictOf(claim("recovers/bad", "inconclusive"))).toBe("undecided");
  expect(verdictOf(claim("recovers/bad", "fail"), claim("reached/good", "inconclusive"))).toBe("undecided");
  expect(verdictOf(claim("recovers/bad", "fail"), claim("reached/bad", "inconclusive"))).toBe("killed");
});

test("the healthy platform has to pass every must on the same experiments", () => {
  expect(healthyFaults({ claims: [claim("recovers/a", "pass"), claim("x/a", "fail", "should")] })).toEqual([]);
  expect(healthyFaults({ claims: [claim("recovers/a", "inconclusive")] })).toHaveLength(1);
});
