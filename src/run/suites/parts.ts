/** Stages that several suites have, each as a function of what differs. */
import type { LinkFault } from "../disturbances/disturbance.ts";
import type { LoadStage, VerifyStage } from "../stage-plan.ts";
import { EVERYWHERE, METERS, STREAMS } from "./judges.ts";
import { loadStage, type SuiteFor } from "./suite.ts";

/** Ours, whose keys bear it. */
const RATE_EMBEDDED_PER_S = 50;
const RATE_PER_S = 20;

/** Phases that the stages about load and quotas cover, with more calls than a rule would make. */
const COVERED_BY_STAGES = ["quota-burn", "load"];

export const verifyStage = ({ target, embedded }: SuiteFor, skip = COVERED_BY_STAGES): VerifyStage => {
  const { permits = {} } = target;
  const bound = permits.load_max_rps ?? Number.POSITIVE_INFINITY;
  return {
    ...{ kind: "verify", name: "verify", skip },
    ratePerS: Math.max(1, Math.min(embedded ? RATE_EMBEDDED_PER_S : RATE_PER_S, 0.9 * bound)),
    allowWrites: permits.writes === true,
    allowQuotaBurn: permits.quota_burn === true,
    allowLoad: permits.load_max_rps !== undefined,
  };
};

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
      ...[...EVERYWHERE, ...STREAMS, "events-are-not-buffered"],
      ...["sheds-only-over-the-cap", "sheds-above-the-cap", "refusals-are-cheap"],
    ],
    reaches: ["200", "429 b2b_overloaded"],
  });

export const tileQuotaStampede = (): LoadStage =>
  loadStage({
    name: "tile-quota-stampede",
    driver: "k6",
    judges: [
      ...[...EVERYWHERE, ...METERS, ...STREAMS],
      ...["admits-what-is-allowed", "organizations-do-not-share", "sheds-only-over-the-cap"],
      ...["session-lifetime-is-bounded"],
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

/** A link that is broken and mended under load. */
export const brokenLink = (link: LinkFault["link"], fault: string, holdMs = 3_000): LoadStage => ({
  kind: "load",
  name: `${link}-${fault}`,
  driver: "open-loop",
  story: "broken-dependency",
  // Below cap / budget: while a dependency is silent each call holds its slot for the budget (design.md section 3).
  ratePerS: link === "keys" ? 12 : 40,
  durationS: 60,
  judges: [
    ...["fails-closed", "recovers", "first-failing-check-decides", "envelope-fits-subcode", "counts-agree"],
    ...["refused-is-not-charged", "charged-once", "slots-are-given-back", "organizations-do-not-share"],
  ],
  disturbance: { kind: "link-fault", name: `${link}-${fault}`, link, fault, holdMs },
  // A fault within the budget is one that callers need not see.
  reaches: fault === "slow-within-budget" ? ["200"] : [link === "limiter" ? "429 limiter_unavailable" : "503"],
});
