/** Every key role of the target file, tried once, and a used-up allowance where trying it spends nothing. */

import { readUsed } from "../../client/control-planes.ts";
import { credentialKind } from "../../contract/credentials.ts";
import { foreignId } from "../../contract/foreign-text.ts";
import { outcomeOf, type RefusalName } from "../../contract/refusals.ts";
import type { Budget } from "../../target/budget.ts";
import { KEY_ROLES, type KeyRole, type Target } from "../../target/target.ts";
import type { CallerName } from "../../workload/callers/target-view.ts";
import { stepOf } from "../../workload/step.ts";
import { type Finding, finding } from "./finding.ts";
import { failedTrial, type KeyTrial, misfit, tryKey } from "./key-trial.ts";
import { EXPECTATIONS } from "./role-expectations.ts";
import { type Answered, isAdmitted, type SingleCalls } from "./single-calls.ts";

const trialOf = async (role: KeyRole, target: Target, calls: SingleCalls): Promise<KeyTrial> => {
  const of: CallerName = `role:${role}`;
  const where = `credentials.${role}`;
  const expected = EXPECTATIONS[role];
  const trial: KeyTrial = { name: role, of, where, origin: target.credentials?.[role]?.origin, expected };
  if (role !== "revoked" && role !== "expired") return trial;
  // Either kind may stand here; the call is the one that its kind would be admitted by.
  const value = (await calls.book.fetch({ as: "publishable", of })) ?? "";
  return credentialKind(value) === "server" ? { ...trial, expected: { ...expected, via: "catalog" } } : trial;
};

const bodyOf = ({ answer }: Answered): Record<string, unknown> => {
  try {
    const body: unknown = JSON.parse(answer.text);
    return typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
  } catch {
    return {};
  }
};

/** The stored style, which the exchange says. */
const basemapMisfit = (target: Target, sent: Answered): Finding | null => {
  const stated = target.credentials?.publishable_basemap?.basemap_style_id;
  const came = bodyOf(sent).basemap_style_id;
  if (stated === undefined || stated === came) return null;
  const got = typeof came === "string" ? foreignId(came.slice(0, 200)) : "none";
  const todo = "write the organization's stored style at credentials.publishable_basemap.basemap_style_id";
  return finding("wrong", "publishable_basemap", `expected basemap_style_id ${stated}; got ${got}`, todo);
};

/** Whether a tile exchange is known to be refused; `null` where nobody can say it. */
const isUsedUp = async (target: Target, role: KeyRole, calls: SingleCalls): Promise<boolean | null> => {
  const { org, limit } = target.credentials?.[role] ?? {};
  const keys = target.control?.keys;
  if (typeof keys !== "string" || org === undefined || limit === undefined) return null;
  try {
    calls.take(1);
    const used = await readUsed(keys, org);
    return used === undefined ? null : used >= limit * (role === "publishable_hard_stop" ? 5 : 1);
  } catch {
    return null;
  }
};

const tryQuota = async (
  role: KeyRole,
  refusal: RefusalName,
  { target, calls, budget }: { target: Target; calls: SingleCalls; budget: Budget },
): Promise<Finding> => {
  const name = `${role}, quota`;
  const where = `credentials.${role}`;
  const known = await isUsedUp(target, role, calls);
  if (known === false) {
    const todo = "use its allowance up, or name another organization's key";
    return finding("wrong", name, "expected a used-up allowance; its control plane says that loads are left", todo);
  }
  const permitted = target.permits?.quota_burn === true && budget.left("map_loads") > 0;
  if (known === null && !permitted) {
    const why = "if its allowance is not used up, trying would charge a map load";
    return finding("skipped", name, `not tried: ${why}`, "permits.quota_burn of the target file would allow it");
  }
  try {
    const step = stepOf(calls.view, 0, {
      route: "sdk.sessions",
      origin: "listed",
      product: "tile",
      via: "authorization",
      credential: { as: "publishable", of: `role:${role}` },
    });
    const sent = await calls.call(step);
    const { outcome } = sent.line;
    if (outcome === outcomeOf(refusal)) return finding("ok", name, `${outcome}, as expected of this role`);
    if (!isAdmitted(outcome)) {
      const expected = { via: "exchange", accepts: [outcomeOf(refusal)], means: EXPECTATIONS[role].means } as const;
      return misfit({ name, of: `role:${role}`, where, origin: undefined, expected }, sent);
    }
    budget.take("map_loads");
    const text = `expected ${outcomeOf(refusal)}; got ${outcome}: its allowance is not used up (one map load was charged)`;
    return finding("wrong", name, text, "use its allowance up, or name another organization's key");
  } catch (error) {
    return failedTrial(name, where, error);
  }
};

/** Roles that name the same key cannot both be what they mean. */
const sameKeys = async (roles: readonly KeyRole[], calls: SingleCalls): Promise<Finding[]> => {
  const byKey = new Map<string, KeyRole[]>();
  for (const role of roles) {
    // What cannot be read is reported where it is tried.
    const key = await calls.book.fetch({ as: "publishable", of: `role:${role}` }).catch(() => null);
    if (key !== null) byKey.set(key, [...(byKey.get(key) ?? []), role]);
  }
  return [...byKey.values()]
    .filter((same) => same.length > 1)
    .map((same) =>
      finding(
        "warn",
        same[1] as string,
        `the same key as ${same[0]}`,
        "give each role a key of its own, or leave one out",
      ),
    );
};

export const tryRoles = async (parts: { target: Target; calls: SingleCalls; budget: Budget }): Promise<Finding[]> => {
  const { target, calls } = parts;
  const roles = KEY_ROLES.filter((role) => target.credentials?.[role] !== undefined);
  const findings: Finding[] = [];
  for (const role of roles) {
    let tried: Awaited<ReturnType<typeof tryKey>>;
    try {
      tried = await tryKey(await trialOf(role, target, calls), calls);
    } catch (error) {
      tried = { finding: failedTrial(role, `credentials.${role}`, error) };
    }
    const { sent } = tried;
    const works = tried.finding.state === "ok";
    const style = works && role === "publishable_basemap" && sent !== undefined ? basemapMisfit(target, sent) : null;
    findings.push(style ?? tried.finding);
    const { quota } = EXPECTATIONS[role];
    if (quota !== undefined && works) findings.push(await tryQuota(role, quota, parts));
  }
  return [...findings, ...(await sameKeys(roles, calls))];
};
