/** What a rule needs (roles, permission, budget), and the verdict of a rule whose budget is short. */
import { isLoopbackHost } from "../../contract/address.ts";
import { type OpenCode, openBy, skippedBy } from "../../history/reason-codes.ts";
import type { AdminRole, KeyRole } from "../../target/roles.ts";
import type { Target } from "../../target/target.ts";
import { CannotJudge, type Open } from "../checks.ts";

/** A permission comes from an option, unless `permits` of the target file denies it. */
export type Permission = "writes" | "quota-burn" | "load";

export type Role = KeyRole | AdminRole;

export type Needs = {
  readonly roles?: readonly Role[];
  readonly anyOf?: readonly Role[];
  readonly permission?: Permission;
  readonly tileUrl?: true;
  /** The least that the rule spends on a conforming target. */
  readonly spends?: { readonly map_loads?: number; readonly analyses?: number };
};

/** A budget `is` spent in a run and `would be` in a plan. */
type Tense = "is" | "would be";

export type Spending = { requests: number; map_loads: number; analyses: number };

export type Budget = ReturnType<typeof createBudget>;

/** `rest`: what the other stages of the run leave of the run's budget. */
export const createBudget = ({ budget = {} }: Target, burn: boolean, rest?: (what: keyof Spending) => number) => {
  // The defaults suffice for the rules that need map loads or analyses, and for quota-burn rules if permitted.
  const allowed: Spending = {
    requests: budget.requests ?? Number.POSITIVE_INFINITY,
    map_loads: budget.map_loads ?? (burn ? 1_000 : 20),
    analyses: budget.analyses ?? 3,
  };
  const spent: Spending = { requests: 0, map_loads: 0, analyses: 0 };
  const left = (what: keyof Spending): number =>
    Math.min(allowed[what] - spent[what], rest?.(what) ?? Number.POSITIVE_INFINITY);
  /** Why `amount` is not left, else `null`: `skipped` if never allowed or not stated, `inconclusive` if spent. */
  const shortage = (what: keyof Spending, amount: number, tense: Tense = "is"): Open | null => {
    if (amount <= 0 || left(what) >= amount) return null;
    const stated = budget[what];
    const skip = (reason: string): Open => ({ ...skippedBy("budget-spent"), reason });
    if (stated === undefined)
      return skip(`the target file states no budget.${what}, and the usual one lacks the ${amount} that it needs`);
    if (stated < amount)
      return skip(`budget.${what} of the target file (${stated}) does not allow the ${amount} that it needs`);
    const more = left(what) > 0 ? ` but for ${left(what)}, and it needs ${amount}` : "";
    const gone = `budget.${what} of the target file (${stated}) ${tense} spent`;
    return { ...openBy("budget-spent"), reason: gone + more, spent: gone };
  };
  /** Ends the rule if `amount` is not left. */
  const require = (what: keyof Spending, amount: number): void => {
    const short = shortage(what, amount);
    if (short !== null) throw new CannotJudge(short);
  };
  return {
    ...{ spent, allowed, left, shortage, require },
    /** Spends `amount`, even if other stages of the run have used it up. Ends the rule if this budget alone lacks it. */
    take: (what: keyof Spending, amount = 1): void => {
      if (spent[what] + amount > allowed[what]) require(what, amount);
      spent[what] += amount;
    },
  };
};

export type Asked = { readonly allowWrites?: boolean; readonly allowQuotaBurn?: boolean; readonly allowLoad?: boolean };

export const OPTION_OF: Readonly<Record<Permission, string>> = {
  writes: "--allow-writes",
  "quota-burn": "--allow-quota-burn",
  load: "--allow-load",
};

/** Permissions that are not given, each with the reason as a sentence. */
export type Denied = ReadonlyMap<Permission, string>;

/** An option gives a permission. The target file may deny it, and must allow it if the host is not loopback. */
export const deniedBy = ({ permits = {}, base_url }: Target, options: Asked): Denied => {
  const { writes, quota_burn, load_max_rps: rps } = permits;
  const isHome = isLoopbackHost(new URL(base_url).hostname);
  const rows = [
    ["writes", options.allowWrites, writes, "permits.writes"],
    ["quota-burn", options.allowQuotaBurn, quota_burn, "permits.quota_burn"],
    ["load", options.allowLoad, rps === undefined ? undefined : rps > 0, "permits.load_max_rps"],
  ] as const;
  const denied = new Map<Permission, string>();
  for (const [permission, asked, stated, field] of rows) {
    if (asked !== true) denied.set(permission, `needs ${OPTION_OF[permission]}`);
    else if (!(stated ?? isHome)) denied.set(permission, `${field} of the target file does not allow it`);
  }
  return denied;
};

const SPENT = ["map_loads", "analyses"] as const;

type Lacking = { target: Target; denied: Denied; budget: Budget };

export const lackOf = ({ needs }: { needs: Needs }, by: Lacking, tense: Tense = "is"): Open | null => {
  const { target, denied, budget } = by;
  const { roles = [], anyOf, permission, tileUrl, spends = {} } = needs;
  const has = (name: Role): boolean => target.credentials?.[name] !== undefined;
  const missing = roles.filter((name) => !has(name));
  const are = missing.length === 1 ? `the role ${missing[0]} is` : `the roles ${missing.join(", ")} are`;
  const lacks: { code: OpenCode; reason: string }[] = [];
  const lack = (code: OpenCode, reason: string): void => void lacks.push({ code, reason });
  if (missing.length > 0) lack("role-missing", `${are} not in the target file`);
  if (anyOf !== undefined && !anyOf.some(has))
    lack("role-missing", `none of the roles ${anyOf.join(", ")} is in the target file`);
  if (tileUrl === true && target.tile_url === undefined) lack("not-stated", "tile_url is not in the target file");
  const why = permission === undefined ? undefined : denied.get(permission);
  if (why !== undefined) lack("not-permitted", why);
  // Sessions admitted by mistake may have overspent the budget: rules that need none of it still run.
  const short = SPENT.flatMap((what) => budget.shortage(what, spends[what] ?? 0, tense) ?? []);
  // A missing role or permission makes the rule skipped, whatever the budget.
  const isOpen = lacks.length === 0 && short.length > 0 && short.every(({ verdict }) => verdict === "inconclusive");
  lacks.push(...short);
  const [first] = lacks;
  if (first === undefined) return null;
  const reason = lacks.map((one) => one.reason).join("; ");
  return isOpen
    ? { ...openBy(first.code), reason, spent: short[0]?.spent ?? reason }
    : { ...skippedBy(first.code), reason };
};
