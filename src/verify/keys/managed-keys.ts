/** Creates keys through key management: each is journalled just before its call leaves, and deleted in the end. */
import { maskSecrets } from "../../contract/credentials.ts";
import { isObject } from "../../contract/envelopes.ts";
import { foreignName } from "../../contract/foreign-text.ts";
import { REFUSALS } from "../../contract/refusals.ts";
import type { AdminRole } from "../../target/roles.ts";
import { inconclusive, skipped } from "../checks.ts";
import type { Context, Effect } from "../context.ts";
import { type Answer, isAdmitted } from "../sending/answer.ts";
import { asAdmin, json, NO_SUCH_PATH, role, type TestCall } from "../sending/test-call.ts";

export type KeyBody = {
  kind: "publishable" | "server";
  env?: "live" | "test";
  name?: string;
  scopes?: readonly string[];
  products?: readonly string[];
  allowed_origins?: readonly string[];
  allowed_ips?: readonly string[];
  acknowledge_vendor?: boolean;
  vendor_acknowledged?: boolean;
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
const everyText = (value: unknown): string[] =>
  valuesIn(value).flatMap(([, one]) => (typeof one === "string" ? one : []));

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

export const tellsList = (value: unknown, wanted: readonly string[]): boolean =>
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

export const NOT_THERE = "key management is not at /shared-api/api-keys (its paths are not shown in the specification)";
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
      throw skipped(`${NOT_THERE}: every path there is answered ${answer.outcome}`);
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
