import { describe, expect, test } from "vitest";
import type { CallLine } from "../history/line.ts";
import { bareFacts, type StageFacts } from "../history/run-document.ts";
import type { TargetView } from "../workload/callers/target-view.ts";
import { profileCalls, profilePeakPerS } from "../workload/load-profiles.ts";
import { noisyNeighbour, noisyNeighbourAlone } from "../workload/stories/noisy.ts";
import { createIsolation } from "./isolation.ts";

const CALLS = 2_000;
const NOISY = "org_n";
/** Of every 64 calls 16 in a row are the noisy one's. */
const isBurst = (i: number): boolean => i % 64 < 16;

const call = (stage: string, i: number, outcome: string): CallLine => ({
  ...{ type: "call", id: `run.${stage}.c-${i}`, stage, driver: "simulated", org: isBurst(i) ? NOISY : `org_${i % 5}` },
  ...{ route: "design.styles", intended_us: i * 10_000, started_us: i * 10_000, connect_us: 0, sent_us: i * 10_000 },
  ...{ first_us: i * 10_000 + 5, done_us: i * 10_000 + 9, outcome, attempt: 0, clock_error_us: 0 },
});

const facts = (stage: string, more: Partial<StageFacts> = {}): StageFacts => ({
  ...bareFacts(stage),
  ...{ exclusive: true, limits: { org_in_flight: 8, global_in_flight: 24 } },
  tenants: { [NOISY]: { tier: "Pro", noisy: true } },
  ...more,
});

type Answers = (i: number) => string;
const OWN: Answers = (i) => (isBurst(i) && i % 3 === 0 ? "429 org_overloaded" : "200");
const ALL: Answers = () => "200";

const judge = (beside: Answers, alone: Answers = ALL, more: Partial<StageFacts> = {}) => {
  const isolation = createIsolation();
  const numbers = Array.from({ length: CALLS }, (_, i) => i);
  const lines = numbers.map((i) => call("noisy-neighbour", i, beside(i)));
  isolation.see("beside", lines, facts("noisy-neighbour", more));
  // The second is shorter, and the noisy calls are left out.
  const quiet = numbers.slice(0, CALLS / 2).filter((i) => !isBurst(i));
  const without = quiet.map((i) => call("noisy-neighbour-alone", i, alone(i)));
  isolation.see("alone", without, facts("noisy-neighbour-alone", more));
  const { claims, measurements } = isolation.judged("again");
  expect(claims).toHaveLength(1);
  return { ...(claims[0] as (typeof claims)[0]), measurements };
};

/** Refuses one quiet call of so many as well. */
const starving =
  (every: number, outcome = "429 b2b_overloaded"): Answers =>
  (i) =>
    !isBurst(i) && i % every === 1 ? outcome : OWN(i);

describe("isolation", () => {
  test("holds where only the noisy one is refused, and is measured over the calls that were played both ways", () => {
    const { id, verdict, measurements } = judge(OWN);
    expect([id, verdict]).toEqual(["curve/isolation", "pass"]);
    expect(measurements).toMatchObject([{ name: "isolation", stage: "noisy-neighbour", value: 1, high: 1, n: 744 }]);
    expect(measurements[0]?.low).toBeGreaterThan(0.99);
  });

  test("fails where quiet calls are refused that are served without the noisy one", () => {
    for (const outcome of ["429 b2b_overloaded", "429 org_overloaded"]) {
      const { verdict, evidence, measurements } = judge(starving(20, outcome));
      expect(verdict).toBe("fail");
      expect(evidence.length).toBeGreaterThan(3);
      expect(measurements[0]?.value).toBeLessThan(0.97);
    }
  });

  test("fails where a stated share is not kept, so that the noisy one is never refused for itself", () => {
    const fills: Answers = (i) => ((isBurst(i) ? i % 3 !== 0 : i % 20 !== 1) ? "200" : "429 b2b_overloaded");
    expect(judge(fills).verdict).toBe("fail");
    expect(judge((i) => (isBurst(i) ? fills(i) : "200")).verdict).toBe("skipped");
  });

  test("is open where a few calls are, or where they are refused without the noisy one as well", () => {
    expect(judge(starving(300)).verdict).toBe("inconclusive");
    expect(judge(starving(20), starving(20)).verdict).toBe("inconclusive");
    expect(judge(starving(20), (i) => (i % 21 === 0 ? "429 b2b_overloaded" : "200")).verdict).toBe("inconclusive");
  });

  test("is open where all losses are of one second and a half, as at a standstill of the machine", () => {
    const stalled: Answers = (i) => (i >= 400 && i < 550 && !isBurst(i) && i % 3 === 0 ? "429 b2b_overloaded" : OWN(i));
    const { verdict, reason } = judge(stalled);
    expect(verdict).toBe("inconclusive");
    expect(reason).toMatch(/lost within 2 of its seconds/);
  });

  test("fails in a short play where losses lie in most of its seconds, which no standstill explains", () => {
    const losing =
      (seconds: number): Answers =>
      (i) =>
        !isBurst(i) && i % 8 === 1 && Math.floor(i / 100) % 10 < seconds ? "429 b2b_overloaded" : OWN(i);
    expect([judge(losing(5)).verdict, judge(losing(8)).verdict]).toEqual(["inconclusive", "fail"]);
  });

  test("accuses nobody whose calls got no answer, or another refusal than a shed", () => {
    expect(judge(starving(20, "indeterminate")).verdict).toBe("pass");
    expect(judge(starving(20, "edge 502")).verdict).toBe("pass");
    expect(judge(starving(20, "429 rate_limited")).verdict).toBe("pass");
  });

  test("is skipped where others call, where no share is stated and none shows, and where nobody is noisy enough", () => {
    expect(judge(starving(20), ALL, { exclusive: false }).verdict).toBe("skipped");
    const unknown: Answers = (i) => (isBurst(i) || i % 20 === 1 ? "429 b2b_overloaded" : "200");
    expect(judge(unknown, ALL, { limits: {} }).verdict).toBe("skipped");
    expect(judge(unknown, ALL, { limits: { org_in_flight: 24, global_in_flight: 24 } }).verdict).toBe("skipped");
    expect(judge(ALL).verdict).toBe("skipped");
    // It refuses an organization for itself, so there are shares; whether the whole was full is not known.
    expect(judge(starving(20), ALL, { limits: {} })).toMatchObject({
      verdict: "skipped",
      measurements: [{ value: expect.closeTo(0.95, 1) }],
    });
    expect(judge(starving(20, "429 org_overloaded"), ALL, { limits: {} }).verdict).toBe("fail");
    const wide = { limits: { org_in_flight: 20, global_in_flight: 24 } };
    expect(judge(starving(20), ALL, wide).verdict).toBe("skipped");
  });

  test("counts no call of an organization beside another of its own", () => {
    const isolation = createIsolation();
    const long = (stage: string, i: number, outcome: string): CallLine => ({
      ...call(stage, i, outcome),
      ...(outcome === "200" ? { done_us: i * 10_000 + 2_000_000 } : {}),
    });
    const numbers = Array.from({ length: CALLS }, (_, i) => i);
    const beside = numbers.map((i) => long("noisy-neighbour", i, starving(20, "429 org_overloaded")(i)));
    isolation.see("beside", beside, facts("noisy-neighbour"));
    isolation.see(
      "alone",
      numbers.map((i) => long("noisy-neighbour-alone", i, "200")),
      facts("noisy-neighbour-alone"),
    );
    expect(isolation.judged("again").claims[0]?.verdict).toBe("inconclusive");
  });

  test("says nothing where one of the two was not played", () => {
    const isolation = createIsolation();
    isolation.see("beside", [call("noisy-neighbour", 1, "200")], facts("noisy-neighbour"));
    expect(isolation.judged("again")).toEqual({ claims: [], measurements: [] });
  });

  describe("of two organizations whose caps are not stated, in a play of 15 s", () => {
    const server = (org: string) => ({ org, publishable: false, server: true });
    const view: TargetView = {
      ...{ tenants: [server("org_0"), server("org_1")], roles: {}, limits: {} },
      ...{ capacity: { chat: { perS: 80, by: null } }, permits: { writes: false, quotaBurn: false } },
    };
    const CAP = 4;
    /** Twelve slots; an organization, or all of them together, may hold a third. */
    const verdictOf = (isShared: boolean) => {
      const isolation = createIsolation();
      for (const [part, story] of [
        ["beside", noisyNeighbour],
        ["alone", noisyNeighbourAlone],
      ] as const) {
        const profile = story.profile(view, { durationS: 15 });
        if (profile === null) throw new Error("the story knows no rate");
        const ends: { org: string; us: number }[] = [];
        const [noisy] = story.noisy(view);
        const lines = Array.from({ length: profileCalls(profile) }, (_, i) => i).flatMap((i): CallLine[] => {
          const [step] = story.plan(1, i, view);
          if (step === undefined) return [];
          const { org, route } = step;
          const us = Math.round((i * 1e6) / profilePeakPerS(profile));
          const held = ends.filter((one) => one.us > us && (isShared || one.org === org)).length;
          const isFull = held >= CAP;
          const doneUs = us + (isFull ? 800 : route === "chat.control" ? 150_000 : 5_000);
          if (!isFull) ends.push({ org, us: doneUs });
          const moments = { intended_us: us, started_us: us, sent_us: us, first_us: doneUs, done_us: doneUs };
          const outcome = isFull ? "429 org_overloaded" : "200";
          return [{ ...call(story.name, i, outcome), ...moments, org, route }];
        });
        const tenants = Object.fromEntries(
          ["org_0", "org_1"].map((org) => [org, { tier: "Pro" as const, noisy: org === noisy }]),
        );
        isolation.see(part, lines, { ...bareFacts(story.name), exclusive: true, tenants });
      }
      return isolation.judged("again").claims[0]?.verdict;
    };

    test("a cap that is shared fails, a cap of each passes", () => {
      expect([verdictOf(true), verdictOf(false)]).toEqual(["fail", "pass"]);
    });
  });
});
