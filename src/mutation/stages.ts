/**
 * The small stages that mutants are tried on: each a deployment in this process, a short play of some tens to some hundreds
 * of calls, and all invariants over what came of it. On the healthy platform none may fail, and those that the stage exists
 * for have to pass.
 */
import { SMALL_CLAIM_IDS } from "../gate/small-stage-plan.ts";
import type { Claim } from "../history/run-document.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { inOrder, judgeStage } from "../invariants/judge-stage.ts";
import type { MutantStage } from "../mutants/mutant.ts";
import type { Parts } from "../platform/parts.ts";
import { compareOnGate } from "./gate-trial.ts";
import type { ComparedStage, MiniStage } from "./mini-stage.ts";
import { openBench } from "./stage-bench.ts";
import { answers, monthEdge, quotaEdge } from "./stages/decisions.ts";
import { keysRefused, limiterRefused, limiterReplyLost, poolAfterFault, restartUnsettled } from "./stages/faults.ts";
import { noisy, overload, pastCapacity, patientClient, rateEdge, twoReplicas } from "./stages/load.ts";
import { deploy, recordChanges, streams } from "./stages/streams.ts";
import { verify, verifyLoad } from "./stages/verify.ts";

const gate: ComparedStage = {
  about: "the healthy platform and this one in short blocks in turn, compared in pairs",
  proves: SMALL_CLAIM_IDS,
  compare: compareOnGate,
};

export const MINI_STAGES: Readonly<Record<MutantStage, MiniStage | ComparedStage>> = {
  answers,
  "edge-of-quota": quotaEdge,
  "month-edge": monthEdge,
  overload,
  "past-capacity": pastCapacity,
  noisy,
  "rate-edge": rateEdge,
  "patient-client": patientClient,
  "two-replicas": twoReplicas,
  "limiter-refused": limiterRefused,
  "limiter-reply-lost": limiterReplyLost,
  "restart-unsettled": restartUnsettled,
  "pool-after-fault": poolAfterFault,
  "keys-refused": keysRefused,
  "record-changes": recordChanges,
  streams,
  deploy,
  verify,
  "verify-load": verifyLoad,
  gate,
};

export const MINI_STAGE_NAMES = Object.keys(MINI_STAGES) as MutantStage[];

/**
 * Claims of all who judge there. `base` is what the gate compares with, `deciding` are the judges for whose verdict it measures
 * longer. Rejects when the stage could not be played.
 */
export const runMiniStage = async (
  name: MutantStage,
  parts: Parts,
  base: Parts,
  deciding: readonly string[] = [],
): Promise<Claim[]> => {
  const stage = MINI_STAGES[name];
  if ("compare" in stage) return stage.compare(base, parts, deciding);
  const bench = await openBench(name, parts, stage.options);
  try {
    await stage.play(bench);
    const { facts, lines } = await bench.finish();
    const replay = `npx floodgate dev mutants --stage ${name}`;
    return [...bench.claims, ...judgeStage(stage.rulesAlone === true ? [] : INVARIANTS, facts, inOrder(lines), replay)];
  } finally {
    await bench.close();
  }
};
