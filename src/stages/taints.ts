/** What others did to a deployment during a stage (restarts, replica changes, foreign charges) puts the stage in doubt. */
import { wallUs } from "../client/clock.ts";
import type { Deployment } from "../deployments/deployment.ts";
import type { LedgerLine } from "../history/line.ts";
import type { StageFacts, TenantFacts } from "../history/stage-facts.ts";
import { type Observed, readTenants } from "./witnesses.ts";

const CHANGES = ["restarts", "replicas"];

/** Slow Prometheus setups scrape once a minute, so a change of ours may show as late. */
const SHOWN_WITHIN_MS = 60_000;

/** Changes that a disturbance may have caused and the observers had not shown by the end of its stage. */
type OwedChanges = { names: readonly string[]; untilMs: number };

/**
 * Any disturbance may restart processes, directly or through an orchestrator, so a change after it began is ours, and one
 * before it or without one is external.
 */
export const changesSeen = (
  /** `atDisturbance`: when a disturbance of ours began; absent where there was none. */
  { before, atDisturbance, after }: { before: Observed; atDisturbance?: Observed; after: Observed },
  owed: OwedChanges | undefined,
  nowMs: number,
): { taints: string[]; notes: string[]; owed?: OwedChanges } => {
  const seen: ReturnType<typeof changesSeen> = { taints: [], notes: [] };
  const stillOwed = new Set(owed === undefined || nowMs > owed.untilMs ? [] : owed.names);
  const unchanged: string[] = [];
  for (const name of CHANGES) {
    const change = (from: Observed, to: Observed): string | null =>
      from[name] === undefined || to[name] === undefined || from[name] === to[name]
        ? null
        : `${name} of the deployment went from ${from[name]} to ${to[name]} meanwhile`;
    const foreign = change(before, atDisturbance ?? after);
    const isLate = foreign !== null && stillOwed.delete(name);
    if (isLate) seen.notes.push(`${foreign}, which a fault of an earlier stage explains`);
    else if (foreign !== null) seen.taints.push(`${foreign}, and not by us`);
    if (atDisturbance === undefined) continue;
    const own = change(atDisturbance, after);
    if (own === null) unchanged.push(name);
    else seen.notes.push(`${own}, which what was done to it explains`);
  }
  if (atDisturbance !== undefined) seen.owed = { names: unchanged, untilMs: nowMs + SHOWN_WITHIN_MS };
  else if (stillOwed.size > 0 && owed !== undefined) seen.owed = { names: [...stillOwed], untilMs: owed.untilMs };
  return seen;
};

/** By each organization's meter, and by ledger entries that are not ours; only on an exclusive deployment. */
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
  return Object.entries(seen.before).flatMap(([org, { used_at_start: was = Number.NaN }]) => {
    const used = (seen.after[org]?.used_at_start ?? Number.NaN) - was;
    const own = ours.get(org) ?? 0;
    const what = `${org} was charged ${used} map loads meanwhile, ${own} of them by our calls`;
    return used > own ? [`${what}, on a deployment stated to be exclusive`] : [];
  });
};

/** Changes of ours that observers have yet to show, by the budget that all stages of a deployment share. */
const owedChanges = new WeakMap<Deployment["budget"], OwedChanges>();

/** What others did in a stage: doubts, and notes about changes that our own faults explain. */
export const interferenceIn = async (
  deployment: Deployment,
  seen: {
    before: Observed;
    atDisturbance?: Observed;
    after: Observed;
    tenants: Record<string, TenantFacts>;
    facts: Pick<StageFacts, "drained" | "ledger">;
    others: number | null;
  },
): Promise<{ taints: string[]; notes: string[] }> => {
  const { budget, target } = deployment;
  const { taints, notes, owed } = changesSeen(seen, owedChanges.get(budget), wallUs() / 1000);
  if (owed === undefined) owedChanges.delete(budget);
  else owedChanges.set(budget, owed);
  if (deployment.embedded || !seen.facts.drained) return { taints, notes };
  const after = await readTenants(target);
  const about = { before: seen.tenants, after, ledger: seen.facts.ledger, others: seen.others };
  return { taints: [...taints, ...foreignCharges(deployment, about)], notes };
};
