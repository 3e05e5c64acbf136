/**
 * Keys made through key management (section 4.4), with their removal. Bodies are "not shown" in the specification: these
 * are the field names of spec-checklist.md item 50; a deployment with others answers 422, and then nothing is judged.
 */
import type { AdminRole } from "../drivers/target.ts";
import { type Answer, isAdmitted, isObject } from "./answer.ts";
import type { Context } from "./context.ts";
import type { Effect } from "./effects.ts";
import { type Probe, role } from "./probe.ts";

export type KeyBody = {
  kind: "publishable" | "server";
  env?: "live" | "test";
  name?: string;
  scopes?: readonly string[];
  products?: readonly string[];
  allowed_origins?: readonly string[];
  acknowledge_vendor?: boolean;
  vendor_acknowledged?: boolean;
};

/** So that an operator recognises a key that could not be removed. */
const KEY_NAME = "floodgate-verify";
export const KEY_ORIGIN = "https://floodgate-verify.example";

export type MadeKey = { id: string; secret: string; admin: AdminRole; variable: string };

const adminCredential = (admin: AdminRole) => ({ as: "admin", of: role(admin) }) as const;

export const createProbe = (admin: AdminRole, body: KeyBody, more: Partial<Probe> = {}): Probe => ({
  route: "keys.create",
  credential: adminCredential(admin),
  origin: "none",
  body: { text: JSON.stringify({ name: KEY_NAME, ...body }), is: "ok" },
  ...more,
});

const pathOfKey = (id: string): string => `/shared-api/api-keys/${encodeURIComponent(id)}`;

export const updateProbe = (
  admin: AdminRole,
  id: string,
  body: Partial<KeyBody>,
  more: Partial<Probe> = {},
): Probe => ({
  route: "keys.update",
  credential: adminCredential(admin),
  origin: "none",
  path: pathOfKey(id),
  body: { text: JSON.stringify(body), is: "ok" },
  ...more,
});

export const deleteProbe = (admin: AdminRole, id: string, more: Partial<Probe> = {}): Probe => ({
  route: "keys.delete",
  credential: adminCredential(admin),
  origin: "none",
  path: pathOfKey(id),
  ...more,
});

const everyText = (value: unknown): string[] => {
  if (typeof value === "string") return [value];
  if (Array.isArray(value)) return value.flatMap(everyText);
  return isObject(value) ? Object.values(value).flatMap(everyText) : [];
};

/** A secret without its prefix: that it lacks it is for a rule to say. */
const secretByName = (value: unknown, id: unknown): string | undefined => {
  if (!isObject(value)) return undefined;
  for (const [name, inner] of Object.entries(value)) {
    const named = /^(key|secret|api_?key|token|value)$/i.test(name) && inner !== id;
    if (named && typeof inner === "string" && /^[\w-]{16,}$/.test(inner)) return inner;
    const found = secretByName(inner, id);
    if (found !== undefined) return found;
  }
  return undefined;
};

/** Where a creation's answer names the new key's address. */
const idInAddress = (answer: Answer): string | undefined => {
  const segment = /\/api-keys\/([^/?#]+)\/?$/.exec(answer.headers.location ?? "")?.[1];
  try {
    return segment === undefined ? undefined : decodeURIComponent(segment);
  } catch {
    return undefined;
  }
};

/** Id and secret, wherever the answer has them: its shape is not shown either. */
const madeIn = (answer: Answer): { id: string | null; secret: string | null } => {
  const nested = Object.values(answer.fields).find((value) => isObject(value) && ("id" in value || "key_id" in value));
  const record = "id" in answer.fields || "key_id" in answer.fields ? answer.fields : isObject(nested) ? nested : {};
  const id = record.id ?? record.key_id ?? idInAddress(answer);
  const whole = everyText(answer.body).find((text) => /^svc_(pk|sk)_\S{8,}$/.test(text) && !text.includes("..."));
  const secret = whole ?? secretByName(answer.body, id) ?? null;
  return { id: typeof id === "string" || typeof id === "number" ? String(id) : null, secret };
};

/** `key`: only where the answer has its secret as well; without it the key is removed all the same. */
export type Creation = { answer: Answer; key: MadeKey | null };

/** A rule may have deleted it already; what a second deletion is answered is the deployment's affair. */
const isGone = (context: Context, answer: Answer): boolean =>
  isAdmitted(answer) ||
  answer.status === 404 ||
  answer.status === 410 ||
  context.answers.some(
    (earlier) =>
      earlier.probe.route === "keys.delete" && earlier.probe.path === answer.probe.path && isAdmitted(earlier),
  );

/**
 * Half an answer, or a balancer's, says nothing about what was made behind it. Where nobody took the connection nothing was, and
 * 503 is the word of a key service that is away (item 216).
 */
const isRefusedForSure = ({ outcome, exchanged }: Answer): boolean =>
  exchanged.error === "ECONNREFUSED" || !/^(2|indeterminate|edge)/.test(outcome);

/** Sends a creation that may succeed, or should not: whatever comes of it is journalled and taken back in the end. */
export const createKey = async (
  context: Context,
  admin: AdminRole,
  body: KeyBody,
  more: Partial<Probe> = {},
): Promise<Creation> => {
  let effect: Effect | null = null;
  // Not before: a call that a stop or the budget holds back leaves nothing to take back.
  const beforeSent = (): void => {
    effect ??= context.effects.about("key", `key ${KEY_NAME} of ${admin}`);
  };
  const before = context.answers.length;
  const probe: Probe = { ...createProbe(admin, body, more), beforeSent, toTheEnd: true };
  const sent = context.send(probe);
  const isRefusedEveryTime = (): boolean =>
    context.answers
      .slice(before)
      .filter((one) => one.probe.beforeSent === beforeSent)
      .every(isRefusedForSure);
  const answer = await sent.catch((error: unknown) => {
    // Stopped between two attempts: what the first was answered is known.
    if (isRefusedEveryTime()) effect?.over("not made");
    throw error;
  });
  const made = effect as Effect | null;
  if (made === null) return { answer, key: null };
  if (!isAdmitted(answer)) {
    if (isRefusedEveryTime()) made.over(`refused: ${answer.outcome}`);
    return { answer, key: null };
  }
  const { id, secret: text } = madeIn(answer);
  if (id !== null) {
    // By whoever made it: where a wrong caller could make it, the right one may not see it.
    const { credential = adminCredential(admin), form, secret } = more;
    const by = {
      credential,
      ...(form === undefined ? {} : { form }),
      ...(secret === undefined ? {} : { secret }),
      anyway: true,
      once: true,
    } as const;
    made.happened(`id ${id}`, async () => isGone(context, await context.send(deleteProbe(admin, id, by))));
  }
  const key = id === null || text === null ? null : { id, secret: text, admin, variable: "$CREATED_KEY" };
  return { answer, key };
};

/** The created key, used as such: at the exchange or at runtime. */
export const withKey = (key: MadeKey, probe: Omit<Probe, "credential" | "secret">): Probe => {
  const as = key.secret.startsWith("svc_sk_") ? "server" : "publishable";
  return { ...probe, credential: { as, of: role(key.admin) }, secret: { value: key.secret, variable: key.variable } };
};

/** The exchange with a created publishable key, from the origin that it was created with. */
export const exchangeWith = (key: MadeKey, product: "chat" | "editor" | "tile", more: Partial<Probe> = {}): Probe =>
  withKey(key, {
    route: "sdk.sessions",
    origin: "listed",
    originValue: KEY_ORIGIN,
    product,
    what: "a key made by this run",
    ...more,
  });
