/** Names of `required` that look like misspelt ones: without a word, such a run would end inconclusive only when it is over. */

import { nearest } from "../contract/nearest.ts";
import { EXPERIMENTS } from "../faults/experiments.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { CLAIM_FAMILIES } from "../report/claim-families.ts";
import type { Target } from "../target/target.ts";
import { RULES } from "../verify/catalogue.ts";
import { STORIES } from "../workload/catalogue.ts";

const groupOf = (name: string): string => name.split("/")[0] as string;

const GROUPS: ReadonlySet<string> = new Set([
  ...INVARIANTS.map(({ id }) => id),
  ...CLAIM_FAMILIES.map(({ pattern }) => groupOf(pattern)),
  ...["load", "chaos", "verify", "verify-alone"],
]);

const STAGES: ReadonlySet<string> = new Set([...STORIES.keys(), ...EXPERIMENTS.keys(), "deployment-states"]);
const RULE_IDS: ReadonlySet<string> = new Set(RULES.map(({ id }) => id));

/** The name that was meant, where this one is not known and another is near. */
const meantBy = (name: string): string | null => {
  const [group = "", part] = name.split("/");
  const parts = group === "verify" ? RULE_IDS : STAGES;
  if (part === undefined) return GROUPS.has(name) || STAGES.has(name) ? null : nearest(name, [...GROUPS, ...STAGES]);
  const meant = {
    group: GROUPS.has(group) ? group : nearest(group, GROUPS),
    part: parts.has(part) ? part : nearest(part, parts),
  };
  return meant.group === null || meant.part === null || name === `${meant.group}/${meant.part}`
    ? null
    : `${meant.group}/${meant.part}`;
};

export const misspeltRequired = ({ required = [] }: Pick<Target, "required">): string[] =>
  required.flatMap((name) => {
    const meant = meantBy(name);
    return meant === null ? [] : [`required: no claim is known as ${name}; did you mean ${meant}?`];
  });
