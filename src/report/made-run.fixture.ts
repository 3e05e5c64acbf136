/** A run made by hand, for the examples of this folder: every verdict, kind of outcome and gap occurs in it once. */
import { claimOf } from "../history/claim.fixture.ts";
import type { Claim, Measurement, RunDocument, StageSummary } from "../history/run-document.ts";

export const madeClaim = (id: string, over: Partial<Claim> = {}): Claim =>
  claimOf(id, {
    reason: "holds for every call of the stage",
    expected: "as the specification says",
    got: "as expected",
    replay: `npx floodgate run smoke --seed 42 --only ${id}`,
    ...over,
  });

const measured = (stage: string, name: string, value: number, unit: string, n: number, by = 0): Measurement => ({
  name,
  stage,
  value,
  unit,
  low: by === 0 ? null : value - by,
  high: by === 0 ? null : value + by * 1.6,
  n,
});

const stage = (name: string, driver: string, ms: number, byOutcome: Record<string, number>): StageSummary => {
  const calls = { sent: 0, answered: 0, refused: 0, indeterminate: 0 };
  for (const [outcome, n] of Object.entries(byOutcome)) {
    calls.sent += n;
    calls[outcome === "indeterminate" ? outcome : /^2/.test(outcome) ? "answered" : "refused"] += n;
  }
  return { name, driver, duration_ms: ms, calls, by_outcome: byOutcome };
};

const CLAIMS: Claim[] = [
  madeClaim("first-failing-check-decides/steady-mix", { spec: [69, 81] }),
  madeClaim("envelope-fits-subcode/steady-mix", { spec: [182, 183] }),
  madeClaim("sheds-above-the-cap/chat-past-capacity", {
    verdict: "fail",
    reason: "calls were admitted although more were in flight than all replicas may hold (37 times)",
    expected: "a call is shed when at least 64 others are certainly in flight",
    got: "call fg-a1b2-chat-0412 was answered 200 with 71 others in flight",
    spec: [213, 214, 215],
    evidence: ["fg-a1b2-chat-0412", "fg-a1b2-chat-0415", "fg-a1b2-chat-0419", "fg-a1b2-chat-0500"],
    replay: "npx floodgate load chat-past-capacity --driver open-loop --rate 120 --duration 15s --seed 42",
  }),
  madeClaim("tells-when-to-retry/chat-past-capacity", {
    level: "should",
    verdict: "fail",
    reason: "Retry-After was missing on 3 of 611 refusals",
    expected: "every overload answer carries Retry-After",
    got: "none on fg-a1b2-chat-0733",
    spec: [218],
    evidence: ["fg-a1b2-chat-0733"],
  }),
  madeClaim("refusals-are-cheap/chat-past-capacity", {
    verdict: "inconclusive",
    reason: "the host stole 14 % of the CPU meanwhile, so claims about time say nothing",
    expected: "p99 of a refusal below half the p50 of a success",
    got: "not enough to judge by",
  }),
  madeClaim("charged-once/tile-quota-stampede", {
    verdict: "skipped",
    reason: "skipped: observers.ledger (the target file names no way to read the ledger)",
    got: "not judged",
  }),
  madeClaim("refused-is-not-charged/tile-quota-stampede", {
    verdict: "skipped",
    reason: "skipped: observers.ledger (the target file names no way to read the ledger)",
    got: "not judged",
  }),
  madeClaim("verify/admission.downgraded-server-key", {
    verdict: "skipped",
    reason: "skipped: credential server_downgraded",
    got: "not judged",
    spec: [46, 75],
  }),
  madeClaim("verify/exchange.publishable-only", { spec: [70] }),
  madeClaim("verify/exchange.origin-missing", { spec: [71] }),
  madeClaim("verify/exchange.origin-foreign", { level: "should", spec: [72, 73] }),
  madeClaim("verify/stream.accept-header-missing", { level: "info", reason: "streams all the same", spec: [110] }),
  madeClaim("fails-closed/limiter-refused", { spec: [224, 225] }),
  madeClaim("recovers/limiter-refused"),
];

export const madeRun = (over: Partial<RunDocument> = {}): RunDocument => ({
  schema: "floodgate/run@1",
  id: "20261121T080000Z-smoke-a1b2",
  profile: "smoke",
  seed: 42,
  commit: "2dd9bd4c",
  started_at: "2026-11-21T08:00:00.000Z",
  finished_at: "2026-11-21T08:02:24.000Z",
  duration_ms: 144_000,
  verdict: "fail",
  exit_code: 1,
  coverage: { outcomes_seen: 9, outcomes_of: 30, claims_judged: 11, claims_skipped: 3 },
  target: { name: "embedded", base_url: "http://127.0.0.1:43121/v1", embedded: true },
  environment: {
    node: "26.10.0",
    k6: "2.2.0",
    toxiproxy: "2.12.0",
    os: "linux x64",
    cores: 2,
    cpu: "virtual, 2.4 GHz",
    host_notes: ["CPU steal 14 % during chat-past-capacity", "event loop lag p99 21 ms in the driver"],
  },
  calibration: [
    { name: "null server, p50", driver: "k6", truth: 5, measured: 5.21, unit: "ms", verdict: "pass" },
    { name: "offered rate", driver: "k6", truth: 200, measured: 187.4, unit: "1/s", verdict: "inconclusive" },
  ],
  stages: [
    stage("steady-mix", "open-loop", 15_000, { "200": 1412, "200 error": 31, "403 insufficient_scope": 57 }),
    stage("chat-past-capacity", "k6", 20_000, {
      "200": 1290,
      "429 b2b_overloaded": 611,
      "429 rate_limited": 44,
      "401": 12,
      "edge 502": 3,
      indeterminate: 2,
    }),
    stage("limiter-refused", "open-loop", 18_000, {
      "200": 640,
      "429 limiter_unavailable": 260,
      "429 org_overloaded": 18,
      "503": 4,
    }),
  ],
  claims: CLAIMS,
  measurements: [
    measured("steady-mix", "achieved_rate", 99.93, "1/s", 1500),
    measured("steady-mix", "rate_error", -0.0007, "ratio", 1500),
    measured("steady-mix", "latency_ms_p50", 8.31, "ms", 1443, 0.12),
    measured("steady-mix", "latency_ms_p99", 31.7, "ms", 1443, 2.9),
    measured("steady-mix", "latency_ms_p999", 58.2, "ms", 1443),
    measured("chat-past-capacity", "ttfe_ms_p50", 204, "ms", 1290, 3.4),
    measured("chat-past-capacity", "refusal_ms_p99", 6.02, "ms", 655, 0.8),
    measured("chat-past-capacity", "jain_index", 0.984, "ratio", 12),
  ],
  faults: [
    {
      experiment: "limiter-refused",
      link: "limiter",
      fault: "refused",
      stream: "both",
      started_ms: 71_000,
      ended_ms: 79_000,
      took_effect: true,
    },
    {
      experiment: "keys-slow-beyond-budget",
      link: "keys",
      fault: "latency 3000 ms",
      stream: "downstream",
      started_ms: 92_000,
      ended_ms: 101_500,
      took_effect: true,
    },
    {
      experiment: "limiter-trickle",
      link: "limiter",
      fault: "bandwidth 1 KB/s",
      stream: "downstream",
      started_ms: 118_000,
      ended_ms: 124_000,
      took_effect: false,
    },
  ],
  ...over,
});
