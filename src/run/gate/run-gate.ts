/**
 * Compares two targets: the base's capacity, a warm-up of both, pairs of blocks, then claims, measurements and a table.
 * `playOn` can be replaced, so that all of it runs in virtual time too.
 */

import {
  type BlockLoad,
  callsOfBlock,
  loadFor,
  looksFrom,
  PAIRS_MOST,
  pairTakesS,
  profileOfBlock,
  SIDES,
  type Side,
} from "../../gate/block-plan.ts";
import { invariantsClaim } from "../../gate/broken-invariants.ts";
import { capacityOf, nextProbe, PROBE_S, type Probe, probeOf } from "../../gate/capacity-probes.ts";
import { gateClaims, gateMeasurements, sinkingClaim } from "../../gate/gate-claims.ts";
import { gateTable } from "../../gate/gate-table.ts";
import { MEASUREMENT_FACTS } from "../../gate/measurements.ts";
import type { Comparison } from "../../gate/paired-comparison.ts";
import { sinkingOf } from "../../gate/sinking.ts";
import { claimOf, doubt } from "../../history/claim.ts";
import type { Claim, Measurement, Protocol } from "../../history/run-document.ts";
import type { StageFacts } from "../../history/stage-facts.ts";
import { TargetUnreachableError } from "../../verify/reach.ts";
import { streamsPerS } from "../../workload/callers/overload.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import { constant, type Profile } from "../../workload/load-profiles.ts";
import type { Story } from "../../workload/story.ts";
import { type GateMeasured, measurePairs, sloFrom } from "./measure-pairs.ts";
import { type GateRoom, type GateSide, type PlayedBlock, playBlock } from "./play-block.ts";

export const GATE_SCENARIO = "chat-past-capacity";

const perS = (rate: number): string => `${rate >= 20 ? rate.toFixed(0) : rate.toFixed(1)} calls/s`;

/** The stated capacity; `null` when it has to be probed: slots say nothing about reads. */
export const statedCapacity = (
  { scenario, ratePerS }: { scenario: string; ratePerS?: number },
  base: TargetView,
): number | null => ratePerS ?? (scenario === GATE_SCENARIO ? streamsPerS(base) : null);

/** Where nothing is permitted by name, probes go no further. */
const PROBED_MOST_PER_S = 2_000;

/** Calls a second; `null` when the base served nothing. `play`: a rate and the probe's number. */
const probeCapacity = async (
  play: (ratePerS: number, number: number) => Promise<PlayedBlock>,
  mostPerS: number,
  isOver: () => boolean,
  events: { step(text: string): void; progress(text: string): void; note(text: string): void },
): Promise<number | null> => {
  events.step("probing how much the base carries");
  const probes: Probe[] = [];
  const most = Math.min(mostPerS, PROBED_MOST_PER_S);
  for (let rate = nextProbe(probes, most); rate !== null && !isOver(); rate = nextProbe(probes, most)) {
    const { lines, startUs } = await play(rate, probes.length + 1);
    const probe = probeOf(rate, lines, startUs);
    probes.push(probe);
    events.progress(`offered ${perS(rate)}, served ${perS(probe.servedPerS)}`);
  }
  const found = capacityOf(probes);
  if (found.perS === 0) return null;
  if (!found.isReached) events.note(`no limit of the base was reached at ${perS(probes.at(-1)?.ratePerS ?? 0)}`);
  return found.perS;
};

export const GATE_STAGE = "gate";

/** The scenario's name of the outside, and the story that is played for it. */
export const GATE_STORIES: Readonly<Record<string, string>> = { "chat-past-capacity": "chat-beside-noisy" };

type GatePlan = {
  scenario: string;
  story: Story;
  seed: number;
  pairs: number;
  ratePerS?: number;
};

/** The lower of what both targets permit, in calls a second. */
const mostPerSOf = (targets: Readonly<Record<Side, GateSide>>): number =>
  Math.min(...SIDES.map((side) => targets[side].deployment.target.permits?.load_max_rps ?? Number.POSITIVE_INFINITY));

type GateEvents = { step(text: string): void; progress(text: string): void; note(text: string): void };

export type SidePlayed = { notes: string[][]; lastFacts: StageFacts | null; protocols: Set<Protocol> };

type GateResult = {
  claims: Claim[];
  measurements: Measurement[];
  comparisons: readonly Comparison[];
  table: string[];
  sides: Readonly<Record<Side, SidePlayed>>;
  notes: string[];
};

/** What a whole run would send to each side, at most, and how long it takes, for a dry run and the guard. */
export const gateSpends = (
  load: BlockLoad,
  firstPairs: number,
): { calls: number; callsMost: number; s: number; sMost: number } => {
  const around = 1;
  return {
    calls: callsOfBlock(load) * (firstPairs + around),
    callsMost: callsOfBlock(load) * (PAIRS_MOST + around),
    s: pairTakesS(load) * (firstPairs + around),
    sMost: pairTakesS(load) * (PAIRS_MOST + around),
  };
};

const droppedClaim = ({ dropped, pairs, isWhole }: GateMeasured, replay: string): Claim => {
  const all = dropped.length + pairs.length;
  const enough = isWhole && dropped.length * 3 <= all;
  return claimOf({
    id: "gate/pairs",
    stage: GATE_STAGE,
    replay,
    verdict: enough ? "pass" : "inconclusive",
    reason: enough
      ? "the generator played the pairs as planned"
      : (dropped[0] ?? "stopped before the first comparison"),
    expected: "at least two pairs of three are played as planned",
    got: `${pairs.length} of ${all} pairs were compared`,
  });
};

/** No call was answered: there is nothing to compare. */
const assertReachable = (side: Side, { lines }: PlayedBlock, { deployment }: GateSide): void => {
  if (lines.length === 0 || lines.some(({ outcome }) => outcome !== "indeterminate")) return;
  const { error = "no answer" } = lines[0] as PlayedBlock["lines"][number];
  throw new TargetUnreachableError(
    `the ${side} answers no call at ${deployment.target.base_url} (${error}); start it, or mend base_url in its target file`,
  );
};

export const runGate = async (
  plan: GatePlan,
  targets: Readonly<Record<Side, GateSide>>,
  room: GateRoom,
  events: GateEvents,
  playOn: typeof playBlock = playBlock,
): Promise<GateResult> => {
  const sides: Record<Side, SidePlayed> = {
    base: { notes: [], lastFacts: null, protocols: new Set() },
    head: { notes: [], lastFacts: null, protocols: new Set() },
  };
  const notes: string[] = [];
  const note = (text: string): void => {
    notes.push(`gate: ${text}`);
    events.note(text);
  };
  const play = async (side: Side, profile: Profile, name: string): Promise<PlayedBlock> => {
    const block = await playOn(targets[side], plan.story.name, profile, name, room);
    if (sides[side].lastFacts === null) assertReachable(side, block, targets[side]);
    sides[side].notes.push(block.notes);
    sides[side].lastFacts = block.facts;
    for (const protocol of block.protocols) sides[side].protocols.add(protocol);
    return block;
  };
  const open = (reason: string): GateResult => {
    const claim = doubt("gate/pairs", reason, "a base that can be measured", room.replay);
    return { claims: [{ ...claim, stage: GATE_STAGE }], measurements: [], comparisons: [], table: [], sides, notes };
  };

  const isOver = (): boolean =>
    room.signal.aborted || SIDES.some((side) => targets[side].deployment.budget.stopped !== null);
  const mostPerS = mostPerSOf(targets);
  const probe = (rate: number, n: number) => play("base", constant(rate, PROBE_S), `probe${n}`);
  const stated = statedCapacity(plan, targets.base.view);
  const capacity = stated ?? (await probeCapacity(probe, mostPerS, isOver, { ...events, note }));
  if (capacity === null) return open("the base served none of the calls of the first probe; its capacity is not known");
  const load = loadFor(capacity, mostPerS);
  note(
    `the base's capacity is taken as ${perS(capacity)}; blocks at ${perS(load.lowPerS)} and ${perS(load.overloadPerS)}`,
  );
  if (load.overloadPerS < 1.5 * capacity) {
    note(
      `permits.load_max_rps allows ${perS(mostPerS)}: overload is no more than ${(load.overloadPerS / capacity).toFixed(1)} times the capacity`,
    );
  }
  if (plan.scenario === GATE_SCENARIO && targets.base.noisy.size === 0) {
    note("there are fewer than four tenants with a server key, so no organization is noisy beside the others");
  }

  events.step("warming both up");
  let sloMs: number | null = null;
  for (const side of SIDES) {
    if (isOver()) break;
    const warm = await play(side, profileOfBlock(load), `warm.${side}`);
    if (side === "base") sloMs = sloFrom(warm, load);
  }
  if (sloMs === null) return open("the base served no call below its capacity");

  if (isOver()) return open("stopped before the first pair");

  const looks = looksFrom(plan.pairs);
  events.step(`${looks[0]} pairs of blocks, about ${Math.ceil((pairTakesS(load) * (looks[0] as number)) / 60)} min`);
  const measured = await measurePairs({
    seed: plan.seed,
    load,
    looks,
    sloMs,
    isOver,
    noisy: { base: targets.base.noisy, head: targets.head.noisy },
    play: (side, pair) => play(side, profileOfBlock(load), `p${String(pair + 1).padStart(2, "0")}.${side}`),
    onPair: (pair, of) => events.progress(`pair ${pair} of ${of}`),
    onLook: (_, pairs, next) => {
      if (next !== null) events.step(`${pairs} pairs leave something open; measuring on to ${next}`);
    },
  });
  const { comparisons, pairs, policy, findings } = measured;
  const sinking = sinkingOf(pairs, MEASUREMENT_FACTS.goodput.margin, policy.falseAlarm / policy.looks);
  const claims = [
    invariantsClaim(findings, GATE_STAGE, room.replay),
    droppedClaim(measured, room.replay),
    ...gateClaims(comparisons, GATE_STAGE, room.replay),
    sinkingClaim(sinking, GATE_STAGE, room.replay),
  ];
  const measurements = gateMeasurements(comparisons, GATE_STAGE);
  return { claims, measurements, comparisons, table: gateTable(comparisons, claims), sides, notes };
};
