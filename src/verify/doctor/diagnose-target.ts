/** `doctor --target`: checks a target file and its deployment by single calls, within what the file permits: every
 * key once with a cheap one (a chat session, or the style catalog for a server key). */

import { readUsed } from "../../client/control-planes.ts";
import { tlsFiles, wrongTlsFile } from "../../client/transport.ts";
import { credentialKind } from "../../contract/credentials.ts";
import { foreignId } from "../../contract/foreign-text.ts";
import { outcomeOf, parseJson, type RefusalName } from "../../contract/refusals.ts";
import { beforeSignalEnds } from "../../supervision/stop-signals.ts";
import { ADMIN_ROLES, type AdminRole, KEY_ROLES, type KeyRole } from "../../target/roles.ts";
import { createSecrets, isReference, SecretError, type Secrets } from "../../target/secrets.ts";
import { credentialsOf } from "../../target/stated-credentials.ts";
import type { Target } from "../../target/target.ts";
import { guardTarget, lockTarget, readTargetFile } from "../../target/target-file.ts";
import type { CallerName } from "../../workload/callers/target-view.ts";
import type { CredentialRef, Step, StepWish } from "../../workload/step.ts";
import { ANY_SUCCESS, type Fit, fits, outcomesOf } from "../checks.ts";
import { type Budget, createBudget } from "../planning/needs.ts";
import { areExclusive, MEANT } from "../reach.ts";
import * as connecting from "./connection.ts";
import { addressFinding } from "./find-base-url.ts";
import { type Finding, finding, okIf, type Section } from "./finding.ts";
import {
  type Answered,
  CALLS_MAX,
  isAdmitted,
  isPassing,
  openSingleCalls,
  refusalAdvice,
  type SingleCalls,
  showsNothing,
  titleOf,
  tried,
  withSingleCalls,
} from "./single-calls.ts";
import { findStreamEnds, writeStreamEnds } from "./stream-ends.ts";
import { faultFinding, scaleFindings, scenarioFindings, verifyFindings } from "./what-would-run.ts";

type KeyTrial = Readonly<Record<"name" | "where" | "means", string>> & {
  readonly origin?: string | undefined;
  readonly credential: { readonly as: "publishable" | "server"; readonly of: CallerName };
  readonly accepts: readonly Fit[];
};

const wishOf = ({ credential }: KeyTrial, via: Step["via"]): StepWish =>
  credential.as === "server"
    ? { route: "design.styles", credential, via }
    : { route: "sdk.sessions", credential, origin: "listed", product: "chat", via };

const nameAnother = ({ means, where }: KeyTrial) => `is this ${means}? Name one at ${where}, or leave the role out`;

const misfit = (trial: KeyTrial, sent: Answered): Finding => {
  const { name, where, origin, credential, accepts } = trial;
  const { outcome } = sent.line;
  const success = credential.as === "server" ? "200 and the style catalog" : "200 and a chat session";
  const expected = outcomesOf(accepts).map((one) => (one === ANY_SUCCESS ? success : one));
  // A gateway's answer says nothing about the key.
  const todo =
    accepts.includes(ANY_SUCCESS) || outcome.startsWith("edge ")
      ? refusalAdvice(outcome, where, origin)
      : nameAnother(trial);
  return showsNothing(name, sent) ?? finding("wrong", name, `expected ${expected.join(" or ")}; got ${outcome}`, todo);
};

/** Sends at most two calls, because a deployment may read only one of the two headers (items 22, 143). */
const tryKey = async (trial: KeyTrial, calls: SingleCalls): Promise<{ found: Finding; sent: Answered }> => {
  const { name, credential, accepts } = trial;
  const first = await calls.ask(wishOf(trial, "authorization"));
  const isTriedAgain = first.line.outcome === "401" && !fits(first.line, accepts) && calls.left() > 0;
  const again = isTriedAgain ? await calls.ask(wishOf(trial, "x-api-key")) : first;
  const sent = again.line.outcome === "401" ? first : again;
  const remark = sent === first ? "" : "; in X-Api-Key alone, as Authorization: Bearer it is 401";
  const { outcome } = sent.line;
  if (!fits(sent.line, accepts)) return { found: misfit(trial, sent), sent };
  const took = `${sent.tookMs.toFixed(sent.tookMs < 10 ? 1 : 0)} ms`;
  const good = credential.as === "server" ? "reads the style catalog" : "mints a chat session";
  const text = isAdmitted(outcome)
    ? `${good} (${outcome}, ${took})${remark}`
    : `${outcome}, as expected of this role (${took})`;
  const todo = remark === "" ? undefined : "does something in front of the API remove Authorization?";
  return { found: finding(todo === undefined ? "ok" : "warn", name, text, todo), sent };
};

const trialOf = async (role: KeyRole, { target, calls }: Parts): Promise<KeyTrial> => {
  const of = `role:${role}` as const;
  const [means, ...accepts] = MEANT[role];
  const isEither = role === "revoked" || role === "expired";
  // The key may be of either kind, and its kind decides the call that is tried.
  const value = isEither ? await calls.book.fetch({ as: "publishable", of }) : null;
  const isServer = role.startsWith("server") || credentialKind(value ?? "") === "server";
  const credential = { as: isServer ? ("server" as const) : ("publishable" as const), of };
  const { origin } = target.credentials?.[role] ?? {};
  return { name: role, where: `credentials.${role}`, origin, credential, means, accepts };
};

const basemapMisfit = (target: Target, { answer }: Answered): Finding | null => {
  const stated = target.credentials?.publishable_basemap?.basemap_style_id;
  const { basemap_style_id: came } = (parseJson(answer.text) ?? {}) as { basemap_style_id?: unknown };
  if (stated === undefined || stated === came) return null;
  const got = typeof came === "string" ? foreignId(came.slice(0, 200)) : "none";
  const todo = "write the organization's stored style at credentials.publishable_basemap.basemap_style_id";
  return finding("wrong", "publishable_basemap", `expected basemap_style_id ${stated}; got ${got}`, todo);
};

/** The refusal of a `tile` exchange by roles with a used-up allowance, and how many times it is used up. */
const USED_UP: Partial<Readonly<Record<KeyRole, { refusal: RefusalName; times: number }>>> = {
  publishable_exhausted: { refusal: "map_load_quota_exceeded", times: 1 },
  publishable_hard_stop: { refusal: "map_load_hard_stop", times: 5 },
};

/** Whether the allowance is used up; `null` if no control plane tells it. */
const isUsedUp = async (role: KeyRole, times: number, { target, calls }: Parts): Promise<boolean | null> => {
  const { org, limit } = target.credentials?.[role] ?? {};
  const keys = target.control?.keys;
  if (typeof keys !== "string" || org === undefined || limit === undefined) return null;
  const read = async () => {
    calls.take(1);
    return readUsed(keys, org);
  };
  const used = await read().catch(() => undefined);
  return used === undefined ? null : used >= limit * times;
};

const ANOTHER_KEY = "use its allowance up, or name another organization's key";

const tryQuota = async (trial: KeyTrial, role: KeyRole, parts: Parts): Promise<Finding[]> => {
  const quota = USED_UP[role];
  if (quota === undefined) return [];
  const { target, calls, budget } = parts;
  const name = `${role}, quota`;
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
  return tried(name, trial.where, async () => {
    const sent = await calls.ask({ ...wishOf(trial, "authorization"), product: "tile" });
    const { outcome } = sent.line;
    if (fits(sent.line, quota.refusal)) return [finding("ok", name, `${outcome}, as expected of this role`)];
    if (!isAdmitted(outcome)) return [misfit({ ...trial, name, accepts: [quota.refusal] }, sent)];
    budget.take("map_loads");
    const text = `expected ${outcomeOf(quota.refusal)}; got ${outcome}: its allowance is not used up (one map load was charged)`;
    return [finding("wrong", name, text, ANOTHER_KEY)];
  });
};

/** Finds roles that name the same key, which can rarely be right for both. */
const sameKeys = async (roles: readonly KeyRole[], calls: SingleCalls): Promise<Finding[]> => {
  const todo = "give each role a key of its own, or leave one out";
  const keys = roles.map((role) => calls.book.fetch({ as: "publishable", of: `role:${role}` }).catch(() => null));
  const byKey = Map.groupBy((await Promise.all(keys)).entries(), ([, key]) => key);
  return [...byKey].flatMap(([key, found]) => {
    const [one, ...others] = found.map(([at]) => roles[at] as KeyRole);
    if (key === null || one === undefined) return [];
    const stateOf = (other: KeyRole) => (areExclusive(one, other) ? "wrong" : "warn");
    return others.map((other) => finding(stateOf(other), other, `the same key as ${one}`, todo));
  });
};

const tryRoles = async (parts: Parts): Promise<Finding[]> => {
  const { target, calls } = parts;
  const roles = KEY_ROLES.filter((role) => target.credentials?.[role] !== undefined);
  const look = async (role: KeyRole): Promise<Finding[]> => {
    const trial = await trialOf(role, parts);
    const { found, sent } = await tryKey(trial, calls);
    if (found.state !== "ok") return [found];
    const wrong = role === "publishable_basemap" ? basemapMisfit(target, sent) : null;
    const more = [...(await tryOtherScopes(trial, role, parts)), ...(await tryQuota(trial, role, parts))];
    return [wrong ?? found, ...more];
  };
  const findings = await Array.fromAsync(roles, (role) => tried(role, `credentials.${role}`, () => look(role)));
  return [...findings.flat(), ...(await sameKeys(roles, calls))];
};

const EDITOR = { what: "an editor session", wish: { product: "editor" } } as const;
const PLACE = { what: "a place enriched", wish: { route: "poi.enrich" } } as const;

/** The second call of each role that has more than one scope: it needs another scope than the first. `what` names it for the user. */
const STILL_SERVED: Partial<Readonly<Record<KeyRole, { what: string; wish: Partial<StepWish> }>>> = {
  ...{ publishable: EDITOR, publishable_other_org: EDITOR, publishable_no_ai: EDITOR },
  ...{ server: PLACE, server_no_design: PLACE },
};

/** Finds a key that lacks a scope of its role: rules would accuse the deployment of that, or ask. */
const tryOtherScopes = async (trial: KeyTrial, role: KeyRole, { calls }: Parts): Promise<Finding[]> => {
  const still = STILL_SERVED[role];
  if (still === undefined || calls.left() < 1) return [];
  const name = `${role}, its other scopes`;
  return tried(name, trial.where, async () => {
    const sent = await calls.ask({ ...wishOf(trial, "authorization"), ...still.wish });
    if (!fits(sent.line, ["insufficient_scope", "product_not_allowed"])) return [];
    return [finding("wrong", name, `expected ${still.what}; got ${sent.line.outcome}`, nameAnother(trial))];
  });
};

const tenantTrials = (target: Target): KeyTrial[] => {
  const tiers = new Map(target.tenants?.map(({ org, tier }) => [`tenant:${org}`, tier]));
  return credentialsOf({ ...target, credentials: {} }).map((one) => {
    const { of, kind, where, origin } = one;
    const tier = tiers.get(of);
    // A Free organization mints only tile, which is charged; a refused chat shows that key and origin are right.
    const accepts: Fit[] = tier === "Free" ? [] : [ANY_SUCCESS];
    if (tier !== "Pro") accepts.push("tier_capability_not_allowed");
    const means = `a full key of a ${tier ?? "Free or Pro"} organization`;
    const credential = { as: kind as "publishable" | "server", of };
    return { name: titleOf(one), where, origin, credential, means, accepts };
  });
};

/** Tries as many tenants' keys as calls are left, spread evenly over the list. */
const tryTenants = async (target: Target, calls: SingleCalls): Promise<Finding[]> => {
  const all = tenantTrials(target);
  if (all.length === 0) return [];
  const count = Math.min(all.length, Math.max(0, calls.left()));
  const bad: Finding[] = [];
  let made = 0;
  for (; made < count && calls.left() >= 1; made += 1) {
    const trial = all[Math.floor((made * all.length) / count)] as KeyTrial;
    const findings = await tried(trial.name, trial.where, async () => [(await tryKey(trial, calls)).found]);
    bad.push(...findings.filter(({ state }) => state !== "ok"));
  }
  const rest = all.length - made;
  const untried = rest === 0 ? "" : `; ${rest} more of the ${all.length} were not tried`;
  const text = `${made - bad.length} of ${made} keys tried work${untried}`;
  return [finding(made === 0 ? "skipped" : "ok", `${target.tenants?.length ?? 0} tenants`, text), ...bad];
};

/** Asking for a change of a key that does not exist tries an administrator's token and changes nothing. */
const PATCH = {
  path: "/shared-api/api-keys/00000000-0000-4000-8000-000000000000",
  body: JSON.stringify({ products: ["tile"] }),
};
const WAYS = {
  list: { words: "reads the list of keys", route: "keys.create", change: { method: "GET", body: undefined } },
  change: { words: "may ask for a change of a key", route: "keys.update", change: PATCH },
} as const;

/** `stranger`: the outcome of the call with a made-up token. */
type Way = { readonly by: keyof typeof WAYS; readonly stranger: string };

const askBy = (by: Way["by"], calls: SingleCalls, credential: CredentialRef): Promise<Answered> =>
  calls.ask({ route: WAYS[by].route, credential, via: "authorization" }, WAYS[by].change);

const isRefused = (outcome: string): boolean => outcome === "401" || outcome.startsWith("403");

/** Finds a call that key management refuses to a made-up token; else returns why there is none. */
const findWay = async (calls: SingleCalls, writes: boolean): Promise<Way | string> => {
  const { answer, line } = await askBy("list", calls, { as: "garbage" });
  if (answer.status === null || isPassing(line.outcome)) return `key management answers ${line.outcome}`;
  if (isRefused(line.outcome)) return { by: "list", stranger: line.outcome };
  if (!writes) return "the deployment has no list of keys, and permits.writes does not allow another way";
  const { outcome } = (await askBy("change", calls, { as: "garbage" })).line;
  if (isRefused(outcome)) return { by: "change", stranger: outcome };
  return `key management answers ${outcome} to a made-up token as well: does key_management_url fit?`;
};

const judgeAdmin = (role: AdminRole, { by, stranger }: Way, sent: Answered): Finding => {
  const { outcome } = sent.line;
  const todo = `has the token at credentials.${role} ended, or is it of another identity provider?`;
  const isUnknown = outcome === "401" || outcome === stranger;
  const said = isAdmitted(outcome) ? WAYS[by].words : "its token is accepted";
  const found = isUnknown
    ? finding("wrong", role, `expected to be known to key management; got ${outcome}`, todo)
    : finding("ok", role, `${said} (${outcome} for a call that changes nothing)`);
  return showsNothing(role, sent) ?? found;
};

const tryAdmins = async (target: Target, calls: SingleCalls): Promise<Finding[]> => {
  const writes = target.permits?.writes === true;
  let way: Way | string | null = null;
  const look = async (role: AdminRole): Promise<Finding[]> => {
    const credential: CredentialRef = { as: "admin", of: `role:${role}` };
    way ??= await findWay(calls, writes);
    // The token is read even if it is not tried, because an unreadable reference is a mistake.
    await calls.book.fetch(credential);
    if (typeof way === "string") return [finding("skipped", role, `not tried: ${way}`)];
    let sent = await askBy(way.by, calls, credential);
    // A deployment without a list of keys may still refuse the list to a made-up token.
    if (/^(?:edge )?40[45]/.test(sent.line.outcome) && way.by === "list" && writes) {
      way = { ...way, by: "change" };
      sent = await askBy("change", calls, credential);
    }
    return [judgeAdmin(role, way, sent)];
  };
  const roles = ADMIN_ROLES.filter((role) => target.credentials?.[role] !== undefined);
  return (await Array.fromAsync(roles, (role) => tried(role, `credentials.${role}`, () => look(role)))).flat();
};

/** Findings about credential references that cannot be read. */
const unreadable = async (target: Target, secrets: Secrets): Promise<Finding[]> => {
  const references = credentialsOf(target).filter(({ ref }) => isReference(ref));
  const findings = await Array.fromAsync(references, (one) =>
    tried(titleOf(one), one.where, () => secrets.read(one.ref, one.where).then(() => [])),
  );
  return findings.flat();
};

type Parts = { target: Target; folder: string; secrets: Secrets; calls: SingleCalls; budget: Budget };

const worksOf = (roles: readonly Finding[]): ReadonlySet<string> =>
  new Set(roles.flatMap(({ state, name }) => (state === "ok" || state === "warn" ? [name] : [])));

/** Tries the keys of the target file that `init` proposes, and looks for the events that end its streams. */
export const tryProposal = (target: Target, folder: string) =>
  withSingleCalls(target, folder, async (calls) => {
    const budget = createBudget(target, false);
    const roles = await tryRoles({ target, folder, secrets: createSecrets(folder), calls, budget });
    const { findings, found } = await findStreamEnds(target, calls, worksOf(roles));
    const sections = [
      { title: "Roles", findings: roles },
      { title: "Streams", findings },
    ];
    return { sections: sections.filter((one) => one.findings.length > 0), found };
  });

const streamFindings = async (file: string, { target, calls }: Parts, roles: readonly Finding[]) => {
  const { findings, found } = await findStreamEnds(target, calls, worksOf(roles));
  if (target.stream_end !== undefined || Object.keys(found).length === 0) return findings;
  const field = `"stream_end": ${JSON.stringify(found)}`;
  const meant = `written into ${file}: ${field}; a stream without that event is judged as cut from now on`;
  const unwritten = `${file} does not state it, and could not be written`;
  const isWritten = await writeStreamEnds(file, found);
  return [...findings, okIf(isWritten, "stream_end", isWritten ? meant : unwritten, `add ${field}`, "info")];
};

const askDeployment = async (file: string, parts: Parts): Promise<Section[]> => {
  const { target, folder, secrets, calls } = parts;
  const { found, goOn } = await addressFinding(target, folder, calls);
  const works = ({ state }: Finding): boolean => state === "ok";
  // One role is enough to see whether the deployment hides its API from calls without a key.
  const credentials = Object.fromEntries(Object.entries(target.credentials ?? {}).slice(0, 1));
  const hides = goOn === "one" && (await tryRoles({ ...parts, target: { ...target, credentials } })).some(works);
  const protocol = await connecting.protocolFindings(target, secrets, Date.now());
  if (goOn !== "yes" && !hides) {
    const broken = await unreadable(target, secrets);
    return [
      { title: "Connection", findings: [found, ...protocol.filter((one) => one.name === "TLS" && !works(one))] },
      { title: "Roles", findings: [...broken, finding("skipped", "roles", "not tried: the API was not found")] },
    ];
  }
  const roles = await tryRoles(parts);
  const serverWorks = roles.some((one) => one.name === "server" && works(one));
  const connection = [
    hides ? finding("ok", "base_url", `${target.base_url} answers those who have a key`) : found,
    ...protocol,
    await connecting.latencyFinding(target, calls, serverWorks),
    connecting.clockFinding(calls.answers),
    connecting.echoFinding(calls.answers),
    ...connecting.otherWayFinding(calls.answers),
  ];
  const admins = await tryAdmins(target, calls);
  const others = await connecting.lookAtOthers(target, calls);
  const streams = await streamFindings(file, parts, roles);
  const broken = await unreadable({ ...target, credentials: {} }, secrets);
  const tenants = broken.length === 0 ? await tryTenants(target, calls) : broken;
  return [
    { title: "Connection", findings: connection },
    { title: "Roles", findings: [...roles, ...admins] },
    { title: "Streams", findings: streams },
    { title: "Tenants", findings: tenants },
    { title: "Other addresses of the file", findings: others },
  ];
};

/** Throws `TargetFileError` and `TargetBusyError`; all else is a finding. `judgesOf`: findings of a run's judges. */
export const diagnoseTarget = async (
  file: string,
  owned: readonly string[],
  judgesOf: (target: Target) => readonly Finding[] = () => [],
) => {
  const { target, folder, warnings } = await readTargetFile(file);
  const budget = createBudget(target, false);
  const about = [
    finding("ok", "file", `${file} can be read`),
    ...warnings.map((text) => finding("warn", "file", text)),
    ...judgesOf(target),
  ];
  const title = `Target ${target.name ?? target.base_url}`;
  /** Why the safety guard refuses the calls; empty if it permits them. */
  const refusedByGuard = await guardTarget(target, owned, { load: false, faults: false, requests: CALLS_MAX });
  if (refusedByGuard.length > 0)
    return { sections: [{ title, findings: about }] as Section[], refusedByGuard, spent: budget.spent };
  const secrets = createSecrets(folder);
  const lock = lockTarget(target.base_url);
  const forget = beforeSignalEnds(lock.release);
  const asked: Section[] = [];
  try {
    const wrong = wrongTlsFile(await tlsFiles(target.transport ?? {}, secrets));
    if (wrong !== null) about.push(finding("wrong", "transport", wrong));
    else {
      const calls = await openSingleCalls({ target, secrets, budget });
      asked.push(...(await askDeployment(file, { target, folder, secrets, calls, budget }).finally(calls.close)));
    }
  } catch (error) {
    // A secret of the connection settings cannot be read, so no call is made.
    if (!(error instanceof SecretError)) throw error;
    about.push(finding("wrong", "transport", error.message));
  } finally {
    forget();
    lock.release();
  }
  const all = [
    { title, findings: about },
    ...asked,
    { title: "What verify would do", findings: verifyFindings(target) },
    { title: "Scenarios", findings: [...scenarioFindings(target), faultFinding(target), ...scaleFindings(target)] },
  ];
  return { sections: all.filter(({ findings }) => findings.length > 0), refusedByGuard, spent: budget.spent };
};
