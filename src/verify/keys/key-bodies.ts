/**
 * What a deployment has shown of the bodies of key management, which the specification does not show: whether it reads them
 * as they are written here. Where it does not, nothing is held against it.
 */
import { isObject, parseJson } from "../../contract/envelopes.ts";
import { outcomeOf } from "../../contract/refusals.ts";
import type { AdminRole } from "../../target/target.ts";
import type { Context } from "../context.ts";
import { type Answer, isAdmitted } from "../sending/answer.ts";
import { exchangeWith, KEY_ORIGIN, type KeyBody, type MadeKey } from "./key-calls.ts";
import { tellsList, tellsText } from "./made-record.ts";
import { createKey, keysWithoutId } from "./managed-keys.ts";

const FREE_ONLY = "free_plan_publishable_only";
const NEEDS_ORIGINS = "publishable_live_requires_origins";

/** Subcodes that only a deployment gives which has read the fields of a creation. */
export const READ_FIELDS = new Set([
  "unknown_scope",
  "unknown_product",
  NEEDS_ORIGINS,
  FREE_ONLY,
  "vendor_scope_requires_acknowledgement",
  "tier_capability_not_allowed",
  "key_limit_reached",
]);

export const FULL_SCOPES = ["ai", "design", "maps"] as const;

/** What was asked for; empty where it was no JSON. */
const bodyOf = ({ testCall }: Answer): Partial<KeyBody> => {
  const body = parseJson(testCall.body?.text ?? "");
  return isObject(body) ? (body as Partial<KeyBody>) : {};
};

const creations = (context: Context): Answer[] =>
  context.answers.filter(({ testCall }) => testCall.route === "keys.create" && testCall.credential.as === "admin");

/** A key that is made only to see what is read of its body; `null` where none can be made, or could not be removed. */
const tryKey = async (context: Context, body: KeyBody): Promise<{ answer: Answer; key: MadeKey | null } | null> =>
  context.has("admin_pro") && context.permits("writes") && keysWithoutId(context).length === 0
    ? createKey(context, "admin_pro", body)
    : null;

/** Whether the deployment has shown that it reads bodies as they are written here; asks in ways that create nothing. */
export const readsOurBodies = (context: Context, admin: AdminRole): Promise<boolean> =>
  context.once(`bodies of ${admin}`, async () => {
    // Only by a body with every member: one that takes few of them may find the others malformed.
    const shown = (answer: Answer): boolean =>
      (isAdmitted(answer) || READ_FIELDS.has(answer.subcode ?? "")) &&
      ["scopes", "products", "allowed_origins"].every((member) => member in bodyOf(answer));
    if (creations(context).some(shown)) return true;
    const all = { kind: "publishable", env: "live", scopes: ["maps"], products: ["tile"] } as const;
    const wrong: KeyBody[] = [
      { ...all, allowed_origins: [] },
      { ...all, products: ["floodgate-no-such-product"], allowed_origins: [KEY_ORIGIN] },
    ];
    for (const body of wrong) if (shown((await createKey(context, admin, body)).answer)) return true;
    return false;
  });

export type ListMember = "scopes" | "products";

/** How it shows that a list is read: what refuses a wrong one, and two that differ in what they let a key do. */
const LISTS: Readonly<Record<ListMember, { subcode: string; wrong: string; chat: KeyBody; editor: KeyBody }>> = (() => {
  const good: KeyBody = { kind: "publishable", env: "live", scopes: FULL_SCOPES, allowed_origins: [KEY_ORIGIN] };
  return {
    scopes: {
      subcode: "unknown_scope",
      wrong: "floodgate-no-such-scope",
      chat: { ...good, scopes: ["ai"] },
      editor: { ...good, scopes: ["design"] },
    },
    products: {
      subcode: "unknown_product",
      wrong: "floodgate-no-such-product",
      chat: { ...good, products: ["chat"] },
      editor: { ...good, products: ["editor"] },
    },
  };
})();

/** Lists of which the answer returned exactly what was asked for: two of them are no default. */
const listsTold = (context: Context, member: ListMember): number => {
  const seen = new Set<string>();
  for (const answer of creations(context)) {
    const asked = bodyOf(answer)[member];
    if (asked !== undefined && asked.length > 0 && isAdmitted(answer) && tellsList(answer.body, asked))
      seen.add([...asked].sort().join());
  }
  return seen.size;
};

/**
 * Whether a member of a creation is read by that name: a lenient deployment makes a key without what it does not know. By
 * what it has refused, returned, or done. Without permission to write, only by what was seen so far.
 */
export const readsMember = async (context: Context, admin: AdminRole, member: ListMember): Promise<boolean> => {
  const { subcode, wrong, chat, editor } = LISTS[member];
  const wasRead = (answer: Answer): boolean =>
    answer.subcode === subcode || (isAdmitted(answer) && tellsText(answer, wrong));
  const isSeen = (): boolean => creations(context).some(wasRead) || listsTold(context, member) > 1;
  if (isSeen()) return true;
  if (!context.permits("writes")) return false;
  return context.once(`member ${member}`, async () => {
    const maps: KeyBody = { kind: "publishable", env: "live", scopes: ["maps"], allowed_origins: [KEY_ORIGIN] };
    await createKey(context, admin, { ...maps, [member]: [wrong] });
    if (isSeen()) return true;
    const one = await tryKey(context, chat);
    const other = await tryKey(context, editor);
    if (isSeen()) return true;
    if (!one?.key || !other?.key) return false;
    const may = await context.send(exchangeWith(one.key, "chat"));
    const mayNot = await context.send(exchangeWith(other.key, "chat"));
    return isAdmitted(may) && (mayNot.subcode === "insufficient_scope" || mayNot.subcode === "product_not_allowed");
  });
};

/** Whether the kind is read by that name and in these words: keys of two kinds have two prefixes, or each answer names its kind. */
export const readsKind = (context: Context): Promise<boolean> => {
  const made = (kind: KeyBody["kind"]): Answer | undefined =>
    creations(context).find((answer) => bodyOf(answer).kind === kind && isAdmitted(answer));
  const prefixOf = (answer: Answer): string | undefined => /svc_[ps]k_/.exec(answer.text)?.[0];
  const bodies: readonly KeyBody[] = [
    { kind: "server", env: "live", scopes: ["design"] },
    { kind: "publishable", env: "live", scopes: ["maps"], allowed_origins: [KEY_ORIGIN] },
  ];
  return context.once("member kind", async () => {
    for (const body of bodies) if (made(body.kind) === undefined) await tryKey(context, body);
    const [server, publishable] = [made("server"), made("publishable")];
    if (server === undefined || publishable === undefined) return false;
    const isTold = tellsText(server, "server") && tellsText(publishable, "publishable");
    return isTold || prefixOf(server) !== prefixOf(publishable);
  });
};

/** Whether origins are read by that name: without them a key is refused that is made with them, or they are returned. */
export const readsOrigins = async (context: Context): Promise<boolean> => {
  const shown = (): boolean => {
    const made = creations(context);
    const refused = made.some((one) => one.subcode === NEEDS_ORIGINS && bodyOf(one).allowed_origins?.length === 0);
    const given = made.filter((one) => isAdmitted(one) && bodyOf(one).allowed_origins?.includes(KEY_ORIGIN));
    return given.some((one) => tellsText(one, KEY_ORIGIN)) || (refused && given.length > 0);
  };
  return context.once("member allowed_origins", async () => {
    if (shown()) return true;
    await tryKey(context, { kind: "publishable", env: "live", scopes: ["maps"], allowed_origins: [] });
    return shown();
  });
};

export const notRead = (member: string): string =>
  `nothing shows that the deployment reads ${member} by that name (the fields of a creation are not shown in the specification)`;

/**
 * Why a new key's first refusal at the exchange is no fault: what it lacks was asked for in a member that is not read. `null`
 * where it was read, or where the refusal has another reason.
 */
export const lacksWhatWasNotRead = async (context: Context, used: Answer): Promise<string | null> => {
  if (used.outcome === outcomeOf("insufficient_scope"))
    return (await readsMember(context, "admin_pro", "scopes")) ? null : notRead("the scopes");
  if (used.outcome === outcomeOf("publishable_key_required"))
    return (await readsKind(context)) ? null : notRead("the kind");
  if (used.outcome === outcomeOf("session_origin_mismatch"))
    return (await readsOrigins(context)) ? null : notRead("allowed_origins");
  return null;
};

/** A refusal that shows that the creation was not understood as it was meant. */
export const misunderstood = async (context: Context, answer: Answer): Promise<string | null> => {
  const { kind, allowed_origins: origins = [] } = bodyOf(answer);
  if (answer.subcode === NEEDS_ORIGINS && kind === "server") return notRead("the kind");
  if (answer.subcode === NEEDS_ORIGINS && origins.length > 0) return notRead("allowed_origins");
  if (answer.subcode !== FREE_ONLY || kind !== "publishable") return null;
  return (await readsKind(context)) ? null : notRead("the kind");
};
