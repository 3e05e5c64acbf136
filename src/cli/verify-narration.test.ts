import { expect, test } from "vitest";
import { claimOf } from "../history/claim.fixture.ts";
import { RULES } from "../verify/catalogue.ts";
import { tellRules } from "./verify.ts";

test("of rules that stay open for one reason, such as Ctrl-C, one is said as it is made; each that fails is said", () => {
  const said: string[] = [];
  const progress = tellRules({ progress: () => undefined, result: (line) => void said.push(line) });
  const about = { at: "claim" as const, rule: RULES[0]!, spent: { requests: 0, map_loads: 0, analyses: 0 } };
  const reason = "the run was stopped";
  for (const id of ["verify/a", "verify/b"]) {
    progress({ ...about, claim: claimOf(id, { verdict: "inconclusive", reason }) });
    progress({ ...about, claim: claimOf(id, { verdict: "fail", reason: "expected 2xx" }) });
  }
  expect(said.map((line) => line.trim())).toEqual([
    `inconclusive (must): verify/a: ${reason}`,
    "fail (must): verify/a: expected 2xx",
    "fail (must): verify/b: expected 2xx",
  ]);
});
