/** The body of `gate` on two targets: read, guarded, locked and recorded as one run. */

import { noSuch } from "../../contract/nearest.ts";
import { type BlockLoad, loadFor, PAIRS_DEFAULT, PAIRS_MOST, SIDES, type Side } from "../../gate/block-plan.ts";
import type { Line } from "../../history/line.ts";
import { StageMeasure } from "../../history/measure.ts";
import type { StageOutcome } from "../../history/stage-outcome.ts";
import { stageOutcome } from "../../history/stage-outcome.ts";
import { GuardError, type PreparedTarget, readTarget } from "../../stages/prepare-target.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import type { Story } from "../../workload/story.ts";
import { UsageError } from "../exit-codes.ts";
import { type RunRequest, type RunResult, recordRun } from "../recorded-run.ts";
import { gateSideOf, stageOf } from "./play-block.ts";
import { GATE_STAGE, GATE_STORIES, gateSpends, runGate, type SidePlayed, statedCapacity } from "./run-gate.ts";

export type GateWishes = {
  baseFile: string;
  headFile: string;
  owned: readonly string[];
  scenario: string;
  pairs?: number;
  ratePerS?: number;
};

type GateRequest = Omit<RunRequest, "targets" | "profile" | "required"> & GateWishes;

type GateDryRun = {
  scenario: string;
  base: string;
  head: string;
  pairs: number;
  pairs_at_most: number;
  /** `null` where the base's capacity is probed first. */
  capacity_per_s: number | null;
  load: BlockLoad | null;
  calls_each: number | null;
  calls_each_at_most: number | null;
  seconds: number | null;
  seconds_at_most: number | null;
  lacks: string[];
  refused_by_guard: string[];
};

const storyOf = (scenario: string): Story => {
  const story = STORIES.get(GATE_STORIES[scenario] ?? scenario);
  if (story !== undefined) return story;
  const names = [...STORIES.keys()].filter((name) => !/^find-/.test(name));
  throw new UsageError(noSuch("scenario", scenario, names, `expected one of ${names.join(", ")}`));
};

type Prepared = { plan: GateDryRun; story: Story; targets: Record<Side, PreparedTarget> };

const intend = (requests: number) => ({ load: true, faults: false, requests });

const prepare = async (wishes: GateWishes): Promise<Prepared> => {
  const { baseFile, headFile, owned, scenario, pairs = PAIRS_DEFAULT, ratePerS } = wishes;
  const story = storyOf(scenario);
  const files: Record<Side, string> = { base: baseFile, head: headFile };
  const read = async (side: Side, calls: number): Promise<PreparedTarget> =>
    readTarget(files[side], owned, intend(calls));
  const first = await read("base", 0);
  const [baseView, headView] = [viewOf(first.target), viewOf((await read("head", 0)).target)];
  const lacks = [
    ...story.missing(baseView).map((name) => `base: ${name}`),
    ...story.missing(headView).map((name) => `head: ${name}`),
  ];
  const capacity = statedCapacity({ scenario, ratePerS }, baseView);
  const mostPerS = first.target.permits?.load_max_rps;
  const load = capacity === null ? null : loadFor(capacity, mostPerS);
  const spends = load === null ? null : gateSpends(load, pairs);
  const targets = { base: await read("base", spends?.calls ?? 1), head: await read("head", spends?.calls ?? 1) };
  const plan: GateDryRun = {
    scenario,
    base: targets.base.target.base_url,
    head: targets.head.target.base_url,
    pairs,
    lacks,
    load,
    pairs_at_most: PAIRS_MOST,
    capacity_per_s: capacity,
    calls_each: spends?.calls ?? null,
    calls_each_at_most: spends?.callsMost ?? null,
    seconds: spends?.s ?? null,
    seconds_at_most: spends?.sMost ?? null,
    refused_by_guard: SIDES.flatMap((side) => targets[side].refusals.map((reason) => `${side}: ${reason}`)),
  };
  if (targets.base.target.base_url === targets.head.target.base_url) {
    throw new UsageError(`base and head are both ${plan.base}; name two deployments`);
  }
  return { plan, story, targets };
};

/** Reads both target files and nothing else: no secret, no lock, no folder, no call. */
export const planGate = async (wishes: GateWishes): Promise<GateDryRun> => (await prepare(wishes)).plan;

/** Doubts about the host, once a side: in how many blocks, and the first of them. */
const hostNotes = (side: Side, { notes: blocks }: SidePlayed): string[] => {
  const disturbed = blocks.filter((notes) => notes.length > 0);
  const first = disturbed[0]?.[0];
  return first === undefined ? [] : [`${side}: in ${disturbed.length} of ${blocks.length} blocks, first: ${first}`];
};

const outcomeOf = (
  measure: StageMeasure,
  { lastFacts, protocols }: SidePlayed,
  notes: readonly string[],
): StageOutcome | null => {
  if (lastFacts === null) return null;
  // Counts and charges were read block by block and do not describe the stage as a whole.
  const { counts: _counts, ledger: _ledger, gauges: _gauges, ...facts } = lastFacts;
  const { summary } = measure.end();
  const seen = protocols.size === 0 ? undefined : [...protocols].sort();
  return stageOutcome({ summary: { ...summary, protocols: seen }, facts, notes: [...notes] });
};

/** Throws what a user has to mend (target file, guard, lock, scenario); for everything else there is a document. */
export const gateTargets = async (request: GateRequest): Promise<RunResult & { table: string[] }> => {
  const { story, targets, plan } = await prepare(request);
  if (plan.refused_by_guard.length > 0) throw new GuardError(plan.refused_by_guard);
  if (plan.lacks.length > 0) throw new UsageError(`${request.scenario} cannot be played: ${plan.lacks.join("; ")}`);
  const { ratePerS, scenario } = request;
  let table: string[] = [];
  const run = await recordRun(
    {
      ...request,
      profile: "gate",
      canJudge: (name) => name.split("/")[0] === "gate",
      targets: SIDES.map((side) => targets[side]),
    },
    async (context) => {
      const [base, head] = context.deployments;
      if (base === undefined || head === undefined) throw new Error("two deployments were not opened");
      const sides = { base: await gateSideOf("base", base, story), head: await gateSideOf("head", head, story) };
      const { events } = context;
      const measures = { base: new StageMeasure(stageOf("base")), head: new StageMeasure(stageOf("head")) };
      // Measured as they come: of a block only its figures are kept.
      const line = (one: Line): void => {
        for (const side of SIDES) measures[side].see(one);
        context.line(one);
      };
      const wish = { scenario, story, seed: request.seed, pairs: plan.pairs, ratePerS };
      const result = await runGate(
        wish,
        sides,
        { ...context, line },
        {
          step: events.step,
          progress: (text) => events.progress(`${GATE_STAGE}: ${text}`),
          note: (text) => events.result(`  ${text}`),
        },
      );
      for (const side of SIDES) {
        const notes = [...(side === "base" ? result.notes : []), ...hostNotes(side, result.sides[side])];
        const outcome = outcomeOf(measures[side], result.sides[side], notes);
        if (outcome !== null) await context.addStage(outcome);
      }
      context.addClaims(result.claims);
      context.addMeasurements(result.measurements);
      await context.folder.writeJson("gate.json", { schema: "floodgate/gate@1", comparisons: result.comparisons });
      await context.folder.writeText("gate.txt", `${result.table.join("\n")}\n`);
      table = result.table;
    },
  );
  return { ...run, table };
};
