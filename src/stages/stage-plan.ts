/**
 * A stage of a suite as data: which story under which driver, what happens to the deployment meanwhile, which invariants
 * judge it, what it must reach.
 */

import { consequencesOf, type Disturbance } from "../faults/disturbance.ts";
import type { ReplayedLog } from "../history/run-document.ts";
import type { FaultState } from "../history/states-reached.ts";
import type { Target } from "../target/target.ts";
import type { Arrivals } from "../workload/arrivals.ts";

export type LoadStage = {
  kind: "load";
  name: string;
  /** autocannon is a closed loop without a schedule, for stories whose calls are plain requests. */
  driver: "open-loop" | "k6" | "autocannon";
  /** The user named the driver, so nothing stands in for it. */
  driverNamed?: true;
  /** A name of workload/catalogue.ts; k6 runs `scenarios/<story>.ts`. */
  story: string;
  /** Calls per second (at the most, where the driver is a closed loop) and seconds, in place of the story's own. */
  ratePerS?: number;
  durationS?: number;
  /** A name of `PROFILES` in workload/load-profiles.ts, in place of the story's own. */
  loadProfile?: string;
  /** When the calls of an access log came, milliseconds since 1970, ascending: replayed in place of the story's own profile. */
  replayOfMs?: readonly number[];
  /** How that log was read. */
  replayed?: ReplayedLog;
  arrivals?: Arrivals;
  /** How many processes of the driver share the schedule. */
  segments?: number;
  /** Admitted calls are not written one by one, but folded into seconds (history/call-fold.ts): for high rates. */
  fold?: true;
  /** The open-loop driver spends a whole core, each process of it, on not being late. */
  precise?: true;
  /** Ids of invariants/catalogue.ts. */
  judges: readonly string[];
  disturbance?: Disturbance;
  /** The load is to fill the in-flight cap, so the cap has to be known and `ratePerS` permitted. */
  pastTheCap?: true;
  /** What the fault has to meet, and how often it did is reported. */
  meets?: readonly FaultState[];
  /** Of the embedded deployment: three tenants alone, or organizations with one map load left beside the others. */
  tenants?: "few" | "last-units";
  /** API replicas of the embedded deployment; anybody else's has those that it has. */
  replicas?: number;
  /**
   * What must have been seen on the embedded deployment, or because of the disturbance; else the story says what it reaches
   * on this target. Outcomes are as in `by_outcome`.
   */
  reaches?: readonly string[];
  /** Whether the `slo` of the target file is judged here: nobody is meant to be refused. */
  objectives?: boolean;
  /** Whether it is watched that the deployment does not grow meanwhile; judged over all such stages of a run. */
  growth?: true;
};

export type VerifyStage = {
  kind: "verify";
  /** `after-load`: some rules once more, at the end. */
  name: "verify" | "after-load";
  /** Ids of rules; all where absent. */
  only?: readonly string[];
  /** Calls per second. */
  ratePerS: number;
  /** Phases and rules that are left out. */
  skip: readonly string[];
  allowWrites: boolean;
  allowQuotaBurn: boolean;
  allowLoad: boolean;
  /** For overload to end, and how long a deployment sheds everything before its slots count as lost; a minute where absent. */
  patienceMs?: number;
};

export type StagePlan = LoadStage | VerifyStage;

export const driverOf = (plan: StagePlan): string => (plan.kind === "verify" ? "verify" : plan.driver);

/** Whether the stage is made for nothing of what its judges are about, so that what does not come about is no doubt. */
export const isIncidental = ({ reaches, objectives, disturbance }: LoadStage): boolean =>
  reaches === undefined || objectives === true || consequencesOf(disturbance).isDrawn;

/** Which invariants judge what kind of stage. A stage is judged only by what it can reach. */
export const EVERYWHERE = [
  "first-failing-check-decides",
  "envelope-fits-subcode",
  "tells-when-to-retry",
  "counts-agree",
];
export const STREAMS = ["streams-end-once", "streams-cut", "slots-are-given-back"];
export const METERS = ["refused-is-not-charged", "charged-once", "admits-at-most-the-allowance"];

export type SuiteFor = {
  target: Target;
  embedded: boolean;
  /** Where the embedded deployment keeps its counts (default sqlite). */
  limiter?: "sqlite" | "redis";
};

const SHORT_SHARE = 0.2;
/** Shorter than this, most stages reach nothing. */
const SHORTEST_S = 4;

/** A fifth of the time; where a stage's length follows from what it has to reach, it stays. */
export const shortened = (plan: StagePlan): StagePlan => {
  if (plan.kind === "verify") return plan;
  const { disturbance, durationS, growth: _, ...rest } = plan;
  if (disturbance?.kind === "fault-schedule" && "drawn" in disturbance.events) {
    // Too short to show whether anything grows.
    const forMs = disturbance.events.forMs * SHORT_SHARE;
    return { ...rest, disturbance: { ...disturbance, events: { ...disturbance.events, forMs } } };
  }
  if (disturbance !== undefined || durationS === undefined) return plan;
  return { ...plan, durationS: Math.min(durationS, Math.max(SHORTEST_S, durationS * SHORT_SHARE)) };
};

/** The parts that most load stages have in common. */
export const loadStage = (parts: Pick<LoadStage, "name" | "judges"> & Partial<LoadStage>): LoadStage => ({
  kind: "load",
  driver: "open-loop",
  story: parts.name,
  ...parts,
});
