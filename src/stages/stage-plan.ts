/** A stage as data: story, driver, disturbance, judges, what it must reach. */

import type { Deployment } from "../deployments/deployment.ts";
import { type Disturbable, disturbanceMissing } from "../faults/capabilities.ts";
import { consequencesOf, type Disturbance } from "../faults/disturbance.ts";
import type { FaultState, ReplayedLog } from "../history/run-document.ts";
import type { IsolationPart } from "../shedding/isolation.ts";
import type { Target } from "../target/target.ts";
import type { VerifyOptions } from "../verify/run-verify.ts";
import type { Arrivals } from "../workload/arrivals.ts";
import type { TargetView } from "../workload/callers/target-view.ts";
import { type TenantReadings, viewOf } from "../workload/callers/view-of-target.ts";
import { STORIES } from "../workload/catalogue.ts";
import {
  constant,
  PROFILES,
  type Profile,
  profileDurationS,
  profilePeakPerS,
  scaleProfile,
  traceProfile,
} from "../workload/load-profiles.ts";
import { type Reach, SHARE_OF_PERMIT, type Story } from "../workload/story.ts";

export type LoadStage = {
  kind: "load";
  name: string;
  /** autocannon is a closed loop without a schedule, for stories whose calls are plain requests. */
  driver: "open-loop" | "k6" | "autocannon";
  /** The user named the driver, so no other driver stands in for it. */
  driverNamed?: true;
  /** A name of workload/catalogue.ts; k6 runs `scenarios/<story>.ts`. */
  story: string;
  /** Calls per second (at most, for a closed loop) and seconds, in place of those of the story. */
  ratePerS?: number;
  durationS?: number;
  /** A name of `PROFILES` in workload/load-profiles.ts, in place of the story's own. */
  loadProfile?: string;
  /** The load itself, in place of one that is planned from story and options. */
  profile?: Profile;
  /** When the calls of an access log came, in milliseconds since 1970, ascending; replaces the story's profile. */
  replayOfMs?: readonly number[];
  replayed?: ReplayedLog;
  arrivals?: Arrivals;
  segments?: number;
  /** Admitted calls are not written one by one, but folded into seconds (history/call-fold.ts): for high rates. */
  fold?: true;
  /** Each process of the open-loop driver uses a whole core, so that no call leaves late. */
  precise?: true;
  judges: readonly string[];
  disturbance?: Disturbance;
  /** The load must fill the in-flight cap, so the cap must be known and `ratePerS` permitted. */
  pastTheCap?: true;
  /** The states in which the fault must find the deployment; how often it did is reported. */
  requiredStates?: readonly FaultState[];
  /** Tenants of the embedded deployment: three alone, or with added organizations that have one map load left. */
  tenants?: "few" | "last-units";
  /** API replicas of the embedded deployment; another deployment keeps its own number. */
  replicas?: number;
  /** Outcomes that the embedded deployment or the disturbance must cause; default: those of the story. */
  reaches?: readonly string[];
  /** Whether the `slo` of the target file is judged. */
  objectives?: boolean;
  /** The curve of goodput over offered load is judged (shedding/): up past the knee and down again. */
  curve?: true;
  /** Judges how fast the deployment adapts to a step of the load (its second piece) or of the capacity (a fault). */
  step?: "load" | "capacity";
  /** Played twice, with a noisy organization and without it, to compare what the quiet ones got. */
  isolation?: IsolationPart;
  /** Some arrivals make no call, so fewer calls than were offered are no fault of the generator. */
  leavesOut?: true;
  /** Whether growth is judged, over all such stages of a run. */
  growth?: true;
};

/** `after-load` tries some rules again at the end of a suite, or behind a scenario whose readers leave. */
export type VerifyStage = { kind: "verify"; name: "verify" | "after-load" } & Pick<
  VerifyOptions,
  "only" | "patienceMs"
> &
  Required<Pick<VerifyOptions, "ratePerS" | "skip" | "allowWrites" | "allowQuotaBurn" | "allowLoad">>;

export type StagePlan = LoadStage | VerifyStage;

export const driverOf = (plan: StagePlan): string => (plan.kind === "verify" ? "verify" : plan.driver);

/** Reports whether a stage may not exercise what its judges check, so that missing evidence is no doubt. */
export const isIncidental = ({ reaches, objectives, disturbance }: LoadStage): boolean =>
  reaches === undefined || objectives === true || consequencesOf(disturbance).isDrawn;

/** Invariants for every stage; below, those for stages with streams and with charges. */
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
/** A larger share for the curve, because each of its levels needs enough calls to be judged. */
const SHORT_CURVE_SHARE = 0.5;
const SHORTEST_S = 4;
/** Stages that are compared call by call need a hundred calls of quiet organizations that do not overlap. */
const SHORTEST_COMPARED_S = 12;

/** Shortens a stage to `SHORT_SHARE`, unless its length follows from what it has to reach. */
export const shortened = (plan: StagePlan): StagePlan => {
  if (plan.kind === "verify") return plan;
  const { disturbance, durationS: statedS, growth: _, ...rest } = plan;
  if (disturbance?.kind === "fault-schedule" && "drawn" in disturbance.events) {
    // `growth` is left out: a short stage cannot show whether anything grows.
    const forMs = disturbance.events.forMs * SHORT_SHARE;
    return { ...rest, disturbance: { ...disturbance, events: { ...disturbance.events, forMs } } };
  }
  const { replayOfMs, ratePerS } = rest;
  const durationS = statedS ?? (replayOfMs && profileDurationS(traceProfile(replayOfMs, { ratePerS })));
  if (disturbance !== undefined || durationS === undefined) return plan;
  const share = plan.curve === true ? SHORT_CURVE_SHARE : SHORT_SHARE;
  const shortestS = plan.isolation === undefined ? SHORTEST_S : SHORTEST_COMPARED_S;
  return { ...plan, durationS: Math.min(durationS, Math.max(shortestS, durationS * share)) };
};

export type StagesWish = {
  stages(given: SuiteFor): StagePlan[];
  short: boolean;
};

export const stagesFor = (given: SuiteFor, { stages, short }: StagesWish): StagePlan[] =>
  stages(given).map((plan) => (short ? shortened(plan) : plan));

/** Above this share of the permitted rate arrivals are uniform: the permit would hold back random bursts. */
const SHARE_FOR_POISSON = 0.6;

/** `slowedTo`: the share of its speed at which a log is replayed, if its peak exceeds the permitted rate. */
type PlannedLoad = { profile: Profile; arrivals: Arrivals; reach: Reach; slowedTo?: number };

/** Returns how many calls of its log a stage replays, if its length cuts the log short; else `null`. */
export const callsOfCutLog = ({ replayOfMs = [], ratePerS, durationS }: LoadStage): number | null => {
  const calls = traceProfile(replayOfMs, { ratePerS, durationS }).momentsUs?.length ?? 0;
  return calls < replayOfMs.length ? calls : null;
};

const capMissing = ({ pastTheCap, ratePerS = 0 }: LoadStage, { limits, permits }: Target): string[] => {
  if (pastTheCap !== true) return [];
  if (limits?.global_in_flight === undefined) return ["`limits.global_in_flight` (to load past it)"];
  const mostPerS = SHARE_OF_PERMIT * (permits?.load_max_rps ?? Number.POSITIVE_INFINITY);
  return mostPerS >= ratePerS ? [] : [`\`permits.load_max_rps\` of ${Math.ceil(ratePerS / SHARE_OF_PERMIT)} or more`];
};

/** A replayed log fixes the load, so reaching the target outcomes is optional. */
const reachOfReplay = ({ all, oneOf, beyond }: Reach): Reach => {
  const reason = "the replayed log sets the load";
  const free = [...all, ...oneOf].filter((outcome) => outcome !== "200");
  const owed = all.filter((outcome) => outcome === "200");
  const others = beyond.map(({ outcome, reason }) => ({ outcome, reason }));
  return { all: owed, oneOf: [], beyond: [...others, ...free.map((outcome) => ({ outcome, reason }))] };
};

/** A log has its own rate and length unless the user states others. */
const wantedProfile = (
  { loadProfile, replayOfMs, ratePerS, durationS }: LoadStage,
  own: Profile | null,
): Profile | null => {
  if (replayOfMs !== undefined) return traceProfile(replayOfMs, { ratePerS, durationS });
  if (own === null) return null;
  const shape = loadProfile === undefined ? undefined : PROFILES[loadProfile];
  return shape === undefined ? own : shape(ratePerS ?? profilePeakPerS(own), durationS ?? profileDurationS(own));
};

const UNBOUNDED_PER_S = 5_000;
const CLOSED_LOOP_S = 15;

export const storyOfPlan = (plan: LoadStage): Story => {
  const story = STORIES.get(plan.story);
  if (story === undefined) throw new Error(`stage ${plan.name}: there is no story "${plan.story}"`);
  return story;
};

type Known = Pick<Deployment, "target" | "embedded" | "found">;

export const viewWith = ({ target, found }: Known, readings: TenantReadings = {}): TargetView => {
  return { ...viewOf(target, readings), capacity: found };
};

/** `null`: no rate is known, so the ramp of `story.needsCapacity` has to be played first. */
export const plannedFor = (plan: LoadStage, deployment: Known, view = viewWith(deployment)): PlannedLoad | null => {
  const { driver, ratePerS, durationS, profile: given, replayOfMs, reaches, disturbance } = plan;
  const { target, embedded } = deployment;
  const maxPerS = target.permits?.load_max_rps;
  const story = storyOfPlan(plan);
  const mostPerS = maxPerS === undefined ? undefined : SHARE_OF_PERMIT * maxPerS;
  const wish = { ratePerS, durationS, maxPerS: mostPerS };
  const reach = (): Reach => story.reaches(view, wish);
  if (driver === "autocannon") {
    // A closed loop has no schedule: its profile is the highest rate for so long.
    const perS = Math.min(ratePerS ?? UNBOUNDED_PER_S, maxPerS ?? UNBOUNDED_PER_S);
    return { profile: constant(perS, durationS ?? CLOSED_LOOP_S), arrivals: "uniform", reach: reach() };
  }
  if (given !== undefined) return { profile: given, arrivals: plan.arrivals ?? "uniform", reach: reach() };
  const wanted = wantedProfile(plan, story.profile(view, wish));
  if (wanted === null) return null;
  const share = (mostPerS ?? Number.POSITIVE_INFINITY) / profilePeakPerS(wanted);
  const profile = share < 1 ? scaleProfile(wanted, share) : wanted;
  const isNear = maxPerS !== undefined && profilePeakPerS(profile) > SHARE_FOR_POISSON * maxPerS;
  // A suite knows what its stages reach on the embedded deployment and what its disturbances bring about.
  const isKnown = reaches !== undefined && (embedded || disturbance !== undefined);
  const owed = isKnown ? { all: reaches, oneOf: [], beyond: [] } : reach();
  return {
    profile,
    arrivals: plan.arrivals ?? (isNear ? "uniform" : "poisson"),
    reach: replayOfMs === undefined ? owed : reachOfReplay(owed),
    slowedTo: replayOfMs !== undefined && share < 1 ? share : undefined,
  };
};

export const stageMissing = (plan: LoadStage, can: Disturbable, view: TargetView = viewOf(can.target)): string[] => [
  ...storyOfPlan(plan).missing(view),
  ...disturbanceMissing(plan.disturbance, can),
  ...capMissing(plan, can.target),
];
