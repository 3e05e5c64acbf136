/** Keys of tenants, as many as calls are left for, spread evenly over the list. */
import { outcomeOf } from "../../contract/refusals.ts";
import type { Target } from "../../target/target.ts";
import { type Finding, finding } from "./finding.ts";
import { type KeyTrial, tryKey } from "./key-trial.ts";
import { ADMITTED } from "./role-expectations.ts";
import type { SingleCalls } from "./single-calls.ts";

const TIER = outcomeOf("tier_capability_not_allowed");

const trialsOf = ({ tenants = [] }: Target): KeyTrial[] =>
  tenants.flatMap(({ org, tier, publishable, server }, at) => {
    // A Free organization mints nothing but tile, which is charged; its refusal of chat shows that key and origin are right.
    const accepts = tier === "Free" ? [TIER] : tier === "Pro" ? [ADMITTED] : [ADMITTED, TIER];
    const of = `tenant:${org}` as const;
    const means = `a full key of a ${tier ?? "Free or Pro"} organization`;
    const trial = (kind: "publishable" | "server", origin: string | undefined): KeyTrial => ({
      name: `${org}, ${kind}`,
      of,
      where: `tenants[${at}].${kind}`,
      origin,
      expected: { via: kind === "server" ? "catalog" : "exchange", accepts, means },
    });
    return [
      ...(publishable === undefined ? [] : [trial("publishable", publishable.origin)]),
      ...(server === undefined ? [] : [trial("server", undefined)]),
    ];
  });

/** `count` items of a list, evenly spread, the first among them. */
const spread = <T>(items: readonly T[], count: number): T[] =>
  Array.from({ length: Math.min(count, items.length) }, (_, k) => {
    const at = Math.floor((k * items.length) / Math.min(count, items.length));
    return items[at] as T;
  });

export const tryTenants = async (target: Target, calls: SingleCalls): Promise<Finding[]> => {
  const all = trialsOf(target);
  if (all.length === 0) return [];
  const chosen = spread(all, Math.max(0, calls.left()));
  const bad: Finding[] = [];
  let tried = 0;
  for (const trial of chosen) {
    // A second look at a 401 takes a call as well.
    if (calls.left() < 1) break;
    const { finding: found } = await tryKey(trial, calls);
    tried += 1;
    if (found.state !== "ok") bad.push(found);
  }
  const works = tried - bad.length;
  const rest = all.length - tried;
  const text = `${works} of ${tried} keys tried work${rest === 0 ? "" : `; ${rest} more of the ${all.length} were not tried`}`;
  return [finding(tried === 0 ? "skipped" : "ok", `${target.tenants?.length ?? 0} tenants`, text), ...bad];
};
