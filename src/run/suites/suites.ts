/** The suites that `run` knows: which stages, on the embedded deployment or on anybody's. */
import { EXPERIMENTS, type Experiment } from "../../faults/experiments.ts";
import {
  EVERYWHERE,
  type LoadStage,
  METERS,
  STREAMS,
  type StagePlan,
  type SuiteFor,
  type VerifyStage,
} from "../../stages/stage-plan.ts";
import { RATE_PER_S } from "../../verify/sending/throttle.ts";
import { experimentStage, stageOf } from "./load-stages.ts";

type Suite = {
  readonly name: string;
  readonly purpose: string;
  stages(given: SuiteFor): StagePlan[];
};

/** Calls per second of the rules on the embedded deployment, whose keys bear it. */
const RATE_EMBEDDED_PER_S = 50;
/** Phases that the embedded deployment's stages cover with more calls than a rule would make; elsewhere the rules see more. */
const COVERED_BY_STAGES = ["quota-burn", "load"];

const verifyStage = ({ target, embedded }: SuiteFor): VerifyStage => {
  const { permits = {} } = target;
  const bound = permits.load_max_rps ?? Number.POSITIVE_INFINITY;
  return {
    kind: "verify",
    name: "verify",
    skip: embedded ? COVERED_BY_STAGES : [],
    ratePerS: Math.max(1, Math.min(embedded ? RATE_EMBEDDED_PER_S : RATE_PER_S, 0.9 * bound)),
    allowWrites: permits.writes === true,
    allowQuotaBurn: permits.quota_burn === true,
    allowLoad: permits.load_max_rps !== undefined,
  };
};

/**
 * A slot that is now and then not given back is missed only after thousands of calls, so where no gauges show it these rules are
 * tried again on a deployment that has carried the load. The first sees that some are gone, the second that all are.
 */
const AFTER_LOAD = ["overload-keeps-the-caps", "slots-come-back"];

export const afterLoad = (given: SuiteFor): VerifyStage[] =>
  given.embedded ? [] : [{ ...verifyStage(given), name: "after-load", only: AFTER_LOAD, skip: [] }];

/** In the main job, and with `--short`: the dependency is gone, or silent after it has done what it was asked. */
export const SHORT_EXPERIMENTS = ["limiter-refused", "limiter-reply-lost", "keys-refused", "keys-reply-lost"];

const experimentStages = (given: SuiteFor, isPlayed: (experiment: Experiment) => boolean): LoadStage[] =>
  [...EXPERIMENTS.values()].filter(isPlayed).map((experiment) => experimentStage(given, experiment));

export const smoke: Suite = {
  name: "smoke",
  purpose: "every rule and refusal once, both overloads, each link broken in two ways: three minutes",
  stages: (given) => [
    verifyStage(given),
    stageOf("smoke"),
    stageOf("deployment-states"),
    stageOf("rate-limit-edge", { durationS: 4 }),
    stageOf("chat-past-capacity", { durationS: 10 }),
    stageOf("tile-quota-stampede"),
    ...experimentStages(given, ({ name }) => SHORT_EXPERIMENTS.includes(name)),
    ...afterLoad(given),
  ],
};

/** Beyond what the faults take, for a host that is slow. */
const SPARE_S = 30;
const LINKS = ["limiter", "keys"] as const;

/** A load for so long, with random faults now and then where the deployment has proxies. `number`: which faults are drawn. */
const underFaults = (given: SuiteFor, plan: LoadStage, seconds: number, number: number): LoadStage => {
  const { target, embedded } = given;
  const isProxied = (link: (typeof LINKS)[number]): boolean => target.toxiproxy?.proxies?.[link] !== undefined;
  const links = LINKS.filter((link) => embedded || (target.permits?.chaos === true && isProxied(link)));
  if (links.length === 0) return { ...plan, durationS: seconds, growth: true };
  return {
    ...plan,
    durationS: seconds + SPARE_S,
    growth: true,
    judges: [...plan.judges, "fails-closed", "recovers"],
    disturbance: { kind: "fault-schedule", events: { drawn: number, forMs: seconds * 1_000, links } },
  };
};

const mixed = (name: string, story = "steady-mix", judges = [...EVERYWHERE, ...STREAMS]): LoadStage => {
  return { kind: "load", driver: "open-loop", name, story, judges, reaches: ["200"] };
};

const nightly: Suite = {
  name: "nightly",
  purpose: "all rules, an ordinary day, every overload, the shedding curve, everything broken once: about half an hour",
  stages: (given) => [
    verifyStage(given),
    stageOf("steady-mix", { durationS: 120 }),
    underFaults(given, mixed("soak"), 300, 0),
    stageOf("rate-limit-edge", { durationS: 30 }),
    stageOf("chat-past-capacity", { durationS: 60 }),
    stageOf("shedding-curve"),
    stageOf("retry-storm", { durationS: 140 }),
    stageOf("noisy-neighbour", { durationS: 60 }),
    stageOf("noisy-neighbour-alone", { durationS: 20 }),
    stageOf("spike-and-recover", { durationS: 60 }),
    stageOf("tile-quota-stampede"),
    // Half of those with a fault by k6: a disturbance is beside any driver.
    stageOf("brownout", { driver: "k6" }),
    stageOf("capacity-halved"),
    stageOf("replica-lost"),
    stageOf("rolling-deploy", { driver: "k6" }),
    stageOf("cold-start-under-load"),
    // The embedded deployment has one store; of anybody else's it is not known, and what cannot be played is skipped by name.
    ...experimentStages(
      given,
      ({ store }) => !given.embedded || store === undefined || store === (given.limiter ?? "sqlite"),
    ),
    ...afterLoad(given),
  ],
};

const SOAK_PARTS = 6;
const MIX_S = 200;
const CHARGED_S = 60;
const LEAVING_S = 20;

/** In parts, so that each is judged and let go while the next one runs. */
const soakPart = (given: SuiteFor, part: number): StagePlan[] => {
  // Reads and map loads: what was charged is compared call by call.
  const charged = mixed(`soak-charged-${part}`, "broken-dependency", [...EVERYWHERE, ...METERS]);
  const leaving = mixed(`leaving-readers-${part}`, "leaving-readers");
  return [
    underFaults(given, mixed(`soak-mix-${part}`), MIX_S, 2 * part - 2),
    underFaults(given, charged, CHARGED_S, 2 * part - 1),
    { ...leaving, durationS: LEAVING_S, objectives: true, growth: true },
  ];
};

const soak: Suite = {
  name: "soak",
  purpose: "half an hour of mixed load and random faults: does anything grow?",
  stages: (given) => [
    ...Array.from({ length: SOAK_PARTS }, (_, at) => soakPart(given, at + 1)).flat(),
    ...afterLoad(given),
  ],
};

export const SUITES: ReadonlyMap<string, Suite> = new Map([smoke, nightly, soak].map((suite) => [suite.name, suite]));
