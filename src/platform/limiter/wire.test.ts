import { describe, expect, test } from "vitest";
import type { Take } from "../limiter.ts";
import { aTake } from "./limiter.fixture.ts";
import { openLimiterStore, type StoreAnswer } from "./store.ts";
import { bundleTakes, replyOf, takesOfBody } from "./wire.ts";

const RATE = { perS: 0.001, burst: 3 };
const NOW = { nowMs: Date.parse("2026-11-24T00:00:00Z"), steadyMs: 0 };
const WINDOW = "2026-11";

const aCall = (fields: Partial<Take> = {}): Take => aTake({ key: "key_a", rate: RATE, meter: null, ...fields });

/** What the service does with a request. */
const decided = (takes: readonly Take[]) => {
  const { body, unpack } = bundleTakes(takes);
  const store = openLimiterStore(":memory:");
  return unpack(replyOf(body, store.take(takesOfBody(body), NOW) as StoreAnswer[]));
};

describe("a batch of takes on its way", () => {
  test("those without a meter are one line for each key and rate, those with one go whole", () => {
    const charge = aTake({ key: "key_a", rate: RATE });
    const other = { perS: 7, burst: 7 };
    const takes = [aCall(), charge, aCall({ key: "key_b" }), aCall(), aCall({ rate: other }), aCall({ rate: null })];
    expect(bundleTakes(takes).body).toEqual({
      takes: [charge],
      tokens: [
        { key: "key_a", rate: RATE, wanted: 2 },
        { key: "key_b", rate: RATE, wanted: 1 },
        { key: "key_a", rate: other, wanted: 1 },
        { key: "key_a", rate: null, wanted: 1 },
      ],
    });
  });

  test("of a key's calls the first are told that they may pass, the others when to come again, each take its own", () => {
    const charge = aTake({ key: "key_c" });
    const answers = decided([aCall(), charge, aCall(), aCall({ key: "key_b" }), aCall(), aCall(), aCall()]);
    const passed = { verdict: "taken", used: null, window: WINDOW };
    const refused = { verdict: "rate_limited", wait_ms: 1_000_000 };
    expect(answers).toEqual([passed, { ...passed, used: 1 }, passed, passed, passed, refused, refused]);
  });

  test("calls and charges of one key draw on one bucket", () => {
    const charge = aTake({ key: "key_a", rate: RATE });
    const verdicts = decided([aCall(), aCall(), charge, aCall()]).map(
      (answer) => "verdict" in answer && answer.verdict,
    );
    expect(verdicts.filter((verdict) => verdict === "taken")).toHaveLength(3);
    expect(verdicts.filter((verdict) => verdict === "rate_limited")).toHaveLength(1);
  });

  test("a take without a rate is always admitted", () => {
    expect(decided([aCall({ rate: null }), aCall({ rate: null })])).toMatchObject([
      { verdict: "taken" },
      { verdict: "taken" },
    ]);
  });
});

describe("an answer that is none to a line", () => {
  const good = { key: "key_a", taken: 1, window: WINDOW, wait_ms: 500 };
  const takes = [aCall(), aCall(), aCall({ key: "key_b" })];
  const ofOther = { key: "key_b", taken: 1, window: WINDOW, wait_ms: null };
  const unpack = (first: unknown) => bundleTakes(takes).unpack({ answers: [], tokens: [first, ofOther] });

  test("the good one, for comparison", () => {
    expect(unpack(good)).toMatchObject([{ verdict: "taken" }, { verdict: "rate_limited" }, { verdict: "taken" }]);
  });

  test.each<[string, unknown]>([
    ["another's key", { ...good, key: "key_x" }],
    ["more than was wanted", { ...good, taken: 3 }],
    ["a negative count", { ...good, taken: -1 }],
    ["half a token", { ...good, taken: 0.5 }],
    ["no month", { ...good, window: null }],
    ["no wait", { ...good, wait_ms: null }],
    ["a negative wait", { ...good, wait_ms: -1 }],
    ["null", null],
  ])("%s admits nobody, and spoils its own calls alone", (_name, first) => {
    const [a, b, other] = unpack(first);
    expect([a, b]).toEqual([expect.any(Error), expect.any(Error)]);
    expect(other).toMatchObject({ verdict: "taken" });
  });

  test("a refusal of what has no rate", () => {
    const { unpack: ofFree } = bundleTakes([aCall({ rate: null })]);
    const [answer] = ofFree({ answers: [], tokens: [{ ...good, taken: 0 }] });
    expect(answer).toEqual(expect.any(Error));
  });

  test.each([
    ["no lines", { answers: [] }],
    ["too few lines", { answers: [], tokens: [good] }],
    ["one too many", { answers: [], tokens: [good, ofOther, good] }],
    ["no answers", { tokens: [good, ofOther] }],
  ])("%s: none of the batch is answered", (_name, reply) => {
    expect(() => bundleTakes(takes).unpack(reply)).toThrow("expected a list of");
  });
});
