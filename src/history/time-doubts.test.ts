import { describe, expect, test } from "vitest";
import type { HostFacts, StageHost } from "./run-document.ts";
import { codeOfDoubts, doubtsAgainst, hostNotesOf, timeDoubts } from "./time-doubts.ts";

const CALM: HostFacts = {
  event_loop_lag_ms_p99: 1,
  event_loop_lag_ms_max: 3,
  cpu_share: 0.2,
  cpu_share_max: 1,
  steal_share: 0.01,
  busy_share: 0.4,
  throttled_share: 0,
  listen_overflows: 0,
  listen_drops: 0,
  syn_retransmits: 0,
  ports_share: 0.01,
  descriptors_share: 0.1,
};
const LAG: [number, number][] = [
  [0.5, 0.3],
  [0.75, 0.6],
  [0.9, 1],
  [0.99, 3],
  [0.999, 4],
];
const stage = (more: Partial<StageHost> = {}, host: Partial<HostFacts> = {}): StageHost => ({
  host: { ...CALM, ...host },
  cores: 2,
  target_cores: 0.5,
  other_cores: 0.05,
  calls: 1000,
  lag_ms: LAG,
  rate_error: 0.001,
  generator: [],
  calibration: [],
  ...more,
});
const P99 = { tail: 0.01, limitMs: 40 };

test("a calm host takes nothing away", () => {
  expect(timeDoubts(stage(), P99)).toEqual({ always: [], ifFailed: [] });
  expect(hostNotesOf(stage())).toEqual([]);
});

describe("what spoils the load takes a pass away as well as a failure", () => {
  test.each<[string, StageHost, RegExp]>([
    [
      "a failed calibration",
      stage({
        calibration: [
          { name: "k6: known stall, p99", driver: "k6", truth: 100, measured: 0, unit: "ms", verdict: "fail" },
        ],
      }),
      /calibration/,
    ],
    ["what the generator says", stage({ generator: ["12 calls may have waited"] }), /waited/],
    ["late calls", stage({ lag_ms: [[0.99, 6]] }), /1 % of the calls left 6.0 ms late or later/],
    ["a rate that was not held", stage({ rate_error: -0.02 }), /left 2 % slower than was meant \(at most 1 % may be\)/],
    ["a late event loop", stage({}, { event_loop_lag_ms_p99: 5.1 }), /event loop was 5.1 ms late/],
    ["a busy generator", stage({}, { cpu_share: 0.71 }), /0.71 of the 1 cores/],
    ["a limit of the control group", stage({}, { throttled_share: 0.02 }), /control group held it back for 2 %/],
    ["others on more than half of the cores", stage({ other_cores: 1.1 }), /other programs used 1.1 of 2 cores/],
    [
      "others that go on without calls",
      stage({ other_cores: 1.6, idle_other_cores: 1.5 }),
      /other programs used 1.6 of 2 cores/,
    ],
  ])("%s", (_what, given, reason) => {
    const doubts = timeDoubts(given, P99);
    expect(doubtsAgainst("pass", doubts).join()).toMatch(reason);
    expect(doubtsAgainst("fail", doubts).join()).toMatch(reason);
    expect(doubtsAgainst("inconclusive", doubts)).toEqual([]);
    expect(doubtsAgainst("skipped", doubts)).toEqual([]);
  });
});

describe("what only makes calls slower excuses a failure and no pass", () => {
  test.each<[string, StageHost, RegExp]>([
    ["stolen time", stage({}, { steal_share: 0.06 }), /hypervisor took 6 %/],
    ["cores that were all in use", stage({}, { busy_share: 0.97 }), /97 % of all cores/],
    ["SYN retransmits", stage({}, { syn_retransmits: 2 }), /2 SYN/],
    ["accept-queue overflows", stage({}, { listen_overflows: 2 }), /accept-queue/],
    ["ports", stage({}, { ports_share: 0.9 }), /ephemeral ports/],
    ["descriptors", stage({}, { descriptors_share: 0.9 }), /files open/],
    [
      "a deployment behind a local proxy",
      stage({ other_cores: 1.6, idle_other_cores: 0.1 }),
      /idle without calls used 1.6 of 2 cores: the deployment, behind a local proxy/,
    ],
    ["others on a tenth of the cores", stage({ other_cores: 0.3 }), /0.3 of 2 cores/],
  ])("%s", (_what, given, reason) => {
    const doubts = timeDoubts(given, P99);
    expect(doubtsAgainst("pass", doubts)).toEqual([]);
    expect(doubtsAgainst("fail", doubts).join()).toMatch(reason);
  });
});

test("a doubt is about the generator where that was late itself, else about the machine", () => {
  expect(codeOfDoubts(stage({ lag_ms: [[0.99, 6]] }), P99)).toBe("generator-was-the-limit");
  expect(codeOfDoubts(stage({ other_cores: 1.1 }), P99)).toBe("machine-disturbed");
  expect(codeOfDoubts(stage({}, { steal_share: 0.06 }), P99)).toBe("machine-disturbed");
});

describe("a disturbance touches what it can explain", () => {
  test("lateness counts against the calls that decide, and beside the limit", () => {
    const late = stage({
      lag_ms: [
        [0.5, 0.2],
        [0.75, 1],
        [0.99, 30],
      ],
    });
    expect(timeDoubts(late, P99).always).toHaveLength(1);
    expect(timeDoubts(late, { tail: 0.25, limitMs: 40 }).always).toEqual([]);
    expect(timeDoubts(late, { tail: 0.01, limitMs: 800 }).always).toEqual([]);
  });

  test("a few lost SYNs move a p99 and no median", () => {
    const few = stage({}, { syn_retransmits: 9 });
    expect(timeDoubts(few, P99).ifFailed).toHaveLength(1);
    expect(timeDoubts(few, { tail: 0.5, limitMs: 40 }).ifFailed).toEqual([]);
  });

  test("what is not known is no doubt", () => {
    const unknown = Object.fromEntries(Object.keys(CALM).map((name) => [name, null])) as unknown as HostFacts;
    expect(timeDoubts(stage({ other_cores: null, rate_error: null, lag_ms: [] }, unknown), P99)).toEqual({
      always: [],
      ifFailed: [],
    });
    expect(timeDoubts(stage({ host: null }), P99)).toEqual({ always: [], ifFailed: [] });
  });
});
