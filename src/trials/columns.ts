/**
 * The five kinds of judge that a mutant can meet, and which small stage belongs to which: the columns of `dev mutants`.
 *
 *   properties  the laws of `properties/`, run with the mutant's parts
 *   verify      the black-box rules, without and with load
 *   load        the invariants over what came of calls
 *   chaos       the same, with a dependency broken and healed meanwhile
 *   gate        the comparison with the healthy platform, side by side
 */
import type { MutantStage } from "../mutants/mutant.ts";

export const COLUMNS = ["properties", "verify", "load", "chaos", "gate"] as const;
export type Column = (typeof COLUMNS)[number];

const NOT_LOAD: Partial<Record<MutantStage, Column>> = {
  verify: "verify",
  "verify-load": "verify",
  "limiter-refused": "chaos",
  "limiter-reply-lost": "chaos",
  "restart-unsettled": "chaos",
  "pool-after-fault": "chaos",
  "keys-refused": "chaos",
  gate: "gate",
};

export const columnOf = (stage: MutantStage): Column => NOT_LOAD[stage] ?? "load";

/** The cheapest stage of each column, on which every mutant is tried; the gate is too slow for that. */
export const CHEAPEST: Readonly<Partial<Record<Column, MutantStage>>> = {
  verify: "verify",
  load: "answers",
  chaos: "limiter-refused",
};

/** Mutants of these stages do something to calls in flight or to rates, which `verify` may see when it is allowed load. */
export const SEEN_UNDER_LOAD: ReadonlySet<MutantStage> = new Set<MutantStage>([
  ...(["overload", "past-capacity", "noisy", "rate-edge", "patient-client", "two-replicas", "streams"] as const),
]);
