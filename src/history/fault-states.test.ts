import { expect, test } from "vitest";
import type { LedgerLine } from "../contract/routes.ts";
import { faultStates, statesReached } from "./fault-states.ts";
import { type CallLine, type FaultLine, type Line, lineTimeUs } from "./line.ts";
import type { StageFacts } from "./run-document.ts";

const STARTED_MS = Date.UTC(2026, 10, 22);
const facts = (more: Partial<StageFacts> = {}): StageFacts => ({
  stage: "s",
  exclusive: true,
  limits: { revocation_budget_ms: 1_000 },
  shedding: "fixed",
  tenants: {
    free: { tier: "Free", allowance: 1, used_at_start: 0 },
    paid: { tier: "Pro", allowance: 1, used_at_start: 4 },
  },
  faults: true,
  drained: true,
  started_at_ms: STARTED_MS,
  ...more,
});

const call = (atMs: number, tookMs: number, more: Partial<CallLine> = {}): CallLine => ({
  type: "call",
  id: `c${atMs}`,
  stage: "s",
  driver: "open-loop",
  org: "a",
  route: "design.styles",
  intended_us: atMs * 1_000,
  started_us: atMs * 1_000,
  connect_us: 0,
  attempt: 0,
  sent_us: atMs * 1_000,
  first_us: (atMs + 1) * 1_000,
  done_us: (atMs + tookMs) * 1_000,
  outcome: "200",
  clock_error_us: 0,
  ...more,
});
const fault = (phase: FaultLine["phase"], atMs: number, link = "limiter"): FaultLine => ({
  ...{ type: "fault", stage: "s", experiment: "e", link, fault: "reply-lost", stream: "both" },
  ...{ phase, at_us: atMs * 1_000 },
});
const SPAN = [fault("injecting", 2_000), fault("injected", 2_100), fault("healing", 5_000), fault("healed", 5_100)];

const entry = (
  kind: LedgerLine["kind"],
  id: string,
  atMs: number,
  org = "a",
  more: Partial<LedgerLine> = {},
): LedgerLine => ({
  ...{ charge_id: id, request_id: id, org, key: "k", meter: "map_loads", kind, amount: 1, window: "2026-11" },
  at: STARTED_MS + atMs,
  ...more,
});

const timesOf = (lines: Line[], ledger?: LedgerLine[]) => {
  const states = faultStates(facts().limits);
  for (const line of lines.sort((one, other) => lineTimeUs(one) - lineTimeUs(other))) states.see(line);
  return states.times(facts(ledger === undefined ? {} : { ledger }));
};

test("streams are open when the fault comes: begun before it, and ended after", () => {
  const stream = (atMs: number, tookMs: number) => call(atMs, tookMs, { route: "chat.control", events: 3 });
  const open = [stream(1_800, 300), stream(1_900, 200)];
  const not = [stream(1_500, 400), stream(2_050, 300), call(1_900, 300)];
  expect(timesOf([...SPAN, ...open, ...not])).toMatchObject({ "streams-open": 2 });
});

test("a fault of two parts at once is one, from the first asking to the last being away", () => {
  const both = [fault("injecting", 2_000, "api"), fault("healed", 5_100, "api"), ...SPAN];
  const stream = call(1_900, 200, { route: "chat.control", events: 3 });
  expect(timesOf([...both, stream])).toMatchObject({ "streams-open": 1 });
});

test("a key is cold when no call had its record within the revocation budget, and only a fault counts", () => {
  const by = (atMs: number, more: Partial<CallLine> = {}) => call(atMs, 5, { bucket: "k", ...more });
  const lines = [
    by(500),
    by(1_900),
    by(2_500),
    by(3_700),
    by(3_800, { outcome: "503" }),
    by(5_000, { outcome: "503" }),
  ];
  expect(timesOf([...SPAN, ...lines])).toMatchObject({ "cold-keys": 2 });
  expect(timesOf([...SPAN, by(6_500), by(9_000)])).toMatchObject({ "cold-keys": 0 });
});

test("calls are shed while it lasts", () => {
  const shed = (atMs: number) => call(atMs, 1, { outcome: "429 b2b_overloaded" });
  expect(timesOf([...SPAN, shed(1_000), shed(3_000), shed(4_000), shed(6_000)])).toMatchObject({ shedding: 2 });
});

test("the last unit is taken by the charge that brings an organization to its cap, also when it is given back", () => {
  const ledger = [
    entry("charge", "1", 1_000, "free"),
    entry("refund", "1", 1_100, "free"),
    entry("charge", "2", 3_000, "free"),
    entry("refund", "2", 3_300, "free"),
    entry("charge", "3", 3_500, "paid"),
    entry("charge", "4", 6_000, "free"),
  ];
  expect(timesOf(SPAN, ledger)).toMatchObject({ "last-unit": 2, "refund-under-way": 1 });
});

test("a charge is given back after the month's edge when the store's clock is in another month than the charge", () => {
  const later = Date.UTC(2026, 11, 1) + 60_000 - STARTED_MS;
  const ledger = [
    entry("charge", "1", 3_000),
    entry("refund", "1", later),
    entry("charge", "2", 3_100),
    entry("refund", "2", 3_400),
  ];
  expect(timesOf(SPAN, ledger)).toMatchObject({ "month-edge": 1, "refund-under-way": 2 });
});

test("what a store charged by a clock that was moved before the fault is found by how far it was moved", () => {
  const aheadMs = Date.UTC(2026, 11, 1) - STARTED_MS - 3_500;
  const mark: Line = {
    type: "mark",
    stage: "s",
    name: "new-month",
    at_us: 3_500_000,
    clock_offset_ms: aheadMs,
  };
  const ledger = [
    entry("charge", "1", aheadMs + 3_400),
    entry("refund", "1", aheadMs + 3_650),
    entry("charge", "2", aheadMs + 9_000),
    entry("refund", "2", aheadMs + 9_100),
  ];
  expect(timesOf([...SPAN, mark], ledger)).toMatchObject({ "month-edge": 1, "refund-under-way": 1 });
  expect(timesOf(SPAN, ledger)).toMatchObject({ "month-edge": 0, "refund-under-way": 0 });
});

test("what a store charged after this machine's clock was set is found by how far it was set", () => {
  const ledger = [entry("charge", "1", 603_000), entry("refund", "1", 603_400)];
  const states = faultStates(facts().limits);
  SPAN.forEach(states.see);
  expect(states.times(facts({ ledger, clock_set_ms: 600_000 }))).toMatchObject({ "refund-under-way": 1 });
  expect(states.times(facts({ ledger }))).toMatchObject({ "refund-under-way": 0 });
});

test("without a ledger nobody knows what was charged, and that is not the same as never", () => {
  const times = timesOf(SPAN);
  expect(times).toMatchObject({ "last-unit": null, "refund-under-way": null, "month-edge": null, shedding: 0 });
  expect(statesReached(times, ["shedding"]).filter(({ must }) => must)).toEqual([
    { state: "shedding", must: true, times: 0 },
  ]);
});
