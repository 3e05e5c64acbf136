/**
 * Stages that take minutes and thousands of calls, in virtual time, where a busy machine cannot disturb them: those of
 * shedding, and the gate's pairs of blocks, a healthy base beside the mutant.
 */

import { type BlockValues, measureBlock } from "../../gate/block.ts";
import { loadFor, PAIRS_DEFAULT, partsOfBlock, profileOfBlock, SIDES, type Side } from "../../gate/block-plan.ts";
import { answerForms, answersClaim, gateClaims } from "../../gate/gate-claims.ts";
import { comparePairs, type Pair } from "../../gate/paired-comparison.ts";
import { type CallLine, dueWithin, type Line } from "../../history/line.ts";
import type { Claim, StageFacts } from "../../history/run-document.ts";
import { known } from "../../history/statistics/statistics.ts";
import { createIsolation } from "../../shedding/isolation.ts";
import { openStageCurve } from "../../shedding/stage-curve.ts";
import { startVirtualPlayer, type VirtualLoad } from "../../simulation/virtual-player.ts";
import { constant, type Profile, profileDurationS, storm, upAndDown } from "../../workload/load-profiles.ts";
import type { VirtualStage } from "../stage-bench.ts";

type Play = { story: string; load: VirtualLoad; facts: Pick<StageFacts, "curve" | "step"> };

/** Enough slots that chance refuses few calls at the knee; slow calls, so that one service time holds many of them. */
export const SLOTS = 24;
export const SERVICE_MS = 300;
const KNEE_PER_S = (SLOTS * 1000) / SERVICE_MS;
/** Four service times: a call that waits in a queue of ten times the slots misses the objective. */
const OBJECTIVES = "p99<=1.2s";
/** Seconds that the curve takes; its shortest levels are then ten times as long as a call. */
const CURVE_S = 64;
const HIGHEST = 5;
const platformOf = (slots: number): Omit<VirtualLoad, "profile"> => ({
  ...{ slots, global_in_flight: slots, org_in_flight: slots, service_ms: SERVICE_MS, tenants: 4 },
  shedding: "fixed",
});
const PLATFORM = platformOf(SLOTS);

const curveOn = (slots: number): Play => {
  const kneePerS = (KNEE_PER_S * slots) / SLOTS;
  return {
    story: "shedding-curve",
    load: { ...platformOf(slots), profile: upAndDown(kneePerS, CURVE_S, HIGHEST * kneePerS) },
    facts: { curve: { not_played: [], slots, objectives: OBJECTIVES } },
  };
};
/** The top is three times the knee; with retries, about ten times the knee arrives. */
const stormOn = (slots: number): Play => {
  const kneePerS = (KNEE_PER_S * slots) / SLOTS;
  return {
    story: "retry-storm",
    load: { ...platformOf(slots), profile: storm(0.8 * kneePerS, 3 * kneePerS, 28) },
    facts: { step: { of: "load" } },
  };
};

/**
 * Half of the slots, and so of the calls, show most defects in every seed that was tried. A storm that does not end, and sheds that
 * come and go together, need all of them.
 */
const NEED_ALL_SLOTS: readonly (string | null)[] = ["cannot-get-over-retries", "swings-between-all-and-nothing"];
const slotsFor = (mutant: string | null): number => (NEED_ALL_SLOTS.includes(mutant) ? SLOTS : SLOTS / 2);

/** Bursts of twice an organization's cap, and three quiet organizations that read. */
const NOISE: VirtualLoad = { ...PLATFORM, org_in_flight: 8, profile: constant(80, 20) };

/** Plays a story on a mutant, or on the healthy platform (`null`). */
const playVirtually = async (story: string, load: VirtualLoad, mutant: string | null, seed: number) => {
  const player = startVirtualPlayer({ mutant, load });
  try {
    const { lines, facts, doubt } = await player.play({ seed, story, ratePerS: 0, events: [] });
    if (doubt !== null) throw new Error(doubt);
    return { lines, facts };
  } finally {
    await player.close();
  }
};

const firstDueUs = (lines: readonly Line[]): number =>
  Math.min(...lines.flatMap((line) => (line.type === "call" ? [line.intended_us] : [])));

type Claims = (mutant: string | null, seed: number, replay: string) => Promise<Claim[]>;

const claimsOf =
  ({ story, load, facts }: Play): Claims =>
  async (mutant, seed, replay) => {
    const { lines, facts: seen } = await playVirtually(story, load, mutant, seed);
    const start_us = firstDueUs(lines);
    const judge = openStageCurve({ ...seen, ...facts, offered: { start_us, pieces: load.profile.pieces } });
    for (const line of lines) judge?.see(line);
    return judge?.end(replay).claims ?? [];
  };

const isolationClaims: Claims = async (mutant, seed, replay) => {
  const isolation = createIsolation();
  const beside = await playVirtually("noisy-neighbour", NOISE, mutant, seed);
  isolation.see("beside", beside.lines, beside.facts);
  const alone = await playVirtually("noisy-neighbour-alone", NOISE, mutant, seed);
  isolation.see("alone", alone.lines, alone.facts);
  return isolation.judged(replay).claims;
};

const BLOCK = loadFor(KNEE_PER_S);
/** A rest after each block, in which its calls end. */
const BLOCK_AND_REST = [...profileOfBlock(BLOCK).pieces, { from: 0, to: 0, durationS: 1 }];
/** The blocks of one side, one after the other: in virtual time the sides need not take turns. */
export const GATE_BLOCKS: Profile = {
  name: "gate-blocks",
  pieces: Array.from({ length: PAIRS_DEFAULT }, () => BLOCK_AND_REST).flat(),
};
/** Twice the service time is a good answer. */
const SLO_MS = 2 * SERVICE_MS;

const GATE_US = profileDurationS(GATE_BLOCKS) * 1e6;

const spansOf = (lines: readonly CallLine[]) =>
  Array.from({ length: PAIRS_DEFAULT }, (_, pair) =>
    partsOfBlock(BLOCK, firstDueUs(lines) + (pair / PAIRS_DEFAULT) * GATE_US),
  );

export const pairsOf = (lines: Record<Side, readonly CallLine[]>): Pair[] => {
  const [base, head] = SIDES.map((side) =>
    spansOf(lines[side]).map((parts) => measureBlock(lines[side], { ...parts, sloMs: SLO_MS })),
  ) as [BlockValues[], BlockValues[]];
  return base.map((values, pair) => ({ base: values, head: head[pair] as BlockValues }));
};

const formsOf = (lines: readonly CallLine[]) =>
  spansOf(lines).map(({ steady, past }) => answerForms(dueWithin(lines, { fromUs: steady.fromUs, toUs: past.toUs })));

const playBlocks = async (mutant: string | null, seed: number): Promise<CallLine[]> => {
  const load = { ...PLATFORM, profile: GATE_BLOCKS };
  const { lines } = await playVirtually("chat-past-capacity", load, mutant, seed);
  return lines.filter((line) => line.type === "call").filter(({ route }) => route !== "sdk.sessions");
};

/** The base's calls by seed. Virtual time repeats itself, so one play serves beside every head and as a healthy one. */
const bases = new Map<number, Promise<CallLine[]>>();

const gatePairClaims: Claims = async (mutant, seed, replay) => {
  const base = await known(bases, seed, () => playBlocks(null, seed));
  const head = mutant === null ? base : await playBlocks(mutant, seed);
  const answers = answersClaim({ base: formsOf(base), head: formsOf(head) }, replay);
  return [...gateClaims(comparePairs(pairsOf({ base, head })), replay), answers];
};

/** An adaptive limit adjusts itself below this cap. */
const ADAPTIVE = { shedding: "adaptive", global_in_flight: 4 * SLOTS } as const;

/** The curve of the healthy platform, or its storm, with fixed caps or with adaptive ones. */
export const healthyShedding = (of: "curve" | "storm", shedding: "fixed" | "adaptive", seed: number) => {
  const play = of === "curve" ? curveOn(SLOTS) : stormOn(SLOTS / 2);
  const load = { ...play.load, ...(shedding === "adaptive" ? ADAPTIVE : {}) };
  return claimsOf({ ...play, load })(null, seed, "");
};

const SEED = 1;
const stageOf = (name: string, claims: Claims): VirtualStage => ({
  inVirtualTime: (mutant) => claims(mutant, SEED, `npx floodgate dev mutants --stage ${name}`),
});

/** Streams from half to five times the knee, up and down again; the healthy platform has to pass every claim, which takes all slots. */
export const curve = stageOf("curve", (mutant, ...how) =>
  claimsOf(curveOn(mutant === null ? SLOTS : slotsFor(mutant)))(mutant, ...how),
);

/** Streams at four fifths of the knee, then three times it with retries, then as before. */
export const retryStorm = stageOf("retry-storm", (mutant, ...how) =>
  claimsOf(stormOn(slotsFor(mutant)))(mutant, ...how),
);

/** The gate's blocks on the healthy platform and on the mutant. */
export const gate = stageOf("gate", gatePairClaims);

/** Bursts of one organization beside three quiet ones, and the quiet ones alone on one seed. */
export const noisyAndQuiet = stageOf("noisy-and-quiet", isolationClaims);
