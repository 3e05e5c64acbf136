/**
 * What happened to somebody's deployment beside what we did: a restart, a replica more or fewer, charges that are nobody's of
 * ours. What was seen then may be theirs and not the fault's, so the stage is in doubt.
 */
import type { LedgerLine } from "../../history/line.ts";
import type { TenantFacts } from "../../history/stage-facts.ts";
import type { Deployment } from "../deployments/deployment.ts";
import type { Disturbance } from "../disturbances/disturbance.ts";
import type { Observed } from "./observers.ts";

const CHANGES = ["restarts", "replicas"];
/** A fault that ends a process brings about a restart itself. */
const ENDS_A_PROCESS = /kill|restart|crash|delete|evict|scale/;

const isOurDoing = (disturbance: Disturbance | undefined): boolean =>
  disturbance?.kind === "link-fault" && ENDS_A_PROCESS.test(disturbance.fault);

export const changesSeen = (before: Observed, after: Observed, disturbance: Disturbance | undefined): string[] =>
  isOurDoing(disturbance)
    ? []
    : CHANGES.flatMap((name) => {
        const [was, is] = [before[name], after[name]];
        return was === undefined || is === undefined || was === is
          ? []
          : [`${name} of the deployment went from ${was} to ${is} meanwhile, and not by us`];
      });

/** `null`: what was used is not known. */
const usedMeanwhile = (org: string, before: Record<string, TenantFacts>, after: Record<string, TenantFacts>) => {
  const [was, is] = [before[org]?.used_at_start, after[org]?.used_at_start];
  return was === undefined || is === undefined ? null : is - was;
};

/**
 * By the meters of each organization, and by lines of a ledger that are not of our calls. Only where nobody else should have
 * called: elsewhere other people's charges are as they should be.
 */
export const foreignCharges = (
  { exclusive }: Pick<Deployment, "exclusive">,
  seen: {
    before: Record<string, TenantFacts>;
    after: Record<string, TenantFacts>;
    ledger: readonly LedgerLine[] | undefined;
    /** Lines of the stage's time that are not of our calls; `null` where the ledger shows ours alone. */
    others: number | null;
  },
): string[] => {
  if (!exclusive) return [];
  if (seen.others !== null && seen.others > 0) {
    return [`the ledger has ${seen.others} entries of calls that are not ours, on a deployment stated to be exclusive`];
  }
  if (seen.ledger === undefined) return [];
  const ours = new Map<string, number>();
  for (const { org, meter, kind, amount } of seen.ledger) {
    if (meter === "map_loads") ours.set(org, (ours.get(org) ?? 0) + (kind === "charge" ? amount : -amount));
  }
  return Object.keys(seen.before).flatMap((org) => {
    const used = usedMeanwhile(org, seen.before, seen.after);
    const own = ours.get(org) ?? 0;
    return used === null || used <= own
      ? []
      : [
          `${org} was charged ${used} map loads meanwhile, ${own} of them by our calls, on a deployment stated to be exclusive`,
        ];
  });
};
