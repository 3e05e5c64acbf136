/** Stages that several suites have, each as a function of what differs. */

import type { LoadStage, VerifyStage } from "../../stages/stage-plan.ts";
import { EVERYWHERE, loadStage, METERS, STREAMS, type SuiteFor } from "../../stages/stage-plan.ts";
import { RATE_PER_S } from "../../verify/sending/throttle.ts";

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
