/** What a small stage is, whoever plays it: the plays in `stages/` are such ones, `stages.ts` is the table of them. */
import type { Claim } from "../history/run-document.ts";
import type { Parts } from "../platform/parts.ts";
import type { DeploymentOptions } from "./deployment.ts";
import type { Bench } from "./stage-bench.ts";

type About = {
  about: string;
  /** Invariants (rules as `verify/<rule>`, measurements as `gate/<measurement>`) that pass on the healthy platform, or the
   * stage proves nothing. */
  proves: readonly string[];
};

/** A deployment, loaded, and judged by all invariants and whatever else the play itself asks. */
export type MiniStage = About & {
  options: DeploymentOptions;
  /** A black box: no invariant is asked, because they see a ledger and counts that the caller does not. */
  rulesAlone?: true;
  play(bench: Bench): Promise<void>;
};

/** Two deployments, side by side. */
export type ComparedStage = About & {
  compare(base: Parts, head: Parts, deciding: readonly string[]): Promise<Claim[]>;
};
