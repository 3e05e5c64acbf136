/** A stage as data: story, driver, disturbance, judges, what it must reach. */

import { consequencesOf, type Disturbance } from "../faults/disturbance.ts";
import type { ReplayedLog } from "../history/run-document.ts";
import type { FaultState } from "../history/states-reached.ts";
import type { IsolationPart } from "../shedding/isolation.ts";
import type { Target } from "../target/target.ts";
import type { Arrivals } from "../workload/arrivals.ts";
import type { Profile } from "../workload/load-profiles.ts";

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
  /** The load itself, as it was planned elsewhere. */
  profile?: Profile;
  /** When the calls of an access log came, milliseconds since 1970, ascending: replayed in place of the story's own profile. */
  replayOfMs?: readonly number[];
  replayed?: ReplayedLog;
  arrivals?: Arrivals;
  segments?: number;
  /** Admitted calls are not written one by one, but folded into seconds (history/call-fold.ts): for high rates. */
  fold?: true;
  /** The open-loop driver spends a whole core, each process of it, on not being late. */
  precise?: true;
  judges: readonly string[];
  disturbance?: Disturbance;
  /** The load must fill the in-flight cap, so the cap must be known and `ratePerS` permitted. */
  pastTheCap?: true;
  /** What the fault has to meet, and how often it did is reported. */
  requiredStates?: readonly FaultState[];
  /** Of the embedded deployment: three tenants alone, or organizations with one map load left beside the others. */
  tenants?: "few" | "last-units";
  /** API replicas of the embedded deployment; anybody else's has those that it has. */
  replicas?: number;
  /** Outcomes that must be seen on the embedded deployment or because of the disturbance; else the story's own. */
  reaches?: readonly string[];
  /** Whether the `slo` of the target file is judged. */
  objectives?: boolean;
  /** The curve of goodput over offered load is judged (shedding/): up past the knee and down again. */
  curve?: true;
  /** How fast its second piece of load, or the fault that takes capacity away, is answered, and whether it is got over. */
  step?: "load" | "capacity";
  /** Played twice, beside a noisy organization and without it, to compare what the quiet ones got. */
  isolation?: IsolationPart;
  /** Some arrivals make no call, so fewer calls than were offered are no fault of the generator. */
  leavesOut?: true;
  /** Whether growth is judged, over all such stages of a run. */
  growth?: true;
};

export type VerifyStage = {
  kind: "verify";
  /** `after-load`: some rules once more, at the end. */
  name: "verify" | "after-load";
  only?: readonly string[];
  ratePerS: number;
  skip: readonly string[];
  allowWrites: boolean;
  allowQuotaBurn: boolean;
  allowLoad: boolean;
  /** For overload to end, and how long a deployment sheds everything before its slots count as lost; a minute where absent. */
  patienceMs?: number;
};

export type StagePlan = LoadStage | VerifyStage;

export const driverOf = (plan: StagePlan): string => (plan.kind === "verify" ? "verify" : plan.driver);

/** Whether the stage does not exercise what its judges check, so that missing evidence is no doubt. */
export const isIncidental = ({ reaches, objectives, disturbance }: LoadStage): boolean =>
  reaches === undefined || objectives === true || consequencesOf(disturbance).isDrawn;

/** Which invariants judge what kind of stage. A stage is judged only by what it can reach. */
export const EVERYWHERE: readonly string[] = [
  ...["first-failing-check-decides", "envelope-fits-subcode", "tells-when-to-retry", "counts-agree"],
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
/** Each level of the curve has to have calls enough to be judged. */
const SHORT_CURVE_SHARE = 0.5;
const SHORTEST_S = 4;

/** A fifth of the duration, unless the length follows from what the stage has to reach. */
export const shortened = (plan: StagePlan): StagePlan => {
  if (plan.kind === "verify") return plan;
  const { disturbance, durationS, growth: _, ...rest } = plan;
  if (disturbance?.kind === "fault-schedule" && "drawn" in disturbance.events) {
    // Too short to show whether anything grows.
    const forMs = disturbance.events.forMs * SHORT_SHARE;
    return { ...rest, disturbance: { ...disturbance, events: { ...disturbance.events, forMs } } };
  }
  if (disturbance !== undefined || durationS === undefined) return plan;
  const share = plan.curve === true ? SHORT_CURVE_SHARE : SHORT_SHARE;
  return { ...plan, durationS: Math.min(durationS, Math.max(SHORTEST_S, durationS * share)) };
};
