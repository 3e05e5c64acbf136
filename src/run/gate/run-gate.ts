/**
 * The bodies of `gate`: on two targets (the base's capacity, a warm-up of both, pairs of short blocks until the comparison
 * decides), or on recorded runs.
 */

import { existsSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { someOf } from "../../contract/lists.ts";
import { noSuch } from "../../contract/nearest.ts";
import type { Deployment, RunContext } from "../../deployments/deployment.ts";
import { hostDoubts, levelHost } from "../../drivers/driver.ts";
import { isWhole, knowsLastEvent, MEASUREMENT_FACTS, measureBlock } from "../../gate/block.ts";
import * as blocks from "../../gate/block-plan.ts";
import * as verdicts from "../../gate/gate-claims.ts";
import { GATE_STAGE } from "../../gate/gate-claims.ts";
import { type Comparison, comparePairs, GATE_POLICY, type Pair, verdictOf } from "../../gate/paired-comparison.ts";
import { dueWithin, isGatewayAlone, type Span, showsApi, stayMs } from "../../history/line.ts";
import { HELD, type OpenCode, openBy } from "../../history/reason-codes.ts";
import * as doc from "../../history/run-document.ts";
import { median, quantile } from "../../history/statistics/statistics.ts";
import { stageMeasure } from "../../history/tally.ts";
import { machineDoubts } from "../../history/time-doubts.ts";
import { invariantsFor } from "../../invariants/catalogue.ts";
import { inOrder, judgeStage } from "../../invariants/invariant.ts";
import { duration } from "../../report/figures.ts";
import { wrapped } from "../../report/terminal.ts";
import { type LevelRoom, playLevel } from "../../stages/play.ts";
import { EVERYWHERE, GuardError, readTarget, STREAMS } from "../../stages/stage-plan.ts";
import { idleOtherCores, readTenants, watchMachineUse, witnessedFacts } from "../../stages/witnesses.ts";
import { REPOSITORY } from "../../supervision/run-folder.ts";
import { atPlace, makeFolders, UsageError } from "../../supervision/user-file.ts";
import { pause } from "../../supervision/waiting.ts";
import type { Target } from "../../target/target.ts";
import * as recorded from "../../trends/recorded-comparison.ts";
import { TargetUnreachableError } from "../../verify/reach.ts";
import { streamsPerS } from "../../workload/callers/overload.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { constant, type Profile } from "../../workload/load-profiles.ts";
import type { Story } from "../../workload/story.ts";
import { recordedJson, recordedRun } from "../read-run.ts";
import { type Asked, lookLast, type RunResult, recordRun } from "../recorded-run.ts";
import { commitOf } from "../run-reports.ts";

export const GATE_SCENARIO = "chat-past-capacity";
/** The stories that are played for scenarios, if they have another name. */
const GATE_STORIES: Readonly<Record<string, string>> = { [GATE_SCENARIO]: "chat-beside-noisy" };

/** Invariants that a few seconds of overload can break; the comparison judges times. */
const JUDGES = [
  ...EVERYWHERE,
  ...STREAMS,
  "sheds-above-the-cap",
  "organizations-do-not-share",
  "stream-vocabularies-differ",
];
/** Time to drain, because a target may have no control plane that shows when the last call has ended. */
const REST_MS = 200;
/** The highest rate of a probe, even if the target files permit more. */
const PROBED_MOST_PER_S = 2_000;

/** What a side's blocks have shown; their lines are measured but not kept. */
export const nothingSeen = (side: blocks.Side) => ({
  measure: stageMeasure(verdicts.stageOf(side)),
  hostNotes: [] as string[][],
  unread: new Set<string>(),
  protocols: new Set<doc.Protocol>(),
  lastFacts: null as doc.StageFacts | null,
});

export type GateSide = Awaited<ReturnType<typeof gateSideOf>>;

/**
 * What stories may know of both targets, with the base's limits, equally many tenants and their weights on both sides:
 * stories plan by these, so one seed makes the same calls to both.
 */
export const alikeViews = ({ base, head }: Readonly<Record<blocks.Side, Target>>): Record<blocks.Side, TargetView> => {
  const [ofBase, ofHead] = [viewOf(base), viewOf(head)];
  const tenants = ofBase.tenants.slice(0, ofHead.tenants.length);
  const weighed = ofHead.tenants.slice(0, tenants.length).map((one, at) => ({ ...one, weight: tenants[at]?.weight }));
  return { base: { ...ofBase, tenants }, head: { ...ofHead, limits: ofBase.limits, tenants: weighed } };
};

export const gateSideOf = async (
  side: blocks.Side,
  deployment: Deployment,
  story: Story,
  view = viewOf(deployment.target),
) => {
  const tenants = await readTenants(deployment.target);
  const noisy = new Set(story.noisy(view));
  for (const org of noisy) if (tenants[org] !== undefined) tenants[org].noisy = true;
  return { side, deployment, view, tenants, noisy, seen: nothingSeen(side) };
};

export type GateRoom = LevelRoom & Pick<RunContext, "run" | "seed" | "replay">;

export type PlayedBlock = Awaited<ReturnType<typeof playBlock>>;

/** Plays, drains and judges one block on one target. `name` is unique in a run and part of the calls' ids. */
export const playBlock = async (
  { side, deployment, view, tenants, seen }: GateSide,
  story: string,
  profile: Profile,
  name: string,
  room: GateRoom,
) => {
  const stage = verdicts.stageOf(side);
  const idRun = `${room.run}.${name}`;
  const job = { stage, idPrefix: `${idRun}.c`, story, seed: room.seed, profile, arrivals: "uniform" as const, view };
  const url = deployment.target.base_url;
  const machineUse = watchMachineUse(url);
  const { lines, problems, notes, host: driven, startUs = 0, protocols = [] } = await playLevel(room, deployment, job);
  const used = machineUse();
  await pause(REST_MS);
  const witnessed = await witnessedFacts(room, deployment, stage, idRun);
  const host = levelHost(driven, { ...used, ...(await idleOtherCores(used, url, room.signal)) });
  const facts: doc.StageFacts = { ...witnessed.facts, tenants, host };
  for (const line of lines) seen.measure.see(line);
  for (const protocol of protocols) seen.protocols.add(protocol);
  for (const note of witnessed.notes) seen.unread.add(note);
  seen.hostNotes.push([...notes, ...hostDoubts(stage, host)]);
  seen.lastFacts = facts;
  return {
    lines: lines.filter(({ route }) => route !== "sdk.sessions"),
    /** When the block's first call was due, in microseconds of the run. */
    startUs,
    claims: judgeStage(invariantsFor(JUDGES), facts, inOrder(lines), room.replay),
    /** The generator played the block as planned, so its answers count, whatever time the machine had for them. */
    isPlayed: problems.length === 0,
    /** Why its figures are not compared: the generator could not play it, or the machine was short of CPU time. */
    problems: [...problems.map(({ reason }) => reason), ...machineDoubts(host)],
  };
};

const perS = (rate: number): string => `${rate >= 20 ? rate.toFixed(0) : rate.toFixed(1)} calls/s`;

export type Margins = recorded.Margins;

type GatePlan = { scenario: string; story: Story; pairs: number; ratePerS?: number; margins?: Margins };

/** The stated capacity; `null` if it has to be probed, because slots say nothing about reads. */
const statedCapacity = (
  { scenario, ratePerS }: Pick<GatePlan, "scenario" | "ratePerS">,
  base: TargetView,
): number | null => ratePerS ?? (scenario === GATE_SCENARIO ? streamsPerS(base) : null);

const SLO_OF_LOW = 2;
const SLO_OF_OVERLOAD = 1.25;

/**
 * `sloMs`: the longest time of a good answer, from the base's warm-up alone, so both sides share it. `isDelayed`: calls of the
 * overload took longer, as in a queue.
 */
const sloFrom = ({ lines, startUs }: PlayedBlock, load: blocks.BlockLoad) => {
  const { steady, past } = blocks.partsOfBlock(load, startUs);
  const quantileIn = (part: Span, p: number) => quantile(dueWithin(lines, part).filter(isWhole).map(stayMs), p);
  const low = quantileIn(steady, 0.5);
  if (low === null) return null;
  const [ofLow, ofOverload] = [SLO_OF_LOW * low, SLO_OF_OVERLOAD * (quantileIn(past, 0.9) ?? 0)];
  return { sloMs: Math.max(ofLow, ofOverload), isDelayed: ofOverload > ofLow };
};

type GatePairsPlan = {
  seed: number;
  load: blocks.BlockLoad;
  looks: readonly number[];
  margins?: Margins;
  sloMs: number;
  noisy: Readonly<Record<blocks.Side, ReadonlySet<string>>>;
  play(side: blocks.Side, pair: number): Promise<PlayedBlock>;
  onPair?(pair: number, of: number): void;
  /** Called when `pairs` of `played` pairs leave the comparison undecided; it is made again after `next` pairs. */
  onMore?(pairs: number, played: number, next: number): void;
  isOver(): boolean;
};

const answersOf = (
  forms: Parameters<typeof verdicts.answersClaim>[0],
  comparisons: readonly Comparison[],
  replay: string,
): doc.Claim => {
  const carriesMore = comparisons.some(({ measurement, improved }) => measurement === "goodput" && improved);
  return verdicts.answersClaim(forms, replay, carriesMore);
};

/** At least two pairs of three have to be compared. */
const arePlayed = (dropped: number, pairs: number): boolean => dropped * 3 <= pairs;

/** Compares at fixed numbers of pairs, and measures more only while something is open and enough pairs can be played. */
export const measurePairs = async ({
  seed,
  load,
  looks,
  sloMs,
  noisy,
  isOver,
  margins = {},
  ...plan
}: GatePairsPlan) => {
  const policy = { ...GATE_POLICY, margins, looks: looks.filter((look) => look >= blocks.PAIRS_DEFAULT).length };
  const pairs: Pair[] = [];
  const findings: verdicts.BlockFinding[] = [];
  const forms: Parameters<typeof verdicts.answersClaim>[0] = { base: [], head: [] };
  /** For each pair that is not compared: the problems of its blocks. */
  const dropped: string[] = [];
  let number = 0;
  let comparisons: Comparison[] = [];
  const onePair = async (): Promise<void> => {
    const both: [blocks.Side, PlayedBlock][] = [];
    for (const side of blocks.orderOf(seed, number)) {
      if (isOver()) return;
      const played = await plan.play(side, number);
      findings.push(...played.claims.map((claim) => ({ side, pair: number, claim })));
      both.push([side, played]);
    }
    if (isOver()) return;
    number += 1;
    if (both.every(([, { isPlayed }]) => isPlayed))
      for (const [side, { lines }] of both) forms[side].push(verdicts.answerForms(lines));
    const problems = both.flatMap(([side, one]) => one.problems.map((why) => `pair ${number}, ${side}: ${why}`));
    if (problems.length > 0) return void dropped.push(problems.join("; "));
    const foreignLastEvent = !both.some(([, { lines }]) => knowsLastEvent(lines));
    const values = both.map(([side, { lines, startUs }]) => {
      const parts = blocks.partsOfBlock(load, startUs);
      return [side, measureBlock(lines, { ...parts, sloMs, noisy: noisy[side], foreignLastEvent })] as const;
    });
    pairs.push(Object.fromEntries(values) as Pair);
  };
  for (const [at, look] of looks.entries()) {
    while (number < look && !isOver()) {
      await onePair();
      plan.onPair?.(number, look);
    }
    comparisons = comparePairs(pairs, policy);
    const { alone, outage } = verdicts.brokenOnHead(findings);
    const isDecided = look >= blocks.PAIRS_DEFAULT && verdictOf(comparisons) !== "inconclusive";
    // More pairs make no difference to a head that answers otherwise.
    const isOther = answersOf(forms, comparisons, "").verdict === "fail";
    const isOpen = alone.length === 0 && !isOther && (outage !== undefined || !isDecided);
    const next = looks[at + 1];
    if (next === undefined || !isOpen || isOver() || !arePlayed(dropped.length, looks.at(-1) as number)) break;
    plan.onMore?.(pairs.length, number, next);
  }
  /** `isWhole` is false if the comparison was stopped before its first look. */
  return { pairs, forms, findings, comparisons, policy, dropped, isWhole: number >= (looks[0] ?? 0) };
};

export type GateMeasured = Awaited<ReturnType<typeof measurePairs>>;

type GateResult = { claims: doc.Claim[]; measurements: doc.Measurement[]; comparisons: Comparison[]; table: string[] };

/** `notOver`: why no block was past the base's capacity; `null` if they were. */
const pairsClaim = ({ dropped, pairs, isWhole }: GateMeasured, notOver: string | null, replay: string): doc.Claim => {
  const all = dropped.length + pairs.length;
  const [first] = dropped;
  const lost = `${dropped.length} of ${all} pairs could not be compared (first: ${first}); stop other programs, give Floodgate more CPU time, or state a lower capacity with --rate N, and run the gate again`;
  const arePaired = arePlayed(dropped.length, all);
  const open = !isWhole ? "stopped before the first comparison" : arePaired ? notOver : lost;
  const ruling = open === null ? HELD : openBy(!isWhole ? "stopped" : arePaired ? "not-reached" : "machine-disturbed");
  return doc.claimOf({
    ...{ id: "gate/pairs", stage: verdicts.GATE_STAGE, replay, ...ruling },
    reason: open ?? "the generator played the pairs as planned",
    expected: "at least two pairs of three are played as planned, past the base's capacity",
    got: `${pairs.length} of ${all} pairs were compared`,
  });
};

export const runGate = async (
  plan: GatePlan,
  targets: Readonly<Record<blocks.Side, GateSide>>,
  room: GateRoom,
  events: Record<"step" | "progress" | "note", (text: string) => void>,
  /** Replaced in tests, which play in virtual time. */
  playOn: typeof playBlock = playBlock,
): Promise<GateResult> => {
  const { base, head } = targets;
  const { step, progress, note } = events;
  const { replay, seed } = room;
  const reached = new Set<blocks.Side>();
  const play = async (side: blocks.Side, profile: Profile, name: string): Promise<PlayedBlock> => {
    const block = await playOn(targets[side], plan.story.name, profile, name, room);
    const [first] = reached.has(side) ? [] : block.lines;
    const outcomes = [...new Set(block.lines.map(({ outcome }) => outcome))];
    if (first !== undefined && (outcomes.every((one) => one === "indeterminate") || isGatewayAlone(outcomes))) {
      const instead = first.error ?? (isGatewayAlone(outcomes) ? `only a gateway does: ${first.outcome}` : "no answer");
      const silent = `the ${side} answers no call at ${targets[side].deployment.target.base_url} (${instead})`;
      throw new TargetUnreachableError(`${silent}; start it, or mend base_url in its target file`);
    }
    if (first !== undefined && !room.signal.aborted && !block.lines.some(showsApi)) {
      const said = await lookLast(targets[side].deployment);
      if (said !== null) throw new TargetUnreachableError(`the ${side}: ${said}`);
    }
    reached.add(side);
    return block;
  };
  const open = (code: OpenCode, reason: string): GateResult => {
    const claim = doc.doubt("gate/pairs", code, reason, "a base that can be measured", replay);
    return { claims: [{ ...claim, stage: verdicts.GATE_STAGE }], measurements: [], comparisons: [], table: [] };
  };
  const deployments = [base.deployment, head.deployment];
  const isOver = (): boolean => room.signal.aborted || deployments.some(({ budget }) => budget.stopped !== null);
  const permitted = deployments.map(({ target }) => target.permits?.load_max_rps ?? Number.POSITIVE_INFINITY);
  const mostPerS = Math.min(...permitted);
  /** Returns calls per second; 0 if the base served nothing. */
  const probed = async (): Promise<number> => {
    step("probing how much the base carries");
    const probes: blocks.Probe[] = [];
    const most = Math.min(mostPerS, PROBED_MOST_PER_S);
    for (let rate = blocks.nextProbe(probes, most); rate !== null && !isOver(); rate = blocks.nextProbe(probes, most)) {
      const { lines, startUs } = await play("base", constant(rate, blocks.PROBE_S), `probe${probes.length + 1}`);
      const probe = blocks.probeOf(rate, lines, startUs);
      probes.push(probe);
      progress(`offered ${perS(rate)}, served ${perS(probe.servedPerS)}`);
    }
    const found = blocks.capacityOf(probes);
    if (found.perS > 0 && !found.isReached) {
      note(`no limit of the base was reached at ${perS(probes.at(-1)?.ratePerS ?? 0)}`);
    }
    return found.perS;
  };
  const capacity = statedCapacity(plan, base.view) ?? (await probed());
  if (capacity === 0)
    return open("not-reached", "the base served none of the calls of the first probe; its capacity is not known");
  const load = blocks.loadFor(capacity, mostPerS);
  const { lowPerS, overloadPerS } = load;
  note(`the base's capacity is taken as ${perS(capacity)}; blocks at ${perS(lowPerS)} and ${perS(overloadPerS)}`);
  const isOverload = overloadPerS >= 1.5 * capacity;
  if (!isOverload) {
    const times = (overloadPerS / capacity).toFixed(1);
    note(`permits.load_max_rps allows ${perS(mostPerS)}: overload is no more than ${times} times the capacity`);
  }
  if (plan.scenario === GATE_SCENARIO && base.noisy.size === 0) {
    note("there are fewer than four tenants with a server key, so no organization is noisy beside the others");
  }

  step("warming both up");
  let slo: ReturnType<typeof sloFrom> = null;
  for (const side of blocks.SIDES) {
    if (isOver()) break;
    const warm = await play(side, blocks.profileOfBlock(load), `warm.${side}`);
    if (side === "base") slo = sloFrom(warm, load);
  }
  if (slo === null) return open("not-reached", "the base served no call below its capacity");
  if (isOver()) return open("stopped", "stopped before the first pair");

  const looks = blocks.looksFrom(plan.pairs);
  const few = plan.pairs < blocks.PAIRS_DEFAULT ? `; figures are compared from ${blocks.PAIRS_DEFAULT} on` : "";
  step(`${plan.pairs} pairs of blocks, about ${Math.ceil((blocks.pairTakesS(load) * plan.pairs) / 60)} min${few}`);
  const measured = await measurePairs({
    ...{
      seed,
      load,
      looks,
      margins: plan.margins,
      sloMs: slo.sloMs,
      isOver,
      noisy: { base: base.noisy, head: head.noisy },
    },
    play: (side, pair) => play(side, blocks.profileOfBlock(load), `p${String(pair + 1).padStart(2, "0")}.${side}`),
    onPair: (pair, of) => progress(`pair ${pair} of ${of}`),
    onMore: (pairs, played, next) => {
      const which =
        pairs === played
          ? `${pairs} pairs`
          : `${pairs} of ${played} pairs, the others spoilt by the generator or by other programs,`;
      step(`${which} leave something open; measuring on to ${next}`);
    },
  });
  const { comparisons, pairs, forms, policy, findings } = measured;
  const { margin: mostLost = MEASUREMENT_FACTS.goodput.margin } =
    comparisons.find(({ measurement }) => measurement === "goodput") ?? {};
  const sinking = verdicts.sinkingOf(pairs, mostLost, policy.falseAlarm / policy.looks);
  const broken = verdicts.invariantsClaim(findings, replay);
  const kept = verdicts.sinkingClaim(sinking, replay);
  const answers = answersOf(forms, comparisons, replay);
  const compared = verdicts.gateClaims(comparisons, replay);
  const carried = median(pairs.flatMap(({ base: { goodput } }) => goodput ?? [])) ?? 0;
  const isCarried = !slo.isDelayed && carried >= blocks.ALL_SERVED * overloadPerS;
  const todo = isOverload
    ? "was it probed while it warmed up, or is the capacity of `limits` or --rate too low?"
    : "raise permits.load_max_rps to twice its capacity, or what a head loses there is not seen";
  const notOver = isCarried
    ? `the base serves ${perS(carried)} of ${perS(overloadPerS)}, so no block was past its capacity; ${todo}`
    : null;
  const claims = [broken, pairsClaim(measured, notOver, replay), ...compared, answers, kept];
  const measurements = verdicts.gateMeasurements(comparisons);
  const below = [broken, answers, kept].flatMap(({ id, verdict, reason }) =>
    wrapped(`${id}: ${verdict}: ${reason}`, "", 2),
  );
  return { claims, measurements, comparisons, table: [...verdicts.gateTable(comparisons), ...below] };
};

// What the command does: with two targets, which are read, guarded, locked and recorded as one run; or with recorded runs.

export type GateWishes = {
  baseFile: string;
  headFile: string;
  owned: readonly string[];
  scenario: string;
  pairs?: number;
  ratePerS?: number;
  margins?: Margins;
};

const prepare = async ({ baseFile, headFile, owned, pairs = blocks.PAIRS_DEFAULT, ...wish }: GateWishes) => {
  const { scenario } = wish;
  const story = STORIES.get(GATE_STORIES[scenario] ?? scenario);
  if (story === undefined) {
    const names = [...STORIES.keys()].filter((name) => !/^find-/.test(name));
    throw new UsageError(noSuch("scenario", scenario, names, `expected one of ${names.join(", ")}`));
  }
  /** What the run sends to each side, warm-up included; `null` if the base's capacity is probed first. */
  const spendsOn = (base: Target) => {
    const capacity = statedCapacity(wish, viewOf(base));
    const load = capacity === null ? null : blocks.loadFor(capacity, base.permits?.load_max_rps);
    const spent = (most: number) =>
      load && { calls: blocks.callsOfBlock(load) * (most + 1), seconds: blocks.pairTakesS(load) * (most + 1) };
    return { capacity, load, first: spent(pairs), most: spent(blocks.PAIRS_MOST) };
  };
  const intentOn = (target: Target) => ({ load: true, faults: false, requests: spendsOn(target).first?.calls ?? 1 });
  const base = await readTarget(baseFile, owned, intentOn);
  const head = await readTarget(headFile, owned, intentOn(base.target));
  const targets = { base, head };
  const views = alikeViews({ base: base.target, head: head.target });
  const ofBoth = (of: (side: blocks.Side) => readonly string[]): string[] =>
    blocks.SIDES.flatMap((side) => of(side).map((text) => `${side}: ${text}`));
  const { capacity, load, first, most } = spendsOn(base.target);
  const plan = {
    scenario,
    base: base.target.base_url,
    head: head.target.base_url,
    pairs,
    lacks: ofBoth((side) => story.missing(views[side])),
    load,
    pairs_at_most: blocks.PAIRS_MOST,
    /** `null` if the base's capacity is probed first; the calls and seconds are then unknown too. */
    capacity_per_s: capacity,
    calls_each: first?.calls ?? null,
    calls_each_at_most: most?.calls ?? null,
    seconds: first?.seconds ?? null,
    seconds_at_most: most?.seconds ?? null,
    refused_by_guard: ofBoth((side) => targets[side].refusals),
  };
  if (plan.base === plan.head) throw new UsageError(`base and head are both ${plan.base}; name two deployments`);
  return { plan, story, targets, views };
};

/** Plans from both target files alone: reads no secret, locks nothing, sends nothing. */
export const planGate = async (wishes: GateWishes) => (await prepare(wishes)).plan;

/** Makes one side's stage. One note on doubts about the host counts their blocks and quotes the first. */
const outcomeOf = ({ side, seen }: GateSide, said: readonly string[]): doc.StageOutcome[] => {
  const { measure, hostNotes, unread, protocols, lastFacts } = seen;
  if (lastFacts === null) return [];
  // These were read for each block and do not describe the whole stage.
  const { counts: _counts, ledger: _ledger, gauges: _gauges, host: _host, ...facts } = lastFacts;
  const disturbed = hostNotes.filter(({ length }) => length > 0);
  const often = `${side}: in ${disturbed.length} of ${hostNotes.length} blocks, first: ${disturbed[0]?.[0]}`;
  const summary = { ...measure.end().summary, protocols: protocols.size === 0 ? undefined : [...protocols].sort() };
  const notes = [...said, ...unread, ...(disturbed.length === 0 ? [] : [often])];
  return [doc.stageOutcome({ summary, facts, notes })];
};

/** Where the base's capacity is probed first, blocks are taken to be as long as those of the slowest base. */
const announced = (plan: Awaited<ReturnType<typeof planGate>>): string => {
  const { scenario, base, head, load, pairs, pairs_at_most: most } = plan;
  const takes = (all: number): string =>
    `${all} pairs of blocks in about ${Math.ceil((blocks.pairTakesS(load ?? blocks.loadFor(1)) * (all + 1)) / 60)} min`;
  const more = pairs < most ? `, and up to ${takes(most)} where those leave something open` : "";
  return `the head ${head} is compared with the base ${base}, ${scenario}: ${takes(pairs)}${more}`;
};

export const gateTargets = async (request: Asked & GateWishes): Promise<RunResult & { table: string[] }> => {
  const { story, targets, views, plan } = await prepare(request);
  if (plan.refused_by_guard.length > 0) throw new GuardError(plan.refused_by_guard);
  if (plan.lacks.length > 0) throw new UsageError(`${request.scenario} cannot be played: ${plan.lacks.join("; ")}`);
  const { ratePerS, scenario, margins } = request;
  const wish = { scenario, story, pairs: plan.pairs, ratePerS, margins };
  const about = { profile: "gate", canJudge: (name: string) => doc.groupOf(name) === "gate" };
  request.events.result(wrapped(announced(plan)).join("\n"));
  const { came, ...run } = await recordRun(
    { ...request, ...about, targets: [targets.base, targets.head] },
    async (context) => {
      const { events, folder } = context;
      const [base, head] = context.deployments as [Deployment, Deployment];
      const sides = {
        base: await gateSideOf("base", base, story, views.base),
        head: await gateSideOf("head", head, story, views.head),
      };
      const said: string[] = [];
      const note = (text: string): void => {
        said.push(`${GATE_STAGE}: ${text}`);
        events.result(`  ${text}`);
      };
      const [ofBase, ofHead] = [base, head].map(({ target: { tenants = [] } }) => tenants.length);
      if (ofBase !== ofHead) {
        const played = views.base.tenants.length === 0 ? "the roles" : `the first ${views.base.tenants.length}`;
        note(`the base has ${ofBase} tenants and the head ${ofHead}; ${played} of each call`);
      }
      const result = await runGate(wish, sides, context, {
        step: events.step,
        progress: (text) => events.progress(`${GATE_STAGE}: ${text}`),
        note,
      });
      const outcomes = [...outcomeOf(sides.base, said), ...outcomeOf(sides.head, [])];
      for (const outcome of outcomes) await context.addStage(outcome);
      context.add(result);
      await folder.writeJson("gate.json", { schema: "floodgate/gate@1", comparisons: result.comparisons });
      await folder.writeText("gate.txt", `${result.table.join("\n")}\n`);
      return result.table;
    },
  );
  return { ...run, table: came ?? [] };
};

/** Reads a run. Throws `UsageError`, also for a run that was stopped or killed. */
const readWhole = (path: string): doc.RunDocument => {
  const file = path.endsWith(".json") ? path : join(path, "run.json");
  const document = recordedRun(file);
  const cut = document.claims.find(({ id }) => id === "run/completed");
  if (cut !== undefined) throw new UsageError(`${path} did not come to its end: ${cut.reason}; name a whole run`);
  return document;
};

export const readFigures = (path: string): recorded.RunFigures => recorded.figuresOf(readWhole(path));

/** Stages whose lengths differ by more than this factor are named: percentiles of the shorter one rest on fewer calls. */
const LENGTHS_APART = 1.5;

const otherLengths = (before: readonly doc.RunDocument[], after: readonly doc.RunDocument[]): string[] => {
  const lengths = (runs: readonly doc.RunDocument[], name: string): number[] =>
    runs.flatMap(({ stages }) => stages.filter((one) => one.name === name).map((one) => one.duration_ms));
  // Others have no schedule to keep to: beside a fault they end once the deployment has recovered.
  const scheduled = before.flatMap(({ measurements }) => measurements.filter(({ name }) => name === "offered_rate"));
  const names = [...new Set(scheduled.map(({ stage }) => stage))];
  return names.flatMap((name) => {
    const [was, is] = [median(lengths(before, name)), median(lengths(after, name))];
    if (was === null || is === null || Math.max(was, is) <= LENGTHS_APART * Math.min(was, is)) return [];
    return [`${name} (${duration(was)} before, ${duration(is)} after)`];
  });
};

/** What else may have made a difference. It decides nothing, because base and head may have two addresses. */
const otherwise = (before: readonly doc.RunDocument[], after: readonly doc.RunDocument[]): string[] => {
  const differ = (of: (run: doc.RunDocument) => string, sentence: (which: string) => string): string[] => {
    const [was, is] = [before, after].map((runs) => [...new Set(runs.map(of))].sort().join(", "));
    return was === is ? [] : [sentence(`${was} before, ${is} after`)];
  };
  const lengths = otherLengths(before, after);
  return [
    ...(lengths.length === 0 ? [] : [`played for other lengths: ${someOf(lengths, 5)}`]),
    ...differ(
      ({ target }) => (target.embedded ? "the embedded deployment" : target.base_url),
      (which) => `of two targets: ${which}`,
    ),
    ...differ(
      ({ commit }) => commit ?? "unknown",
      (which) =>
        `by two revisions of Floodgate, which may judge differently: ${which}; \`npx floodgate report RUN\` judges a run again by this one`,
    ),
  ];
};

/** Says that a name is none of a measurement that the gate compares; `null` if it is one. */
export const unknownMargin = (name: string): string | null => {
  if (Object.hasOwn(MEASUREMENT_FACTS, name) || recorded.comparedBy(name) !== null) return null;
  const names = Object.keys(MEASUREMENT_FACTS);
  return noSuch("measurement", name, names, `expected NAME=PERCENT, of ${names.join(", ")} or of a recorded run`);
};

export const compareRuns = (
  before: readonly string[],
  after: readonly string[],
  margins: Margins = {},
): recorded.RecordedComparison => {
  const [was, is] = [before.map(readWhole), after.map(readWhole)];
  const found = recorded.compareRecorded(was.map(recorded.figuresOf), is.map(recorded.figuresOf), margins);
  return { ...found, reasons: [...found.reasons, ...otherwise(was, is)] };
};

/** Compares runs with a baseline; inconclusive without a readable baseline. */
export const compareWithBaseline = (
  file: string,
  runs: readonly string[],
  margins: Margins = {},
): recorded.RecordedComparison => {
  const after = runs.map(readFigures);
  const missing = (reason: string) => ({ verdict: "inconclusive" as const, reasons: [reason], broken: [], rows: [] });
  if (!existsSync(file))
    return missing(`there is no baseline ${file}; --save-baseline ${file} --reason TEXT writes one`);
  const value = recordedJson(file, "baseline", "a file that --save-baseline wrote");
  const wrong = recorded.notABaseline(value);
  return wrong === null
    ? recorded.compareRecorded((value as recorded.Baseline).runs, after, margins)
    : missing(`${file} is no baseline: ${wrong}`);
};

export const saveBaseline = async (file: string, runs: readonly string[], reason: string) => {
  const baseline: recorded.Baseline = {
    schema: recorded.BASELINE_SCHEMA,
    reason,
    saved_at: new Date().toISOString(),
    commit: await commitOf(REPOSITORY),
    runs: runs.map(readFigures),
  };
  atPlace(`--save-baseline ${file}`, () => {
    makeFolders(dirname(file));
    const draft = `${file}.${process.pid}.draft`;
    using atEnd = new DisposableStack();
    atEnd.defer(() => rmSync(draft, { force: true }));
    writeFileSync(draft, `${JSON.stringify(baseline, null, 2)}\n`);
    renameSync(draft, file);
  });
  return baseline;
};
