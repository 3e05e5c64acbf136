/** The suites of `run`: their stages on the embedded deployment and on a user's. */
import { EXPERIMENTS, type Experiment } from "../../faults/experiments.ts";
import type { LoadStage, StagePlan, SuiteFor, VerifyStage } from "../../stages/stage-plan.ts";
import { RATE_PER_S } from "../../verify/sending/throttle.ts";
import { experimentStage, stageOf } from "./load-stages.ts";

/** Calls per second of the rules on the embedded deployment, whose keys permit this rate. */
const RATE_EMBEDDED_PER_S = 50;
/** Phases of rules that the embedded deployment skips, because its stages cover them with more calls. */
const COVERED_BY_STAGES = ["quota-burn", "load"];
/**
 * Rules tried again after the load on a user's deployment, since a slot that is rarely not given back shows only after
 * thousands of calls. The first finds that some slots are gone, the second that all are.
 */
const AFTER_LOAD = ["overload-keeps-the-caps", "slots-come-back"];

/** Experiments of `run smoke` and `chaos --short`: the dependency is gone, or acts but its reply is lost. */
export const SHORT_EXPERIMENTS = ["limiter-refused", "limiter-reply-lost", "keys-refused", "keys-reply-lost"];

/** Added to the time that the faults take, for a slow host. */
const SPARE_S = 30;
const SOAK_PARTS = 6;
const MIX_S = 200;
const CHARGED_S = 60;
const LEAVING_S = 20;

const suitesFor = ({ target, embedded, limiter = "sqlite" }: SuiteFor) => {
  const { permits = {}, toxiproxy } = target;
  const { load_max_rps: bound = Number.POSITIVE_INFINITY } = permits;
  const verify: VerifyStage = {
    kind: "verify",
    name: "verify",
    skip: embedded ? COVERED_BY_STAGES : [],
    ratePerS: Math.max(1, Math.min(embedded ? RATE_EMBEDDED_PER_S : RATE_PER_S, 0.9 * bound)),
    allowWrites: permits.writes === true,
    allowQuotaBurn: permits.quota_burn === true,
    allowLoad: permits.load_max_rps !== undefined,
  };
  const afterLoad: VerifyStage[] = embedded ? [] : [{ ...verify, name: "after-load", only: AFTER_LOAD, skip: [] }];
  const experiments = (isPlayed: (experiment: Experiment) => boolean): LoadStage[] =>
    [...EXPERIMENTS.values()].filter(isPlayed).map((one) => experimentStage({ target, embedded, limiter }, one));
  const links = (["limiter", "keys"] as const).filter(
    (link) => embedded || (permits.chaos === true && toxiproxy?.proxies?.[link] !== undefined),
  );
  /** Adds random faults if the deployment has proxies. `drawn` selects which faults the seed draws. */
  const underFaults = (plan: LoadStage, seconds: number, drawn: number): LoadStage =>
    links.length === 0
      ? { ...plan, durationS: seconds, growth: true }
      : {
          ...{ ...plan, durationS: seconds + SPARE_S, growth: true },
          judges: [...plan.judges, "fails-closed", "recovers"],
          disturbance: { kind: "fault-schedule", events: { drawn, forMs: seconds * 1_000, links } },
        };
  return {
    smoke: (): StagePlan[] => [
      verify,
      stageOf("smoke"),
      stageOf("deployment-states"),
      stageOf("rate-limit-edge", { durationS: 4 }),
      stageOf("chat-past-capacity", { durationS: 10 }),
      stageOf("tile-quota-stampede"),
      ...experiments(({ name }) => SHORT_EXPERIMENTS.includes(name)),
      ...afterLoad,
    ],
    nightly: (): StagePlan[] => [
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
    soak: (): StagePlan[] => [
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
  smoke: "every rule and refusal once, both overloads, each link broken in two ways: three minutes",
  nightly: "all rules, an ordinary day, every overload, the shedding curve, everything broken once: about half an hour",
  soak: "half an hour of mixed load and random faults: does anything grow?",
};

type Suite = { name: string; purpose: string; stages(given: SuiteFor): StagePlan[] };

export const SUITES: ReadonlyMap<string, Suite> = new Map(
  (Object.keys(PURPOSES) as Name[]).map((name) => {
    const stages = (given: SuiteFor): StagePlan[] => suitesFor(given)[name]();
    return [name, { name, purpose: PURPOSES[name], stages }];
  }),
);
