/** Stages that several suites have, each as a function of what differs. */
import { EXPERIMENTS } from "../../chaos/experiments/catalogue.ts";
import { type LinkExperiment, REFUSAL_OF } from "../../chaos/experiments/link-experiment.ts";
import { RATE_PER_S } from "../../verify/sending/throttle.ts";
import { runtimeCallers } from "../../workload/callers/callers.ts";
import { inFlightCaps, sharesOf } from "../../workload/callers/rates.ts";
import { evenly } from "../../workload/callers/tenants.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { profilePeakPerS } from "../../workload/load-profiles.ts";
import { brokenDependency } from "../../workload/stories/broken-dependency.ts";
import type { LoadStage, VerifyStage } from "../stages/stage-plan.ts";
import { EVERYWHERE, METERS, STREAMS } from "./judges.ts";
import { loadStage, type SuiteFor } from "./suite.ts";

/** Ours, whose keys bear it. */
const RATE_EMBEDDED_PER_S = 50;

/**
 * Phases that the stages about load and quotas cover on the embedded deployment, with more calls than a rule would make. On
 * a target whose books nobody shows, and which others call too, the rules see what the stages cannot.
 */
const COVERED_BY_STAGES = ["quota-burn", "load"];

export const verifyStage = ({ target, embedded }: SuiteFor): VerifyStage => {
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
 * A slot that is now and then not given back is missed only after thousands of calls. Where gauges show what is held, the
 * stages see it; elsewhere rules that passed on a fresh deployment are tried again on one that has carried the load. The
 * first sees that some are gone, the second that all are.
 */
const AFTER_LOAD = ["overload-keeps-the-caps", "slots-come-back"];

export const afterLoad = (given: SuiteFor): VerifyStage[] =>
  given.embedded ? [] : [{ ...verifyStage(given), name: "after-load", only: AFTER_LOAD, skip: [] }];

export const rateLimitEdge = (durationS: number): LoadStage =>
  loadStage({
    name: "rate-limit-edge",
    durationS,
    judges: [...EVERYWHERE, "rate-within-any-window"],
    reaches: ["200", "429 rate_limited"],
  });

export const chatPastCapacity = (durationS: number): LoadStage =>
  loadStage({
    name: "chat-past-capacity",
    driver: "k6",
    durationS,
    judges: [
      ...EVERYWHERE,
      ...STREAMS,
      "events-are-not-buffered",
      "sheds-only-over-the-cap",
      "sheds-above-the-cap",
      "refusals-are-cheap",
    ],
    reaches: ["200", "429 b2b_overloaded"],
  });

export const tileQuotaStampede = (): LoadStage =>
  loadStage({
    name: "tile-quota-stampede",
    driver: "k6",
    judges: [
      ...EVERYWHERE,
      ...METERS,
      ...STREAMS,
      "admits-what-is-allowed",
      "organizations-do-not-share",
      "sheds-only-over-the-cap",
      "session-lifetime-is-bounded",
    ],
    reaches: ["200", "429 org_overloaded", "429 map_load_quota_exceeded", "429 map_load_hard_stop"],
  });

export const noisyNeighbour = (durationS: number): LoadStage =>
  loadStage({
    name: "noisy-neighbour",
    driver: "k6",
    durationS,
    judges: [...EVERYWHERE, ...STREAMS, "organizations-do-not-share", "sheds-only-over-the-cap"],
    reaches: ["200", "429 org_overloaded"],
  });

export const steadyMix = (durationS: number): LoadStage =>
  loadStage({
    name: "steady-mix",
    durationS,
    judges: [...EVERYWHERE, ...STREAMS, "organizations-do-not-share", "refused-is-not-charged", "charged-once"],
    reaches: ["200"],
    objectives: true,
  });

export const spikeAndRecover = (durationS: number): LoadStage =>
  loadStage({
    name: "spike-and-recover",
    durationS,
    judges: [...EVERYWHERE, ...STREAMS, "sheds-only-over-the-cap"],
    reaches: ["200"],
  });

/** Of the embedded deployment, below cap / budget: while a dependency is silent each call holds its slot for the budget. */
const RATE_BROKEN_EMBEDDED_PER_S = { limiter: 40, keys: 12 } as const;
const BUDGET_MS = 1_000;
const SHARE_OF_CAP = 0.5;

/** Calls per second; `undefined`: what the story gives fits. */
const rateBeside = (link: LinkExperiment["link"], { target, embedded }: SuiteFor): number | undefined => {
  if (embedded) return RATE_BROKEN_EMBEDDED_PER_S[link];
  const view = viewOf(target);
  const { limits = {} } = target;
  const budgetMs = (link === "limiter" ? limits.limiter_budget_ms : limits.key_service_budget_ms) ?? BUDGET_MS;
  const { org } = sharesOf(evenly(runtimeCallers(view)));
  const caps = inFlightCaps(view);
  const atOnce = Math.min(caps.all ?? Number.POSITIVE_INFINITY, (caps.org ?? Number.POSITIVE_INFINITY) / (org || 1));
  const most = (SHARE_OF_CAP * atOnce * 1000) / budgetMs;
  const own = brokenDependency.profile(view, {});
  return own === null || profilePeakPerS(own) <= most ? undefined : most;
};

/** A fault within the budget is one that callers need not see; elsewhere than here, so is one that a second try hides. */
const reachesOf = ({ link, refuses }: LinkExperiment, embedded: boolean): string[] =>
  refuses === "all" || (refuses === "some" && embedded) ? [REFUSAL_OF[link]] : ["200"];

/** A link that is broken and mended under load. */
export const brokenLink = (given: SuiteFor, experiment: LinkExperiment, holdMs = 3_000): LoadStage => {
  const { name, link, fault } = experiment;
  const ratePerS = rateBeside(link, given);
  return {
    kind: "load",
    name,
    driver: "open-loop",
    story: "broken-dependency",
    durationS: 60,
    ...(ratePerS === undefined ? {} : { ratePerS }),
    judges: [
      "fails-closed",
      "recovers",
      "first-failing-check-decides",
      "counts-agree",
      "charged-once",
      "slots-are-given-back",
      "organizations-do-not-share",
      // They judge refusals, and where none is due there is nothing to see.
      ...(experiment.refuses === "none" ? [] : ["envelope-fits-subcode", "refused-is-not-charged"]),
    ],
    disturbance: {
      kind: "link-fault",
      name,
      link,
      fault,
      holdMs,
      ...(EXPERIMENTS.has(name) ? {} : { onlyByCommand: true as const }),
    },
    reaches: reachesOf(experiment, given.embedded),
  };
};

/** One of the catalogue, by its name. */
export const brokenLinkOf = (given: SuiteFor, name: string): LoadStage => {
  const experiment = EXPERIMENTS.get(name);
  if (experiment === undefined) throw new Error(`there is no experiment "${name}"`);
  return brokenLink(given, experiment);
};
