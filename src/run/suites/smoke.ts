/**
 * What each profile of `run` consists of, as data: which story under which driver, which link is broken meanwhile, and
 * which invariants judge it. A stage is judged only by what it can reach; the catalogue test knows that nothing is lost.
 */
export type StageExperiment = {
  /** Name in reports: `limiter-refused`. */
  name: string;
  link: "limiter" | "keys";
  /** A name of chaos/catalogue.ts. */
  fault: string;
  holdMs: number;
};

export type StagePlan = {
  name: string;
  /** `verify`: the black-box rules in place of a story. */
  driver: "open-loop" | "k6" | "verify";
  /** A name of workload/catalogue.ts; k6 runs `scenarios/<story>.ts`. */
  story: string;
  ratePerS?: number;
  durationS?: number;
  /** Ids of invariants/catalogue.ts. */
  judges: readonly string[];
  experiment?: StageExperiment;
  /** What an operator changes meanwhile, one after the other (`PATCH /deployment`); the last puts everything back. */
  states?: readonly { patch: Record<string, unknown>; holdMs: number }[];
  /** What must have been seen, or the stage proves nothing: outcomes as in `by_outcome`. */
  reaches: readonly string[];
};

const EVERYWHERE = ["first-failing-check-decides", "envelope-fits-subcode", "tells-when-to-retry", "counts-agree"];
const STREAMS = ["streams-end-once", "slots-are-given-back"];
const METERS = ["refused-is-not-charged", "charged-once", "admits-at-most-the-allowance"];

const broken = (link: StageExperiment["link"], fault: string): StagePlan => ({
  name: `${link}-${fault}`,
  driver: "open-loop",
  story: "broken-dependency",
  // Below cap / budget: while a dependency is silent each call holds its slot for the budget (design.md section 3).
  ratePerS: link === "keys" ? 12 : 40,
  durationS: 60,
  judges: [
    ...["fails-closed", "recovers", "first-failing-check-decides", "envelope-fits-subcode", "counts-agree"],
    ...["refused-is-not-charged", "charged-once", "slots-are-given-back", "organizations-do-not-share"],
  ],
  experiment: { name: `${link}-${fault}`, link, fault, holdMs: 3_000 },
  reaches: [link === "limiter" ? "429 limiter_unavailable" : "503"],
});

export const SMOKE: readonly StagePlan[] = [
  { name: "verify", driver: "verify", story: "-", judges: [], reaches: [] },
  {
    name: "smoke",
    driver: "open-loop",
    story: "smoke",
    ratePerS: 40,
    judges: [
      ...[...EVERYWHERE, ...STREAMS, ...METERS],
      ...["admission-is-stored-and-tier", "session-lifetime-is-bounded", "organizations-do-not-share"],
      ...["events-are-not-buffered", "stream-vocabularies-differ", "admits-what-is-allowed"],
    ],
    reaches: ["200", "401", "403 origin_required", "403 session_origin_mismatch", "422 malformed_body"],
  },
  {
    name: "deployment-states",
    driver: "open-loop",
    story: "smoke",
    ratePerS: 50,
    durationS: 30,
    states: [
      { patch: { sessions: "disabled" }, holdMs: 1_500 },
      { patch: { sessions: "not_configured" }, holdMs: 1_500 },
      {
        patch: {
          sessions: "enabled",
          fail_next: { route: "chat.control", mode: "error_event", after_events: 3, count: 2 },
        },
        holdMs: 1_500,
      },
      { patch: { sessions: "enabled" }, holdMs: 0 },
    ],
    judges: [...EVERYWHERE, ...STREAMS, "refused-is-not-charged"],
    reaches: ["200", "403 sessions_disabled", "403 sessions_not_configured", "200 error"],
  },
  {
    name: "rate-limit-edge",
    driver: "open-loop",
    story: "rate-limit-edge",
    durationS: 4,
    judges: [...EVERYWHERE, "rate-within-any-window"],
    reaches: ["200", "429 rate_limited"],
  },
  {
    name: "chat-past-capacity",
    driver: "k6",
    story: "chat-past-capacity",
    durationS: 10,
    judges: [
      ...[...EVERYWHERE, ...STREAMS, "events-are-not-buffered"],
      ...["sheds-only-over-the-cap", "sheds-above-the-cap", "refusals-are-cheap"],
    ],
    reaches: ["200", "429 b2b_overloaded"],
  },
  {
    name: "tile-quota-stampede",
    driver: "k6",
    story: "tile-quota-stampede",
    judges: [
      ...[...EVERYWHERE, ...METERS, ...STREAMS],
      ...["admits-what-is-allowed", "organizations-do-not-share", "sheds-only-over-the-cap"],
      ...["session-lifetime-is-bounded"],
    ],
    reaches: ["200", "429 org_overloaded", "429 map_load_quota_exceeded", "429 map_load_hard_stop"],
  },
  broken("limiter", "refused"),
  broken("limiter", "reply-lost"),
  broken("keys", "refused"),
  broken("keys", "reply-lost"),
];

export const PROFILES: Readonly<Record<string, readonly StagePlan[]>> = { smoke: SMOKE };
