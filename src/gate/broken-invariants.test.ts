import { describe, expect, test } from "vitest";
import { claimOf } from "../history/claim.fixture.ts";
import type { Claim } from "../history/run-document.ts";
import type { Side } from "./block-plan.ts";
import { type BlockFinding, invariantsClaim } from "./gate-claims.ts";

const finding = (side: Side, pair: number, id: string, verdict: Claim["verdict"], level: Claim["level"] = "must") => ({
  side,
  pair,
  claim: claimOf(`${id}/${side}${pair}`, {
    ...{ level, verdict, reason: `${id} says so`, got: "what came", evidence: [`call-${pair}`] },
  }),
});
const judged = (...findings: BlockFinding[]) => invariantsClaim(findings, "again");

describe("what breaks on the head alone", () => {
  test("fails, and is named with its proof", () => {
    const claim = judged(
      finding("base", 0, "streams-end-once", "pass"),
      finding("head", 0, "streams-end-once", "pass"),
      finding("head", 1, "streams-end-once", "fail"),
      finding("head", 2, "streams-end-once", "fail"),
    );
    expect(claim).toMatchObject({ id: "gate/invariants", verdict: "fail", evidence: ["call-1"] });
    expect(claim.reason).toBe("broken on the head alone: streams-end-once (2 blocks)");
  });

  test("is no regression when the base breaks it too, and that is said", () => {
    const claim = judged(
      finding("base", 3, "tells-when-to-retry", "fail"),
      finding("head", 0, "tells-when-to-retry", "fail"),
    );
    expect(claim.verdict).toBe("pass");
    expect(claim.reason).toContain("broken on both, so not new: tells-when-to-retry (1 block)");
  });

  test("is open where no block of the base could be judged by it", () => {
    const head = finding("head", 0, "streams-cut", "fail");
    for (const verdict of ["skipped", "inconclusive"] as const) {
      const claim = judged(finding("base", 0, "streams-cut", verdict), finding("base", 0, "a", "pass"), head);
      expect(claim).toMatchObject({ verdict: "inconclusive", evidence: ["call-0"] });
      expect(claim.reason).toContain("streams-cut (1 block)");
    }
    const once = [finding("base", 0, "streams-cut", "skipped"), finding("base", 1, "streams-cut", "pass")];
    expect(judged(...once, head).verdict).toBe("fail");
    const other = [finding("base", 0, "a", "pass"), finding("head", 0, "a", "fail")];
    const both = judged(finding("base", 0, "streams-cut", "skipped"), ...other, head);
    expect(both).toMatchObject({ verdict: "fail", evidence: ["call-0"] });
  });

  test("a side that mostly does not answer is not compared: inconclusive, unless the head alone is so", () => {
    const both = judged(finding("base", 0, "answered", "fail"), finding("head", 0, "answered", "fail"));
    expect(both).toMatchObject({ verdict: "inconclusive", evidence: ["call-0"] });
    expect(both.reason).toContain("the base and the head left too many calls unanswered");
    const half = [finding("base", 0, "answered", "pass"), finding("base", 1, "answered", "inconclusive")];
    expect(judged(...half, finding("head", 0, "a", "pass")).verdict).toBe("inconclusive");
    expect(judged(...half, finding("base", 2, "answered", "pass"), finding("head", 0, "a", "pass")).verdict).toBe(
      "pass",
    );
    expect(judged(finding("base", 0, "answered", "pass"), finding("head", 0, "answered", "fail")).verdict).toBe("fail");
  });

  test("streams that an outage cut are no regression beside it, and those of an answered block are", () => {
    const base = [0, 1, 2].map((pair) => finding("base", pair, "answered", "pass"));
    const head = (["pass", "fail", "pass"] as const).map((verdict, pair) => finding("head", pair, "answered", verdict));
    const cutIn = (pair: number) => judged(...base, ...head, finding("head", pair, "streams-cut", "fail"));
    expect(cutIn(1)).toMatchObject({ verdict: "inconclusive", reason: expect.stringContaining("was it restarted") });
    expect(cutIn(2)).toMatchObject({ verdict: "fail", reason: expect.stringContaining("streams-cut (1 block)") });
  });

  test("an outage in one block that is over may have been a restart; a second one, or one that lasts, is the head's", () => {
    const at = (pair: number, verdict: Claim["verdict"]) => finding("head", pair, "answered", verdict);
    const base = [0, 1, 2].map((pair) => finding("base", pair, "answered", "pass"));
    const once = judged(...base, at(0, "pass"), at(1, "fail"), at(2, "pass"));
    expect(once).toMatchObject({ verdict: "inconclusive", evidence: ["call-1"] });
    expect(once.reason).toMatch(/one block of the head alone, .* was it restarted meanwhile\? .*: answered says so/);
    expect(judged(...base, at(0, "fail"), at(1, "fail"), at(2, "pass")).verdict).toBe("fail");
    expect(judged(...base, at(0, "pass"), at(1, "pass"), at(2, "fail")).verdict).toBe("fail");
    const broken = finding("head", 1, "streams-end-once", "fail");
    expect(judged(...base, at(0, "pass"), at(1, "fail"), at(2, "pass"), broken).reason).toBe(
      "broken on the head alone: streams-end-once (1 block)",
    );
  });

  test("is no regression when it is the base's alone, or only a should", () => {
    const claim = judged(
      finding("base", 0, "a", "fail"),
      finding("head", 0, "a", "pass"),
      finding("head", 0, "b", "fail", "should"),
    );
    expect(claim.verdict).toBe("pass");
  });

  test("is not known where nothing was judged", () => {
    expect(judged(finding("head", 0, "a", "skipped"), finding("head", 0, "b", "inconclusive")).verdict).toBe(
      "inconclusive",
    );
  });
});
