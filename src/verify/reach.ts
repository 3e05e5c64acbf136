/** Finds out whether the API answers at `base_url`: a wrong address is one error, not fifty broken rules. */
import { toldOf } from "../client/network-errors.ts";
import { foreignAddress, foreignError, foreignName } from "../contract/foreign-text.ts";
import { PRODUCT_SCOPE, PRODUCTS, type RouteName, type Scope } from "../contract/routes.ts";
import { openBy } from "../history/reason-codes.ts";
import { byFrequency } from "../history/statistics/statistics.ts";
import type { AdminRole, KeyRole } from "../target/roles.ts";
import type { CredentialRef } from "../workload/step.ts";
import { ANY_SUCCESS, callInWords, type Failure, type Fit, fits, type Open } from "./checks.ts";
import { type Context, callersOf, RUNTIME_ROUTES, scopeOf } from "./context.ts";
import type { Role } from "./planning/needs.ts";
import { roleOf } from "./rule.ts";
import { type Answer, inWords, isAdmitted, lookOf, successInWords } from "./sending/answer.ts";
import { codingOf, NOT_SO_CODED } from "./sending/answer-bytes.ts";
import {
  asAdmin,
  asNobody,
  asServer,
  FORMS,
  type Form,
  json,
  mint,
  NO_SUCH_PATH,
  role,
  type TestCall,
} from "./sending/test-call.ts";
import { wait } from "./sending/throttle.ts";

export class TargetUnreachableError extends Error {
  override name = "TargetUnreachableError";
}

export const NOT_A_PAGE =
  "write the API's own address as base_url, and not that of a site, a login page or a health check";

export const servesEverything = (baseUrl: string, status: number | null): string =>
  `${baseUrl} is not the API: it answers ${status} to every call, also without a key and at a path that there cannot be; ${NOT_A_PAGE}`;

const ATTEMPTS = 3;
const RESTART_MS = 2_000;
/** Statuses that suggest another web server at `base_url`, not a gateway in front of the API. */
const NOT_HERE = [200, 301, 302, 404, 405, 410];

/** Whether nothing of the API is in the answer: a gateway's, a 503, no such path or method, a redirect, or an HTML page. */
const isNoApi = ({ status, headers, foreign }: Answer): boolean => {
  if (status === null) return false;
  if (foreign || status === 503) return true;
  if (status === 404 || status === 405 || status === 410 || (status >= 300 && status < 400)) return true;
  return status >= 200 && status < 300 && /^\s*text\/html/i.test(headers["content-type"] ?? "");
};

/** Calls routes with credentials, because some deployments answer 404 without. Throws if no answer is the API's. */
const judgeWhatAnswers = async (context: Context): Promise<void> => {
  const as = (["server", "publishable"] as const).find(context.has);
  if (as === undefined) return;
  const by = { credential: { as, of: role(as) }, open: true } as const;
  const exchange = context.has("publishable")
    ? mint("publishable", "chat", { open: true })
    : asNobody("sdk.sessions", { ...by, product: "chat" });
  const seen: Answer[] = [];
  for (const call of [asNobody("design.styles", by), asNobody("chat.control", by), exchange]) {
    // Both credential headers are tried, because a deployment may read only one.
    const answer = await context.send({ ...call, form: seen.length === 0 ? "x-api-key" : "bearer", once: true });
    if (!isNoApi(answer)) return;
    seen.push(answer);
  }
  const { base_url } = context.target;
  const isMoved = ({ status, headers }: Answer): boolean => status !== null && status < 400 && "location" in headers;
  if (seen.every(isMoved)) {
    const to = `${seen[0]?.status} to ${foreignAddress(seen[0]?.headers.location ?? "")}`;
    const moved = `nothing of the API is at ${base_url}: every call is redirected (${to}), and redirects are never followed`;
    throw new TargetUnreachableError(`${moved}; write the address that it leads to, if the API is there`);
  }
  const isAway = ({ foreign, status }: Answer) => status === 503 || (foreign && !NOT_HERE.includes(status ?? 0));
  const said = [...new Set(seen.map(inWords))].join("; ");
  const statuses = [...new Set(seen.map(({ status }) => status))].join(", ");
  const isUncertified = base_url.startsWith("https:") && context.target.transport?.cert === undefined;
  // nginx answers 400 over TLS if it wants a client's certificate; others end the handshake.
  const cert = isUncertified && statuses === "400" ? ", or does it want a client certificate (transport.cert)" : "";
  const gateway = `no call is served at ${base_url} (${said}): does a gateway answer there, is the API behind it running, and does it let these calls through${cert}?`;
  const nothing = `nothing of the API is at ${base_url} (${statuses} to the exchange, the control stream and the style catalog, with credentials): does base_url include the version segment (v1)? \`doctor --target FILE\` looks for it nearby`;
  throw new TargetUnreachableError(seen.every(isAway) ? gateway : nothing);
};

const NOWHERE = asNobody("-", { path: NO_SUCH_PATH, once: true });

/** Throws `TargetUnreachableError` if the API does not answer. Usually takes one call, without a credential. */
export const reach = async (context: Context): Promise<void> => {
  const { base_url } = context.target;
  let last: Answer | undefined;
  for (let i = 0; i < ATTEMPTS; i++) {
    last = await context.send(asNobody("design.styles", { once: true }));
    // A deployment that did not answer within the time of a call is not asked again.
    if (last.received.ended === "timeout") break;
    if (last.status === null) continue;
    if (last.received.error === NOT_SO_CODED) {
      const stated = `${base_url} states the content coding ${foreignName(codingOf(last.headers))}`;
      throw new TargetUnreachableError(
        `${stated}, but the body is not coded so: does a proxy add that header, or leave it on a body that it has decoded?`,
      );
    }
    // The service behind a gateway may be restarting.
    if (isNoApi(last) && last.transient && i < ATTEMPTS - 1) {
      await wait(RESTART_MS, context.signal);
      continue;
    }
    // Whoever gets the catalog without a key meets a broken API, or no API.
    if (isAdmitted(last) && isAdmitted(await context.send(NOWHERE)))
      throw new TargetUnreachableError(servesEverything(base_url, last.status));
    return isNoApi(last) ? judgeWhatAnswers(context) : undefined;
  }
  const error = foreignError(last?.received.error ?? last?.received.ended ?? "");
  const { text, todo } = toldOf(`${base_url} does not answer`, error);
  throw new TargetUnreachableError(`${text}; ${todo}`);
};

/** Returns a question to the user if the target file may cause the refusal, else `null`. `of`: the key's role. */
export const hintOf = (answer: Answer, of: KeyRole, context: Context): string | null => {
  if (answer.status === 401) {
    const isBare = answer.text === "" || answer.text === "{}";
    const edge = isBare
      ? ""
      : ", or does something in front of the API ask for a credential of its own (transport.headers)";
    return `does the deployment know the key of the role ${of}${edge}?`;
  }
  if (fits(answer, "ip_not_allowed")) return `may the key of the role ${of} be used from this machine's address?`;
  const origin = context.keyRole(of)?.origin;
  if (fits(answer, "origin_required") && origin !== undefined)
    return `${origin} was sent as the Origin: does something in front of the API remove that header?`;
  if (!fits(answer, "session_origin_mismatch")) return null;
  if (origin === undefined)
    return `the role ${of} has no origin in the target file: which one is in its key's allowlist?`;
  return `is ${origin}, the origin of the role ${of} in the target file, in its key's allowlist?`;
};

const NARROW = ["tier_capability_not_allowed", "insufficient_scope", "product_not_allowed"] as const;

/** What each role's key must be, in words for the user, and the outcomes of its trial that fit: a chat session, or the style catalog. */
// biome-ignore format: a table
export const MEANT: Readonly<Record<KeyRole, readonly [means: string, ...accepts: Fit[]]>> = {
  publishable: ["a publishable key with every scope and no restriction, of a Pro organization", ANY_SUCCESS],
  server: ["a server key with every scope and no restriction, of a Pro organization, for this machine's address", ANY_SUCCESS],
  publishable_other_org: ["as publishable, of another Pro organization", ANY_SUCCESS],
  publishable_no_ai: ["a publishable key with every scope but ai", "insufficient_scope"],
  publishable_tile_only: ["a publishable key restricted to the product tile", "product_not_allowed", "insufficient_scope"],
  publishable_downgraded: ["a full publishable key of an organization that went from Pro to Free", "tier_capability_not_allowed"],
  // A Free organization's key may lack chat because of its tier or its own restriction: both are right.
  publishable_exhausted: ["a publishable key of a Free organization at its allowance", ...NARROW],
  publishable_hard_stop: ["a publishable key of a paid organization at 5 times its allowance", ANY_SUCCESS],
  publishable_expendable: ["a publishable key of a Free organization with nothing used", ...NARROW],
  publishable_expendable_paid: ["a publishable key of a paid organization with nothing used", ANY_SUCCESS],
  publishable_basemap: ["as publishable, of an organization with that stored style", ANY_SUCCESS],
  server_no_design: ["a server key with every scope but design", "insufficient_scope"],
  server_foreign_ip: ["a server key whose IP allowlist excludes this machine", "ip_not_allowed"],
  server_downgraded: ["a full server key of an organization that went from Pro to Free", "tier_capability_not_allowed", "insufficient_scope"],
  revoked: ["a key that was revoked", "unauthenticated"],
  expired: ["a key that has expired", "unauthenticated"],
};

export const isKeyRole = (role: Role): role is KeyRole => Object.hasOwn(MEANT, role);

/** Reports whether no key fits both roles: their trials expect different outcomes, or the roles belong to different organizations. */
export const areExclusive = (one: KeyRole, other: KeyRole): boolean =>
  [one, other].every((role) => role === "publishable" || role === "publishable_other_org") ||
  !MEANT[one].slice(1).some((fit) => MEANT[other].slice(1).includes(fit));

/** Refusals of every call with a credential, of which nobody can tell whether the target file or the deployment is wrong. */
const mayBeOfFile = (answer: Answer, of: Role): boolean =>
  (answer.status === 401 || fits(answer, ["ip_not_allowed", "session_origin_mismatch"])) &&
  !(isKeyRole(of) && fits(answer, MEANT[of].slice(1)));

/** The role whose own credential or session a call is made with; `null` for others, such as a key that the run has made. */
const ownRoleOf = (call: TestCall): Role | null => (call.secret === undefined ? roleOf(call) : null);

/** A change of a key that does not exist, which changes nothing wherever the token is taken. */
const changeNothing = (of: AdminRole, more: Partial<TestCall>): TestCall =>
  asAdmin(of, "keys.update", { path: `/shared-api/api-keys/${crypto.randomUUID()}`, body: json({}), ...more });

/** Returns the refusal that a role's credential meets in each header; `null` unless the target file may be to blame. Sends one or two calls a run. */
const refusalOf = (of: Role, as: CredentialRef["as"], context: Context): Promise<Answer | null> =>
  context.once(`refuses ${of}`, async () => {
    let refusal: Answer | null = null;
    for (const form of FORMS) {
      const keyCall = (key: KeyRole): TestCall =>
        as === "server" ? asServer("design.styles", { form }, key) : mint(key, "chat", { form });
      refusal = await context.send(isKeyRole(of) ? keyCall(of) : changeNothing(of, { form })).catch(() => null);
      if (refusal === null || !mayBeOfFile(refusal, of)) return null;
    }
    context.refused.add(of);
    return refusal;
  });

/** The scopes that a role's key must open. */
const scopesOf = (of: KeyRole): readonly Scope[] => {
  if (of === "publishable_no_ai") return ["design", "maps"];
  if (of === "server_no_design") return ["ai"];
  return MEANT[of].includes(ANY_SUCCESS) ? ["ai", "design", "maps"] : [];
};

const scopeOfCall = ({ route, product = "viewer" }: TestCall): Scope | null => {
  if (route === "sdk.sessions") return PRODUCT_SCOPE[product];
  return route === "-" || !RUNTIME_ROUTES.includes(route) ? null : scopeOf(route);
};

/** Whether a role's key meets the same refusal for all of a scope: for its session, or in each route with a server key. */
const isClosed = async (scope: Scope, { outcome, testCall }: Answer, of: KeyRole, context: Context) => {
  const isOfScope = (call: TestCall): boolean => ownRoleOf(call) === of && scopeOfCall(call) === scope;
  if (context.answers.some((answer) => isAdmitted(answer) && isOfScope(answer.testCall))) return false;
  const product = PRODUCTS.find((one) => PRODUCT_SCOPE[one] === scope);
  if (testCall.credential.as !== "server")
    return product !== undefined && (await context.mint(of, product)).outcome === outcome;
  const isAllowed = (route: RouteName) => route !== "design.analyze" || context.budget.left("analyses") >= 1;
  // The analysis comes last, because it is charged where it is served.
  const routes = RUNTIME_ROUTES.filter((route) => scopeOf(route) === scope && isAllowed(route)).reverse();
  for (const [i, route] of routes.entries())
    if ((await context.send(asServer(route, { form: FORMS[i % FORMS.length] }, of))).outcome !== outcome) return false;
  return routes.length > 0;
};

/**
 * Returns a question to the user if a role's key seems to be narrower than its role, else `null`. A key that lacks a
 * scope is refused for all of that scope, and one of another tier or for other products is refused for every scope.
 */
const narrowKey = async (answer: Answer, of: KeyRole, context: Context): Promise<string | null> => {
  const scope = scopeOfCall(answer.testCall);
  if (scope === null || !scopesOf(of).includes(scope)) return null;
  const isAboutScope = fits(answer, "insufficient_scope");
  const scopes = isAboutScope ? [scope] : scopesOf(of).filter((one) => one !== "maps");
  const refused = `every call of ${scopes.join(" and of ")} with the key of the role ${of} is answered ${answer.outcome}`;
  return context.once(refused, async () => {
    for (const one of scopes) if (!(await isClosed(one, answer, of, context).catch(() => false))) return null;
    context.refused.add(of);
    return `${refused}: is it ${MEANT[of][0]}? Then the deployment is wrong; else name such a key at credentials.${of}`;
  });
};

/** Reports whether no key of a main role is taken; a 401 to any other credential has the same cause then. */
const refusesAll = async (context: Context): Promise<boolean> => {
  const mains = (["server", "publishable"] as const).filter(context.has);
  for (const as of mains) if ((await refusalOf(as, as, context))?.status !== 401) return false;
  return mains.length > 0;
};

/** The rules that judge whether a credential is taken in either header (items 22, 143). */
const RULES_OF_HEADERS = ["either-header", "either-header-at-the-exchange"];

/** A header in which every credential is answered 401, while the same credential is served in the other header. */
type UnreadHeader = { readonly form: Form; readonly text: string };

const unreadHeader = (context: Context): Promise<UnreadHeader | null> =>
  context.once("unread header", async () => {
    for (const caller of callersOf(context, "ai")) {
      // Each such call asks for another place, so no cache can answer it.
      const isServed = async (form: Form): Promise<boolean | null> => {
        const answer = await context.send({ ...caller, route: "poi.enrich", form }).catch(() => null);
        return answer === null || answer.transient || answer.foreign ? null : answer.status !== 401;
      };
      const served = [await isServed("bearer"), await isServed("x-api-key")];
      const form = FORMS[served.indexOf(false)];
      if (form === undefined || !served.includes(true)) continue;
      // An edge may answer a single call with a 401 of its own.
      if ((await isServed(form)) !== false) return null;
      const [lost, taken] = form === "bearer" ? ["Authorization", "X-Api-Key"] : ["X-Api-Key", "Authorization"];
      return { form, text: `every credential in ${lost} is answered 401, and the same one is served in ${taken}` };
    }
    return null;
  });

const isUnread = async ({ status, testCall }: Answer, context: Context): Promise<UnreadHeader | null> => {
  const { credential, form = "bearer" } = testCall;
  if (status !== 401 || !("of" in credential) || form === "both") return null;
  const unread = await unreadHeader(context);
  return unread?.form === (form === "x-api-key" ? form : "bearer") ? unread : null;
};

/** Returns a question to the user if the call's header arrives nowhere, else `null`. */
export const headerHintOf = async (answer: Answer, context: Context): Promise<string | null> => {
  const unread = await isUnread(answer, context);
  return unread && `${unread.text}: does something in front of the API remove that header?`;
};

/** Returns a question to the user if the target file may name a wrong credential and thereby cause the refusal, else `null`. */
const questionOf = async (id: string, answer: Answer, context: Context): Promise<string | null> => {
  const { as } = answer.testCall.credential;
  const of = ownRoleOf(answer.testCall);
  if (fits(answer, NARROW)) return of !== null && isKeyRole(of) ? narrowKey(answer, of, context) : null;
  const unread = RULES_OF_HEADERS.includes(id) ? null : await isUnread(answer, context);
  if (unread !== null) return `${unread.text}: see verify/${RULES_OF_HEADERS[0]}`;
  if (of === null || as === "session") {
    if (answer.status !== 401 || !(await refusesAll(context))) return null;
    return "the deployment refuses every key that was tried (401): does it know the keys of the target file?";
  }
  if (!mayBeOfFile(answer, of) || (await refusalOf(of, as, context))?.outcome !== answer.outcome) return null;
  return isKeyRole(of)
    ? `the deployment refuses the key of the role ${of} in every call (${answer.outcome}): ${hintOf(answer, of, context)}`
    : `key management refuses the token of the role ${of} (401): has it ended, or is it of another identity provider?`;
};

/**
 * Says why a rule cannot be judged if each call that decides it was refused because the deployment takes its key
 * nowhere, or not for all that its role means, or does not read its header; else `null`. A header that is not read still
 * fails one rule, because its key is served in the other header.
 */
export const openByCredential = async (id: string, deciding: readonly Pick<Failure, "steps">[], context: Context) => {
  let reason: string | null = null;
  for (const { steps } of deciding) {
    const last = steps.at(-1);
    const question = last === undefined ? null : await questionOf(id, last, context);
    if (question === null) return null;
    reason ??= question;
  }
  return reason === null ? null : { ...openBy("key-refused"), reason };
};

// Answers that another server gave in the API's place, where neither status nor body says so: told by comparison.

/** An edge that gives one answer in ten gives `OFTEN` of so many in one case of 250. */
const TRIES = 4;
const OFTEN = 3;
/** With more breaches than this it is no single answer that differs. */
const FAILURES_MOST = 6;
const OWN_TRIES = 3;

/**
 * The status of a request that could not be read. An API that reads the same request in each of `TRIES` did not get it
 * whole before: proxies that use a connection again before all of a body is sent put the next request's head into it.
 */
const GARBLED = 400;

const isMetered = ({ route, product }: TestCall): boolean =>
  route === "design.analyze" || route === "maps.loads" || product === "tile";

/** Whether the call may be repeated: it changes nothing, and is charged for nothing, because no meter counts it or a refusal is due. */
const mayRepeat = (call: TestCall, accepts: Failure["accepts"]): boolean => {
  const isRefusalDue = accepts !== null && !accepts.some((outcome) => isAdmitted({ outcome }));
  return (isRefusalDue || !isMetered(call)) && !call.route.startsWith("keys.") && !call.beforeSent;
};

/** A call that the API itself answers with such a status; `null` if none is known. */
const likeCall = ({ status, testCall: { route } }: Answer, context: Context): TestCall | null => {
  if (status === 401) return asNobody("design.styles", { once: true });
  if (status === 404) return asNobody("-", { path: NO_SUCH_PATH, once: true });
  if (status === null || status > 299) return null;
  if (route === "sdk.sessions") return context.has("publishable") ? mint("publishable", "chat", { once: true }) : null;
  if (route === "-" || !RUNTIME_ROUTES.includes(route)) return null;
  const [caller] = callersOf(context, scopeOf(route));
  return caller === undefined ? null : { ...caller, route, once: true };
};

/** The look that most of the API's own answers have. */
const ownLook = (call: TestCall, context: Context): Promise<string | undefined> =>
  context.once(`own look ${JSON.stringify(call)}`, async () => {
    const answers = await Array.fromAsync(Array(OWN_TRIES), () => context.send(call));
    const own = answers.filter(({ transient }) => !transient);
    return byFrequency(own, lookOf)[0]?.[0];
  });

/**
 * Whether a breach rests on an answer that hardly comes again and does not look like the API's own. How the API answers
 * an analysis that it serves is not asked, because it would be charged.
 */
const isStrangers = async ({ steps, accepts }: Failure, context: Context): Promise<boolean> => {
  const last = steps.at(-1);
  if (last === undefined || !mayRepeat(last.testCall, accepts)) return false;
  const look = lookOf(last);
  const isGarbled = last.status === GARBLED;
  const isUncompared = isGarbled || (last.testCall.route === "design.analyze" && isAdmitted(last));
  const like = isUncompared ? null : likeCall(last, context);
  const own = like === null ? undefined : await ownLook(like, context);
  if (!isUncompared && (own === undefined || own === look)) return false;
  const again = await Array.fromAsync(Array(TRIES), () => context.send({ ...last.testCall, once: true, open: true }));
  const often = isGarbled ? 1 : OFTEN;
  if (again.filter((answer) => lookOf(answer) === look).length >= often) return false;
  context.strangers.add(look);
  return true;
};

/** Reports whether a breach rests on a 401 in plain text although the API's own is JSON, as an edge answers that guards some paths. */
const isAnotherGuards = async ({ steps }: Failure, context: Context): Promise<boolean> => {
  const last = steps.at(-1);
  if (last?.status !== 401 || last.text === "" || last.body !== undefined) return false;
  const like = likeCall(last, context);
  const own = like === null ? undefined : await ownLook(like, context);
  return own !== undefined && !own.endsWith(" undefined");
};

/** Says why a rule cannot be judged if another server may have given each answer that shows a breach; else `null`. */
export const openByStrangers = async (failures: readonly Failure[], context: Context): Promise<Open | null> => {
  const last = failures[0]?.steps.at(-1);
  if (last === undefined) return null;
  const guarded = await Promise.all(failures.map((failure) => isAnotherGuards(failure, context)));
  if (guarded.every((is) => is)) {
    const asked = "does something in front of the API ask for a credential of its own there (transport.headers)?";
    return { ...openBy("edge-answered"), reason: `${callInWords(last)}, and the API's own 401 is JSON: ${asked}` };
  }
  if (failures.length > FAILURES_MOST) return null;
  for (const failure of failures) if (!(await isStrangers(failure, context).catch(() => false))) return null;
  const why =
    last.status === GARBLED
      ? `the same call was read in ${TRIES} more tries; does a server in front of the API pass some requests on damaged?`
      : `it hardly came again in ${TRIES} tries; does a server in front of the API answer some calls in its place?`;
  const body = /^2/.test(last.outcome) ? successInWords(last) : "";
  const reason = `${callInWords(last)}${body}: ${why}`;
  return { ...openBy("edge-answered"), reason };
};
