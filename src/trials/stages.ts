/**
 * The small stages that mutants are tried on: a deployment in this process, tens to hundreds of calls, and all invariants. On the
 * healthy platform none may fail, and those under `proves` have to pass.
 */

import { SMALL_CLAIM_IDS } from "../gate/small-stage-plan.ts";
import type { Line } from "../history/line.ts";
import type { Claim } from "../history/run-document.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { inOrder, judgeStage } from "../invariants/judge-stage.ts";
import type { MutantStage } from "../mutants/mutant.ts";
import type { Parts } from "../platform/parts.ts";
import { type ComparedStage, type MiniStage, openBench, type VirtualStage } from "./stage-bench.ts";
import { curve, noisyAndQuiet, retryStorm } from "./stages/curve.ts";
import { answers, monthEdge, quotaEdge } from "./stages/decisions.ts";
import { keysRefused, limiterRefused, limiterReplyLost, poolAfterFault, restartUnsettled } from "./stages/faults.ts";
import {
  deploy,
  manyStreams,
  noisy,
  overload,
  pastCapacity,
  patientClient,
  rateEdge,
  recordChanges,
  streams,
  twoReplicas,
} from "./stages/load.ts";
import { gate, verify, verifyLoad } from "./stages/verify-and-gate.ts";

/** Judges that have to pass the healthy platform: ids of invariants, `verify/<rule>`, `gate/<measurement>` or `curve/<measure>`. */
type Proving = { readonly proves: readonly string[] };

const AFTER_A_FAULT = [
  "fails-closed",
  "refuses-in-time",
  "recovers",
  "envelope-fits-subcode",
  "refused-is-not-charged",
  "charged-once",
];

// biome-ignore format: a stage is a row
export const MINI_STAGES: Readonly<Record<MutantStage, (MiniStage | ComparedStage | VirtualStage) & Proving>> = {
  answers: { ...answers, proves: ["answered", "first-failing-check-decides", "envelope-fits-subcode",
    "tells-when-to-retry", "admission-is-stored-and-tier", "refused-is-not-charged", "charged-once",
    "revoked-stays-out", "session-lifetime-is-bounded", "counts-agree", "stream-vocabularies-differ",
    "streams-end-once", "slots-are-given-back", "secrets-stay-secret", "admits-at-most-the-allowance",
    "admits-what-is-allowed", "organizations-do-not-share", "sheds-only-over-the-cap"] },
  "edge-of-quota": { ...quotaEdge, proves: ["admits-at-most-the-allowance", "admits-what-is-allowed",
    "refused-is-not-charged", "charged-once", "organizations-do-not-share", "counts-agree"] },
  "month-edge": { ...monthEdge, proves: ["admits-what-is-allowed", "admits-at-most-the-allowance",
    "refused-is-not-charged"] },
  overload: { ...overload, proves: ["sheds-only-over-the-cap", "sheds-above-the-cap", "refusals-are-cheap",
    "slots-are-given-back", "tells-when-to-retry", "envelope-fits-subcode", "counts-agree"] },
  "past-capacity": { ...pastCapacity, proves: ["sheds-above-the-cap", "sheds-only-over-the-cap", "slots-are-given-back",
    "counts-agree"] },
  noisy: { ...noisy, proves: ["organizations-do-not-share", "sheds-only-over-the-cap", "refused-is-not-charged",
    "slots-are-given-back", "counts-agree"] },
  "rate-edge": { ...rateEdge, proves: ["rate-within-any-window", "tells-when-to-retry", "envelope-fits-subcode",
    "counts-agree"] },
  "patient-client": { ...patientClient, proves: ["tells-when-to-retry", "rate-within-any-window"] },
  "two-replicas": { ...twoReplicas, proves: ["rate-within-any-window", "counts-agree"] },
  "limiter-refused": { ...limiterRefused, proves: [...AFTER_A_FAULT, "first-failing-check-decides", "tells-when-to-retry",
    "slots-are-given-back", "counts-agree"] },
  "limiter-reply-lost": { ...limiterReplyLost, proves: [...AFTER_A_FAULT, "counts-agree"] },
  "restart-unsettled": { ...restartUnsettled, proves: ["refused-is-not-charged", "charged-once"] },
  "pool-after-fault": { ...poolAfterFault, proves: ["nothing-is-left-open", "recovers"] },
  "keys-refused": { ...keysRefused, proves: ["fails-closed", "recovers", "envelope-fits-subcode", "tells-when-to-retry",
    "counts-agree"] },
  "record-changes": { ...recordChanges, proves: ["revoked-stays-out", "admission-is-stored-and-tier",
    "first-failing-check-decides", "counts-agree"] },
  streams: { ...streams, proves: ["streams-end-once", "streams-cut", "stream-vocabularies-differ",
    "events-are-not-buffered", "slots-are-given-back", "counts-agree"] },
  "many-streams": { ...manyStreams, proves: ["streams-cut", "streams-end-once", "counts-agree"] },
  deploy: { ...deploy, proves: ["streams-end-once"] },
  verify: { ...verify, proves: ["verify/server-key-is-blocked-by-cors", "verify/stream-error-event",
    "verify/keys-limit-reached"] },
  "verify-load": { ...verifyLoad, proves: ["verify/rate-limit-is-reported", "verify/overload-is-reported",
    "verify/overload-names-the-cap"] },
  gate: { ...gate, proves: SMALL_CLAIM_IDS },
  curve: { ...curve, proves: ["curve/shed_subcodes", "curve/goodput_retention", "curve/collapse", "curve/metastability",
    "curve/false_sheds", "curve/slots_leaked", "curve/closed_form", "curve/oscillation", "curve/refusal_price",
    "curve/wasted_work", "curve/jain_index"] },
  "retry-storm": { ...retryStorm, proves: ["curve/recovery", "curve/reaction", "curve/amplification"] },
  "noisy-and-quiet": { ...noisyAndQuiet, proves: ["curve/isolation"] },
};

export const MINI_STAGE_NAMES = Object.keys(MINI_STAGES) as MutantStage[];

export type Played = { claims: Claim[]; facts: StageFacts; lines: Line[] };

/** Rejects if the stage could not be played. */
export const playMiniStage = async (name: MutantStage, stage: MiniStage, parts: Parts): Promise<Played> => {
  const bench = await openBench(name, parts, stage.options);
  try {
    await stage.play(bench);
    const { facts, lines: unordered } = await bench.finish();
    const lines = inOrder(unordered);
    const replay = `npx floodgate dev mutants --stage ${name}`;
    const judged = judgeStage(stage.rulesAlone === true ? [] : INVARIANTS, facts, lines, replay);
    return { claims: [...bench.claims, ...judged], facts, lines };
  } finally {
    await bench.close();
  }
};

/** `base`: what the gate compares with. `deciding`: claims for which the gate measures longer. Rejects if the stage could not be played. */
export const runMiniStage = async (
  name: MutantStage,
  mutant: string | null,
  parts: Parts,
  base: Parts,
  deciding: readonly string[] = [],
): Promise<Claim[]> => {
  const stage = MINI_STAGES[name];
  if ("compare" in stage) return stage.compare(base, parts, deciding);
  if ("inVirtualTime" in stage) return stage.inVirtualTime(mutant);
  return (await playMiniStage(name, stage, parts)).claims;
};
