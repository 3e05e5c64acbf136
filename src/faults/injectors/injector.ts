/** The interface of a fault injector: inject, show the effect, heal, and undo even after this process has died. */
import type { Undo } from "../../supervision/undo.ts";
import type { FaultStream } from "../link-faults.ts";

export type FaultInjector = {
  /** Throws if the injection failed, or if another fault is in force. */
  inject: (signal: AbortSignal) => Promise<void>;
  /** Reports whether the effect shows at the place of injection; `null` if only callers can see it. */
  shows: (() => Promise<boolean>) | null;
  /** Heals by all means and returns the steps. Harmless without a fault. Throws if the fault is still in force. */
  heal: (signal: AbortSignal) => Promise<string[] | undefined>;
  undo: Undo;
  stream: FaultStream;
  injectMs: number;
  effectMs: number;
  healMs: number;
  notes: readonly string[];
};

/** Default deadlines: a command may wait for an orchestrator, a process for refunds, an effect for the first call. */
export const TIMES = { injectMs: 30_000, effectMs: 10_000, healMs: 30_000 };

/** Common fields of faults that end with this process or with the deployment that it started. */
export const ENDS_WITH_US = { ...TIMES, stream: "both", undo: { how: "nothing" }, notes: [] } as const;

/** Combines faults: injected in order, healed in reverse by default, and shown only if all of them show. */
export const atOnce = (parts: readonly FaultInjector[], healsInOrder = false): FaultInjector => {
  const [only, second] = parts;
  if (only === undefined) throw new Error("expected at least one fault");
  if (second === undefined) return only;
  const sum = (field: "injectMs" | "effectMs" | "healMs"): number => parts.reduce((ms, part) => ms + part[field], 0);
  const shown = parts.flatMap(({ shows }) => shows ?? []);
  return {
    inject: async (signal) => {
      for (const part of parts) await part.inject(signal);
    },
    shows: shown.length === 0 ? null : async () => (await Promise.all(shown.map((shows) => shows()))).every(Boolean),
    heal: async (signal) => {
      const did: string[] = [];
      const troubles: string[] = [];
      for (const part of healsInOrder ? parts : parts.toReversed()) {
        // A failed heal must not leave the other faults in force.
        await part.heal(signal).then(
          (steps) => did.push(...(steps ?? [])),
          (error: Error) => troubles.push(error.message),
        );
      }
      if (troubles.length > 0) throw new Error(troubles.join("; "));
      return did;
    },
    undo: { how: "all", undos: parts.map(({ undo }) => undo) },
    stream: parts.every(({ stream }) => stream === only.stream) ? only.stream : "both",
    ...{ injectMs: sum("injectMs"), effectMs: sum("effectMs"), healMs: sum("healMs") },
    notes: parts.flatMap(({ notes }) => notes),
  };
};
