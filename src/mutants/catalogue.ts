/** All mutants, by the part that they spoil. Mutants are added, never removed. */
import type { Mutant } from "./mutant.ts";
import { SPOILT_ANSWERS, SPOILT_STREAMS } from "./spoilt-answers.ts";
import { SPOILT_KEYS } from "./spoilt-keys.ts";
import { SPOILT_LIMITER } from "./spoilt-limiter.ts";
import { SPOILT_ORDER } from "./spoilt-order.ts";
import { SPOILT_SHEDDING } from "./spoilt-shedding.ts";

export const MUTANTS: readonly Mutant[] = [
  ...[...SPOILT_ORDER, ...SPOILT_ANSWERS, ...SPOILT_LIMITER],
  ...[...SPOILT_KEYS, ...SPOILT_SHEDDING, ...SPOILT_STREAMS],
];

/** Throws on a name that no mutant has. */
export const mutantNamed = (name: string): Mutant => {
  const found = MUTANTS.find((mutant) => mutant.name === name);
  if (found === undefined) throw new Error(`no mutant is called ${name}`);
  return found;
};
