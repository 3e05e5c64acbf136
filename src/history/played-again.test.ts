import { expect, test } from "vitest";
import { claimOf } from "./claim.fixture.ts";
import { type Claim, decidedByBoth, eitherOf, secondOf } from "./run-document.ts";

const claim = (stage: string, verdict: Claim["verdict"], over: Partial<Claim> = {}): Claim =>
  claimOf(`recovers/${stage}`, {
    verdict,
    reason: `reason of ${stage}`,
    got: `got of ${stage}`,
    evidence: [`of ${stage}`],
    ...over,
  });
const first = (verdict: Claim["verdict"], over?: Partial<Claim>): Claim => claim("x", verdict, over);
const second = (verdict: Claim["verdict"]): Claim => claim(secondOf("x"), verdict);

test.each(["pass", "fail"] as const)("what the first playing left open is a %s where the second is", (verdict) => {
  const [was, is] = decidedByBoth([first("inconclusive"), second(verdict)]);
  expect(was).toMatchObject({ id: "recovers/x", verdict, judged_in: "recovers/x-again", evidence: ["of x-again"] });
  expect(was?.reason).toContain("reason of x-again");
  expect(was?.reason).toContain("then it was: reason of x");
  expect(is).toEqual(second(verdict));
});

test.each([
  ["the second could not decide it either", [first("inconclusive"), second("inconclusive")]],
  ["the second lacked something", [first("inconclusive"), second("skipped")]],
  ["there was no second", [first("inconclusive")]],
  ["it failed the first time", [first("fail"), second("pass")]],
  ["it passed the first time", [first("pass"), second("fail")]],
  ["it is no must", [first("inconclusive", { level: "should" }), second("pass")]],
] as const)("it stays as it was where %s", (_, claims) => {
  expect(decidedByBoth(claims)).toEqual(claims);
});

test("both playings have one name", () => {
  expect([eitherOf("x"), eitherOf(secondOf("x")), eitherOf(secondOf("recovers/x"))]).toEqual(["x", "x", "recovers/x"]);
});
