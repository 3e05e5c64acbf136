/**
 * One experiment: steady state, fault, did it take effect, hold, heal, read back, recovery. It heals on every path, and
 * it neither judges nor makes load: the load runs beside it and the judges read the lines that it returns.
 *
 * Write-ahead: what is about to be broken, and how to mend it, is on disk before it is broken; if that cannot be written,
 * nothing is broken. That the fault was asked for is not enough: a probe through the broken link must show it.
 */
import type { FaultLine } from "../history/line.ts";
import type { SideEffects, Undo } from "../supervision/undo.ts";
import { waitUntil } from "../supervision/waiting.ts";

/** A look at something, asked again until it is true or its time is over. One that throws reads as "no", with a note. */
type Look = (signal: AbortSignal) => Promise<boolean>;

export type ExperimentSteps = {
  /** Is the target healthy? */
  isSteady: Look;
  inject: (signal: AbortSignal) => Promise<void>;
  /** Looks THROUGH the broken link; true when the fault shows. */
  showsEffect: Look;
  /** Whether enough was seen of the fault; absent: its time is all there is to it. Asked when that is over, for twice as long. */
  isSeenEnough?: Look;
  /** Takes the fault away by all means it has, reads back, and says what it took. Throws when the link is not whole. */
  heal: (signal: AbortSignal) => Promise<string[] | undefined>;
  hasRecovered: Look;
};

/** What is broken (`limiter`, `keys`, `edge`), how, and how long each part may last. */
export type ExperimentPlan = Pick<FaultLine, "stage" | "experiment" | "link" | "fault" | "stream"> & {
  undo: Undo;
  steps: ExperimentSteps;
  steadyMs: number;
  injectMs: number;
  effectMs: number;
  holdMs: number;
  healMs: number;
  recoveryMs: number;
  /** Pause between two looks. */
  pollMs?: number;
};

type Surroundings = {
  /** The run's clock, microseconds. */
  nowUs: () => number;
  journal: SideEffects;
  /** Asked to stop: the fault is healed at once, and recovery is not waited for. */
  signal?: AbortSignal;
  /** Has the heal run at the end of the run should it not be reached here. Returns the function that forgets it. */
  keepUndo?: (name: string, undo: () => Promise<void>) => () => void;
  /** Each line as it is made, for a history in time order. */
  onLine?: (line: FaultLine) => void;
};

export type Outcome = {
  steady: boolean;
  /** False also where nothing was put in because the target was not steady. */
  tookEffect: boolean;
  /** Read back whole. True where nothing was put in. False is a failed cleanup, not a failed target. */
  healed: boolean;
  /** `null`: not looked at (stopped, never steady, or not healed). */
  recovered: boolean | null;
  stopped: boolean;
  notes: string[];
};

const STILL = new AbortController().signal;

/** Rejects only when the journal cannot be written, and then nothing was broken. */
export const runExperiment = async (
  { steps, pollMs = 20, ...plan }: ExperimentPlan,
  { nowUs, journal, signal = STILL, keepUndo, onLine }: Surroundings,
): Promise<{ lines: FaultLine[]; outcome: Outcome }> => {
  const { stage, experiment, link, fault, stream } = plan;
  const lines: FaultLine[] = [];
  const notes: string[] = [];
  const outcome: Outcome = { steady: false, tookEffect: false, healed: true, recovered: null, stopped: false, notes };
  const line = (phase: FaultLine["phase"], effect?: { took_effect: boolean }): void => {
    const made: FaultLine = { type: "fault", stage, experiment, link, fault, stream, phase, at_us: nowUs(), ...effect };
    lines.push(made);
    onLine?.(made);
  };
  const look = async (what: string, step: Look, forMs: number): Promise<boolean> => {
    const { met, lastError } = await waitUntil(step, { forMs, pollMs, signal });
    if (!met && !signal.aborted)
      notes.push(`${what} within ${forMs} ms: no${lastError === null ? "" : ` (${lastError})`}`);
    return met;
  };
  const finish = (): { lines: FaultLine[]; outcome: Outcome } => {
    outcome.stopped = signal.aborted;
    if (signal.aborted) notes.push("stopped before the end");
    return { lines, outcome };
  };

  outcome.steady = await look("steady state", steps.isSteady, plan.steadyMs);
  if (!outcome.steady || signal.aborted) return finish();

  const id = journal.about({ kind: "fault", name: `${link}.${fault}`, undo: plan.undo });
  outcome.healed = false;
  const healOnce = async (): Promise<void> => {
    // Not the run's signal: being asked to stop means heal now, not leave it.
    const did = (await steps.heal(AbortSignal.timeout(plan.healMs))) ?? [];
    if (did.length > 0) notes.push(`healing took: ${did.join(", ")}`);
    journal.undone(id, did.join(", "));
  };
  const forget = keepUndo?.(`heal ${link}.${fault}`, healOnce);
  try {
    line("injecting");
    await steps.inject(AbortSignal.any([signal, AbortSignal.timeout(plan.injectMs)]));
    journal.done(id);
    outcome.tookEffect = await look("effect seen through the link", steps.showsEffect, plan.effectMs);
    line("injected", { took_effect: outcome.tookEffect });
    // A fault that does not bite is not held: there is nothing to watch.
    if (outcome.tookEffect) {
      await waitUntil(async () => false, { forMs: plan.holdMs, pollMs: plan.holdMs, signal });
      const { isSeenEnough } = steps;
      if (isSeenEnough !== undefined) await waitUntil(isSeenEnough, { forMs: 2 * plan.holdMs, pollMs, signal });
    }
  } catch (error) {
    notes.push(`inject: ${(error as Error).message}`);
    line("injected", { took_effect: false });
  } finally {
    line("healing");
    try {
      await healOnce();
      outcome.healed = true;
      line("healed");
      forget?.();
    } catch (error) {
      // Left registered and open in the journal: the end of the run and the watchdog try again.
      notes.push(`not healed: ${(error as Error).message}`);
    }
  }
  if (outcome.healed && !signal.aborted)
    outcome.recovered = await look("recovery", steps.hasRecovered, plan.recoveryMs);
  if (signal.aborted) outcome.recovered = null;
  return finish();
};
