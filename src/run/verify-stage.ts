/** The rules of verify/ as a stage: their calls as lines, their claims, and a crash file for each rule that fails. */
import { createRunClock } from "../client/clock.ts";
import { measureStage } from "../history/measure.ts";
import { inOrder } from "../invariants/judge-stage.ts";
import type { Journal } from "../supervision/journal.ts";
import type { EffectJournal } from "../verify/effects.ts";
import { runVerify, type VerifyResult } from "../verify/run-verify.ts";
import type { RunFolder } from "./run-folder.ts";
import type { StageContext, StageOutcome } from "./stage.ts";

/** What `verify` makes is taken back by itself; should the run die, only people can, so the journal just tells it. */
export const effectJournal = (journal: Journal): EffectJournal => ({
  about: (effect) => journal.about({ ...effect, undo: { how: "nothing" } }),
  done: (id, detail) => journal.done(id, detail === undefined ? {} : { detail }),
  undone: (id, detail) => journal.undone(id, detail),
});

export const verifyOutcome = (result: VerifyResult, durationMs: number): StageOutcome => {
  const lines = inOrder(result.lines);
  const { summary, measurements } = measureStage(lines, { stage: "verify", durationMs });
  return {
    summary: { ...summary, driver: "verify" },
    lines,
    facts: {
      ...{
        stage: "verify",
        limits: {},
        shedding: "unknown",
        exclusive: false,
        tenants: {},
        faults: false,
        drained: false,
      },
    },
    claims: result.claims,
    // A lattice of single calls says nothing about the deployment's speed.
    measurements: measurements.filter(({ name }) => name === "achieved_rate"),
    faults: [],
    notes: [],
  };
};

export const writeCrashes = async (folder: RunFolder, result: VerifyResult): Promise<void> => {
  for (const crash of result.crashes) await folder.writeJson(`crashes/${crash.rule}.json`, crash);
};

/** Faster than a stranger's deployment would be asked: it is ours, and its keys bear it. */
const RATE_PER_S = 50;

/** Phases that the stages about load and quotas cover, with more calls than a rule would make. */
const OWN_STAGES = ["quota-burn", "load"];

/** All rules that need neither load nor allowances, on the embedded deployment: those have stages of their own. */
export const runVerifyStage = async (context: StageContext): Promise<StageOutcome> => {
  const { target, secrets, seed, run, epochUs, journal, folder, signal } = context;
  const began = performance.now();
  const result = await runVerify({
    ...{ target, secrets, seed, clock: createRunClock(epochUs), signal, journal: effectJournal(journal) },
    ...{ idPrefix: `${run}.verify.c`, ratePerS: RATE_PER_S, allowWrites: true, skip: OWN_STAGES },
    onProgress: (progress) => {
      if (progress.at === "rule") context.onProgress(`verify: rule ${progress.number} of ${progress.of}`);
    },
  });
  await writeCrashes(folder, result);
  return verifyOutcome(result, performance.now() - began);
};
