/**
 * What a rule of `verify` is: one statement of the specification, tried out on a deployment from outside. Its id is stable;
 * its level follows the tags of spec-checklist.md: a stated requirement is a must, an ambiguity a should, a gap is info
 * and only recorded. Every reading of part C is accepted.
 */
import type { RouteName } from "../contract/routes.ts";
import type { ClaimVerdict, Level } from "../history/run-document.ts";
import type { AdminRole, KeyRole, Target } from "../target/target.ts";
import type { Context } from "./context.ts";
import type { Answer } from "./sending/answer.ts";

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

/** What the user must have allowed with an option, and the target file must not forbid in `permits`. */
export type Permission = "writes" | "quota-burn" | "load";

export type Role = KeyRole | AdminRole;

/** What a rule cannot do without; what is missing is told by its name and the rule is skipped. */
export type Needs = {
  readonly roles?: readonly Role[];
  /** One of these is enough. */
  readonly anyOf?: readonly Role[];
  readonly permission?: Permission;
  readonly tileUrl?: true;
  /** What the rule spends at least on a conforming target. */
  readonly spends?: { readonly map_loads?: number; readonly analyses?: number };
};

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

/** What made a rule fail, as far as a crash file can tell it. */
export type Failure = {
  expected: string;
  got: string;
  /** The calls that show it, the decisive one last. */
  steps: readonly Answer[];
  /** Outcomes that the last call may have; `null` where one call alone does not tell. */
  accepts: readonly string[] | null;
};

export type RuleResult = {
  verdict: ClaimVerdict;
  reason: string;
  expected: string;
  got: string;
  /** Ids of calls, at most ten. */
  evidence: string[];
  failure?: Failure;
  /** It is open for want of a budget that the run has used up. */
  spent?: true;
  /** What the rule is about did not come about, and nothing from outside brings it about: there was nothing to hold. */
  idle?: true;
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

/** A rule finds out that it cannot judge: told instead of a verdict, whatever was judged before. */
export class CannotJudge extends Error {
  readonly verdict: "inconclusive" | "skipped";
  constructor(verdict: "inconclusive" | "skipped", reason: string) {
    super(reason);
    this.name = "CannotJudge";
    this.verdict = verdict;
  }
}

/** Routes that every deployment has: the runtime surface without the reference's extensions. */
export const RUNTIME_ROUTES: readonly RouteName[] = [
  "chat.control",
  "chat.summary",
  "chat.button",
  "chat.route",
  "poi.enrich",
  "design.analyze",
  "design.apply",
  "design.styles",
  "design.samples",
  "design.themes",
];
