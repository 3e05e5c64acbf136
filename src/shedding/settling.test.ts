import { describe, expect, test } from "vitest";
import type { CallLine, FaultLine, Line } from "../history/line.ts";
import { bareFacts, type ClaimVerdict, claimOf, type StageFacts } from "../history/run-document.ts";
import { constant, type Profile, storm } from "../workload/load-profiles.ts";
import { openSettling, type Settling, spansOf } from "./settling.ts";
import { settlingClaims, settlingMeasures } from "./settling-claims.ts";
import { FAULTY, HONEST, ORGANIZATIONS, playRamp, queueing, type Server } from "./simulated-servers.fixture.ts";
import { openStageCurve } from "./stage-curve.ts";
import { collapsing, healthy, lateFrom, playStorm, refusing, STORM_STARTS_US, shared } from "./storm.fixture.ts";

const STAGE = "retry-storm";
const KNEE = 80;
/** Calm for 20 s, top for 60 s, calm for 40 s, a pause of 5 s, calm for 15 s. */
const LONG = storm(0.8 * KNEE, 2.9 * KNEE, 140);
const SHORT = storm(0.8 * KNEE, 2.9 * KNEE, 28);
const secondUs = (s: number): number => STORM_STARTS_US + s * 1e6;

const settle = (lines: readonly Line[], profile: Profile = LONG): Settling => {
  const fold = openSettling(STAGE, spansOf(profile, STORM_STARTS_US));
  for (const line of lines) fold.see(line);
  const settling = fold.end();
  if (typeof settling === "string") throw new Error(`nothing to judge: ${settling}`);
  return settling;
};

const judge = (settling: Settling, more: Partial<StageFacts> = {}) => {
  const claims = settlingClaims(settling, "load", { ...bareFacts(STAGE), ...more }, "again");
  return claims.map(({ verdict }) => verdict);
};

const measured = (settling: Settling, wanted: string) => {
  const found = settlingMeasures(settling).find(({ name }) => name === wanted);
  if (found === undefined) throw new Error(`no ${wanted}`);
  return found;
};

const EXCLUSIVE = { exclusive: true };
const SHARED = {};
const LATE_HOST: StageFacts["host"] = {
  ...{ host: null, cores: 2, target_cores: null, other_cores: 1.8, calls: 1000, lag_ms: [], rate_error: 0 },
  ...{ generator: [], calibration: [] },
};

type Row = [name: string, server: (seed: number) => Server, more: Partial<StageFacts>, ClaimVerdict[], Profile?];

/** Recovery, reaction, amplification, as far as they are sure. */
const ROWS: Row[] = [
  ["healthy", healthy, SHARED, ["pass", "pass", "pass"]],
  ["healthy, short", healthy, SHARED, ["pass", "pass", "pass"], SHORT],
  ["with a queue", (seed) => healthy(seed, 48), SHARED, ["pass", "pass", "pass"]],
  [
    "with a queue, whose first events wait",
    (seed) => {
      const inner = healthy(seed, 48);
      return (us, i) => {
        const { doneUs, outcome } = inner(us, i);
        return { doneUs, outcome, firstEventUs: Math.max(us + 5_000, doneUs - 200_000) };
      };
    },
    SHARED,
    ["pass", "pass", "pass"],
  ],
  ["refuses for five seconds longer", refusing(secondUs(80), secondUs(85)), SHARED, ["pass", "pass", "pass"]],
  [
    "refuses until two seconds before the end, short",
    refusing(secondUs(16), secondUs(26)),
    EXCLUSIVE,
    ["inconclusive"],
    SHORT,
  ],
  ["an adaptive limit that takes two seconds", lateFrom(secondUs(20), secondUs(22)), SHARED, ["pass", "pass", "pass"]],
  ["a limit that takes eight seconds", lateFrom(secondUs(20), secondUs(28)), SHARED, ["pass", "fail", "pass"]],
  ["metastable under retries", collapsing(320, 96), EXCLUSIVE, ["fail", "pass", "fail"]],
  ["metastable under retries, shared", collapsing(320, 96), SHARED, ["fail", "pass", "fail"]],
  ["metastable under retries, short", collapsing(320, 96), EXCLUSIVE, ["fail", "pass", "fail"], SHORT],
  ["never recovers", collapsing(320, 0), EXCLUSIVE, ["fail", "pass", "fail"]],
  ["never recovers, shared", collapsing(320, 0), SHARED, ["inconclusive", "pass", "inconclusive"]],
  [
    "metastable on a busy machine",
    collapsing(320, 96),
    { ...EXCLUSIVE, host: LATE_HOST },
    ["inconclusive", "pass", "inconclusive"],
  ],
  ["others from the overload on", shared((us) => us > secondUs(50)), SHARED, ["inconclusive", "pass"]],
  ["others from the calm on", shared((us) => us > secondUs(12)), SHARED, ["inconclusive", "pass"]],
  ["others until the pause", shared((us) => us > secondUs(90) && us < secondUs(122)), SHARED, ["inconclusive", "pass"]],
];

test("a stage with a step is judged by its facts and lines alone, and not beside a fault of ours", () => {
  const facts: StageFacts = {
    ...bareFacts(STAGE),
    ...{ offered: { start_us: secondUs(0), pieces: SHORT.pieces }, step: { of: "load" as const } },
  };
  const judged = (...faults: Line[]) => {
    const stage = openStageCurve(facts);
    for (const line of [...playStorm(healthy(1), SHORT, 1), ...faults]) stage?.see(line);
    return stage?.end("npx floodgate load retry-storm");
  };
  const first = judged();
  expect(first?.claims.map(({ id, verdict }) => `${id} ${verdict}`)).toEqual([
    "curve/recovery pass",
    "curve/reaction pass",
    "curve/amplification pass",
  ]);
  expect(first?.measurements.map(({ name }) => name)).toEqual(["reaction_ms", "recovery_ms", "amplification"]);
  expect(judged()).toEqual(first);
  expect(judged(fault("injecting", secondUs(10)))?.claims.map(({ verdict }) => verdict)).toEqual([
    "skipped",
    "skipped",
    "skipped",
  ]);
});

describe("a storm of retries", () => {
  test.each(ROWS)("%s", (_name, server, more, expected, profile = LONG) => {
    for (const seed of [1, 2]) {
      const verdicts = judge(settle(playStorm(server(seed), profile, seed), profile), more);
      expect(verdicts.slice(0, expected.length)).toEqual(expected);
    }
  });

  test.each(Object.keys(HONEST))("nothing is said against %s", (name) => {
    const make = HONEST[name] as (seed: number, lastsS: number) => Server;
    for (const [profile, lastsS] of [
      [LONG, 140],
      [SHORT, 28],
    ] as const) {
      const server = make(3, lastsS);
      const lines = playStorm((us, i) => server(us, i, i % ORGANIZATIONS), profile, 3);
      const verdicts = judge(settle(lines, profile), EXCLUSIVE);
      expect(verdicts).not.toContain("fail");
      // What shares its capacity needs longer than the short play lasts.
      const mayBeOpen = profile === SHORT && name.includes("serves eight");
      expect(verdicts[0]).toMatch(mayBeOpen ? /pass|inconclusive/ : /pass/);
    }
  });

  test("nor where a fifth of the calls is still slower when a short one ends", () => {
    const make = HONEST["calls that share what serves eight of them"] as (typeof HONEST)[string];
    for (const seed of [1, 2, 4, 5]) {
      expect(judge(settle(playStorm(make(seed, 28), SHORT, seed), SHORT), EXCLUSIVE)).not.toContain("fail");
    }
  });

  test.each(["never recovers", "leaks slots", "refuses at a sixth of a call"])(
    "a server that %s does not recover",
    (name) => {
      const [, make] = FAULTY[name] as (typeof FAULTY)[string];
      for (const profile of [LONG, SHORT]) {
        const server = make(3);
        const lines = playStorm((us, i) => server(us, i, i % ORGANIZATIONS), profile, 3);
        expect(judge(settle(lines, profile), EXCLUSIVE)[0]).toBe("fail");
      }
    },
  );

  test.each([7, 15, 30])("others in waves of %i s never make it fail", (s) => {
    for (const seed of [1, 2, 3]) {
      const server = shared((us) => Math.floor((us - STORM_STARTS_US) / 1e6 / s) % 2 === 1)(seed);
      expect(judge(settle(playStorm(server, LONG, seed)))).not.toContain("fail");
    }
  });

  test("says how long it took, and what windows cannot show", () => {
    const of = (server: Server) => settle(playStorm(server, LONG, 4));
    const quick = of(healthy(4));
    expect(measured(quick, "recovery_ms")).toMatchObject({ low: 0, unit: "ms" });
    expect(measured(quick, "recovery_ms").value).toBeLessThanOrEqual(500);
    expect(measured(quick, "reaction_ms").high).toBeLessThanOrEqual(500);
    expect(settlingClaims(quick, "load", bareFacts(STAGE), "again")[1]?.reason).toMatch(/an upper bound: .*±1\d\.\d %/);
    const slow = of(refusing(secondUs(80), secondUs(85))(4));
    expect(measured(slow, "recovery_ms").value).toBeGreaterThan(4_000);
    expect(measured(slow, "recovery_ms").value).toBeLessThan(6_000);
    const { low, high } = measured(of(lateFrom(secondUs(20), secondUs(22))(4)), "reaction_ms");
    expect([low, high]).toEqual([1_900, 2_200]);
    expect(measured(of(collapsing(320, 0)(4)), "recovery_ms")).toMatchObject({ high: null });
  });

  test("attempts for each call come near to what equal chances give", () => {
    const settling = settle(playStorm(healthy(5), LONG, 5));
    const { value, low, high } = measured(settling, "amplification");
    expect(value).toBeGreaterThan(3);
    expect(value).toBeLessThan(settling.amplificationBound);
    expect(low).toBeLessThan(value);
    expect(high).toBeGreaterThan(value);
  });

  test("a load below capacity is no overload, and too few calls are not judged", () => {
    const calm = storm(0.2 * KNEE, 0.5 * KNEE, 140);
    expect(judge(settle(playStorm(healthy(1), calm, 1), calm))).toEqual(["skipped", "pass", "skipped"]);
    const few = storm(0.5, 2, 28);
    expect(() => settle(playStorm(healthy(1), few, 1), few)).toThrow("30 calls");
  });

  test("a calm load that is shorter than its calls shows no state to come back to", () => {
    const profile = storm(6, 24, 140);
    const server = queueing({ slots: 96, inFlight: 96, serviceMs: 32_000, seed: 1 });
    const settling = settle(playStorm(server, profile, 1), profile);
    expect(settling.end).toBe("lost");
    expect(judge(settling, EXCLUSIVE)[0]).toBe("inconclusive");
  });

  test("works where a call takes seconds and few come", () => {
    const profile = storm(4, 14.5, 140);
    for (const seed of [1, 2, 3]) {
      const server = queueing({ slots: 10, inFlight: 10, serviceMs: 2_000, seed });
      expect(judge(settle(playStorm(server, profile, seed), profile), EXCLUSIVE)[0]).toBe("pass");
    }
  });

  test("a generator that is late in the calm parts leaves it open", () => {
    const late = (line: CallLine): CallLine =>
      line.intended_us > secondUs(80) ? { ...line, started_us: line.intended_us + 80_000 } : line;
    const settling = settle(playStorm(collapsing(320, 0)(1), LONG, 1).map(late));
    expect(judge(settling, EXCLUSIVE)[0]).toBe("inconclusive");
  });
});

const fault = (phase: FaultLine["phase"], at_us: number): FaultLine => ({
  ...{ type: "fault", stage: STAGE, experiment: STAGE, link: "service", fault: "halved", stream: "both", phase, at_us },
});

describe("capacity that halves", () => {
  const play = (server: Server, injectedS = 8.05, seed = 3): Settling => {
    const load = { stage: STAGE, startUs: STORM_STARTS_US };
    const lines: Line[] = playRamp(server, constant(0.9 * KNEE, 25), seed, load);
    lines.push(fault("injecting", secondUs(8)), fault("injected", secondUs(injectedS)), fault("healing", secondUs(18)));
    const fold = openSettling(STAGE);
    for (const line of lines.sort((a, b) => momentOf(a) - momentOf(b))) fold.see(line);
    return fold.end() as Settling;
  };
  const momentOf = (line: Line): number =>
    line.type === "call" ? line.sent_us : line.type === "fault" ? line.at_us : 0;
  const halving = (lateForS: number): Server => {
    const [whole, half] = [healthy(3), queueing({ slots: 12, inFlight: 12, serviceMs: 300, seed: 3 })];
    return (us, i) => {
      if (us < secondUs(8) || us >= secondUs(18)) return whole(us, i);
      return us < secondUs(8 + lateForS) ? { doneUs: us + 9e6, outcome: "200" } : half(us, i);
    };
  };

  test("is answered at once, or after a while", () => {
    const [quick, slow] = [play(halving(0)), play(halving(3))];
    expect(measured(quick, "reaction_ms").low).toBe(0);
    expect(measured(slow, "reaction_ms").value).toBeGreaterThan(2_500);
    expect(measured(slow, "reaction_ms").value).toBeLessThanOrEqual(3_500);
    const claims = settlingClaims(slow, "capacity", bareFacts("capacity-halved"), "again");
    expect(claims).toMatchObject([
      claimOf({
        ...(claims[0] as (typeof claims)[0]),
        id: "curve/reaction/capacity-halved",
        verdict: "pass",
        code: "held",
      }),
    ]);
  });

  /** A limit that adapts refuses every call for a second, one second after the step. */
  const overshooting = (seed: number): Server => {
    const [whole, half] = [healthy(seed), queueing({ slots: 12, inFlight: 12, serviceMs: 300, seed })];
    return (us, i) => {
      if (us < secondUs(8) || us >= secondUs(18)) return whole(us, i);
      const isLow = us >= secondUs(9) && us < secondUs(10);
      return isLow ? { doneUs: us + 800, outcome: "429 b2b_overloaded" } : half(us, i);
    };
  };

  test.each([1, 2, 3, 4, 5])(
    "and the end of a dip below the new optimum is found to half a second: seed %i",
    (seed) => {
      const { low, high } = measured(play(overshooting(seed), 8.05, seed), "reaction_ms");
      expect(low).toBeGreaterThan(1_300);
      expect(low).toBeLessThan(2_000);
      expect(high).toBeLessThan(2_600);
    },
  );

  test("from a moment that the marks of the fault bound", () => {
    const [quick, slow] = [play(halving(3)), play(halving(3), 9.5)];
    const [exact, unsure] = [quick, slow].map((one) => measured(one, "reaction_ms"));
    expect(unsure?.high).toBe(exact?.high);
    expect(exact?.low).toBe((unsure?.low ?? 0) + 1_450);
    expect(settlingClaims(slow, "capacity", bareFacts("capacity-halved"), "again")[0]?.reason).toContain(
      "the fault took effect some time in the first 1.5 s",
    );
  });
});
