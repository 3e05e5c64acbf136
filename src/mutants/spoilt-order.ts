/** Mutants of the order of checks (`core/order.ts`): a check left out, moved or replaced. Checks are meant by their names. */
import { PRODUCT_SCOPE, type Product } from "../contract/routes.ts";
import { storedProduct } from "../core/admission.ts";
import { mapLoadCap } from "../core/meters.ts";
import { type Check, EXCHANGE_ORDER, type Orders, RUNTIME_ORDER } from "../core/order.ts";
import { TIER_ADMITS } from "../core/records.ts";
import type { Parts } from "../platform/parts.ts";
import type { Mutant, Spoilt } from "./mutant.ts";

type Order = keyof Orders;
type Edit = (orders: Orders) => Orders;

const checkOf = (order: Order, name: string): Check => {
  const check = (order === "exchange" ? EXCHANGE_ORDER : RUNTIME_ORDER)[name];
  if (check === undefined) throw new Error(`expected a check of the ${order} order, got "${name}"`);
  return check;
};

const placeOf = (orders: Orders, order: Order, name: string): number => {
  const at = orders[order].indexOf(checkOf(order, name));
  if (at === -1) throw new Error(`the check "${name}" is not in the ${order} order any more`);
  return at;
};

/** `spoil` is given the healthy check and makes the one that stands in its place. */
const instead =
  (order: Order, name: string, spoil: (healthy: Check) => Check): Edit =>
  (orders) => ({ ...orders, [order]: orders[order].with(placeOf(orders, order, name), spoil(checkOf(order, name))) });

const without = (order: Order, name: string): Edit => instead(order, name, () => () => null);

/** Moves checks, in their own order, to just before (0) or just after (1) another one. */
const moved = (order: Order, names: readonly string[], offset: 0 | 1, other: string): Edit => {
  const moving = names.map((name) => checkOf(order, name));
  return (orders) => {
    const checks = orders[order].filter((check) => !moving.includes(check));
    checks.splice(checks.indexOf(checkOf(order, other)) + offset, 0, ...moving);
    return { ...orders, [order]: checks };
  };
};

const before = (order: Order, names: readonly string[], other: string): Edit => moved(order, names, 0, other);
const after = (order: Order, names: readonly string[], other: string): Edit => moved(order, names, 1, other);

/** The check, with one of its refusals let through. */
const letting = (order: Order, name: string, refusal: string): Edit =>
  instead(order, name, (check) => (call) => {
    const result = check(call);
    return result !== null && "refuse" in result && result.refuse === refusal ? null : result;
  });

/** The check, passed by every call of which this holds. */
const passing = (order: Order, name: string, passes: (call: Parameters<Check>[0]) => boolean | undefined): Edit =>
  instead(order, name, (check) => (call) => (passes(call) ? null : check(call)));

type Take = Extract<Exclude<ReturnType<Check>, null>, { ask: "take" }>;
type Metered = Take & { meter: NonNullable<Take["meter"]> };

/** The limiter, asked for another cap. */
const capped = (order: Order, capOf: (ask: Metered, call: Parameters<Check>[0]) => number | null): Edit =>
  instead(order, "askLimiter", (check) => (call) => {
    const ask = check(call);
    if (ask === null || !("ask" in ask) || ask.ask !== "take" || ask.meter === null) return ask;
    return { ...ask, meter: { ...ask.meter, cap: capOf(ask as Metered, call) } };
  });

const both = (edit: (order: Order) => Edit): Edit[] => [edit("exchange"), edit("runtime")];

const FIRST = ["first-failing-check-decides"];
const ADMISSION = ["admission-is-stored-and-tier", ...FIRST];

/** Caught on the stage `answers` where the row says nothing else. */
const mutant = (
  name: string,
  harm: string,
  kills: readonly string[],
  edits: Edit[],
  stage: Mutant["stage"] = "answers",
): Spoilt => ({
  name,
  harm,
  kills,
  stage,
  spoil: ({ orders }: Parts) => ({ orders: edits.reduce((edited, edit) => edit(edited), orders) }),
});

export const SPOILT_ORDER: readonly Spoilt[] = [
  // Capability looked at before the origin, as when both stand in one condition.
  mutant(
    "swaps-two-checks",
    "a browser on the wrong site learns what a key may do, and its owner is advised to buy a product instead of listing an origin",
    FIRST,
    [after("exchange", ["originIsPresent", "originIsListed"], "productIsAdmitted")],
  ),
  // The origin looked at before the kind of key, which is the first check of the exchange.
  mutant(
    "swaps-kind-and-origin",
    "whoever mints with a server key reads of a missing origin and adds one, instead of using the right key",
    FIRST,
    [after("exchange", ["keyIsPublishable"], "originIsListed")],
  ),
  // At runtime the scope looked at before the session's origin.
  mutant("swaps-scope-and-origin", "a stolen session on a foreign site can ask which scopes it has", FIRST, [
    after("runtime", ["sessionOriginIsListed"], "scopeIsAdmitted"),
  ]),
  // A server key's address looked at before whether a browser sent it.
  mutant(
    "swaps-browser-and-address",
    "a server key that leaked into a page is reported as a matter of addresses, and stays there",
    FIRST,
    [after("runtime", ["serverKeyIsNotInBrowser"], "addressIsListed")],
  ),
  // The limiter asked before the origin was looked at.
  mutant(
    "swaps-quota-and-origin",
    "anybody who copies a public key from a page can use up its owner's allowance from anywhere",
    FIRST,
    [
      before(
        "exchange",
        ["askBody", "bodyIsWellFormed", "askLimiter", "limiterAnswered", "limiterAllows"],
        "originIsPresent",
      ),
    ],
  ),
  // The body validated by the framework, before anybody looked at who is asking.
  mutant(
    "answers-malformed-first",
    "strangers without a key get a description of what the API takes, and its time to parse it",
    FIRST,
    both((order) => before(order, ["askBody", "bodyIsWellFormed"], "credentialIsGiven")),
  ),
  // A12's other reading, on the platform that promises the first one.
  mutant(
    "tile-restriction-as-403",
    "map clients back off for an hour on 429 and not on 403: a misconfigured site asks for every tile again and again",
    FIRST,
    [
      instead("runtime", "sessionOriginIsListed", (check) => (call) => {
        const result = check(call);
        return result !== null && "refuse" in result ? { refuse: "session_origin_mismatch" } : result;
      }),
    ],
  ),
  // `or` where `and` was meant: what is stored, or what the tier admits.
  mutant(
    "unites-instead-of-intersects",
    "a Free organization keeps every paid product, and a Pro one gets scopes it never asked for",
    ["admission-is-stored-and-tier"],
    [
      instead("exchange", "productIsAdmitted", () => (call) => {
        const { key, org } = call.snapshot;
        const product = call.product as Product;
        const scope = PRODUCT_SCOPE[product];
        const stored = storedProduct(key, product) && (scope === null || key.scopes.includes(scope));
        const admitted = org.tier !== null && TIER_ADMITS[org.tier].products.includes(product);
        return stored || admitted ? null : { refuse: "tier_capability_not_allowed" };
      }),
    ],
  ),
  // The tier looked at when a key is made, and not when it is used.
  mutant("lets-free-mint-chat", "whoever was on Pro for a day has chat for ever", ADMISSION, [
    letting("exchange", "productIsAdmitted", "tier_capability_not_allowed"),
  ]),
  // The tier limits products, and somebody forgot that it limits kinds of keys too.
  mutant(
    "serves-server-keys-on-free",
    "an organization that stopped paying keeps its servers running on the API",
    ADMISSION,
    [letting("runtime", "scopeIsAdmitted", "tier_capability_not_allowed")],
  ),
  // Restrictions of a key stored and shown, and not enforced.
  mutant(
    "forgets-product-restrictions",
    "a key meant for one map on one page mints sessions for the editor",
    ADMISSION,
    [letting("exchange", "productIsAdmitted", "product_not_allowed")],
  ),
  // A route added without its scope.
  mutant("ignores-the-scope", "a key for tiles runs the inference at its owner's expense", ADMISSION, [
    letting("runtime", "scopeIsAdmitted", "insufficient_scope"),
  ]),
  // An empty list of restrictions taken to allow everything.
  mutant("unlocks-the-viewer", "every key mints viewer sessions, which were to be asked for by name", ADMISSION, [
    passing("exchange", "productIsAdmitted", ({ product }) => product === "viewer"),
  ]),
  // The allowlist stored and never read.
  mutant("accepts-any-origin", "a key copied from one site works on every other, at its owner's expense", FIRST, [
    without("exchange", "originIsListed"),
    without("runtime", "sessionOriginIsListed"),
  ]),
  // `null` taken for no origin at all.
  mutant("accepts-null-origin", "a sandboxed frame on any site passes for the key's own", FIRST, [
    passing("exchange", "originIsListed", ({ origin }) => origin === "null"),
    passing("runtime", "sessionOriginIsListed", ({ origin }) => origin === "null"),
  ]),
  // `startsWith` in place of a comparison.
  mutant(
    "matches-origins-by-prefix",
    "whoever registers app.example.evil.example may use the keys of app.example",
    FIRST,
    [
      passing("exchange", "originIsListed", ({ snapshot, origin }) =>
        snapshot.key.allowed_origins.some((listed) => origin?.startsWith(listed)),
      ),
    ],
  ),
  // A missing origin let through, because some clients send none.
  mutant(
    "mints-without-an-origin",
    "a script outside any browser mints sessions with a key that was only ever meant to be public",
    FIRST,
    [without("exchange", "originIsPresent"), passing("exchange", "originIsListed", ({ origin }) => origin === null)],
  ),
  // The exchange open to every kind of key.
  mutant("mints-from-a-server-key", "server keys find their way into pages, because they work there", FIRST, [
    without("exchange", "keyIsPublishable"),
  ]),
  // A public key taken at runtime, without a session.
  mutant(
    "serves-the-publishable-key",
    "what stands in a page's source runs the inference, for anybody and for ever",
    FIRST,
    [without("runtime", "keyIsNotPublishable")],
  ),
  // The check for an `Origin` left out.
  mutant(
    "accepts-server-key-in-browser",
    "a secret key in a page works, so nobody notices that it is public now",
    FIRST,
    [without("runtime", "serverKeyIsNotInBrowser")],
  ),
  // The address allowlist stored and never read.
  mutant("skips-ip-allowlist", "a leaked server key works from anywhere", FIRST, [
    without("runtime", "addressIsListed"),
  ]),
  // Existence taken for validity.
  mutant(
    "accepts-a-revoked-key",
    "revoking a stolen key does nothing",
    ["revoked-stays-out", ...FIRST],
    both((order) =>
      passing(order, "keyIsGood", ({ lookup, snapshot }) => lookup !== null && snapshot.key.status === "revoked"),
    ),
  ),
  // The date of expiry stored and never read.
  mutant(
    "accepts-an-expired-key",
    "keys that were lent for a week work for years",
    ["revoked-stays-out", ...FIRST],
    both((order) =>
      passing(order, "keyIsGood", ({ lookup, snapshot }) => lookup !== null && snapshot.key.status === "expired"),
    ),
  ),
  // Every session counted as a map load.
  mutant(
    "charges-other-products",
    "customers pay for chats as for maps",
    ["refused-is-not-charged"],
    [
      instead("exchange", "askLimiter", () => (call) => ({
        ask: "take",
        rate: call.deployment.rate,
        meter: { name: "map_loads", amount: 1, cap: mapLoadCap(call.snapshot.org) },
      })),
    ],
  ),
  // The limiter asked before the body was read.
  mutant(
    "charges-the-malformed",
    "a client with a typing error burns its allowance on 422s",
    ["refused-is-not-charged"],
    [before("runtime", ["askLimiter", "limiterAnswered", "limiterAllows"], "askBody")],
  ),
  // The organization's cap looked at after the limiter was asked.
  mutant(
    "charges-the-shed",
    "an organization in trouble pays for every call that was turned away",
    ["refused-is-not-charged"],
    [after("runtime", ["organizationHasRoom"], "limiterAllows")],
    "noisy",
  ),
  // A paid organization taken to be without limit.
  mutant(
    "never-hard-stops",
    "a loop in a customer's page runs up a bill that nobody agreed to",
    ["admits-at-most-the-allowance"],
    both((order) => capped(order, ({ meter }, { snapshot }) => (snapshot.org.tier === "Pro" ? null : meter.cap))),
    "edge-of-quota",
  ),
  // The allowance taken for the hard stop.
  mutant(
    "stops-at-the-soft-band",
    "a paying customer's maps go dark on the busiest day of the month",
    ["admits-what-is-allowed"],
    both((order) =>
      capped(order, ({ meter }, { snapshot }) =>
        meter.name === "map_loads" ? snapshot.org.map_load_allowance : meter.cap,
      ),
    ),
    "edge-of-quota",
  ),
];
