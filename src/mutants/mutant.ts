/**
 * A mutant is a copy of the platform with one behaviour spoilt on purpose. It exists to prove that a judge which passes the
 * healthy platform would have failed this one. It wraps the parts of a role from outside; the platform
 * knows nothing of it.
 */
import type { Parts } from "../platform/parts.ts";

/**
 * Where a mutant is tried first: the cheapest stage on which it has to be caught. All are small stages on deployments in this
 * process (`trials/stages.ts`); `verify` and `verify-load` are the black-box check on such a one, `gate` a comparison of
 * two of them, `curve`, `retry-storm` and `noisy-and-quiet` are played in virtual time.
 */
export type MutantStage =
  | "answers"
  | "edge-of-quota"
  | "month-edge"
  | "overload"
  | "past-capacity"
  | "noisy"
  | "rate-edge"
  | "patient-client"
  | "two-replicas"
  | "limiter-refused"
  | "limiter-reply-lost"
  | "restart-unsettled"
  | "pool-after-fault"
  | "keys-refused"
  | "record-changes"
  | "streams"
  | "many-streams"
  | "deploy"
  | "verify"
  | "verify-load"
  | "gate"
  | "curve"
  | "retry-storm"
  | "noisy-and-quiet";

export type Mutant = {
  /** What it does, as a verb. */
  name: string;
  /** Who is harmed and how, in one sentence for a stranger. */
  harm: string;
  /** Who must catch it, each of them: ids of invariants, `verify/<rule>`, `gate/<measurement>`, or `curve/<measure>`. */
  kills: readonly string[];
  stage: MutantStage;
  spoil(healthy: Parts): Parts;
};

/** A mutant as its row has it: `spoil` returns the spoilt parts alone. */
export type Spoilt = Omit<Mutant, "spoil"> & { spoil(healthy: Parts): Partial<Parts> };

/** Replaces some members of one part, which is a record of functions or values. */
export const members =
  <K extends keyof Parts>(part: K, spoil: (healthy: Parts[K]) => Partial<Parts[K]>): Spoilt["spoil"] =>
  (healthy) => ({ [part]: { ...(healthy[part] as object), ...spoil(healthy[part]) } });

/** Spoils nothing: whatever condemns it is a false positive. */
export const nobody: Mutant = {
  name: "nobody",
  harm: "none: this is the healthy platform",
  kills: [],
  stage: "answers",
  spoil: (healthy) => healthy,
};
