/** A stage as data (story, driver, disturbance, judges, what it must reach), and what a run would play on a target file. */

import { isLoopbackHost, parseHttpUrl } from "../contract/address.ts";
import { nearest } from "../contract/nearest.ts";
import { type Deployment, type EmbeddedOptions, proxiesMissing } from "../deployments/deployment.ts";
import { plannedEmbedded, plannedTenants } from "../deployments/tenants.ts";
import { consequencesOf, type Disturbance } from "../faults/disturbance.ts";
import { type Disturbable, disturbanceMissing } from "../faults/experiment.ts";
import { EXPERIMENTS } from "../faults/experiments.ts";
import { checkObjectives } from "../history/objective-verdicts.ts";
import { type FaultState, groupOf, type ReplayedLog } from "../history/run-document.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { CLAIM_FAMILIES } from "../report/claim-families.ts";
import { slowedReplayText } from "../report/replayed-log-text.ts";
import type { IsolationPart } from "../shedding/isolation.ts";
import { createSecrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { guardTarget, type Intent, readTargetFile, TargetFileError } from "../target/target-file.ts";
import { chosenRules, RULES } from "../verify/catalogue.ts";
import { planVerify, type VerifyOptions } from "../verify/run-verify.ts";
import { guardBudget, statedBudget } from "../workload/budget.ts";
import type { TargetView } from "../workload/callers/target-view.ts";
import { type TenantReadings, viewOf } from "../workload/callers/view-of-target.ts";
import { STORIES, storyCalled } from "../workload/catalogue.ts";
import * as shapes from "../workload/load-profiles.ts";
import { type Reach, SHARE_OF_PERMIT } from "../workload/story.ts";

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
  profile?: shapes.Profile;
  /** When the calls of an access log came, in milliseconds since 1970, ascending; replaces the story's profile. */
  replayOfMs?: readonly number[];
  replayed?: ReplayedLog;
  arrivals?: shapes.Arrivals;
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
  "sheds-only-over-the-cap",
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
  const durationS = statedS ?? (replayOfMs && shapes.profileDurationS(shapes.traceProfile(replayOfMs, { ratePerS })));
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
type PlannedLoad = { profile: shapes.Profile; arrivals: shapes.Arrivals; reach: Reach; slowedTo?: number };

/** Returns how many calls of its log a stage replays, if its length cuts the log short; else `null`. */
export const callsOfCutLog = ({ replayOfMs = [], ratePerS, durationS }: LoadStage): number | null => {
  const calls = shapes.traceProfile(replayOfMs, { ratePerS, durationS }).momentsUs?.length ?? 0;
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
const wantedProfile = ({ loadProfile, replayOfMs, ratePerS, durationS }: LoadStage, own: shapes.Profile | null) => {
  if (replayOfMs !== undefined) return shapes.traceProfile(replayOfMs, { ratePerS, durationS });
  if (own === null) return null;
  const shape = loadProfile === undefined ? undefined : shapes.PROFILES[loadProfile];
  return shape === undefined
    ? own
    : shape(ratePerS ?? shapes.profilePeakPerS(own), durationS ?? shapes.profileDurationS(own));
};

const UNBOUNDED_PER_S = 5_000;
const CLOSED_LOOP_S = 15;

type Known = Pick<Deployment, "target" | "embedded" | "found">;

export const viewWith = ({ target, found }: Known, readings: TenantReadings = {}): TargetView => {
  return { ...viewOf(target, readings), capacity: found };
};

/** `null`: no rate is known, so the ramp of `story.needsCapacity` has to be played first. */
export const plannedFor = (plan: LoadStage, deployment: Known, view = viewWith(deployment)): PlannedLoad | null => {
  const { driver, ratePerS, durationS, profile: given, replayOfMs, reaches, disturbance } = plan;
  const { target, embedded } = deployment;
  const maxPerS = target.permits?.load_max_rps;
  const story = storyCalled(plan.story);
  const mostPerS = maxPerS === undefined ? undefined : SHARE_OF_PERMIT * maxPerS;
  const wish = { ratePerS, durationS, maxPerS: mostPerS };
  const reach = (): Reach => story.reaches(view, wish);
  if (driver === "autocannon") {
    // A closed loop has no schedule: its profile is the highest rate for so long.
    const perS = Math.min(ratePerS ?? UNBOUNDED_PER_S, maxPerS ?? UNBOUNDED_PER_S);
    return { profile: shapes.constant(perS, durationS ?? CLOSED_LOOP_S), arrivals: "uniform", reach: reach() };
  }
  if (given !== undefined) return { profile: given, arrivals: plan.arrivals ?? "uniform", reach: reach() };
  const wanted = wantedProfile(plan, story.profile(view, wish));
  if (wanted === null) return null;
  const share = (mostPerS ?? Number.POSITIVE_INFINITY) / shapes.profilePeakPerS(wanted);
  const profile = share < 1 ? shapes.scaleProfile(wanted, share) : wanted;
  const isNear = maxPerS !== undefined && shapes.profilePeakPerS(profile) > SHARE_FOR_POISSON * maxPerS;
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
  ...storyCalled(plan.story).missing(view),
  ...disturbanceMissing(plan.disturbance, can),
  ...capMissing(plan, can.target),
];

// Prepares a target file for a run: reads and checks it, masks its secrets, asks the safety guard. Sends nothing.

const GROUPS: ReadonlySet<string> = new Set([
  ...INVARIANTS.map(({ id }) => id),
  ...CLAIM_FAMILIES.map(({ pattern }) => groupOf(pattern)),
  ...["load", "chaos"],
]);

/** Every stage of any command, without the number of a part. */
const STAGES: ReadonlySet<string> = new Set([
  ...STORIES.keys(),
  ...EXPERIMENTS.keys(),
  ...["deployment-states", "verify", "after-load", "soak", "soak-mix", "soak-charged", "script", "explore"],
  ...["gate", "capacity", "run", "growth"],
]);
const RULE_IDS: ReadonlySet<string> = new Set([...RULES.map(({ id }) => id), "budget"]);
const MEASURES: ReadonlySet<string> = new Set(
  CLAIM_FAMILIES.flatMap(({ pattern }) => /^curve\/(.*)/.exec(pattern)?.[1] ?? []),
);
/** Groups in which a target file, a script or a comparison names what stands behind the slash. */
const NAMED_ELSEWHERE = ["slo", "growth", "refusals-in-budget", "thresholds", "schedules", "gate", "capacity", "run"];

const isIn = (names: ReadonlySet<string>, name: string): boolean =>
  names.has(name) || names.has(name.replace(/-\d+$/, ""));

/** The name that an impossible one in `required` most likely means, `""` if none is near; `null` if the name is possible. */
const meantBy = (name: string): string | null => {
  const [group = "", ...rest] = name.split("/");
  const part = rest.join("/");
  const isGroup = GROUPS.has(group);
  if (rest.length === 0) return isGroup || isIn(STAGES, group) ? null : (nearest(name, [...GROUPS, ...STAGES]) ?? "");
  const parts = group === "verify" ? RULE_IDS : group === "curve" ? MEASURES : STAGES;
  if (isGroup && (isIn(parts, part) || NAMED_ELSEWHERE.includes(group))) return null;
  const [meantGroup, meantPart] = [isGroup ? group : nearest(group, GROUPS), nearest(part, parts)];
  return meantGroup === null || meantPart === null ? "" : `${meantGroup}/${meantPart}`;
};

export const misspeltRequired = ({ required = [] }: Pick<Target, "required">): string[] =>
  required.flatMap((name) => {
    const meant = meantBy(name);
    const lists = "npx floodgate explain lists the claims, load and chaos --list the stages";
    const hint = meant === "" ? lists : `did you mean ${meant}?`;
    return meant === null ? [] : [`required: no claim is known as ${name}; ${hint}`];
  });

export class GuardError extends Error {
  override name = "GuardError";
  constructor(reasons: readonly string[]) {
    super(`refused by the safety guard:\n${reasons.map((reason) => `  ${reason}`).join("\n")}`);
  }
}

export type PreparedTarget = Awaited<ReturnType<typeof readTarget>>;

/** The intent that the guard judges, or a function that derives it from the target file. */
type IntentWish = Intent | ((target: Target) => Intent);

const inClear = ({ base_url, key_management_url, tile_url }: Target): string[] =>
  Object.entries({ base_url, key_management_url, tile_url }).flatMap(([field, url]) => {
    if (url === undefined) return [];
    const { scheme, host } = parseHttpUrl(url);
    return scheme === "https" || isLoopbackHost(host)
      ? []
      : [`${field} is plain http:// to ${host}: keys travel there in clear; write https:// if it can`];
  });

/** `owned`: hosts that the user named with `--i-own`. Throws `TargetFileError`, `ObjectiveError`. */
export const readTarget = async (file: string, owned: readonly string[], intent: IntentWish) => {
  const { target, folder, warnings } = await readTargetFile(file);
  checkObjectives(target);
  if (target.transport?.protocol === "h2" && target.base_url.startsWith("http:")) {
    const expected = 'expected "h1" for an http:// address; HTTP/2 is agreed upon over TLS only, and got "h2"';
    throw new TargetFileError(file, [`transport.protocol: ${expected}`]);
  }
  const misspelt = misspeltRequired(target);
  if (misspelt.length > 0) throw new TargetFileError(file, misspelt);
  return {
    file,
    target,
    warnings: [...warnings, ...inClear(target)],
    budget: guardBudget(statedBudget(target)),
    secrets: createSecrets(folder),
    refusals: await guardTarget(target, owned, typeof intent === "function" ? intent(target) : intent),
  };
};

/** Like `readTarget`, for a run that will send: throws `GuardError` if the guard refuses. */
export const prepareTarget = async (
  file: string,
  owned: readonly string[],
  intent: IntentWish,
  refusalsOf: NonNullable<PlanRequest["refusals"]> = () => [],
) => {
  const prepared = await readTarget(file, owned, intent);
  const refusals = [...refusalsOf(prepared.target), ...prepared.refusals];
  if (refusals.length > 0) throw new GuardError(refusals);
  return prepared;
};

export type DeploymentWish = { targetFile?: string; owned: readonly string[] };

export type PlanRequest = DeploymentWish &
  Partial<EmbeddedOptions> & {
    stages: StagesWish;
    /** Why the command would refuse this target, beside the guard's own reasons. */
    refusals?(target: Target): readonly string[];
  };

export type PlannedTarget = ReturnType<typeof plannedTarget>;

export const plannedTarget = ({ name, base_url, budget }: Target) => ({
  name: name ?? base_url,
  base_url,
  budget: { ...budget } as Record<string, number>,
});

export const planStages = async ({ targetFile, owned, limiter = "sqlite", stages: wish, refusals }: PlanRequest) => {
  const embedded = targetFile === undefined;
  const read = embedded ? null : await readTarget(targetFile, owned, intentOf(wish));
  const target = read?.target ?? plannedEmbedded();
  const stages = plansFor({ target, embedded, limiter }, wish);
  const sum = (field: "seconds" | "calls"): number => stages.reduce((all, stage) => all + stage[field], 0);
  const [most, sent] = [target.budget?.requests ?? Number.POSITIVE_INFINITY, sum("calls")];
  const ends = `budget.requests (${most}) may end the run before its last stage, since up to ${sent} calls are planned: raise it, or choose a shorter run`;
  const slowed = stages.flatMap(({ slowed_to: share }) => (share === undefined ? [] : [slowedReplayText(share)]));
  return {
    schema: "floodgate/plan@1",
    target: plannedTarget(target),
    stages,
    total: { seconds: sum("seconds"), calls: sent },
    refused_by_guard: read === null ? [] : [...read.refusals, ...(refusals?.(read.target) ?? [])],
    warnings: [...(read?.warnings ?? []), ...slowed, ...(sent > most && read?.refusals.length === 0 ? [ends] : [])],
  };
};

/** The most calls of a pass over all rules; the target file's budget may allow fewer. */
export const VERIFY_CALLS = 1_200;
/** Seconds that a plan adds for verify's bursts: they are not paced, so they last as long as their answers take. */
const BURSTS_S = 30;
const RATE_UNKNOWN_S = 20;
/** The rate that is assumed if a ramp has yet to find the stage's rate and the target file permits none. */
export const RATE_UNKNOWN_PER_S = 200;
const RAMP_S = 24;
/** The planned seconds of an experiment, which ends its load when it is over. */
const EXPERIMENT_S = 15;

type PlannedPlay = { seconds: number; calls: number; slowed_to?: number };
const NOTHING_PLAYED: PlannedPlay = { seconds: 0, calls: 0 };

const plannedRules = (plan: VerifyStage, target: Target): PlannedPlay => {
  if (plan.only === undefined) return { seconds: Math.ceil(VERIFY_CALLS / plan.ratePerS), calls: VERIFY_CALLS };
  const { would_send, takes_s_at_least } = planVerify(target, chosenRules(plan.only, plan.skip), plan);
  return { seconds: takes_s_at_least + BURSTS_S, calls: would_send.calls };
};

/** `target`: with the tenants of the stage. */
const plannedPlay = (plan: LoadStage, target: Target, embedded: boolean): PlannedPlay => {
  const { disturbance, replicas } = plan;
  const sized = embedded && replicas !== undefined ? { ...target, limits: { ...target.limits, replicas } } : target;
  const planned = plannedFor(plan, { target: sized, embedded, found: {} });
  // A ramp finds the rate first; until then only the permitted one is known.
  if (planned === null) {
    const seconds = (plan.durationS ?? RATE_UNKNOWN_S) + RAMP_S;
    return { seconds, calls: Math.ceil(seconds * (target.permits?.load_max_rps ?? RATE_UNKNOWN_PER_S)) };
  }
  const whole = shapes.profileDurationS(planned.profile);
  const isExperiment = disturbance !== undefined && disturbance.kind !== "fault-schedule";
  const calmS = disturbance?.kind === "faults" ? (disturbance.calmMs ?? 0) / 1000 : 0;
  const seconds = isExperiment ? Math.min(whole, EXPERIMENT_S + calmS) : whole;
  const due = (shapes.profileCalls(planned.profile) * seconds) / whole;
  // The calls include retries, further steps and sessions fetched beforehand.
  const calls = Math.ceil(storyCalled(plan.story).costs(viewOf(sized), due).requests);
  return { seconds: Math.ceil(seconds), calls, slowed_to: planned.slowedTo };
};

/** Each stage as far as it is known beforehand. `lacks`: why it would be skipped; empty when it would be played. */
const plansFor = (given: SuiteFor, wish: StagesWish) => {
  const { target, embedded, limiter } = given;
  const missing = embedded ? null : proxiesMissing(target);
  const links = embedded ? { limiter: "", keys: "", edge: "" } : (target.toxiproxy?.proxies ?? {});
  const [faults, faultsMissing] = missing === null ? [{ links }, ""] : [null, missing];
  const own = embedded ? { store: { kind: limiter ?? "sqlite" } } : undefined;
  return stagesFor(given, wish).map((plan) => {
    const about = { name: plan.name, driver: driverOf(plan) };
    if (plan.kind === "verify") return { ...about, ...plannedRules(plan, target), lacks: [] };
    const peopled = embedded ? plannedTenants(plan.tenants, target) : target;
    const lacks = stageMissing(plan, { target: peopled, faults, faultsMissing, own });
    return { ...about, ...(lacks.length > 0 ? NOTHING_PLAYED : plannedPlay(plan, peopled, embedded)), lacks };
  });
};

/** The intent that the safety guard judges; only stages that could be played count. */
export const intentOf =
  (wish: StagesWish) =>
  (target: Target): Intent => {
    const given = { target, embedded: false };
    const loads = stagesFor(given, wish).filter((plan) => plan.kind === "load");
    return {
      load: loads.length > 0,
      // An operator's changes are no faults.
      faults:
        target.permits?.chaos === true &&
        loads.some(({ disturbance: { kind } = {} }) => kind !== undefined && kind !== "operator-changes"),
      requests: plansFor(given, wish).reduce((sum, { calls }) => sum + calls, 0),
    };
  };
