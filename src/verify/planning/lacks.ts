/** What a rule lacks before it can run: roles, permissions, budget. Known before anything is sent. */
import { isLoopbackHost } from "../../contract/loopback.ts";
import type { Target } from "../../target/target.ts";
import type { Rule } from "../rule.ts";
import type { Open } from "../verdict.ts";
import { type Left, type Permission, type Role, shortageOf, type Tense } from "./needs.ts";

export type Asked = { readonly allowWrites?: boolean; readonly allowQuotaBurn?: boolean; readonly allowLoad?: boolean };

export const OPTION_OF: Readonly<Record<Permission, string>> = {
  writes: "--allow-writes",
  "quota-burn": "--allow-quota-burn",
  load: "--allow-load",
};

export type Permits = {
  readonly allowed: ReadonlySet<Permission>;
  /** Why a permission is not given, as a sentence. */
  readonly why: ReadonlyMap<Permission, string>;
  /** Permissions that were asked for but the target file denies, with the denying field. */
  readonly forbidden: ReadonlyMap<Permission, string>;
};

/** Permissions given by an option and not denied by the target file. A host other than loopback has to permit them in its file. */
export const permitsOf = (target: Target, options: Asked): Permits => {
  const allowed = new Set<Permission>();
  const why = new Map<Permission, string>();
  const forbidden = new Map<Permission, string>();
  const stated: Record<Permission, boolean | undefined> = {
    writes: target.permits?.writes,
    "quota-burn": target.permits?.quota_burn,
    load: target.permits?.load_max_rps === undefined ? undefined : target.permits.load_max_rps > 0,
  };
  const asked: Record<Permission, boolean | undefined> = {
    writes: options.allowWrites,
    "quota-burn": options.allowQuotaBurn,
    load: options.allowLoad,
  };
  for (const permission of Object.keys(OPTION_OF) as Permission[]) {
    const field = permission === "load" ? "permits.load_max_rps" : `permits.${permission.replace("-", "_")}`;
    if (asked[permission] !== true) why.set(permission, `needs ${OPTION_OF[permission]}`);
    else if (stated[permission] ?? isLoopbackHost(new URL(target.base_url).hostname)) allowed.add(permission);
    else {
      forbidden.set(permission, field);
      why.set(permission, `${field} of the target file does not allow it`);
    }
  }
  return { allowed, why, forbidden };
};

const SPENT = ["map_loads", "analyses"] as const;

/** Returns what keeps the rule from running; `null` for nothing. */
export const lackOf = (
  { needs }: Rule,
  target: Target,
  { why }: Permits,
  left: Left,
  tense: Tense = "is",
): Open | null => {
  const { roles = [], anyOf, permission, tileUrl, spends = {} } = needs;
  const has = (name: Role): boolean => target.credentials?.[name] !== undefined;
  const missing = roles.filter((name) => !has(name));
  const lacks = missing.length === 0 ? [] : [`the role ${missing.join(", ")} is not in the target file`];
  if (anyOf !== undefined && !anyOf.some(has))
    lacks.push(`none of the roles ${anyOf.join(", ")} is in the target file`);
  if (tileUrl === true && target.tile_url === undefined) lacks.push("tile_url is not in the target file");
  if (permission !== undefined && why.has(permission)) lacks.push(why.get(permission) as string);
  // Sessions admitted by mistake may have overspent the budget: rules that need none of it still run.
  const short = SPENT.flatMap((what) => shortageOf(target, left, what, spends[what] ?? 0, tense) ?? []);
  // A missing role or permission is the better reason.
  const isOpen = lacks.length === 0 && short.length > 0 && short.every(({ verdict }) => verdict === "inconclusive");
  lacks.push(...short.map(({ reason }) => reason));
  if (lacks.length === 0) return null;
  const reason = lacks.join("; ");
  return isOpen
    ? { verdict: "inconclusive", reason, spent: short[0]?.spent ?? reason }
    : { verdict: "skipped", reason };
};
