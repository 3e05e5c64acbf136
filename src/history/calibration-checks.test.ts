import { describe, expect, test } from "vitest";
import { exponential } from "../workload/random.ts";
import type { CalibrationPlay, Stamp } from "./calibration-checks.ts";
import { calibrationChecks, failedChecks } from "./calibration-checks.ts";
import type { CallLine } from "./line.ts";
import { calibrationDoubts } from "./time-doubts.ts";

const RATE = 240;
const CEILING = 720;
const [WARM_US, STEADY_US, STALLED_US, END_US] = [500_000, 1_600_000, 2_600_000, 3_100_000];
/** The stub stands still in here. */
const [FROZEN_US, THAWED_US] = [1_800_000, 2_000_000];
const START_US = 7_000_000;

const schedule = ((): number[] => {
  const times: number[] = [];
  for (let at = 0, i = 0; at < END_US; i++) {
    at += (exponential(11, i, 1) * 1e6) / (at < STALLED_US ? RATE : CEILING);
    if (at < END_US) times.push(Math.round(at));
  }
  return times;
})();

type Spoilt = {
  /** Later than the schedule, in microseconds, by number and offset of the call. */
  lag?: (i: number, offset: number) => number;
  /** What the driver puts on each latency, or takes from it. */
  adds?: number;
  /** The driver counts from when it sent instead of from when it should have. */
  omits?: boolean;
  /** Moments of events are off by so much. */
  events?: number;
  clock?: number;
  lost?: number;
};

const played = ({
  lag = () => 0,
  adds = 0,
  omits = false,
  events = 0,
  clock = 0,
  lost = 0,
}: Spoilt): CalibrationPlay => {
  const stamps: Stamp[] = [];
  const lines: CallLine[] = [];
  for (const [i, offset] of schedule.entries()) {
    const dueUs = START_US + offset;
    const leftUs = dueUs + lag(i, offset);
    const camUs = leftUs + 100;
    const isFrozen = camUs - START_US >= FROZEN_US && camUs - START_US < THAWED_US;
    const received = isFrozen ? START_US + THAWED_US + i : camUs;
    const kind = offset >= STALLED_US ? "at once" : (["at once", "delayed", "stream"] as const)[i % 3]!;
    const answered = received + (kind === "delayed" ? 20_000 : 50);
    const last = kind === "stream" ? answered + 45_000 : answered;
    stamps.push({ id: `c-${i}`, kind, received_us: received, answered_us: answered, last_us: last });
    if (i < lost) continue;
    lines.push({
      type: "call",
      id: `c-${i}`,
      stage: "calibration",
      driver: "d",
      org: "o",
      route: "-",
      outcome: "200",
      intended_us: omits ? leftUs + (isFrozen ? received - camUs : 0) : dueUs,
      started_us: leftUs + clock,
      connect_us: 0,
      sent_us: leftUs + clock,
      first_us: answered + 100,
      ...(kind === "stream" ? { first_event_us: answered + 100 + events } : {}),
      done_us: last + 100 + adds,
      attempt: 0,
      clock_error_us: 20,
    });
  }
  return {
    driver: "open-loop",
    schedule,
    arrivals: "poisson",
    ratePerS: RATE,
    ceilingPerS: CEILING,
    lines,
    stamps,
    warmUs: WARM_US,
    steadyUs: STEADY_US,
    stalledUs: STALLED_US,
    stoodStillUs: THAWED_US - FROZEN_US,
  };
};

const failed = (spoilt: Spoilt): string[] =>
  calibrationChecks(played(spoilt)).flatMap(({ name, verdict }) => (verdict === "pass" ? [] : [name]));

describe("a calibration", () => {
  test("of a driver that measures what happened holds in everything", () => {
    const checks = calibrationChecks(played({}));
    expect(checks.filter(({ verdict }) => verdict !== "pass")).toEqual([]);
    expect(checks.map(({ name }) => name)).toEqual(
      [
        "null server, rate held",
        "known delay, p50",
        "known delay, p99",
        "known stall, p90",
        "known stall, p99",
        "arrivals, dispersion",
        "arrivals, Kolmogorov-Smirnov (at most)",
        "clock error",
        "first event, error p99",
        "last event, error p99",
        "calls, one to one",
      ].map((name) => `open-loop: ${name}`),
    );
    expect(failedChecks(checks, "open-loop")).toEqual([]);
  });

  test.each<[string, Spoilt, string[]]>([
    ["leaves out what a stall kept waiting", { omits: true }, ["known stall, p90", "known stall, p99"]],
    ["adds 2 ms to every call", { adds: 2_000 }, ["known delay, p50"]],
    ["ends a call before it was answered", { adds: -400 }, ["clock error"]],
    ["sends after it was received", { clock: 900 }, ["clock error"]],
    ["stamps events late", { events: 5_000 }, ["first event, error p99"]],
    ["loses calls", { lost: 3 }, ["calls, one to one"]],
    [
      "cannot hold three times the rate",
      { lag: (_, at) => Math.max(0, at - STALLED_US) * 0.2 },
      ["null server, rate held"],
    ],
    [
      "sends in bunches",
      { lag: (_, at) => 40_000 - (at % 40_000) },
      ["arrivals, dispersion", "arrivals, Kolmogorov-Smirnov (at most)"],
    ],
  ])("of a driver that %s fails where it should", (_what, spoilt, names) => {
    const found = failed(spoilt);
    for (const name of names) expect(found).toContain(`open-loop: ${name}`);
  });

  test("with too little to go by shows nothing, and a stall that did not happen is none", () => {
    const play = played({});
    const few = { ...play, lines: play.lines.slice(0, 10) };
    expect(calibrationChecks(few).every(({ verdict }) => verdict !== "pass")).toBe(true);
    const calm = calibrationChecks({ ...play, stoodStillUs: 0 });
    expect(calm.find(({ name }) => name.endsWith("known stall, p90"))?.verdict).toBe("inconclusive");
    const nothing = calibrationChecks({ ...play, lines: [], stamps: [] });
    expect(nothing.every(({ verdict, measured }) => verdict !== "pass" && !Number.isNaN(measured))).toBe(true);
  });

  test("puts in doubt what is about its own driver, in a sentence", () => {
    const checks = calibrationChecks(played({ adds: 2_000 }));
    expect(calibrationDoubts(failedChecks(checks, "open-loop"), 10)).toEqual([
      expect.stringMatching(/^calibration: open-loop: known delay, p50 was 22\.\d+ and should be 20 ms/),
    ]);
    expect(failedChecks(checks, "k6")).toEqual([]);
  });

  test("a delay that is off by a little decides nothing against a limit that is far above it", () => {
    const failed = failedChecks(calibrationChecks(played({ adds: 2_000 })), "open-loop");
    expect(calibrationDoubts(failed, 800)).toEqual([]);
    const lost = {
      name: "open-loop: calls, one to one",
      driver: "open-loop",
      truth: 100,
      measured: 99,
      unit: "1",
      verdict: "fail",
    } as const;
    expect(calibrationDoubts([lost], 800)).toEqual([expect.stringContaining("one to one")]);
    const slow = {
      name: "open-loop: null server, folded, rate held",
      driver: "open-loop",
      about: "ceiling",
      truth: 42_000,
      measured: 13_500,
      unit: "1/s",
      verdict: "fail",
    } as const;
    expect(calibrationDoubts([lost, slow], 800)).toEqual([
      expect.stringMatching(/should be 42000 1\/s \(4 times as many processes would hold it/),
    ]);
    expect(calibrationDoubts([{ ...slow, measured: 0 }], 800)[0]).not.toContain("--segments");
    const uneven = {
      name: "open-loop: arrivals, dispersion",
      driver: "open-loop",
      about: "arrivals",
      truth: 1,
      measured: 2,
      unit: "1",
      verdict: "fail",
    } as const;
    expect([20, 800].map((limitMs) => calibrationDoubts([uneven], limitMs).length)).toEqual([1, 0]);
  });
});
