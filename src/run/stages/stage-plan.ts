/**
 * A stage of a suite as data: which story under which driver, what happens to the deployment meanwhile, which invariants
 * judge it, what it must reach.
 */
import type { Arrivals } from "../../workload/arrivals.ts";
import type { Disturbance } from "../disturbances/disturbance.ts";

export type LoadStage = {
  kind: "load";
  name: string;
  driver: "open-loop" | "k6";
  /** A name of workload/catalogue.ts; k6 runs `scenarios/<story>.ts`. */
  story: string;
  /** Calls per second and seconds, in place of the story's own. */
  ratePerS?: number;
  durationS?: number;
  /** A name of `PROFILES` in workload/load-profiles.ts, in place of the story's own. */
  loadProfile?: string;
  /** When the calls of an access log came, milliseconds since 1970, ascending: replayed in place of the story's own profile. */
  replayOfMs?: readonly number[];
  arrivals?: Arrivals;
  /** How many processes of the open-loop driver share the schedule. */
  segments?: number;
  /** Ids of invariants/catalogue.ts. */
  judges: readonly string[];
  disturbance?: Disturbance;
  /**
   * What must have been seen on the embedded deployment, or because of the disturbance; else the story says what it reaches
   * on this target. Outcomes are as in `by_outcome`.
   */
  reaches?: readonly string[];
  /** Whether the `slo` of the target file is judged here: nobody is meant to be refused. */
  objectives?: boolean;
};

export type VerifyStage = {
  kind: "verify";
  name: "verify";
  /** Calls per second. */
  ratePerS: number;
  /** Phases and rules that are left out. */
  skip: readonly string[];
  allowWrites: boolean;
  allowQuotaBurn: boolean;
  allowLoad: boolean;
};

export type StagePlan = LoadStage | VerifyStage;

export const driverOf = (plan: StagePlan): string => (plan.kind === "verify" ? "verify" : plan.driver);
