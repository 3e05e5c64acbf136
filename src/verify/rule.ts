/**
 * What a rule of `verify` is: one statement of the specification, tried out on a deployment from outside. Its id is stable;
 * its level follows the tags of spec-checklist.md: a stated requirement is a must, an ambiguity a should, a gap is info
 * and only recorded. Every reading of part C is accepted.
 */
import type { Level } from "../history/run-document.ts";
import type { Target } from "../target/target.ts";
import type { Context } from "./context.ts";
import type { Needs } from "./planning/needs.ts";
import type { RuleResult } from "./rule-result.ts";

/** The order in which rules are tried: what changes nothing first, what burns and loads last. */
export const PHASES = [
  "lattice",
  "order",
  "bodies",
  "streams",
  "meters",
  "organizations",
  "management",
  "gaps",
  "quota-burn",
  "load",
  "every-answer",
] as const;

export type Phase = (typeof PHASES)[number];

/**
 * What a rule sends and uses up on a conforming deployment with every role, so that a user can know before anything is sent.
 * Fewer roles mean fewer calls; limits that are met mean some again. A test compares it with what was sent.
 */
export type Cost = {
  readonly calls: number;
  readonly map_loads?: number;
  readonly analyses?: number;
  /** Made and removed again. */
  readonly keys?: number;
  /** Rules of one name look at the same calls. */
  readonly shared?: string;
};

export type Rule = {
  readonly id: string;
  readonly level: Level;
  /** Item numbers of spec-checklist.md. */
  readonly spec: readonly number[];
  /** What must hold, in a sentence. */
  readonly title: string;
  readonly phase: Phase;
  readonly needs: Needs;
  /** Where it depends on what the target file states, worked out from it. */
  readonly cost: Cost | ((target: Target) => Cost);
  run(context: Context): Promise<RuleResult>;
};
