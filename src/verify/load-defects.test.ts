import { describe, expect, test } from "vitest";
import type { Defect, Variant } from "../../properties/second-api/names.ts";
import type { SecondApiOptions } from "../../properties/second-api/start-second-api.ts";
import { verdictOf } from "./verdict.fixture.ts";
import { verifySecondApi } from "./verify-second-api.fixture.ts";

/** Streams that outlast a wave of them, also on a machine that is slow to send it. */
const LONG_MS = 800;

/** A rate limit that a burst also meets on a machine which sends twenty calls a second. */
const MET_AT_ANY_PACE = ["strict-rate"] as const satisfies readonly Variant[];

/** A defect under load, and the rule that names it. */
const LOAD_DEFECTS: readonly (readonly [defects: Defect | readonly Defect[], rule: string])[] = [
  ["keeps-the-slot-of-a-gone-client", "slots-come-back"],
  ["keeps-the-slot-of-the-limited", "slots-come-back"],
  ["never-recovers", "slots-come-back"],
  ["tells-half-seconds", "rate-limit-is-reported"],
  ["limits-with-503", "rate-limit-is-reported"],
  ["limits-as-unavailable", "rate-limit-is-reported"],
  ["sheds-with-503", "overload-is-reported"],
  ["sheds-with-detail", "overload-is-reported"],
  ["sheds-without-a-subcode", "overload-is-reported"],
  ["sheds-as-rate-limited", "overload-is-reported"],
  ["swaps-the-two-overloads", "overload-names-the-cap"],
  ["drops-over-the-cap", "overload-is-reported"],
  ["forgets-the-cap", "overload-keeps-the-caps"],
  ["sheds-at-a-quarter", "overload-keeps-the-caps"],
  ["sheds-at-half", "overload-keeps-the-caps"],
];

// Most of it is waiting: each has a server of its own.
describe.concurrent("a deployment whose Retry-After is a date that has passed", () => {
  test.each([
    ["fail", { defects: ["tells-a-date-that-has-passed"], variants: MET_AT_ANY_PACE }],
    ["fail", { defects: ["tells-a-time-since-1970"], variants: MET_AT_ANY_PACE }],
    ["pass", { variants: ["retry-after-date", ...MET_AT_ANY_PACE] }],
    ["pass", { variants: ["retry-after-asctime", ...MET_AT_ANY_PACE] }],
  ] as const)("%ss a should, and no must, where that is so", async (verdict, parts) => {
    const { claims } = await verifySecondApi(parts, {
      allowLoad: true,
      only: ["rate-limit-is-reported", "retry-after-is-readable"],
    });
    expect(claims.map((claim) => claim.verdict)).toEqual(["pass", verdict]);
  });
});

describe.concurrent("a deployment whose rate limit does not say when to come back", () => {
  test("fails a should, and no must, for item 218 leaves open which answers carry Retry-After", async () => {
    const judge = async (parts: SecondApiOptions) => {
      const only = ["rate-limit-is-reported", "rate-limited-says-when"];
      const { claims } = await verifySecondApi({ ...parts, variants: MET_AT_ANY_PACE }, { allowLoad: true, only });
      return claims.map(({ level, verdict }) => `${level} ${verdict}`);
    };
    expect(await judge({ defects: ["hides-retry-after"] })).toEqual(["must pass", "should fail"]);
    expect(await judge({ defects: ["tells-half-seconds"] })).toEqual(["must fail", "should fail"]);
    expect(await judge({})).toEqual(["must pass", "should pass"]);
  });
});

describe.concurrent("a deployment that loses slots", () => {
  const judge = async (parts: SecondApiOptions): Promise<string> => {
    const { claims } = await verifySecondApi(parts, {
      only: ["missing-credential", "invalid-credential", "organizations", "shedding-ends"],
      patienceMs: 5_000,
    });
    return claims.find(({ id }) => id === "verify/shedding-ends")?.verdict ?? "none";
  };
  test("is caught by a run whose single calls are all shed, from one on to its end", async () => {
    expect(await judge({ defects: ["keeps-a-slot-for-nobody"] })).toBe("fail");
  });
  test.each([
    ["is not acquitted where all slots were lost before the first call", false, "inconclusive"],
    ["is caught from its first call on where nobody else calls", true, "fail"],
  ])("%s", async (_, exclusive, verdict) => {
    const { claims } = await verifySecondApi({ defects: ["keeps-a-slot-for-nobody"] }, async ({ target }) => {
      const calls = Array.from({ length: 45 }, async () => (await fetch(`${target.base_url}/design/styles`)).text());
      await Promise.all(calls);
      return { skip: ["load", "quota-burn"], patienceMs: 5_000, target: { ...target, exclusive } };
    });
    expect(claims.find(({ id }) => id === "verify/shedding-ends")).toMatchObject({
      verdict,
      reason: expect.stringContaining(exclusive ? "" : "the deployment admitted no call at all"),
    });
  });
  test("is not waited for where it asks for a day", async () => {
    expect(await judge({ defects: ["keeps-a-slot-for-nobody"], variants: ["asks-for-a-day"] })).toBe("inconclusive");
  });
  test("is not meant when others fill it for a while, or when it does not state fixed caps", async () => {
    const states: SecondApiOptions[] = [
      { variants: ["is-full-for-a-while"] },
      { defects: ["keeps-a-slot-for-nobody"], variants: ["states-no-caps"] },
    ];
    expect(await Promise.all(states.map(judge))).toEqual(["pass", "skipped"]);
  });
});

describe.concurrent("a deployment that many organizations fill together", () => {
  test("is caught when it blames one of them, each below its own cap", async () => {
    const { claims } = await verifySecondApi(
      {
        defects: ["blames-an-organization"],
        variants: ["has-tenants"],
        streamMs: LONG_MS,
      },
      {
        allowLoad: true,
        only: ["overload-is-no-outage"],
      },
    );
    expect(claims.map(({ verdict, reason }) => `${verdict} ${reason}`).join()).toMatch(/^fail /);
  });
});

describe.concurrent("a deployment that names its caps now rightly, now wrongly", () => {
  test.each([
    ["blames-an-organization-mostly", "has-tenants", "overload-is-no-outage", /b2b_overloaded came \d+ times/],
    ["swaps-every-third-overload", "has-large-caps", "overload-names-the-cap", /both names came for 32 calls/],
  ] as const)("is left open, and not said to have met no cap: %s, %s", async (defect, variant, rule, said) => {
    const parts = { defects: [defect], variants: [variant, "no-rate-limit"], streamMs: LONG_MS } as const;
    const { claims } = await verifySecondApi(parts, { allowLoad: true, only: [rule] });
    expect(claims[0]?.reason).toMatch(said);
    expect(claims[0]?.verdict).toBe("inconclusive");
  });
});

describe.concurrent("a deployment whose caps are not what it states", () => {
  const judge = async (parts: SecondApiOptions, only: string[]): Promise<string> => {
    const { claims } = await verifySecondApi(parts, {
      allowLoad: true,
      only,
    });
    return claims.map(({ verdict }) => verdict).join();
  };
  test("is caught by one refusal below a cap of four, time and again", async () => {
    const parts = { defects: ["sheds-at-half"], variants: ["has-small-caps"], streamMs: 200 } as const;
    expect(await judge(parts, ["overload-keeps-the-caps"])).toBe("fail");
  });
  test("is caught by a wrong name that a wave over a cap of six shows but twice", async () => {
    for (const defects of [["swaps-the-two-overloads"], []] as const) {
      const parts = { defects, variants: ["has-middling-caps", "no-rate-limit"], streamMs: 200 } as const;
      expect(await judge(parts, ["overload-names-the-cap"])).toBe(defects.length === 0 ? "pass" : "fail");
    }
  });
  test("is caught by two keys of one organization, each below its cap", async () => {
    for (const defects of [["caps-each-key"], []] as const) {
      const verdict = await judge({ defects, streamMs: LONG_MS }, ["overload-cap-is-per-organization"]);
      expect(verdict).toBe(defects.length === 0 ? "pass" : "fail");
    }
  });
  test("is caught by three lost slots of ten, where nobody else calls", async () => {
    for (const defects of [["keeps-three-slots-of-the-shed"], []] as const) {
      const variants = ["has-small-caps", "has-tenants", "no-rate-limit"] as const;
      const { claims } = await verifySecondApi({ defects, variants, streamMs: LONG_MS }, ({ target }) => ({
        target: { ...target, exclusive: true },
        ...{ allowLoad: true, only: ["overload-is-reported", "overload-ends"] },
      }));
      expect(claims.map(({ verdict }) => verdict)).toEqual(["pass", defects.length === 0 ? "pass" : "fail"]);
    }
  });
  // Of a wave of short streams many more are served than run side by side.
  test.each([LONG_MS, 20])("is not said to have lost slots as well: streams of %i ms", async (streamMs) => {
    const parts = { defects: ["sheds-everybody-early"], variants: ["has-tenants", "no-rate-limit"], streamMs } as const;
    expect(await judge(parts, ["overload-keeps-the-caps", "overload-ends"])).toBe("fail,skipped");
  });
});

describe.concurrent("a deployment that limits a key", () => {
  test.each([
    ["fail", ["limits-for-ever"]],
    ["pass", []],
  ] as const)("%ss by whether it admits it again: %s", async (verdict, defects) => {
    const { claims } = await verifySecondApi(
      { defects, variants: MET_AT_ANY_PACE },
      {
        allowLoad: true,
        only: ["rate-limit-ends"],
        patienceMs: 5_000,
      },
    );
    expect(claims.map((claim) => claim.verdict)).toEqual([verdict]);
  });
});

describe.concurrent("a deployment with one defect under load", () => {
  test.each(LOAD_DEFECTS)("%s fails the rule %s", async (defects, rule) => {
    const isOfRate = rule === "rate-limit-is-reported" || defects === "keeps-the-slot-of-the-limited";
    const variants = isOfRate ? MET_AT_ANY_PACE : [];
    expect(await verdictOf(defects, rule, variants)).toBe("fail");
  });
});
