/** Creates keys through key management: each is journalled just before its call leaves, and deleted in the end. The
 * specification names no members of a creation, so rules need evidence of those that the deployment reads. */
import { maskSecrets } from "../../contract/credentials.ts";
import { foreignName } from "../../contract/foreign-text.ts";
import { isObject, parseJson, REFUSALS } from "../../contract/refusals.ts";
import type { AdminRole } from "../../target/roles.ts";
import { codeOf, fits, inconclusive, skipped } from "../checks.ts";
import type { Context, Effect } from "../context.ts";
import { roleOf } from "../rule.ts";
import { type Answer, inWords, isAdmitted } from "../sending/answer.ts";
import { asAdmin, json, NO_SUCH_PATH, role, type TestCall } from "../sending/test-call.ts";

export type KeyBody = Partial<Record<"scopes" | "products" | "allowed_origins" | "allowed_ips", readonly string[]>> &
  Partial<Record<"acknowledge_vendor" | "vendor_acknowledged", boolean>> & {
    kind: "publishable" | "server";
    env?: "live" | "test";
    name?: string;
  };

/** Lets an operator recognise a key that could not be removed. */
const KEY_NAME = "floodgate-verify";
export const KEY_ORIGIN = "https://floodgate-verify.example";

/** It names its products, because what a key without any may mint is not specified (item 57). */
export const FULL_KEY = {
  ...({ kind: "publishable", env: "live", scopes: ["ai", "design", "maps"] } as const),
  products: ["chat", "editor", "tile"],
  allowed_origins: [KEY_ORIGIN],
} satisfies KeyBody;
export const TILE_KEY = { ...FULL_KEY, scopes: ["maps"], products: ["tile"] } satisfies KeyBody;

export type MadeKey = { id: string; secret: string; admin: AdminRole; created: Answer };

type More = Partial<TestCall>;

const createCall = (admin: AdminRole, key: KeyBody, more: More): TestCall =>
  asAdmin(admin, "keys.create", { body: json({ name: KEY_NAME, ...key }), ...more });

const pathOfKey = (id: string): string => `/shared-api/api-keys/${encodeURIComponent(id)}`;

export const updateCall = (admin: AdminRole, id: string, key: Partial<KeyBody>, more: More = {}): TestCall =>
  asAdmin(admin, "keys.update", { path: pathOfKey(id), body: json(key), ...more });

export const deleteCall = (admin: AdminRole, id: string, more: More = {}): TestCall =>
  asAdmin(admin, "keys.delete", { path: pathOfKey(id), ...more });

const withKey = ({ secret, admin }: MadeKey, call: Omit<TestCall, "credential">): TestCall => ({
  ...call,
  credential: { as: secret.startsWith("svc_sk_") ? "server" : "publishable", of: role(admin) },
  secret: { value: secret, variable: "$CREATED_KEY" },
});

export const exchangeWith = (key: MadeKey, product: "chat" | "editor" | "tile", more: More = {}): TestCall =>
  withKey(key, {
    ...{ route: "sdk.sessions", origin: "listed", originValue: KEY_ORIGIN },
    ...{ product, what: "a key made by this run" },
    ...more,
  });

export const serverCallWith = (key: MadeKey, route: "design.styles" | "poi.enrich", more: More = {}): TestCall =>
  withKey(key, { ...{ route, origin: "none", what: "a server key made by this run", open: true }, ...more });

/** Every value in a JSON value at any depth, with its member's name, outermost first. */
const valuesIn = (value: unknown, name = ""): [name: string, value: unknown][] => {
  const members = typeof value === "object" && value !== null ? Object.entries(value) : [];
  return [[name, value], ...members.flatMap(([inner, one]) => valuesIn(one, inner))];
};

/** Every text of an answer, because the members of an answer to a creation are not specified (items 50, 126, 141). */
const everyText = (value: unknown) => valuesIn(value).flatMap(([, one]) => (typeof one === "string" ? one : []));

/** Finds a secret by its member's name; it may lack the prefix, which another rule judges. */
const secretByName = (value: unknown, id: unknown): string | undefined => {
  const named = valuesIn(value).filter(([name]) => /^(key|secret|api_?key|token|value)$/i.test(name));
  const texts = named.map(([, one]) => one).filter((one) => typeof one === "string");
  return texts.find((text) => /^[\w-]{16,}$/.test(text) && text !== id);
};

const idInAddress = (text: string): string | undefined => {
  const segment = /(?:^|\/)api-?_?keys\/([^/?#\s]+)\/?$/i.exec(text)?.[1];
  try {
    return segment === undefined ? undefined : decodeURIComponent(segment);
  } catch {
    return undefined;
  }
};

const ID_NAMES = [/^(id|_id)$/i, /^(api)?[_-]?key[_-]?id$/i, /^(uid|uuid|identifier|kid)$/i];
/** Members whose ids belong to something else. */
const OTHERS = /org|owner|user|account|creat|request|tenant|project|plan|meta/i;

const idsOf = (record: Readonly<Record<string, unknown>>, secret: string | null): string[] => {
  const ids = Object.entries(record).filter(
    ([, id]) => /^(string|number)$/.test(typeof id) && id !== secret && id !== "",
  );
  return ID_NAMES.flatMap((wanted) => ids.flatMap(([name, id]) => (wanted.test(name) ? String(id) : [])));
};

/** All objects, outermost first, except those under a member of `OTHERS`. */
const recordsIn = (value: unknown): Readonly<Record<string, unknown>>[] => {
  if (Array.isArray(value)) return value.flatMap(recordsIn);
  if (!isObject(value)) return [];
  const inner = Object.entries(value).filter(([name]) => !OTHERS.test(name));
  return [value, ...inner.flatMap(([, one]) => recordsIn(one))];
};

/** `ids`: candidates for the key's id, likeliest first. */
const madeIn = (answer: Answer) => {
  const texts = everyText(answer.body);
  const whole = texts.find((text) => /^svc_(pk|sk)_\S{8,}$/.test(text) && !text.includes("..."));
  const records = recordsIn(answer.body);
  const named = records.flatMap((record) => idsOf(record, whole ?? null));
  const secret = whole ?? secretByName(answer.body, named[0]) ?? null;
  // A record with the secret or with scopes is the key's. An envelope may have an id of its own.
  const isKeys = (record: Readonly<Record<string, unknown>>): boolean =>
    (secret !== null && Object.values(record).includes(secret)) || "scopes" in record;
  const own = records.filter(isKeys).flatMap((record) => idsOf(record, secret));
  const addressed = [answer.headers.location ?? "", ...texts].map(idInAddress);
  const ids = [...new Set([...own, addressed[0], ...named, ...addressed])].filter((id) => id !== undefined);
  return { ids: ids.filter((id) => id !== secret), secret };
};

const tellsList = (value: unknown, wanted: readonly string[]): boolean =>
  valuesIn(value).some(([, one]) => {
    const found = typeof one === "string" && wanted.length > 0 ? one.split(/[\s,]+/) : one;
    return Array.isArray(found) && found.length === wanted.length && wanted.every((text) => found.includes(text));
  });

export const tellsText = (answer: Answer, wanted: string): boolean =>
  everyText(answer.body).some((text) => text.split(/[\s,]+/).includes(wanted));

/** Whether a key is gone. A rule may have deleted it, and the answer to a second deletion is not specified. */
const isGone = ({ answers }: Context, { status, testCall: { path } }: Answer): boolean => {
  const deleted = answers.filter(({ testCall }) => testCall.route === "keys.delete" && testCall.path === path);
  return status === 404 || status === 410 || deleted.some(isAdmitted);
};

/** Whether a creation certainly made nothing: refused, not connected, or 503 (item 216). A cut answer is uncertain. */
const isRefusedForSure = ({ outcome, status, received }: Answer): boolean => {
  if (received.error === "ECONNREFUSED" || outcome === "503") return true;
  const isRefusal = status !== null && status >= 300 && status < 500 && status !== 408 && status !== 499;
  return isRefusal && outcome !== "indeterminate";
};

const NOT_THERE = "key management is not at /shared-api/api-keys (its paths are not shown in the specification)";
const NOWHERE = `/shared-api${NO_SUCH_PATH}`;

/** Whether any path gets this refusal: then a gateway answered (item 18) and key management is elsewhere (item 126). */
const isSaidAnywhere = async (context: Context, admin: AdminRole, answer: Answer): Promise<boolean> => {
  const { status, outcome } = answer;
  if (status === null || answer.transient || isAdmitted(answer) || [404, 405, 409, 422].includes(status)) return false;
  const isOwnWord = Object.values(REFUSALS).some((one) => one.status !== 401 && one.subcode === answer.subcode);
  if (answer.subcode !== null && isOwnWord) return false;
  const elsewhere = await context.once(`a path below key management that does not exist, for ${admin}`, () => {
    const call = createCall(admin, { kind: "publishable" }, { path: NOWHERE, method: "POST", open: true });
    return context.send({ ...call, route: "keys.update", what: "a path that does not exist" });
  });
  return elsewhere.outcome === outcome && elsewhere.status === status;
};

/** After this many creations without a clear answer no further one is tried, because each may have left a key. */
const UNCLEAR_MOST = 5;

/** Creates a key, which is removed at the end. The result's `key` is `null` unless the answer has both id and secret. */
export const createKey = async (context: Context, admin: AdminRole, body: KeyBody, more: More = {}) => {
  const unclear = context.effects.unclear();
  if (unclear >= UNCLEAR_MOST) {
    throw inconclusive(
      "not-answered",
      `the last ${unclear} creations had no clear answer, and each may have made a key, so no further one is tried; does key management answer?`,
    );
  }
  let effect: Effect | null = null;
  // The journal notes a key only when its call leaves, because a call that the budget holds back creates none.
  const beforeSent = (): void => {
    effect ??= context.effects.about(`key ${KEY_NAME} of ${admin}`);
  };
  const isRefusedEveryTime = (): boolean =>
    context.answers.filter(({ testCall }) => testCall.beforeSent === beforeSent).every(isRefusedForSure);
  const call: TestCall = { ...createCall(admin, body, more), beforeSent, toTheEnd: true };
  const answer = await context.send(call).catch((error: unknown) => {
    // After a stop between two attempts, the answer to the first is known.
    if (isRefusedEveryTime()) effect?.over("not made");
    throw error;
  });
  // The call was answered, so it has left and `beforeSent` has set the effect.
  const made = effect as Effect | null as Effect;
  if (!isAdmitted(answer)) {
    if (isRefusedEveryTime()) made.over(`refused: ${answer.outcome}`);
    if (more.credential === undefined && (await isSaidAnywhere(context, admin, answer)))
      throw skipped("not-provided", `${NOT_THERE}: every path there is answered ${answer.outcome}`);
    return { answer, key: null, secret: null };
  }
  const { ids, secret: text } = madeIn(answer);
  const [id = null] = ids;
  if (id === null) {
    const shown = text === null ? "a key that the answer does not show" : `the key ...${text.slice(-4)}`;
    const masked = text === null ? shown : maskSecrets(text);
    made.stays(shown, `${masked}: the answer names no id, so that it cannot be removed`);
  } else {
    // The caller's own credential deletes the key: if a wrong caller made it, the right one may not see it.
    const { credential, form, secret } = call;
    const by: More = { credential, form, secret, anyway: true, once: true };
    made.happened(`id ${/^[\w.:-]{1,64}$/.test(id) ? id : foreignName(id)}`, async () => {
      let gone = false;
      // Candidate ids that are not the key's are not found.
      for (const one of ids) {
        const deleted = await context.send(deleteCall(admin, one, by));
        if (isAdmitted(deleted)) return true;
        gone ||= isGone(context, deleted);
      }
      return gone;
    });
  }
  const key: MadeKey | null = id === null || text === null ? null : { id, secret: text, admin, created: answer };
  return { answer, key, secret: text };
};

export const FREE_ONLY = "free_plan_publishable_only";
export const NEEDS_ORIGINS = "publishable_live_requires_origins";

/** Subcodes that show that the deployment has read the members of a creation. */
const READ_FIELDS = new Set([
  ...["unknown_scope", "unknown_product", NEEDS_ORIGINS, FREE_ONLY, "vendor_scope_requires_acknowledgement"],
  ...["tier_capability_not_allowed", "key_limit_reached"],
]);
const OTHER_BODY = "key management takes another body (its fields are not shown in the specification)";

const bodyOf = ({ testCall }: Answer): Partial<KeyBody> => {
  const sent = parseJson(testCall.body?.text ?? "");
  return isObject(sent) ? (sent as Partial<KeyBody>) : {};
};

const creations = (context: Context): Answer[] =>
  context.answers.filter(({ testCall }) => testCall.route === "keys.create" && testCall.credential.as === "admin");

/** Creates a key to see which members are read; `null` if none can be created and removed again. */
const tryKey = async (context: Context, body: KeyBody): Promise<MadeKey | null> =>
  context.has("admin_pro") && context.permits("writes") && noMoreKeys(context) === null
    ? (await createKey(context, "admin_pro", body)).key
    : null;

export const readsOurBodies = (context: Context, admin: AdminRole): Promise<boolean> =>
  context.once(`bodies of ${admin}`, async () => {
    // Only a body with every member counts: a deployment that knows few of them may call the others malformed.
    const shows = (answer: Answer): boolean =>
      (isAdmitted(answer) || READ_FIELDS.has(answer.subcode ?? "")) &&
      ["scopes", "products", "allowed_origins"].every((member) => member in bodyOf(answer));
    if (creations(context).some(shows)) return true;
    const wrong: KeyBody[] = [
      { ...TILE_KEY, allowed_origins: [] },
      { ...TILE_KEY, products: ["floodgate-no-such-product"] },
    ];
    for (const body of wrong) if (shows((await createKey(context, admin, body)).answer)) return true;
    return false;
  });

export type ListMember = "scopes" | "products";

/** How to see that a list is read: a value that must be refused, and two keys that may do different things. */
const LISTS = {
  scopes: { subcode: "unknown_scope", wrong: "floodgate-no-such-scope", chat: ["ai"], editor: ["design"] },
  products: { subcode: "unknown_product", wrong: "floodgate-no-such-product", chat: ["chat"], editor: ["editor"] },
} as const;

/** Number of different lists that answers returned as sent; from two on, the list is no default. */
const listsTold = (context: Context, member: ListMember): number => {
  const lists = creations(context)
    .filter(isAdmitted)
    .map((answer) => ({ answer, asked: bodyOf(answer)[member] ?? [] }));
  const told = lists.filter(({ answer, asked }) => asked.length > 0 && tellsList(answer.body, asked));
  return new Set(told.map(({ asked }) => asked.toSorted().join())).size;
};

/**
 * Reports whether a refusal, a value or a key's rights show that the deployment reads `member`. Without the permit
 * `writes` it looks only at the answers that came so far.
 */
const readsMember = async (context: Context, admin: AdminRole, member: ListMember): Promise<boolean> => {
  const { subcode, wrong, chat, editor } = LISTS[member];
  const isSeen = (): boolean =>
    listsTold(context, member) > 1 ||
    creations(context).some((one) => one.subcode === subcode || (isAdmitted(one) && tellsText(one, wrong)));
  if (isSeen()) return true;
  if (!context.permits("writes")) return false;
  return context.once(`member ${member}`, async () => {
    await createKey(context, admin, { ...FULL_KEY, scopes: ["maps"], [member]: [wrong] });
    if (isSeen()) return true;
    const one = await tryKey(context, { ...FULL_KEY, [member]: chat });
    const other = await tryKey(context, { ...FULL_KEY, [member]: editor });
    if (isSeen()) return true;
    if (one === null || other === null) return false;
    const may = await context.send(exchangeWith(one, "chat"));
    const mayNot = await context.send(exchangeWith(other, "chat"));
    return isAdmitted(may) && (mayNot.subcode === "insufficient_scope" || mayNot.subcode === "product_not_allowed");
  });
};

/** Whether `kind` is read: keys of the two kinds have different prefixes, or the answers name their kind. */
const readsKind = (context: Context): Promise<boolean> =>
  context.once("member kind", async () => {
    const made = (kind: KeyBody["kind"]) =>
      creations(context).find((answer) => bodyOf(answer).kind === kind && isAdmitted(answer));
    const prefixOf = ({ text }: Answer): string | undefined => /svc_[ps]k_/.exec(text)?.[0];
    const bodies: readonly KeyBody[] = [
      { kind: "server", env: "live", scopes: ["design"] },
      { ...FULL_KEY, scopes: ["maps"] },
    ];
    for (const body of bodies) if (made(body.kind) === undefined) await tryKey(context, body);
    const [server, publishable] = [made("server"), made("publishable")];
    if (server === undefined || publishable === undefined) return false;
    const isTold = tellsText(server, "server") && tellsText(publishable, "publishable");
    return isTold || prefixOf(server) !== prefixOf(publishable);
  });

/** Whether `allowed_origins` is read: its value is returned, or a key without it is refused and one with it is made. */
const readsOrigins = (context: Context): Promise<boolean> =>
  context.once("member allowed_origins", async () => {
    const isShown = (): boolean => {
      const made = creations(context);
      const refused = made.some((one) => one.subcode === NEEDS_ORIGINS && bodyOf(one).allowed_origins?.length === 0);
      const given = made.filter((one) => isAdmitted(one) && bodyOf(one).allowed_origins?.includes(KEY_ORIGIN));
      return given.some((one) => tellsText(one, KEY_ORIGIN)) || (refused && given.length > 0);
    };
    if (!isShown()) await tryKey(context, { ...FULL_KEY, scopes: ["maps"], allowed_origins: [] });
    return isShown();
  });

type Member = ListMember | "kind" | "allowed_origins";
/** `null` if the deployment reads the member; else why nothing can be judged by it. */
export const unread = async (context: Context, member: Member, admin: AdminRole = "admin_pro") => {
  if (member === "allowed_origins") return (await readsOrigins(context)) ? null : notRead(member);
  const isRead = member === "kind" ? readsKind(context) : readsMember(context, admin, member);
  return (await isRead) ? null : notRead(`the ${member}`);
};

export const notRead = (member: string): string =>
  `nothing shows that the deployment reads ${member} by that name (the fields of a creation are not shown in the specification)`;

/** Ends the rule unless the deployment reads the member. */
export const mustRead = async (context: Context, member: Member): Promise<void> => {
  const open = await unread(context, member);
  if (open !== null) throw skipped("not-provided", open);
};

/** Ends the rule if a new key may be refused because the deployment does not read a member, which is no fault. */
export const mustHaveRead = async (context: Context, answer: Answer): Promise<void> => {
  if (fits(answer, "insufficient_scope")) await mustRead(context, "scopes");
  if (fits(answer, "product_not_allowed")) await mustRead(context, "products");
  if (fits(answer, "publishable_key_required")) await mustRead(context, "kind");
  if (fits(answer, "session_origin_mismatch")) await mustRead(context, "allowed_origins");
};

/** Which part of a refused creation the API did not read, in words; `null` if the refusal fits what was sent. */
export const misunderstood = async (context: Context, answer: Answer): Promise<string | null> => {
  const { kind, allowed_origins: origins = [] } = bodyOf(answer);
  if (answer.subcode === NEEDS_ORIGINS && kind === "server") return notRead("the kind");
  if (answer.subcode === NEEDS_ORIGINS && origins.length > 0) return notRead("allowed_origins");
  if (answer.subcode !== FREE_ONLY || kind !== "publishable") return null;
  return unread(context, "kind");
};

/** Returns why key management is elsewhere or takes other bodies, which is no fault; else `null`. */
export const notAsExpected = (answer: Answer): string | null => {
  const { status, subcode } = answer;
  if (status === 404 || status === 405 || (status !== null && status >= 300 && status < 400)) return NOT_THERE;
  return fits(answer, "malformed_body") && !READ_FIELDS.has(subcode ?? "") ? OTHER_BODY : null;
};

/** A body that is not understood must be refused (item 223), so a 500 is a breach. */
export const isServerError = ({ status, transient }: Answer): boolean => status === 500 && !transient;

export const noMoreKeys = ({ effects: { staying } }: Context): string | null =>
  staying.length === 0
    ? null
    : `the answer to a creation names no id: ${staying.join(", ")} could not be removed and needs removing by hand, and no more keys are made`;

export const mayMakeKeys = (context: Context): void => {
  const why = noMoreKeys(context);
  if (why !== null) throw skipped("not-healed", why);
};

/** Why a creation made no key. `otherwise` makes the verdict for a refusal of unknown reason. */
export const noKey = async (context: Context, answer: Answer, what: string, otherwise = skipped) => {
  const unmade = `${what}: ${inWords(answer)}`;
  if (answer.transient) return inconclusive(codeOf(answer), unmade);
  if (fits(answer, "key_limit_reached"))
    return skipped("refused-for-load", `the organization of ${adminOf(answer)} is at its key limit`);
  if (isAdmitted(answer))
    return skipped("not-provided", noMoreKeys(context) ?? "the answer to the creation has no key that could be found");
  const known = notAsExpected(answer) ?? (await misunderstood(context, answer));
  return known === null ? otherwise("unclear-answer", unmade) : skipped("not-provided", known);
};

export const makeKey = async (
  context: Context,
  body: KeyBody,
  admin: AdminRole = "admin_pro",
  otherwise = inconclusive,
) => {
  mayMakeKeys(context);
  const { answer, key } = await createKey(context, admin, body);
  if (key === null) throw await noKey(context, answer, "no key could be made", otherwise);
  return key;
};

/** Ends the rule unless the new key's call is admitted. */
export const mustServe = (used: Answer, otherwise = "the key that was made is of no use"): void => {
  const why = `${otherwise}: ${inWords(used)}`;
  if (!isAdmitted(used)) throw used.transient ? inconclusive(codeOf(used), why) : skipped("unclear-answer", why);
};

export const adminOf = ({ testCall }: Answer): AdminRole => (roleOf(testCall) ?? "admin_pro") as AdminRole;
