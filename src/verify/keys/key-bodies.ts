/** Which members of a key creation the deployment reads. The specification names none, so rules need evidence. */
import { isObject, parseJson } from "../../contract/envelopes.ts";
import type { AdminRole } from "../../target/roles.ts";
import { fits, inconclusive, skipped } from "../checks.ts";
import type { Context } from "../context.ts";
import { roleOf } from "../rule.ts";
import { type Answer, inWords, isAdmitted } from "../sending/answer.ts";
import * as keys from "./managed-keys.ts";

export const FREE_ONLY = "free_plan_publishable_only";
export const NEEDS_ORIGINS = "publishable_live_requires_origins";

/** Subcodes that show that the deployment has read the members of a creation. */
const READ_FIELDS = new Set([
  ...["unknown_scope", "unknown_product", NEEDS_ORIGINS, FREE_ONLY, "vendor_scope_requires_acknowledgement"],
  ...["tier_capability_not_allowed", "key_limit_reached"],
]);
const OTHER_BODY = "key management takes another body (its fields are not shown in the specification)";

const bodyOf = ({ testCall }: Answer): Partial<keys.KeyBody> => {
  const sent = parseJson(testCall.body?.text ?? "");
  return isObject(sent) ? (sent as Partial<keys.KeyBody>) : {};
};

const creations = (context: Context): Answer[] =>
  context.answers.filter(({ testCall }) => testCall.route === "keys.create" && testCall.credential.as === "admin");

/** Creates a key to see which members are read; `null` if none can be created and removed again. */
const tryKey = async (context: Context, body: keys.KeyBody): Promise<keys.MadeKey | null> =>
  context.has("admin_pro") && context.permits("writes") && noMoreKeys(context) === null
    ? (await keys.createKey(context, "admin_pro", body)).key
    : null;

export const readsOurBodies = (context: Context, admin: AdminRole): Promise<boolean> =>
  context.once(`bodies of ${admin}`, async () => {
    // Only a body with every member counts: a deployment that knows few of them may call the others malformed.
    const shows = (answer: Answer): boolean =>
      (isAdmitted(answer) || READ_FIELDS.has(answer.subcode ?? "")) &&
      ["scopes", "products", "allowed_origins"].every((member) => member in bodyOf(answer));
    if (creations(context).some(shows)) return true;
    const wrong: keys.KeyBody[] = [
      { ...keys.TILE_KEY, allowed_origins: [] },
      { ...keys.TILE_KEY, products: ["floodgate-no-such-product"] },
    ];
    for (const body of wrong) if (shows((await keys.createKey(context, admin, body)).answer)) return true;
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
  const told = lists.filter(({ answer, asked }) => asked.length > 0 && keys.tellsList(answer.body, asked));
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
    creations(context).some((one) => one.subcode === subcode || (isAdmitted(one) && keys.tellsText(one, wrong)));
  if (isSeen()) return true;
  if (!context.permits("writes")) return false;
  return context.once(`member ${member}`, async () => {
    await keys.createKey(context, admin, { ...keys.FULL_KEY, scopes: ["maps"], [member]: [wrong] });
    if (isSeen()) return true;
    const one = await tryKey(context, { ...keys.FULL_KEY, [member]: chat });
    const other = await tryKey(context, { ...keys.FULL_KEY, [member]: editor });
    if (isSeen()) return true;
    if (one === null || other === null) return false;
    const may = await context.send(keys.exchangeWith(one, "chat"));
    const mayNot = await context.send(keys.exchangeWith(other, "chat"));
    return isAdmitted(may) && (mayNot.subcode === "insufficient_scope" || mayNot.subcode === "product_not_allowed");
  });
};

/** Whether `kind` is read: keys of the two kinds have different prefixes, or the answers name their kind. */
const readsKind = (context: Context): Promise<boolean> =>
  context.once("member kind", async () => {
    const made = (kind: keys.KeyBody["kind"]) =>
      creations(context).find((answer) => bodyOf(answer).kind === kind && isAdmitted(answer));
    const prefixOf = ({ text }: Answer): string | undefined => /svc_[ps]k_/.exec(text)?.[0];
    const bodies: readonly keys.KeyBody[] = [
      { kind: "server", env: "live", scopes: ["design"] },
      { ...keys.FULL_KEY, scopes: ["maps"] },
    ];
    for (const body of bodies) if (made(body.kind) === undefined) await tryKey(context, body);
    const [server, publishable] = [made("server"), made("publishable")];
    if (server === undefined || publishable === undefined) return false;
    const isTold = keys.tellsText(server, "server") && keys.tellsText(publishable, "publishable");
    return isTold || prefixOf(server) !== prefixOf(publishable);
  });

/** Whether `allowed_origins` is read: its value is returned, or a key without it is refused and one with it is made. */
const readsOrigins = (context: Context): Promise<boolean> =>
  context.once("member allowed_origins", async () => {
    const isShown = (): boolean => {
      const made = creations(context);
      const refused = made.some((one) => one.subcode === NEEDS_ORIGINS && bodyOf(one).allowed_origins?.length === 0);
      const given = made.filter((one) => isAdmitted(one) && bodyOf(one).allowed_origins?.includes(keys.KEY_ORIGIN));
      return given.some((one) => keys.tellsText(one, keys.KEY_ORIGIN)) || (refused && given.length > 0);
    };
    if (!isShown()) await tryKey(context, { ...keys.FULL_KEY, scopes: ["maps"], allowed_origins: [] });
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
  if (open !== null) throw skipped(open);
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
  if (status === 404 || status === 405 || (status !== null && status >= 300 && status < 400)) return keys.NOT_THERE;
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
  if (why !== null) throw skipped(why);
};

/** Why a creation made no key. `otherwise` makes the verdict for a refusal of unknown reason. */
export const noKey = async (context: Context, answer: Answer, what: string, otherwise = skipped) => {
  const unmade = `${what}: ${inWords(answer)}`;
  if (answer.transient) return inconclusive(unmade);
  if (fits(answer, "key_limit_reached")) return skipped(`the organization of ${adminOf(answer)} is at its key limit`);
  if (isAdmitted(answer))
    return skipped(noMoreKeys(context) ?? "the answer to the creation has no key that could be found");
  const known = notAsExpected(answer) ?? (await misunderstood(context, answer));
  return known === null ? otherwise(unmade) : skipped(known);
};

export const makeKey = async (
  context: Context,
  body: keys.KeyBody,
  admin: AdminRole = "admin_pro",
  otherwise = inconclusive,
): Promise<keys.MadeKey> => {
  mayMakeKeys(context);
  const { answer, key } = await keys.createKey(context, admin, body);
  if (key === null) throw await noKey(context, answer, "no key could be made", otherwise);
  return key;
};

/** Ends the rule unless the new key's call is admitted. */
export const mustServe = (used: Answer, otherwise = "the key that was made is of no use"): void => {
  const why = `${otherwise}: ${inWords(used)}`;
  if (!isAdmitted(used)) throw used.transient ? inconclusive(why) : skipped(why);
};

export const adminOf = ({ testCall }: Answer): AdminRole => (roleOf(testCall) ?? "admin_pro") as AdminRole;
