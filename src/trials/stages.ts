/**
 * The small stages that mutants are tried on: a deployment in this process, tens to hundreds of calls, and all invariants. On the
 * healthy platform none may fail, and those under `proves` have to pass.
 */
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
import { gate } from "./stages/gate.ts";
import { noisy, overload, pastCapacity, patientClient, rateEdge, twoReplicas } from "./stages/load.ts";
import { deploy, manyStreams, recordChanges, streams } from "./stages/streams.ts";
import { verify, verifyLoad } from "./stages/verify.ts";

export const MINI_STAGES: Readonly<Record<MutantStage, MiniStage | ComparedStage | VirtualStage>> = {
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
  "many-streams": manyStreams,
  deploy,
  verify,
  "verify-load": verifyLoad,
  gate,
  curve,
  "retry-storm": retryStorm,
  "noisy-and-quiet": noisyAndQuiet,
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
