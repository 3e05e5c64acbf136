/** Every key of the target file, tried with one cheap call: a chat session for a publishable key, the style catalog for a server key. */
import { readUsed } from "../../client/control-planes.ts";
import { credentialKind } from "../../contract/credentials.ts";
import { parseJson } from "../../contract/envelopes.ts";
import { foreignId } from "../../contract/foreign-text.ts";
import { outcomeOf, type RefusalName } from "../../contract/refusals.ts";
import { ADMIN_ROLES, type AdminRole, KEY_ROLES, type KeyRole, type Target } from "../../target/target.ts";
import type { CallerName } from "../../workload/callers/target-view.ts";
import type { CredentialRef, Step, StepWish } from "../../workload/step.ts";
import type { Budget } from "../planning/needs.ts";
import { failedTrial, isPassing, refusalAdvice, unanswered } from "./advice.ts";
import { type Finding, finding } from "./finding.ts";
import { type Answered, isAdmitted, type SingleCalls } from "./single-calls.ts";

const ADMITTED = "admitted";
const TIER = outcomeOf("tier_capability_not_allowed");
const SCOPE = outcomeOf("insufficient_scope");
const PRODUCT = outcomeOf("product_not_allowed");
const ADDRESS = outcomeOf("ip_not_allowed");
const UNAUTHENTICATED = outcomeOf("unauthenticated");

/** `means`: what the role's key is, for somebody who named another one. */
type Expectation = {
  readonly via: "exchange" | "catalog";
  readonly means: string;
  readonly accepts: readonly string[];
};

const row =
  (via: Expectation["via"]) =>
  (means: string, ...accepts: string[]) => ({
    ...{ via, means, accepts: accepts.length === 0 ? [ADMITTED] : accepts },
  });
const [exchange, catalog] = [row("exchange"), row("catalog")];

// biome-ignore format: a table
const EXPECTATIONS: Readonly<Record<KeyRole, Expectation>> = {
  publishable: exchange("a publishable key with every scope and no restriction, of a Pro organization"),
  server: catalog("a server key with every scope and no restriction, of a Pro organization, for this machine's address"),
  publishable_other_org: exchange("as publishable, of another Pro organization"),
  publishable_no_ai: exchange("a publishable key with every scope but ai", SCOPE),
  publishable_tile_only: exchange("a publishable key restricted to the product tile", PRODUCT, SCOPE),
  publishable_downgraded: exchange("a full publishable key of an organization that went from Pro to Free", TIER),
  // What a Free organization's key lacks was taken by the tier or was never there: both are right.
  publishable_exhausted: exchange("a publishable key of a Free organization at its allowance", TIER, SCOPE, PRODUCT),
  publishable_hard_stop: exchange("a publishable key of a paid organization at 5 times its allowance"),
  publishable_expendable: exchange("a publishable key of a Free organization with nothing used", TIER, SCOPE, PRODUCT),
  publishable_expendable_paid: exchange("a publishable key of a paid organization with nothing used"),
  publishable_basemap: exchange("as publishable, of an organization with that stored style"),
  server_no_design: catalog("a server key with every scope but design", SCOPE),
  server_foreign_ip: catalog("a server key whose IP allowlist excludes this machine", ADDRESS),
  server_downgraded: catalog("a full server key of an organization that went from Pro to Free", TIER, SCOPE),
  revoked: exchange("a key that was revoked", UNAUTHENTICATED),
  expired: exchange("a key that has expired", UNAUTHENTICATED),
};

/** What a `tile` exchange is refused with, where the role's point is a used-up allowance; and how many times it is used up. */
const USED_UP: Partial<Readonly<Record<KeyRole, { refusal: RefusalName; times: number }>>> = {
  publishable_exhausted: { refusal: "map_load_quota_exceeded", times: 1 },
  publishable_hard_stop: { refusal: "map_load_hard_stop", times: 5 },
};

type KeyTrial = Expectation & {
  readonly name: string;
  readonly of: CallerName;
  readonly where: string;
  readonly origin?: string | undefined;
};

const wishOf = ({ of, via }: KeyTrial, header: Step["via"]): StepWish =>
  via === "catalog"
    ? { route: "design.styles", credential: { as: "server", of }, via: header }
    : { route: "sdk.sessions", credential: { as: "publishable", of }, origin: "listed", product: "chat", via: header };

const misfit = ({ name, where, origin, via, accepts, means }: KeyTrial, sent: Answered): Finding => {
  const { outcome, error } = sent.line;
  if (sent.answer.status === null) return unanswered(name, sent, ` (${error ?? sent.answer.ended})`);
  if (isPassing(outcome))
    return finding("warn", name, `${outcome}: not to be seen now, the deployment is busy`, "run doctor again later");
  const success = via === "exchange" ? "200 and a chat session" : "200 and the style catalog";
  const expected = accepts.map((one) => (one === ADMITTED ? success : one)).join(" or ");
  const todo = accepts.includes(ADMITTED)
    ? refusalAdvice(outcome, where, origin)
    : `is this ${means}? Name one at ${where}, or leave the role out`;
  return finding("wrong", name, `expected ${expected}; got ${outcome}`, todo);
};

/** Two calls at the most: a deployment may look into one header alone (items 22, 143). */
const tryKey = async (trial: KeyTrial, calls: SingleCalls): Promise<{ found: Finding; sent: Answered }> => {
  const { name, via, accepts } = trial;
  let sent = await calls.ask(wishOf(trial, "authorization"));
  let remark = "";
  if (sent.line.outcome === "401" && !accepts.includes("401") && calls.left() > 0) {
    const again = await calls.ask(wishOf(trial, "x-api-key"));
    if (again.line.outcome !== "401") {
      sent = again;
      remark = "; in X-Api-Key alone, as Authorization: Bearer it is 401";
    }
  }
  const { outcome } = sent.line;
  const admitted = isAdmitted(outcome);
  if (!accepts.includes(outcome) && !(admitted && accepts.includes(ADMITTED)))
    return { found: misfit(trial, sent), sent };
  const took = `${sent.tookMs.toFixed(sent.tookMs < 10 ? 1 : 0)} ms`;
  const good = via === "exchange" ? "mints a chat session" : "reads the style catalog";
  const text = admitted ? `${good} (${outcome}, ${took})${remark}` : `${outcome}, as expected of this role (${took})`;
  return { found: finding(remark === "" ? "ok" : "warn", name, text), sent };
};

type Parts = { target: Target; calls: SingleCalls; budget: Budget };

const trialOf = async (role: KeyRole, { target, calls }: Parts): Promise<KeyTrial> => {
  const of = `role:${role}` as const;
  const { origin } = target.credentials?.[role] ?? {};
  const trial: KeyTrial = { ...EXPECTATIONS[role], name: role, of, where: `credentials.${role}`, origin };
  if (role !== "revoked" && role !== "expired") return trial;
  // Either kind may stand here; the call is the one that its kind would be admitted by.
  const value = (await calls.book.fetch({ as: "publishable", of })) ?? "";
  return credentialKind(value) === "server" ? { ...trial, via: "catalog" } : trial;
};

const basemapMisfit = (target: Target, { answer }: Answered): Finding | null => {
  const stated = target.credentials?.publishable_basemap?.basemap_style_id;
  const { basemap_style_id: came } = (parseJson(answer.text) ?? {}) as { basemap_style_id?: unknown };
  if (stated === undefined || stated === came) return null;
  const got = typeof came === "string" ? foreignId(came.slice(0, 200)) : "none";
  const todo = "write the organization's stored style at credentials.publishable_basemap.basemap_style_id";
  return finding("wrong", "publishable_basemap", `expected basemap_style_id ${stated}; got ${got}`, todo);
};

/** Whether a tile exchange is known to be refused; `null` where no control plane tells it. */
const isUsedUp = async (role: KeyRole, times: number, { target, calls }: Parts): Promise<boolean | null> => {
  const { org, limit } = target.credentials?.[role] ?? {};
  const keys = target.control?.keys;
  if (typeof keys !== "string" || org === undefined || limit === undefined) return null;
  try {
    calls.take(1);
    const used = await readUsed(keys, org);
    return used === undefined ? null : used >= limit * times;
  } catch {
    return null;
  }
};

const ANOTHER_KEY = "use its allowance up, or name another organization's key";

const tryQuota = async (role: KeyRole, parts: Parts): Promise<Finding[]> => {
  const quota = USED_UP[role];
  if (quota === undefined) return [];
  const { target, calls, budget } = parts;
  const name = `${role}, quota`;
  const where = `credentials.${role}`;
  const known = await isUsedUp(role, quota.times, parts);
  if (known === false) {
    const text = "expected a used-up allowance; its control plane says that loads are left";
    return [finding("wrong", name, text, ANOTHER_KEY)];
  }
  const permitted = target.permits?.quota_burn === true && budget.left("map_loads") > 0;
  if (known === null && !permitted) {
    const why = "not tried: if its allowance is not used up, trying would charge a map load";
    return [finding("skipped", name, why, "permits.quota_burn of the target file would allow it")];
  }
  const expected = outcomeOf(quota.refusal);
  const trial: KeyTrial = { ...EXPECTATIONS[role], accepts: [expected], name, of: `role:${role}`, where };
  try {
    const sent = await calls.ask({ ...wishOf(trial, "authorization"), product: "tile" });
    const { outcome } = sent.line;
    if (outcome === expected) return [finding("ok", name, `${outcome}, as expected of this role`)];
    if (!isAdmitted(outcome)) return [misfit(trial, sent)];
    budget.take("map_loads");
    const text = `expected ${expected}; got ${outcome}: its allowance is not used up (one map load was charged)`;
    return [finding("wrong", name, text, ANOTHER_KEY)];
  } catch (error) {
    return [failedTrial(name, where, error)];
  }
};

/** Roles that name the same key cannot both be what they mean. */
const sameKeys = async (roles: readonly KeyRole[], calls: SingleCalls): Promise<Finding[]> => {
  const todo = "give each role a key of its own, or leave one out";
  const keys = roles.map((role) => calls.book.fetch({ as: "publishable", of: `role:${role}` }).catch(() => null));
  const byKey = Map.groupBy((await Promise.all(keys)).entries(), ([, key]) => key);
  return [...byKey].flatMap(([key, [first, second]]) =>
    key === null || first === undefined || second === undefined
      ? []
      : finding("warn", roles[second[0]] as KeyRole, `the same key as ${roles[first[0]]}`, todo),
  );
};

export const tryRoles = async (parts: Parts): Promise<Finding[]> => {
  const { target, calls } = parts;
  const roles = KEY_ROLES.filter((role) => target.credentials?.[role] !== undefined);
  const findings: Finding[] = [];
  for (const role of roles) {
    try {
      const { found, sent } = await tryKey(await trialOf(role, parts), calls);
      const works = found.state === "ok";
      findings.push((works && role === "publishable_basemap" ? basemapMisfit(target, sent) : null) ?? found);
      if (works) findings.push(...(await tryQuota(role, parts)));
    } catch (error) {
      findings.push(failedTrial(role, `credentials.${role}`, error));
    }
  }
  return [...findings, ...(await sameKeys(roles, calls))];
};

const tenantTrials = ({ tenants = [] }: Target): KeyTrial[] =>
  tenants.flatMap(({ org, tier, publishable, server }, at) => {
    // A Free organization mints nothing but tile, which is charged; its refusal of chat shows that key and origin are right.
    const accepts = tier === "Free" ? [TIER] : tier === "Pro" ? [ADMITTED] : [ADMITTED, TIER];
    const means = `a full key of a ${tier ?? "Free or Pro"} organization`;
    const trial = (kind: "publishable" | "server", via: Expectation["via"], origin?: string): KeyTrial => ({
      ...{ name: `${org}, ${kind}`, of: `tenant:${org}`, where: `tenants[${at}].${kind}` },
      ...{ via, means, accepts, origin },
    });
    return [
      ...(publishable === undefined ? [] : [trial("publishable", "exchange", publishable.origin)]),
      ...(server === undefined ? [] : [trial("server", "catalog")]),
    ];
  });

/** Keys of tenants, as many as calls are left for, spread evenly over the list. */
export const tryTenants = async (target: Target, calls: SingleCalls): Promise<Finding[]> => {
  const all = tenantTrials(target);
  if (all.length === 0) return [];
  const count = Math.min(all.length, Math.max(0, calls.left()));
  const bad: Finding[] = [];
  let tried = 0;
  for (; tried < count && calls.left() >= 1; tried += 1) {
    const trial = all[Math.floor((tried * all.length) / count)] as KeyTrial;
    const { found } = await tryKey(trial, calls).catch((error) => ({
      found: failedTrial(trial.name, trial.where, error),
    }));
    if (found.state !== "ok") bad.push(found);
  }
  const rest = all.length - tried;
  const untried = rest === 0 ? "" : `; ${rest} more of the ${all.length} were not tried`;
  const text = `${tried - bad.length} of ${tried} keys tried work${untried}`;
  return [finding(tried === 0 ? "skipped" : "ok", `${target.tenants?.length ?? 0} tenants`, text), ...bad];
};

/** Administrators' tokens are tried by a call that changes nothing and that a made-up token is refused. */
const UNKNOWN_KEY = "00000000-0000-4000-8000-000000000000";

const PATCH = { path: `/shared-api/api-keys/${UNKNOWN_KEY}`, body: JSON.stringify({ products: ["tile"] }) };
const WAYS = {
  list: { words: "reads the list of keys", route: "keys.create", change: { method: "GET", body: undefined } },
  change: { words: "may ask for a change of a key", route: "keys.update", change: PATCH },
} as const;
const askBy = (by: Way["by"], calls: SingleCalls, credential: CredentialRef): Promise<Answered> =>
  calls.ask({ route: WAYS[by].route, credential, via: "authorization" }, WAYS[by].change);

/** `stranger`: the outcome of the made-up token. */
type Way = { readonly by: keyof typeof WAYS; readonly stranger: string };

const isRefused = (outcome: string): boolean => outcome === "401" || outcome.startsWith("403");

const findWay = async (calls: SingleCalls, writes: boolean): Promise<Way | string> => {
  const { answer, line } = await askBy("list", calls, { as: "garbage" });
  if (answer.status === null || isPassing(line.outcome)) return `key management answers ${line.outcome}`;
  if (isRefused(line.outcome)) return { by: "list", stranger: line.outcome };
  if (!writes) return "the deployment has no list of keys, and permits.writes does not allow another way";
  const { outcome } = (await askBy("change", calls, { as: "garbage" })).line;
  if (isRefused(outcome)) return { by: "change", stranger: outcome };
  return `key management answers ${outcome} to a made-up token as well: does key_management_url fit?`;
};

const judge = (role: AdminRole, { by, stranger }: Way, sent: Answered): Finding => {
  const { outcome } = sent.line;
  if (sent.answer.status === null) return unanswered(role, sent);
  if (isPassing(outcome)) return finding("warn", role, `${outcome}: not to be seen now`, "run doctor again later");
  if (outcome === "401" || outcome === stranger) {
    const todo = `has the token at credentials.${role} ended, or is it of another identity provider?`;
    return finding("wrong", role, `expected to be known to key management; got ${outcome}`, todo);
  }
  const said = isAdmitted(outcome) ? WAYS[by].words : "its token is accepted";
  return finding("ok", role, `${said} (${outcome} for a call that changes nothing)`);
};

export const tryAdmins = async (target: Target, calls: SingleCalls): Promise<Finding[]> => {
  const roles = ADMIN_ROLES.filter((role) => target.credentials?.[role] !== undefined);
  if (roles.length === 0) return [];
  const writes = target.permits?.writes === true;
  const failed = (role: AdminRole, error: unknown): Finding => failedTrial(role, `credentials.${role}`, error);
  const findings: Finding[] = [];
  let way: Way | string;
  try {
    way = await findWay(calls, writes);
  } catch (error) {
    return roles.map((role) => failed(role, error));
  }
  for (const role of roles) {
    const credential: CredentialRef = { as: "admin", of: `role:${role}` };
    try {
      // Also where it is not tried: a reference that leads nowhere is a mistake.
      await calls.book.fetch(credential);
      if (typeof way === "string") {
        findings.push(finding("skipped", role, `not tried: ${way}`));
        continue;
      }
      let sent = await askBy(way.by, calls, credential);
      // The list may be refused to strangers and not be there for anybody.
      if (/^(?:edge )?40[45]/.test(sent.line.outcome) && way.by === "list" && writes) {
        way = { ...way, by: "change" };
        sent = await askBy("change", calls, credential);
      }
      findings.push(judge(role, way, sent));
    } catch (error) {
      findings.push(failed(role, error));
    }
  }
  return findings;
};
