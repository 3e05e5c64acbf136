/** The port of every way to inject a fault, prove that it shows, and heal it, with or without this process. */
import type { Part } from "../../deployments/part.ts";
import { birthOf } from "../../supervision/processes.ts";
import type { Undo } from "../../supervision/undo.ts";
import type { FaultStream } from "../link-faults.ts";

export type FaultInjector = {
  /** Throws when the fault could not be injected, also when another one is in already. */
  inject: (signal: AbortSignal) => Promise<void>;
  /** Whether the fault shows where it was injected; `null` where that cannot be seen from here: then callers have to see it. */
  shows: (() => Promise<boolean>) | null;
  /**
   * By all means it has; returns the steps it took. Harmless when nothing is in, so that it can be tried beforehand and again.
   * Throws when the fault is still in.
   */
  heal: (signal: AbortSignal) => Promise<string[] | undefined>;
  undo: Undo;
  stream: FaultStream;
  injectMs: number;
  effectMs: number;
  healMs: number;
  /** For a report. */
  notes: readonly string[];
};

/** Of a fault that ends with this process, or with the deployment that this process started. */
export const ENDS_WITH_US = { stream: "both", undo: { how: "nothing" }, notes: [] } as const;

/** A stopped child of this run has to be woken, so that it can end with the run. */
export const wakeUp = (part: Part): Undo => {
  const pid = part.pid();
  return { how: "signal", pid, start: birthOf(pid), signal: "SIGCONT" };
};

/** The deployment lacks what the fault needs; the message names it. */
export class NoWayError extends Error {
  override name = "NoWayError";
}

/** Several faults as one: injected in order, healed in the other unless said otherwise, and there only when all of them are. */
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
      for (const part of healsInOrder ? parts : [...parts].reverse()) {
        // What cannot be mended must not keep the others broken.
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
    injectMs: sum("injectMs"),
    effectMs: sum("effectMs"),
    healMs: sum("healMs"),
    notes: parts.flatMap(({ notes }) => notes),
  };
};
