/** The bodies of `gate`: on two targets, which are read, guarded, locked and recorded as one run; on recorded runs. */

import { existsSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { noSuch } from "../../contract/nearest.ts";
import * as blocks from "../../gate/block-plan.ts";
import { GATE_STAGE } from "../../gate/gate-claims.ts";
import * as recorded from "../../gate/recorded-comparison.ts";
import { groupOf, type RunDocument } from "../../history/run-document.ts";
import { type StageOutcome, stageOutcome } from "../../history/stage-facts.ts";
import { GuardError, readTarget } from "../../stages/prepare-target.ts";
import { REPOSITORY } from "../../supervision/repository.ts";
import { makeFolders } from "../../supervision/user-file.ts";
import type { Target } from "../../target/target.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { atPlace, UsageError } from "../exit-codes.ts";
import { recordedJson } from "../read-run.ts";
import { type Asked, type RunResult, recordRun } from "../recorded-run.ts";
import { commitOf } from "../run-reports.ts";
import { GATE_STORIES, type GateSide, gateSideOf, runGate, statedCapacity } from "./run-gate.ts";

export type GateWishes = {
  baseFile: string;
  headFile: string;
  owned: readonly string[];
  scenario: string;
  pairs?: number;
  ratePerS?: number;
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
  const ofBoth = (of: (side: blocks.Side) => readonly string[]): string[] =>
    blocks.SIDES.flatMap((side) => of(side).map((text) => `${side}: ${text}`));
  const { capacity, load, first, most } = spendsOn(base.target);
  const plan = {
    scenario,
    base: base.target.base_url,
    head: head.target.base_url,
    pairs,
    lacks: ofBoth((side) => story.missing(viewOf(targets[side].target))),
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
  return { plan, story, targets };
};

/** Plans from both target files alone: reads no secret, locks nothing, sends nothing. */
export const planGate = async (wishes: GateWishes) => (await prepare(wishes)).plan;

/** Makes one side's stage. One note on doubts about the host counts their blocks and quotes the first. */
const outcomeOf = ({ side, seen }: GateSide, said: readonly string[]): StageOutcome[] => {
  const { measure, hostNotes, protocols, lastFacts } = seen;
  if (lastFacts === null) return [];
  // Counts and charges were read block by block and do not describe the stage as a whole.
  const { counts: _counts, ledger: _ledger, gauges: _gauges, ...facts } = lastFacts;
  const disturbed = hostNotes.filter(({ length }) => length > 0);
  const often = `${side}: in ${disturbed.length} of ${hostNotes.length} blocks, first: ${disturbed[0]?.[0]}`;
  const summary = { ...measure.end().summary, protocols: protocols.size === 0 ? undefined : [...protocols].sort() };
  return [stageOutcome({ summary, facts, notes: [...said, ...(disturbed.length === 0 ? [] : [often])] })];
};

export const gateTargets = async (request: Asked & GateWishes): Promise<RunResult & { table: string[] }> => {
  const { story, targets, plan } = await prepare(request);
  if (plan.refused_by_guard.length > 0) throw new GuardError(plan.refused_by_guard);
  if (plan.lacks.length > 0) throw new UsageError(`${request.scenario} cannot be played: ${plan.lacks.join("; ")}`);
  const { ratePerS, scenario } = request;
  const wish = { scenario, story, pairs: plan.pairs, ratePerS };
  const about = { profile: "gate", canJudge: (name: string) => groupOf(name) === "gate" };
  const { came, ...run } = await recordRun(
    { ...request, ...about, targets: [targets.base, targets.head] },
    async (context) => {
      const { events, folder } = context;
      const [base, head] = context.deployments;
      if (base === undefined || head === undefined) throw new Error("two deployments were not opened");
      const sides = { base: await gateSideOf("base", base, story), head: await gateSideOf("head", head, story) };
      const said: string[] = [];
      const result = await runGate(wish, sides, context, {
        step: events.step,
        progress: (text) => events.progress(`${GATE_STAGE}: ${text}`),
        note: (text) => {
          said.push(`${GATE_STAGE}: ${text}`);
          events.result(`  ${text}`);
        },
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
const readWhole = (path: string): RunDocument => {
  const file = path.endsWith(".json") ? path : join(path, "run.json");
  const document = recordedJson(file) as RunDocument;
  if (document?.schema !== "floodgate/run@1")
    throw new UsageError(`${file} is no run of this schema: ${String(document?.schema)}`);
  const cut = document.claims.find(({ id }) => id === "run/completed");
  if (cut !== undefined) throw new UsageError(`${path} did not come to its end: ${cut.reason}; name a whole run`);
  return document;
};

export const readFigures = (path: string): recorded.RunFigures => recorded.figuresOf(readWhole(path));

/** What else may have made a difference. It decides nothing, because base and head may have two addresses. */
const otherwise = (before: readonly RunDocument[], after: readonly RunDocument[]): string[] => {
  const differ = (of: (run: RunDocument) => string, sentence: (which: string) => string): string[] => {
    const [was, is] = [before, after].map((runs) => [...new Set(runs.map(of))].sort().join(", "));
    return was === is ? [] : [sentence(`${was} before, ${is} after`)];
  };
  return [
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

export const compareRuns = (before: readonly string[], after: readonly string[]): recorded.RecordedComparison => {
  const [was, is] = [before.map(readWhole), after.map(readWhole)];
  const found = recorded.compareRecorded(was.map(recorded.figuresOf), is.map(recorded.figuresOf));
  return { ...found, reasons: [...found.reasons, ...otherwise(was, is)] };
};

/** Compares runs with a baseline; inconclusive without a readable baseline. */
export const compareWithBaseline = (file: string, runs: readonly string[]): recorded.RecordedComparison => {
  const after = runs.map(readFigures);
  const missing = (reason: string) => ({ verdict: "inconclusive" as const, reasons: [reason], broken: [], rows: [] });
  if (!existsSync(file))
    return missing(`there is no baseline ${file}; --save-baseline ${file} --reason TEXT writes one`);
  const value = recordedJson(file, "baseline", "a file that --save-baseline wrote");
  const wrong = recorded.notABaseline(value);
  return wrong === null
    ? recorded.compareRecorded((value as recorded.Baseline).runs, after)
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
