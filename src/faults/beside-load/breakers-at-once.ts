/** Several faults as one: put in in order, taken away in the other unless said otherwise, and there only when all of them are. */
import type { Breaker } from "./breaker.ts";

const most = (parts: readonly Breaker[], field: "injectMs" | "effectMs" | "healMs"): number =>
  parts.reduce((sum, part) => sum + part[field], 0);

export const breakersAtOnce = (parts: readonly Breaker[], healsInOrder = false): Breaker => {
  const [only, second] = parts;
  if (only === undefined) throw new Error("expected at least one fault");
  if (second === undefined) return only;
  const shown = parts.flatMap(({ showsAtPart }) => showsAtPart ?? []);
  return {
    inject: async (signal) => {
      for (const part of parts) await part.inject(signal);
    },
    showsAtPart:
      shown.length === 0 ? null : async () => (await Promise.all(shown.map((shows) => shows()))).every((one) => one),
    heal: async (signal) => {
      const did: string[] = [];
      const troubles: string[] = [];
      for (const part of healsInOrder ? parts : [...parts].reverse()) {
        // What cannot be mended must not keep the others broken.
        await part.heal(signal).then(
          (steps) => did.push(...steps),
          (error: Error) => troubles.push(error.message),
        );
      }
      if (troubles.length > 0) throw new Error(troubles.join("; "));
      return did;
    },
    undo: { how: "all", undos: parts.map(({ undo }) => undo) },
    stream: parts.every(({ stream }) => stream === only.stream) ? only.stream : "both",
    injectMs: most(parts, "injectMs"),
    effectMs: most(parts, "effectMs"),
    healMs: most(parts, "healMs"),
    notes: parts.flatMap(({ notes }) => notes),
  };
};
