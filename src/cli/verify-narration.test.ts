import { afterEach, expect, test, vi } from "vitest";
import { claimOf } from "../history/claim.fixture.ts";
import { RULES } from "../verify/catalogue.ts";
import { narrate } from "./verify.ts";

afterEach(() => vi.restoreAllMocks());

test("of rules that stay open for one reason, such as Ctrl-C, one is said as it is made; each that fails is said", () => {
  const said: string[] = [];
  vi.spyOn(process.stderr, "write").mockImplementation((text) => said.push(String(text)) > 0);
  const { progress, end } = narrate(false);
  const about = { at: "claim" as const, rule: RULES[0]!, spent: { requests: 0, map_loads: 0, analyses: 0 } };
  const reason = "the run was stopped";
  for (const id of ["verify/a", "verify/b"]) {
    progress({ ...about, claim: claimOf(id, { verdict: "inconclusive", reason }) });
    progress({ ...about, claim: claimOf(id, { verdict: "fail", reason: "expected 2xx" }) });
  }
  end();
  expect(said.map((line) => line.trim())).toEqual([
    `inconclusive (must): verify/a: ${reason}`,
    "fail (must): verify/a: expected 2xx",
    "fail (must): verify/b: expected 2xx",
  ]);
});
