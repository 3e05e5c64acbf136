/** The stages of scenarios and experiments, and the suites of `run`, on the embedded deployment and on a user's. */
import type { Faults, OperatorChanges } from "../../faults/disturbance.ts";
import { EXPERIMENTS, type Experiment } from "../../faults/experiments.ts";
import type { Fault } from "../../faults/fault.ts";
import { dependencyBudgetMs, type FaultState } from "../../history/run-document.ts";
import { REFUSAL_OF } from "../../invariants/evidence/fault-windows.ts";
import * as planning from "../../stages/stage-plan.ts";
import type { Target } from "../../target/target.ts";
import { RATE_PER_S } from "../../verify/sending/throttle.ts";
import { runtimeCallers } from "../../workload/callers/callers.ts";
import { evenly, inFlightCaps, sharesOf } from "../../workload/callers/rates.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { profilePeakPerS } from "../../workload/load-profiles.ts";
import { brokenDependency } from "../../workload/stories/beside-faults.ts";
import type { Story } from "../../workload/story.ts";

const HOLD_MS = 4_000;
/** The longest time for a stage with a fault, which ends earlier, when the deployment has recovered. */
const AT_MOST_S = 60;
/** The length of a cold start's ramp, which must be well under way when the replica comes back. */
const RAMP_S = 40;
/** Judges of a stage without expected refusals; judges of refusals would have nothing to judge there. */
const CALM = ["first-failing-check-decides", "counts-agree"];

const during = (name: string, fault: Fault, holdMs = HOLD_MS): Faults => ({
  ...{ kind: "faults", name, faults: [fault], holdMs },
});

type Row = Omit<planning.LoadStage, "kind" | "name" | "driver" | "story"> &
  Partial<Pick<planning.LoadStage, "driver" | "story">>;

const USUAL = [...planning.EVERYWHERE, ...planning.STREAMS];
const BOTH_WAYS = [...USUAL, "sheds-above-the-cap"];
const APART = "organizations-do-not-share";
const SHED = ["200", "429 b2b_overloaded"];

const FAIL_NEXT = { route: "chat.control", mode: "error_event", after_events: 3, count: 2 };
const STATES: OperatorChanges = {
  kind: "operator-changes",
  changes: [
    { patch: { sessions: "disabled" }, holdMs: 1_500 },
    { patch: { sessions: "not_configured" }, holdMs: 1_500 },
    { patch: { sessions: "enabled", fail_next: FAIL_NEXT }, holdMs: 1_500 },
    { patch: { sessions: "enabled" }, holdMs: 0 },
  ],
};

// Faults of `service` act on the embedded deployment directly, on another one by commands of its target file.
// biome-ignore format: a row or two for each stage
const ROWS: Readonly<Record<string, Row>> = {
  smoke: { ratePerS: 40, reaches: ["200", "401", "403 origin_required", "403 session_origin_mismatch", "422 malformed_body"],
    judges: [...USUAL, ...planning.METERS, "admission-is-stored-and-tier", "session-lifetime-is-bounded", APART, "events-are-not-buffered", "stream-vocabularies-differ", "admits-what-is-allowed"] },
  "deployment-states": { story: "smoke", ratePerS: 50, durationS: 30, disturbance: STATES,
    judges: [...USUAL, "refused-is-not-charged"], reaches: ["200", "403 sessions_disabled", "403 sessions_not_configured", "200 error"] },
  "rate-limit-edge": { judges: [...planning.EVERYWHERE, "rate-within-any-window"], reaches: ["200", "429 rate_limited"] },
  "chat-past-capacity": { driver: "k6", judges: [...BOTH_WAYS, "events-are-not-buffered", "refusals-are-cheap"], reaches: SHED },
  "tile-quota-stampede": { driver: "k6", judges: [...USUAL, ...planning.METERS, "admits-what-is-allowed", APART, "session-lifetime-is-bounded"],
    reaches: ["200", "429 org_overloaded", "429 map_load_quota_exceeded", "429 map_load_hard_stop"] },
  "noisy-neighbour": { driver: "k6", isolation: "beside", judges: [...USUAL, APART], reaches: ["200", "429 org_overloaded"] },
  /** The same calls as `noisy-neighbour`, without those of the noisy organization. */
  "noisy-neighbour-alone": { isolation: "alone", leavesOut: true, judges: CALM, reaches: ["200"] },
  "shedding-curve": { durationS: 240, arrivals: "poisson", curve: true, judges: [...BOTH_WAYS, "refusals-are-cheap"], reaches: SHED },
  "retry-storm": { durationS: 28, arrivals: "poisson", step: "load", judges: BOTH_WAYS, reaches: SHED },
  "steady-mix": { judges: [...USUAL, APART, "refused-is-not-charged", "charged-once"], reaches: ["200"], objectives: true },
  "spike-and-recover": { judges: USUAL, reaches: ["200"] },
  "soak-mix": { story: "steady-mix", judges: USUAL, reaches: ["200"] },
  /** Reads and map loads, whose charges are compared call by call. */
  "soak-charged": { story: "broken-dependency", judges: [...planning.EVERYWHERE, ...planning.METERS], reaches: ["200"] },
  "soak-leaving": { story: "leaving-readers", judges: USUAL, reaches: ["200"], objectives: true, growth: true },
  /** The service takes five times as long at a constant rate: nothing breaks, and calls beyond the cap are shed. */
  brownout: { durationS: AT_MOST_S, judges: USUAL, reaches: SHED,
    disturbance: during("brownout", { by: "operator", component: "service", fault: "slowed" }) },
  /** Half of the slots are taken away, and given back, under a load that all slots together carry. */
  "capacity-halved": { durationS: AT_MOST_S, step: "capacity", judges: USUAL, reaches: SHED,
    disturbance: { ...during("capacity-halved", { by: "operator", component: "service", fault: "halved" }, 10_000), calmMs: 8_000 } },
  /** The second of two replicas is killed: only the calls in flight there are lost. */
  "replica-lost": { replicas: 2, durationS: AT_MOST_S, judges: [...CALM, "recovers", "slots-are-given-back"], reaches: ["200"],
    disturbance: during("replica-lost", { by: "process", component: "api", fault: "killed", replica: 1 }) },
  /** Two replicas are replaced in order: no stream is cut. */
  "rolling-deploy": { replicas: 2, durationS: AT_MOST_S, judges: [...CALM, ...planning.STREAMS], reaches: ["200"],
    disturbance: during("rolling-deploy", { by: "operator", component: "service", fault: "rolling-deploy" }, 0) },
  /** The only replica comes back with nothing in its caches while the load grows. */
  "cold-start-under-load": { durationS: RAMP_S, judges: [...CALM, "recovers", "slots-are-given-back"], reaches: ["200"],
    disturbance: during("cold-start-under-load", { by: "process", component: "api", fault: "restarted" }, 500) },
};

export const stageOf = (name: string, more: Partial<planning.LoadStage> = {}): planning.LoadStage => {
  const row = ROWS[name];
  if (row === undefined) throw new Error(`there is no stage "${name}"`);
  return { kind: "load", name, driver: "open-loop", story: name, ...row, ...more };
};

/** Judges of scenarios played alone that have no row above, or a row that fits only within a suite. */
const JUDGES_ALONE: Readonly<Record<string, readonly string[]>> = {
  smoke: [...planning.STREAMS, ...planning.METERS, "session-lifetime-is-bounded"],
  "catalog-reads": [],
  "session-storm": ["session-lifetime-is-bounded"],
};

const DEFAULT_S = 15;
/** The scenario that ends when its allowances are used up. */
const OWN_LENGTH = "tile-quota-stampede";

type UserOptions = "driver" | "ratePerS" | "durationS" | "arrivals" | "loadProfile" | "replayOfMs" | "replayed";

export type ScenarioWish = Partial<Pick<planning.LoadStage, UserOptions | "segments" | "fold" | "precise">>;

export const SCENARIOS: readonly Story[] = [...STORIES.values()];

/** The stage of a scenario, `null` if there is none. Its story decides which outcomes it must reach. */
export const scenarioStage = (name: string, wish: ScenarioWish): planning.LoadStage | null => {
  if (!STORIES.has(name)) return null;
  const judges = [...planning.EVERYWHERE, ...(JUDGES_ALONE[name] ?? planning.STREAMS)];
  const alone: planning.LoadStage = { kind: "load", name, story: name, driver: "open-loop", judges, objectives: true };
  const isAlone = ROWS[name] === undefined || JUDGES_ALONE[name] !== undefined;
  const { reaches: _, ...stage } = isAlone ? alone : stageOf(name);
  // Another load profile has no rise and fall, so neither curve nor step is judged.
  const isShaped = wish.loadProfile !== undefined || wish.replayOfMs !== undefined;
  const unjudged = isShaped ? { curve: undefined, step: undefined } : {};
  const durationS = isAlone || name === OWN_LENGTH ? undefined : DEFAULT_S;
  // A log is replayed to its end, except beside a fault, where the stage ends when the deployment has recovered.
  const isWholeLog = wish.replayOfMs !== undefined && stage.disturbance === undefined;
  const length = isWholeLog ? { durationS: undefined } : {};
  const driverNamed = wish.driver === undefined ? undefined : true;
  return { durationS, ...stage, ...length, ...unjudged, ...wish, driverNamed };
};

/**
 * The claims that have to be judged where a scenario is played alone: it has to exceed what it is made to exceed, and a curve
 * has to show twice the knee. Without them a run decides nothing.
 */
export const subjectsOf = ({ name, curve }: planning.LoadStage): string[] => [
  `reached/${name}`,
  ...(curve === true ? ["curve/goodput_retention"] : []),
];

/** The stage and, if it has one, the stage to compare it to: the same calls without the noisy ones. */
export const withItsPair = (stage: planning.LoadStage): planning.LoadStage[] => {
  if (stage.isolation !== "beside" || stage.loadProfile !== undefined) return [stage];
  const { driver, driverNamed, ratePerS, durationS, arrivals, segments, replayOfMs, replayed } = stage;
  const same = { driver, driverNamed, ratePerS, durationS, arrivals, segments, replayOfMs, replayed };
  return [stage, stageOf("noisy-neighbour-alone", same)];
};

/** Calls per second, below cap / budget: while a dependency is silent each call holds its slot for the budget. */
const RATE_EMBEDDED_PER_S = { limiter: 40, keys: 12, api: 40, edge: 30 } as const;
/** Calls per second of three keys: some calls share a lookup, and too few wait to fill the cap. */
const RATE_FEW_KEYS_PER_S = 36;
const RATE_PAST_CAP_PER_S = { limiter: 160, keys: 60, api: 160, edge: 160 } as const;
const BUDGET_MS = 1_000;
const SHARE_OF_CAP = 0.5;
const TIMES_CAP = 1.7;
const EXPERIMENT_HOLD_MS = 3_000;

/** States that load causes on any deployment; others need one that charges and shows charges as ours does. */
const SEEN_ANYWHERE: readonly FaultState[] = ["cold-keys", "shedding"];

/** Calls per second on a user's deployment while `link` is broken; `undefined`: the story's own rate fits. */
const rateElsewhere = (link: string, isPast: boolean, target: Target): number | undefined => {
  const view = viewOf(target);
  const budgetMs = dependencyBudgetMs(link, target.limits ?? {}) ?? BUDGET_MS;
  const { org } = sharesOf(evenly(runtimeCallers(view)));
  const caps = inFlightCaps(view);
  if (isPast && caps.all !== undefined) return (TIMES_CAP * caps.all * 1000) / budgetMs;
  const atOnce = Math.min(caps.all ?? Number.POSITIVE_INFINITY, (caps.org ?? Number.POSITIVE_INFINITY) / (org || 1));
  const most = (SHARE_OF_CAP * atOnce * 1000) / budgetMs;
  const own = brokenDependency.profile(view, {});
  return own === null || profilePeakPerS(own) <= most ? undefined : most;
};

export const experimentStage = ({ target, embedded }: planning.SuiteFor, entry: Experiment): planning.LoadStage => {
  const { name, faults, healsInOrder, load, refuses, requiredStates = [], pastTheCap } = entry;
  const broken = faults.flatMap(({ component }) => (component === "service" ? [] : [component]));
  /** The broken component that decides how long a call waits. */
  const link = broken.includes("keys") ? "keys" : (broken[0] ?? "limiter");
  const dependency = link === "limiter" || link === "keys" ? link : undefined;
  /** Whether callers' own connections break, not those behind the API; streams must be open on them. */
  const breaksConnections = broken.includes("edge") || broken.includes("api");
  const hasStreams = breaksConnections || load === "streams";
  const rates = pastTheCap === true ? RATE_PAST_CAP_PER_S : RATE_EMBEDDED_PER_S;
  // A process that is gone refuses connections at once, so no call waits and holds a slot.
  const rateHere =
    load === "few-keys" ? RATE_FEW_KEYS_PER_S : load === "streams" ? RATE_EMBEDDED_PER_S.api : rates[link];
  // Callers need not notice a fault within the budget, nor, on a user's deployment, one that a second try hides.
  const isRefused = refuses === "all" || (refuses === "some" && embedded);
  return {
    ...{ kind: "load", name, driver: "open-loop", durationS: 60, pastTheCap },
    story: load === "last-units" ? load : hasStreams ? "broken-edge" : "broken-dependency",
    ratePerS: embedded ? rateHere : rateElsewhere(link, pastTheCap === true, target),
    judges: [
      ...["recovers", "first-failing-check-decides", "counts-agree", "charged-once", "slots-are-given-back"],
      ...["nothing-is-left-open", APART],
      // Without an API no call can be refused for want of a dependency.
      ...(broken.length > 0 && !breaksConnections
        ? ["fails-closed", "refuses-in-time", "sheds-only-over-the-cap"]
        : []),
      ...(hasStreams ? ["streams-end-once", "streams-cut"] : []),
      ...(load === "last-units" ? ["admits-at-most-the-allowance", "admits-what-is-allowed"] : []),
      // These judge refusals, so they need an experiment that causes some.
      ...(refuses === "none" ? [] : ["envelope-fits-subcode", "refused-is-not-charged"]),
    ],
    tenants: load === "few-keys" ? "few" : load === "last-units" ? load : undefined,
    requiredStates: embedded ? requiredStates : requiredStates.filter((state) => SEEN_ANYWHERE.includes(state)),
    disturbance: { kind: "faults", name, faults, holdMs: EXPERIMENT_HOLD_MS, healsInOrder },
    reaches: [
      isRefused && dependency !== undefined ? REFUSAL_OF[dependency] : "200",
      ...(pastTheCap === true ? ["429 b2b_overloaded"] : []),
    ],
  };
};

/** Calls per second of the rules on the embedded deployment, whose keys permit this rate. */
const RULES_PER_S = 50;
/** Phases of rules that the embedded deployment skips, because its stages cover them with more calls. */
const COVERED_BY_STAGES = ["quota-burn", "load"];
/**
 * Rules tried again after the load on a user's deployment, because a rare leak of slots shows only after thousands of
 * calls. The first finds that some slots are gone, the second that all are, the third the same where not even a session is minted.
 */
const AFTER_LOAD = ["overload-keeps-the-caps", "slots-come-back", "shedding-ends"];

/** Experiments of `run smoke` and `chaos --short`: the dependency is gone, or acts but its reply is lost. */
export const SHORT_EXPERIMENTS = ["limiter-refused", "limiter-reply-lost", "keys-refused", "keys-reply-lost"];

/** Added to the time that the faults take, for a slow host. */
export const SPARE_S = 30;
const SOAK_PARTS = 6;
const MIX_S = 200;
const CHARGED_S = 60;
const LEAVING_S = 20;

const rulesOf = ({ target: { permits = {} }, embedded }: planning.SuiteFor): planning.VerifyStage => {
  const { load_max_rps: bound = Number.POSITIVE_INFINITY } = permits;
  return {
    kind: "verify",
    name: "verify",
    skip: embedded ? COVERED_BY_STAGES : [],
    ratePerS: Math.max(1, Math.min(embedded ? RULES_PER_S : RATE_PER_S, 0.9 * bound)),
    allowWrites: permits.writes === true,
    allowQuotaBurn: permits.quota_burn === true,
    allowLoad: permits.load_max_rps !== undefined,
  };
};

const rulesAfterLoad = (given: planning.SuiteFor): planning.VerifyStage[] =>
  given.embedded ? [] : [{ ...rulesOf(given), name: "after-load", only: AFTER_LOAD, skip: [] }];

/**
 * What follows a scenario that is played alone. Whether readers that left gave their slots back is seen in the gauges of the
 * embedded deployment, and on another one by calls afterwards.
 */
export const afterScenario = ({ story }: planning.LoadStage, given: planning.SuiteFor): planning.VerifyStage[] =>
  story === "leaving-readers" ? rulesAfterLoad(given).filter(({ allowLoad }) => allowLoad) : [];

const suitesFor = (given: planning.SuiteFor) => {
  const { target, embedded, limiter = "sqlite" } = given;
  const { permits = {}, toxiproxy } = target;
  const verify = rulesOf(given);
  const afterLoad = rulesAfterLoad(given);
  const experiments = (isPlayed: (experiment: Experiment) => boolean): planning.LoadStage[] =>
    [...EXPERIMENTS.values()].filter(isPlayed).map((one) => experimentStage({ target, embedded, limiter }, one));
  const links = (["limiter", "keys"] as const).filter(
    (link) => embedded || (permits.chaos === true && toxiproxy?.proxies?.[link] !== undefined),
  );
  /** Adds random faults if the deployment has proxies. `drawn` selects which faults the seed draws. */
  const underFaults = (plan: planning.LoadStage, seconds: number, drawn: number): planning.LoadStage =>
    links.length === 0
      ? { ...plan, durationS: seconds, growth: true }
      : {
          ...{ ...plan, durationS: seconds + SPARE_S, growth: true },
          judges: [...plan.judges, "fails-closed", "recovers"],
          disturbance: { kind: "fault-schedule", events: { drawn, forMs: seconds * 1_000, links } },
        };
  return {
    smoke: (): planning.StagePlan[] => [
      verify,
      stageOf("smoke"),
      stageOf("deployment-states"),
      stageOf("rate-limit-edge", { durationS: 4 }),
      stageOf("chat-past-capacity", { durationS: 10 }),
      stageOf("tile-quota-stampede"),
      ...experiments(({ name }) => SHORT_EXPERIMENTS.includes(name)),
      ...afterLoad,
    ],
    nightly: (): planning.StagePlan[] => [
      verify,
      stageOf("steady-mix", { durationS: 120 }),
      underFaults(stageOf("soak-mix", { name: "soak" }), 300, 0),
      stageOf("rate-limit-edge", { durationS: 30 }),
      stageOf("chat-past-capacity", { durationS: 60 }),
      stageOf("shedding-curve"),
      stageOf("retry-storm", { durationS: 140 }),
      stageOf("noisy-neighbour", { durationS: 60 }),
      stageOf("noisy-neighbour-alone", { durationS: 20 }),
      stageOf("spike-and-recover", { durationS: 60 }),
      stageOf("tile-quota-stampede"),
      // k6 plays some of the stages with a fault, because a disturbance must work beside any driver.
      stageOf("brownout", { driver: "k6" }),
      stageOf("capacity-halved"),
      stageOf("replica-lost"),
      stageOf("rolling-deploy", { driver: "k6" }),
      stageOf("cold-start-under-load"),
      // Only the embedded deployment's store is known; on others, what cannot be played is skipped by name.
      ...experiments(({ store = limiter }) => !embedded || store === limiter),
      ...afterLoad,
    ],
    /** The soak has parts, so that each is judged, and its data released, before the next one. */
    soak: (): planning.StagePlan[] => [
      ...Array.from({ length: SOAK_PARTS }, (_, at) => [
        underFaults(stageOf("soak-mix", { name: `soak-mix-${at + 1}` }), MIX_S, 2 * at),
        underFaults(stageOf("soak-charged", { name: `soak-charged-${at + 1}` }), CHARGED_S, 2 * at + 1),
        stageOf("soak-leaving", { name: `leaving-readers-${at + 1}`, durationS: LEAVING_S }),
      ]).flat(),
      ...afterLoad,
    ],
  };
};

type Name = keyof ReturnType<typeof suitesFor>;

const PURPOSES: Readonly<Record<Name, string>> = {
  smoke: "every rule and refusal once, both overloads, each link broken in two ways: two minutes",
  nightly: "all rules, an ordinary day, every overload, the shedding curve, everything broken once: about half an hour",
  soak: "half an hour of mixed load and random faults: does anything grow?",
};

export const SUITES = new Map(
  Object.entries(PURPOSES).map(([name, purpose]) => {
    const stages = (given: planning.SuiteFor): planning.StagePlan[] => suitesFor(given)[name as Name]();
    return [name, { name, purpose, stages }] as const;
  }),
);
