/**
 * The small stages that mutants are tried on: each a deployment in this process, a short play of some tens to some hundreds
 * of calls, and all invariants over what came of it. On the healthy platform none may fail, and those that the stage exists
 * for have to pass.
 */
import type { Claim } from "../history/run-document.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import type { MutantStage } from "../mutants/mutant.ts";
import type { Parts } from "../platform/parts.ts";
import { inOrder, judgeStage } from "./judge-stage.ts";
import { type Bench, openBench } from "./mutant-bench.ts";
import type { DeploymentOptions } from "./mutant-deployment.ts";
import { verify } from "./mutant-play-verify.ts";
import { answers, monthEdge, quotaEdge } from "./mutant-plays-decisions.ts";
import { keysRefused, limiterRefused, limiterReplyLost } from "./mutant-plays-faults.ts";
import { noisy, overload, pastCapacity, patientClient, rateEdge, twoReplicas } from "./mutant-plays-load.ts";
import { deploy, recordChanges, streams } from "./mutant-plays-streams.ts";

export type MiniStageName = Exclude<MutantStage, "gate">;

export type MiniStage = {
  about: string;
  /** Invariants (and rules, as `verify/<rule>`) that pass on the healthy platform, or the stage proves nothing. */
  proves: readonly string[];
  options: DeploymentOptions;
  play(bench: Bench): Promise<void>;
};

export const MINI_STAGES: Readonly<Record<MiniStageName, MiniStage>> = {
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
  "keys-refused": keysRefused,
  "record-changes": recordChanges,
  streams,
  deploy,
  verify,
};

export const MINI_STAGE_NAMES = Object.keys(MINI_STAGES) as MiniStageName[];

/** Claims of all invariants. Rejects when the stage could not be played. */
export const runMiniStage = async (name: MiniStageName, parts: Parts): Promise<Claim[]> => {
  const stage = MINI_STAGES[name];
  const bench = await openBench(name, parts, stage.options);
  try {
    await stage.play(bench);
    const { facts, lines } = await bench.finish();
    const replay = `npx floodgate dev mutants --stage ${name}`;
    return [...bench.claims, ...judgeStage(INVARIANTS, facts, inOrder(lines), replay)];
  } finally {
    await bench.close();
  }
};
