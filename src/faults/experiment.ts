/**
 * Plays one experiment: steady state, fault, effect, hold, heal, read back, recovery. Heals on every path. Neither judges nor
 * makes load. What is about to be broken, and its undo, is on disk before it is broken (write-ahead). A probe through the broken
 * link has to show the fault, because a request for it proves nothing.
 */
import type { FaultLine } from "../history/line.ts";
import type { SideEffects } from "../supervision/journal.ts";
import type { Undo } from "../supervision/undo.ts";
import { waitUntil } from "../supervision/waiting.ts";

/** Polled until true or its time is over. Throwing counts as false, with a note. */
type Look = (signal: AbortSignal) => Promise<boolean>;

export type ExperimentSteps = {
  isSteady: Look;
  inject: (signal: AbortSignal) => Promise<void>;
  /** Looks through the broken link. */
  showsEffect: Look;
  /** Whether enough was seen of the fault, polled after `holdMs` for twice as long. */
  isSeenEnough?: Look;
  /** Heals by all available means and reads back. Returns the steps taken. Throws if the link is not whole. */
  heal: (signal: AbortSignal) => Promise<string[] | undefined>;
  hasRecovered: Look;
};

/** What is broken, how, and the time limit of each part. */
export type ExperimentPlan = Pick<FaultLine, "stage" | "experiment" | "link" | "fault" | "stream"> & {
  undo: Undo;
  steps: ExperimentSteps;
  steadyMs: number;
  injectMs: number;
  effectMs: number;
  holdMs: number;
  healMs: number;
  recoveryMs: number;
  pollMs?: number;
};

type Surroundings = {
  nowUs: () => number;
  journal: SideEffects;
  /** A stop: heals at once and does not wait for recovery. */
  signal?: AbortSignal;
  /** Registers the heal for the end of the run. Returns a function that unregisters it. */
  keepUndo?: (name: string, undo: () => Promise<void>) => () => void;
  /** Gets each line when it is made. */
  onLine?: (line: FaultLine) => void;
};

export type Outcome = {
  steady: boolean;
  /** Also false if nothing was injected. */
  tookEffect: boolean;
  /** Read back as whole, or never broken. False means a failed cleanup, not a failed target. */
  healed: boolean;
  /** `null`: not observed (stopped, never steady, or not healed). */
  recovered: boolean | null;
  stopped: boolean;
  notes: string[];
};

const STILL = new AbortController().signal;

/** Rejects only if the journal cannot be written; nothing is broken then. */
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
    // Not the run's signal, because a stop means to heal now.
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
    // A fault without effect is not held.
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
      // Stays registered and open in the journal, so that the end of the run and the watchdog retry it.
      notes.push(`not healed: ${(error as Error).message}`);
    }
  }
  if (outcome.healed && !signal.aborted)
    outcome.recovered = await look("recovery", steps.hasRecovered, plan.recoveryMs);
  if (signal.aborted) outcome.recovered = null;
  return finish();
};
