import { describe, expect, test } from "vitest";
import type { CallLine } from "./line.ts";
import { CALM } from "./machines.fixture.ts";
import { judgeObjectives, type ObjectiveVerdict, objectivesTally, sloClaim } from "./objective-verdicts.ts";
import { ObjectiveError, parseObjectives } from "./objectives.ts";
import type { StageHost } from "./run-document.ts";

describe("parseObjectives", () => {
  test("reads metrics, operators, limits and units", () => {
    expect(parseObjectives("ttfe_p99<=800ms, refusals <= 1%,p999<1.5s,max<=2s,errors<.5%")).toEqual([
      {
        text: "ttfe_p99<=800ms",
        operator: "<=",
        kind: "time",
        metric: "ttfe_p99",
        of: "first event",
        quantile: 0.99,
        limit: 800,
      },
      { text: "refusals<=1%", operator: "<=", kind: "share", metric: "refusals", limit: 0.01 },
      { text: "p999<1.5s", operator: "<", kind: "time", metric: "p999", of: "answer", quantile: 0.999, limit: 1500 },
      { text: "max<=2s", operator: "<=", kind: "time", metric: "max", of: "answer", quantile: 1, limit: 2000 },
      { text: "errors<.5%", operator: "<", kind: "share", metric: "errors", limit: 0.005 },
    ]);
  });

  test.each([
    ["", /expected one between commas/],
    ["p99<=1s,", /expected one between commas/],
    ["p98<=1s", /"p98<=1s": expected one of p50, p90, p99, p999, max, ttfe_p50, ttfe_p99, refusals, errors/],
    ["p99>=1s", /"p99>=1s": expected p99, then <= or <, then a time in ms or s/],
    ["p99<=100", /then a time in ms or s/],
    ["p99<=-1ms", /then a time/],
    ["p99<=1%", /expected a time in ms or s; % came/],
    ["refusals<=1ms", /expected a share in %; ms came/],
    ["refusals<=101%", /at most 100%/],
    ["errors<=0%", /above zero/],
    ["p99<=1s,p99<=2s", /expected p99 once; it came twice/],
    ["constructor<=1ms", /expected one of p50/],
  ])("refuses %j in a sentence", (text, sentence) => {
    expect(() => parseObjectives(text)).toThrow(ObjectiveError);
    expect(() => parseObjectives(text)).toThrow(sentence);
  });
});

const call = (more: Partial<CallLine> & { tookMs?: number } = {}): CallLine => {
  const { tookMs = 1, ...line } = more;
  return {
    type: "call",
    id: "1",
    stage: "s",
    driver: "d",
    org: "a",
    route: "design.styles",
    // It left 5 ms late, which is the caller's own time to wait as well.
    intended_us: 0,
    started_us: 5_000,
    connect_us: 0,
    sent_us: 5_000,
    first_us: tookMs * 1000,
    done_us: tookMs * 1000,
    outcome: "200",
    attempt: 0,
    clock_error_us: 0,
    ...line,
  };
};
const times = (count: number, make: (at: number) => Partial<CallLine> & { tookMs?: number } = () => ({})): CallLine[] =>
  Array.from({ length: count }, (_, at) => call(make(at)));
const judged = (text: string, calls: CallLine[]): ObjectiveVerdict =>
  judgeObjectives(parseObjectives(text), calls)[0] as ObjectiveVerdict;

const of = { name: "chat", stage: "chat-past-capacity", replay: "npx floodgate run" };

describe("a quantile", () => {
  // The median of 100 has the ranks 40 and 61, the p99 of 1000 the ranks 983 and 997 (SciPy's binomial distribution).
  const hundred = times(100, (at) => ({ tookMs: at + 1 }));
  const thousand = times(1000, (at) => ({ tookMs: at + 1 }));

  test("has the interval of its order statistics, from the intended moment", () => {
    const [median, p99] = [judged("p50<=61ms", hundred), judged("p99<=997ms", thousand)];
    expect([median, p99].map(({ met, n }) => [met, n])).toEqual([
      [true, 100],
      [true, 1000],
    ]);
    // Times are kept to 0.1 %.
    const figures = [median, p99].flatMap(({ value, low, high }) => [value, low, high]);
    for (const [at, ms] of [50, 40, 61, 990, 983, 997].entries())
      expect(Math.abs((figures[at] as number) / ms - 1)).toBeLessThan(1 / 512);
  });

  test("is met by its whole interval, missed by its whole interval, and open between", () => {
    expect(judged("p50<61ms", hundred).met).toBeNull();
    expect(judged("p50<=60ms", hundred).met).toBeNull();
    expect(judged("p50<=40ms", hundred).met).toBeNull();
    expect(judged("p50<40ms", hundred).met).toBe(false);
    expect(judged("p50<=39.9ms", hundred).met).toBe(false);
  });

  test("of too few calls is never met", () => {
    expect(judged("p99<=1s", times(367))).toMatchObject({ met: null, value: 1, low: null, high: null });
    expect(judged("p99<=1s", times(368)).met).toBe(true);
    expect(judged("p50<=1s", [])).toMatchObject({ met: null, value: null, n: 0 });
  });

  test("is not made better by calls without an answer, nor worse by refusals and by those who left", () => {
    const lost = times(100, () => ({ outcome: "indeterminate", first_us: null }));
    expect(judged("p50<=1s", [...times(20), ...lost])).toMatchObject({ met: false, value: null, low: null, n: 120 });
    const aside = [
      ...times(50, () => ({ tookMs: 9_000, outcome: "429 rate_limited" })),
      ...times(50, () => ({ tookMs: 9_000, route: "chat.control", ended: "closed_by_client", aborted: true })),
      ...times(50, () => ({ tookMs: 9_000, outcome: "indeterminate", first_us: null, aborted: true })),
    ];
    expect(judged("p50<=1s", [...times(20), ...aside])).toMatchObject({ met: true, n: 20 });
  });

  test("of the first event is over streams alone", () => {
    const streams = times(30, (at) => ({
      route: "chat.control",
      ended: "done",
      first_event_us: (at + 1) * 1000,
      tookMs: 900,
    }));
    const got = judged("ttfe_p50<=100ms", [...streams, ...times(30, () => ({ tookMs: 5_000 }))]);
    expect(got).toMatchObject({ met: true, value: expect.closeTo(15), n: 30 });
    const cut = times(30, () => ({ route: "chat.control", ended: "reset", tookMs: 10 }));
    expect(judged("p50<=1s", cut)).toMatchObject({ met: false, value: null, n: 30 });
  });

  test("and a share are as sure as their bursts are many: calls that queue are slow together", () => {
    // 2 % in five bursts, or one here and there.
    const BEGINS = [130, 810, 1_500, 1_660, 2_700];
    const slow = (isSlow: (at: number) => boolean): CallLine[] =>
      times(3000, (at) => ({ intended_us: at * 10_000, done_us: at * 10_000 + (isSlow(at) ? 900_000 : 1_000) }));
    const [inBursts, scattered] = [
      slow((at) => BEGINS.some((from) => at >= from && at < from + 12)),
      slow((at) => at % 50 === 7),
    ];
    const met = (text: string, calls: CallLine[]) => judged(text, calls).met;
    expect([met("p99<=800ms", inBursts), met("p99<=800ms", scattered)]).toEqual([null, false]);
    const few = slow((at) => at >= 130 && at < 144);
    expect(sloClaim(of, judgeObjectives(parseObjectives("p99<=800ms"), few))).toMatchObject({
      verdict: "inconclusive",
      reason: "too few calls to say: p99<=800ms (3000 calls came, but those above the limit came together)",
    });
    const shed = (calls: CallLine[]): CallLine[] =>
      calls.map((one) => ({ ...one, outcome: one.done_us - one.intended_us > 1_000 ? "429 b2b_overloaded" : "200" }));
    expect([met("refusals<=1.5%", shed(inBursts)), met("refusals<=1.5%", shed(scattered))]).toEqual([null, false]);
  });

  test("of one is the largest, which is what it is", () => {
    expect(judged("max<=100ms", hundred)).toMatchObject({ met: true, value: 100, low: null, high: null });
    expect(judged("max<100ms", hundred)).toMatchObject({ met: false });
    expect(judged("max<=1s", [])).toMatchObject({ met: null, value: null });
  });
});

describe("a share", () => {
  const shed = (count: number): CallLine[] => times(count, () => ({ outcome: "429 b2b_overloaded" }));

  // 10 of 100: 0.0552 to 0.1744 (binomtest(10, 100).proportion_ci(method="wilson") of SciPy).
  test("has Wilson's interval", () => {
    const got = judged("refusals<=18%", [...times(90), ...shed(10)]);
    expect(got).toMatchObject({ met: true, value: 0.1, n: 100 });
    expect(got.low).toBeCloseTo(0.05522913706067508, 12);
    expect(got.high).toBeCloseTo(0.17436566150491345, 12);
    expect(judged("refusals<=10%", [...times(90), ...shed(10)]).met).toBeNull();
    expect(judged("refusals<=5%", [...times(90), ...shed(10)]).met).toBe(false);
  });

  test("of none refused needs as many calls as the limit is small", () => {
    expect(judged("refusals<=1%", times(380)).met).toBeNull();
    expect(judged("refusals<=1%", times(381)).met).toBe(true);
    expect(judged("refusals<=1%", [])).toMatchObject({ met: null, value: null, n: 0 });
  });

  test("of errors counts 5xx, gateways and what got no answer; refusals count the platform's own no alone", () => {
    const calls = [
      ...["503", "500 internal", "edge 502", "edge 429", "indeterminate"].map((outcome) => call({ outcome })),
      ...["401", "429 rate_limited", "422 malformed_body"].map((outcome) => call({ outcome })),
      ...["200", "201", "200 error"].map((outcome) => call({ outcome })),
      call({ outcome: "indeterminate", aborted: true }),
    ];
    expect(judged("errors<=1%", calls)).toMatchObject({ value: 5 / 11, n: 11 });
    expect(judged("refusals<=1%", calls)).toMatchObject({ value: 3 / 11, n: 11 });
  });
});

describe("the claim", () => {
  const claim = (text: string, calls: CallLine[]) => sloClaim(of, judgeObjectives(parseObjectives(text), calls));

  test("is a should that fails by one miss, and passes by nothing but all", () => {
    expect(claim("p50<=10ms,refusals<=5%", times(400))).toMatchObject({
      id: "slo/chat/chat-past-capacity",
      level: "should",
      verdict: "pass",
      expected: "p50<=10ms, refusals<=5%",
      got: "p50 1 ms (400 calls, 1 ms to 1 ms); refusals 0 % (400 calls, 0 % to 0.95 %)",
    });
    expect(claim("p50<=10ms,p999<=1s", times(400))).toMatchObject({
      verdict: "inconclusive",
      reason: "too few calls to say: p999<=1s (400 calls came; with 0 above the limit it takes 3688)",
    });
    expect(claim("p50<=0.5ms,p999<=1s", times(400))).toMatchObject({ verdict: "fail", reason: "missed: p50<=0.5ms" });
    expect(claim("p50<=1s", []).verdict).toBe("inconclusive");
  });

  test("about time has no verdict on a disturbed host, about shares it has", () => {
    const host: StageHost = { ...CALM, other_cores: 1.9, calls: 400, lag_ms: [] };
    const on = (text: string, given: StageHost) => {
      const tally = objectivesTally(parseObjectives(text));
      for (const one of times(400)) tally.see(one);
      return sloClaim(of, tally.verdicts(given));
    };
    expect(on("p50<=10ms,refusals<=5%", host)).toMatchObject({
      verdict: "inconclusive",
      reason: expect.stringMatching(/time could not be judged: other programs used 1.9 of 2 cores/),
    });
    expect(on("p50<=0.5ms", host).verdict).toBe("inconclusive");
    expect(on("refusals<=5%", host).verdict).toBe("pass");
    // What only makes calls slower excuses a miss.
    const slower = { ...host, other_cores: 0.4 };
    expect(on("p50<=10ms", slower).verdict).toBe("pass");
    expect(on("p50<=0.5ms", slower).verdict).toBe("inconclusive");
  });
});

test("a stream without one event is an error and never had its first event, however it ended", () => {
  const [errors, firstEvent, answer] = parseObjectives("errors<=1%,ttfe_p50<=1s,p50<=1s");
  const stream = (more: Partial<CallLine>): CallLine => call({ route: "chat.control", events: 0, ...more });
  const ways: Partial<CallLine>[] = [
    { outcome: "200 empty", ended: "eof" },
    { outcome: "200 empty", ended: "refused" },
    { ended: "truncated" },
    { ended: "reset" },
    { ended: "timeout" },
  ];
  for (const way of ways) {
    const lines = Array.from({ length: 400 }, () => stream(way));
    const verdicts = judgeObjectives([errors!, firstEvent!, answer!], lines);
    expect(verdicts.map(({ met, against }) => [met, against])).toEqual(Array(3).fill([false, 400]));
  }
  const [left] = judgeObjectives([errors!], [stream({ ended: "closed_by_client", aborted: true })]);
  expect(left?.against).toBe(0);
});
