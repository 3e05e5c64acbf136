/**
 * Stages for other judges: `verify`, whose rules see headers, bodies and key management; and the gate, for which a healthy base and
 * a mutant head are loaded side by side, each by an open-loop driver in its own process.
 */
import { wallUs } from "../../client/clock.ts";
import type { InProcess } from "../../deployments/in-process.ts";
import { type OpenLoopJob, playOpenLoop, startTogether } from "../../drivers/open-loop/driver.ts";
import { SIDES, type Side } from "../../gate/block-plan.ts";
import { gateClaims } from "../../gate/gate-claims.ts";
import { comparePairs, type Pair } from "../../gate/paired-comparison.ts";
import { gateBlocks, PAIRS, pairsOf, profileOf, SERVICE_MS, SLOTS, SMALL_POLICY } from "../../gate/small-stage-plan.ts";
import type { CallLine } from "../../history/line.ts";
import type { Claim } from "../../history/run-document.ts";
import type { Parts } from "../../platform/parts.ts";
import { createSecrets } from "../../target/secrets.ts";
import type { Target } from "../../target/target.ts";
import { runVerify, type VerifyOptions } from "../../verify/run-verify.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { type Bench, type ComparedStage, type MiniStage, startSmallDeployment } from "../stage-bench.ts";
import { paid } from "./load.ts";

/** Higher than the deployment can answer, so that `verify` does not wait between calls. */
const RATE_PER_S = 5_000;
const SEED = 1;
const ERROR_EVENTS = ["verify/stream-error-event", "verify/stream-nothing-after-error"];
/** Opens the streams that the rules about error events judge. */
const A_STREAM_RULE = "verify/stream-content-type";

/** `part` separates the call ids of two runs on one deployment in the ledger. */
const judge = async ({ target, clock, stage }: Bench, part: string, more: Partial<VerifyOptions>): Promise<Claim[]> => {
  const { claims } = await runVerify({
    target,
    secrets: createSecrets("."),
    seed: SEED,
    clock,
    ratePerS: RATE_PER_S,
    idPrefix: `mutants.${stage}.${part}`,
    // Always the middle of a month, so that no trial meets the end of one.
    wallMs: () => Date.UTC(2026, 5, 15),
    ...more,
  });
  return claims;
};

/** Every rule of `verify` that needs no load. */
export const verify: MiniStage = {
  rulesAlone: true,
  options: { tenants: [], serviceMs: 180, tokens: 6 },
  play: async (bench) => {
    const allowed = { allowWrites: true, allowQuotaBurn: true };
    bench.claims.push(...(await judge(bench, "c", { ...allowed, skip: ERROR_EVENTS })));
    // No call can provoke an error event, so the control plane orders one.
    const fail_next = { route: "chat.button", mode: "error_event", after_events: 2, count: 1 };
    await bench.operate("PATCH", "/deployment", { fail_next });
    const failing = await judge(bench, "e", { ...allowed, only: [A_STREAM_RULE, ...ERROR_EVENTS] });
    bench.claims.push(...failing.filter(({ id }) => ERROR_EVENTS.includes(id)));
  },
};

/** Above the rate of a key and above the caps. */
const LOAD_MAX_RPS = 150;

/** The rules of `verify` about the request rate and the caps, which need load. */
export const verifyLoad: MiniStage = {
  rulesAlone: true,
  options: {
    ...{ tenants: paid(2), globalInFlight: 24, orgInFlight: 12, serviceMs: 300, tokens: 4 },
    rate: { perS: 40, burst: 60 },
  },
  play: async (bench) => {
    const target = { ...bench.target, permits: { ...bench.target.permits, load_max_rps: LOAD_MAX_RPS } };
    bench.claims.push(...(await judge({ ...bench, target }, "c", { allowLoad: true, only: ["load"] })));
  },
};

const OPTIONS = { tenants: paid(8), globalInFlight: SLOTS, orgInFlight: SLOTS, serviceMs: SERVICE_MS, tokens: 1 };

/** Rejects if a deployment or driver fails. */
const measurePairs = async (base: Parts, head: Parts): Promise<Pair[]> => {
  const blocks = gateBlocks(PAIRS);
  const parts = { base, head };
  const lines: Record<Side, CallLine[]> = { base: [], head: [] };
  const deployments: InProcess[] = [];
  const jobs: OpenLoopJob[] = [];
  const loops: Promise<void>[] = [];
  const epochUs = wallUs();
  const stop = new AbortController();
  const { begin, startUs } = startTogether(SIDES.length, epochUs);
  const measure = async (job: OpenLoopJob, onLine: (line: CallLine) => void): Promise<void> => {
    const how = { secrets: createSecrets("."), onLine, begin, signal: stop.signal };
    const { problems } = await playOpenLoop({ job, ...how });
    if (problems[0] !== undefined) throw new Error(problems[0].reason);
  };
  try {
    for (const side of SIDES) {
      const stage = `gate.${side}`;
      const deployment = await startSmallDeployment(stage, parts[side], OPTIONS);
      deployments.push(deployment);
      const target = deployment.targets[0] as Target;
      const idPrefix = `mutants.${stage}`;
      const load = { story: "chat-past-capacity", seed: SEED, profile: profileOf(blocks, side) } as const;
      jobs.push({ ...load, stage, idPrefix, epochUs, target, view: viewOf(target), arrivals: "uniform" });
    }
    for (const [at, side] of SIDES.entries()) {
      loops.push(measure(jobs[at] as OpenLoopJob, (line) => void lines[side].push(line)));
    }
    await Promise.all(loops);
    return pairsOf(blocks, lines, await startUs);
  } finally {
    stop.abort();
    await Promise.allSettled(loops);
    for (const deployment of deployments) await deployment.close();
  }
};

const REPLAY = "npx floodgate dev mutants --stage gate";

/** Compares a platform with the healthy one in pairs of short, alternating blocks. */
export const gate: ComparedStage = {
  /** Measures until each `deciding` claim is decided, at most `looks` times: a busy machine may need more than sixteen pairs. */
  compare: async (base, head, deciding) => {
    const pairs: Pair[] = [];
    for (let look = 1; ; look += 1) {
      pairs.push(...(await measurePairs(base, head)));
      const claims = gateClaims(comparePairs(pairs, SMALL_POLICY), REPLAY);
      const open = claims.some(({ id, verdict }) => deciding.includes(id) && verdict === "inconclusive");
      if (!open || look === SMALL_POLICY.looks) return claims;
    }
  },
};
