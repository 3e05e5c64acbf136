/** Mutants of the order of checks (`core/order.ts`): a check is left out, moved or replaced. Checks are given by name. */
import { PRODUCT_SCOPE, type Product } from "../contract/routes.ts";
import { TIER_ADMITS } from "../core/call.ts";
import { mapLoadCap, storedProduct } from "../core/meters.ts";
import { type Check, EXCHANGE_ORDER, type Orders, RUNTIME_ORDER } from "../core/order.ts";
import { type Spoil, spoilt } from "./mutant.ts";

type Order = Exclude<keyof Orders, "management">;
type Call = Parameters<Check>[0];

const checkOf = (order: Order, name: string): Check => {
  const check = (order === "exchange" ? EXCHANGE_ORDER : RUNTIME_ORDER)[name];
  if (check === undefined) throw new Error(`expected a check of the ${order} order, got "${name}"`);
  return check;
};

const chained =
  (one: Spoil, other: Spoil): Spoil =>
  (healthy) => {
    const parts = { ...healthy, ...one(healthy) };
    return { ...parts, ...other(parts) };
  };

const both = (spoil: (order: Order) => Spoil): Spoil => chained(spoil("exchange"), spoil("runtime"));

/** Replaces a check by what `spoil` makes of it. */
const instead = (order: Order, name: string, spoil: (healthy: Check) => Check): Spoil => {
  const healthy = checkOf(order, name);
  return ({ orders }) => {
    const at = orders[order].indexOf(healthy);
    if (at === -1) throw new Error(`the check "${name}" is not in the ${order} order any more`);
    return { orders: { ...orders, [order]: orders[order].with(at, spoil(healthy)) } };
  };
};

const without = (order: Order, name: string): Spoil => instead(order, name, () => () => null);

/** Moves checks, in their own order, to just before (0) or just after (1) another one. */
const moved = (order: Order, names: readonly string[], offset: 0 | 1, other: string): Spoil => {
  const moving = names.map((name) => checkOf(order, name));
  return ({ orders }) => {
    const checks = orders[order].filter((check) => !moving.includes(check));
    checks.splice(checks.indexOf(checkOf(order, other)) + offset, 0, ...moving);
    return { orders: { ...orders, [order]: checks } };
  };
};

const before = (order: Order, names: readonly string[], other: string): Spoil => moved(order, names, 0, other);
const after = (order: Order, names: readonly string[], other: string): Spoil => moved(order, names, 1, other);

/** Admits the calls that the check would refuse with this refusal. */
const letting = (order: Order, name: string, refusal: string): Spoil =>
  instead(order, name, (check) => (call) => {
    const result = check(call);
    return result !== null && "refuse" in result && result.refuse === refusal ? null : result;
  });

/** Skips the check for calls for which `passes` holds. */
const passing = (order: Order, name: string, passes: (call: Call) => boolean | undefined): Spoil =>
  instead(order, name, (check) => (call) => (passes(call) ? null : check(call)));

type Take = Extract<Exclude<ReturnType<Check>, null>, { ask: "take" }>;

/** Asks the limiter with another cap. */
const capped = (capOf: (meter: NonNullable<Take["meter"]>, call: Call) => number | null): Spoil =>
  both((order) =>
    instead(order, "askLimiter", (check) => (call) => {
      const ask = check(call);
      if (ask === null || !("ask" in ask) || ask.ask !== "take" || ask.meter === null) return ask;
      return { ...ask, meter: { ...ask.meter, cap: capOf(ask.meter, call) } };
    }),
  );

const passingStatus = (status: "revoked" | "expired"): Spoil =>
  both((order) =>
    passing(order, "keyIsGood", ({ lookup, snapshot }) => lookup !== null && snapshot.key.status === status),
  );

const FIRST = ["first-failing-check-decides"];
const ADMISSION = ["admission-is-stored-and-tier", ...FIRST];

export const SPOILT_ORDER = spoilt(
  // biome-ignore format: a row is a line
  [
    ["swaps-two-checks", "answers", FIRST, "a browser on the wrong site learns what a key may do, and its owner is advised to buy a product instead of listing an origin"],
    ["swaps-kind-and-origin", "answers", FIRST, "whoever mints with a server key reads of a missing origin and adds one, instead of using the right key"],
    ["swaps-scope-and-origin", "answers", FIRST, "a stolen session on a foreign site can ask which scopes it has"],
    ["swaps-browser-and-address", "answers", FIRST, "a server key that leaked into a page is reported as a matter of addresses, and stays there"],
    ["swaps-quota-and-origin", "answers", FIRST, "anybody who copies a public key from a page can use up its owner's allowance from anywhere"],
    ["answers-malformed-first", "answers", FIRST, "strangers without a key get a description of what the API takes, and its time to parse it"],
    ["tile-restriction-as-403", "answers", FIRST, "map clients back off for an hour on 429 and not on 403: a misconfigured site asks for every tile again and again"],
    ["unites-instead-of-intersects", "answers", ["admission-is-stored-and-tier"], "a Free organization keeps every paid product, and a Pro one gets scopes it never asked for"],
    ["lets-free-mint-chat", "answers", ADMISSION, "whoever was on Pro for a day has chat for ever"],
    ["serves-server-keys-on-free", "answers", ADMISSION, "an organization that stopped paying keeps its servers running on the API"],
    ["forgets-product-restrictions", "answers", ADMISSION, "a key meant for one map on one page mints sessions for the editor"],
    ["ignores-the-scope", "answers", ADMISSION, "a key for tiles runs the inference at its owner's expense"],
    ["unlocks-the-viewer", "answers", ADMISSION, "every key mints viewer sessions, which were to be asked for by name"],
    ["accepts-any-origin", "answers", FIRST, "a key copied from one site works on every other, at its owner's expense"],
    ["accepts-null-origin", "answers", FIRST, "a sandboxed frame on any site passes for the key's own"],
    ["matches-origins-by-prefix", "answers", FIRST, "whoever registers app.example.evil.example may use the keys of app.example"],
    ["mints-without-an-origin", "answers", FIRST, "a script outside any browser mints sessions with a key that was only ever meant to be public"],
    ["mints-from-a-server-key", "answers", FIRST, "server keys find their way into pages, because they work there"],
    ["serves-the-publishable-key", "answers", FIRST, "what stands in a page's source runs the inference, for anybody and for ever"],
    ["accepts-server-key-in-browser", "answers", FIRST, "a secret key in a page works, so nobody notices that it is public now"],
    ["skips-ip-allowlist", "answers", FIRST, "a leaked server key works from anywhere"],
    ["accepts-a-revoked-key", "answers", ["revoked-stays-out", ...FIRST], "revoking a stolen key does nothing"],
    ["accepts-an-expired-key", "answers", ["revoked-stays-out", ...FIRST], "keys that were lent for a week work for years"],
    ["charges-other-products", "answers", ["refused-is-not-charged"], "customers pay for chats as for maps"],
    ["charges-the-malformed", "answers", ["refused-is-not-charged"], "a client with a typing error burns its allowance on 422s"],
    ["charges-the-shed", "noisy", ["refused-is-not-charged"], "an organization in trouble pays for every call that was turned away"],
    ["never-hard-stops", "edge-of-quota", ["admits-at-most-the-allowance"], "a loop in a customer's page runs up a bill that nobody agreed to"],
    ["stops-at-the-soft-band", "edge-of-quota", ["admits-what-is-allowed"], "a paying customer's maps go dark on the busiest day of the month"],
  ],
  {
    // The capability is checked before the origin, for example because one condition checks both.
    "swaps-two-checks": after("exchange", ["originIsPresent", "originIsListed"], "productIsAdmitted"),
    "swaps-kind-and-origin": after("exchange", ["keyIsPublishable"], "originIsListed"),
    "swaps-scope-and-origin": after("runtime", ["sessionOriginIsListed"], "scopeIsAdmitted"),
    "swaps-browser-and-address": after("runtime", ["serverKeyIsNotInBrowser"], "addressIsListed"),
    "swaps-quota-and-origin": before(
      "exchange",
      ["askBody", "bodyIsWellFormed", "askLimiter", "limiterAnswered", "limiterAllows"],
      "originIsPresent",
    ),
    // The framework validates the body before the credential is checked.
    "answers-malformed-first": both((order) => before(order, ["askBody", "bodyIsWellFormed"], "credentialIsGiven")),
    // The other reading of A12, on a platform that promises the first one.
    "tile-restriction-as-403": instead("runtime", "sessionOriginIsListed", (check) => (call) => {
      const result = check(call);
      return result !== null && "refuse" in result ? { refuse: "session_origin_mismatch" } : result;
    }),
    // `or` is used where `and` was meant: what is stored, or what the tier admits.
    "unites-instead-of-intersects": instead("exchange", "productIsAdmitted", () => (call) => {
      const { key, org } = call.snapshot;
      const product = call.product as Product;
      const scope = PRODUCT_SCOPE[product];
      const stored = storedProduct(key, product) && (scope === null || key.scopes.includes(scope));
      const admitted = org.tier !== null && TIER_ADMITS[org.tier].products.includes(product);
      return stored || admitted ? null : { refuse: "tier_capability_not_allowed" };
    }),
    "lets-free-mint-chat": letting("exchange", "productIsAdmitted", "tier_capability_not_allowed"),
    "serves-server-keys-on-free": letting("runtime", "scopeIsAdmitted", "tier_capability_not_allowed"),
    "forgets-product-restrictions": letting("exchange", "productIsAdmitted", "product_not_allowed"),
    "ignores-the-scope": letting("runtime", "scopeIsAdmitted", "insufficient_scope"),
    // An empty list of restrictions is taken to allow everything.
    "unlocks-the-viewer": passing("exchange", "productIsAdmitted", ({ product }) => product === "viewer"),
    "accepts-any-origin": chained(without("exchange", "originIsListed"), without("runtime", "sessionOriginIsListed")),
    // `null` is treated as no origin at all.
    "accepts-null-origin": chained(
      passing("exchange", "originIsListed", ({ caller: { origin } }) => origin === "null"),
      passing("runtime", "sessionOriginIsListed", ({ caller: { origin } }) => origin === "null"),
    ),
    "matches-origins-by-prefix": passing("exchange", "originIsListed", ({ snapshot, caller: { origin } }) =>
      snapshot.key.allowed_origins.some((listed) => origin?.startsWith(listed)),
    ),
    // A missing origin is admitted, because some clients send none.
    "mints-without-an-origin": chained(
      without("exchange", "originIsPresent"),
      passing("exchange", "originIsListed", ({ caller: { origin } }) => origin === null),
    ),
    "mints-from-a-server-key": without("exchange", "keyIsPublishable"),
    "serves-the-publishable-key": without("runtime", "keyIsNotPublishable"),
    "accepts-server-key-in-browser": without("runtime", "serverKeyIsNotInBrowser"),
    "skips-ip-allowlist": without("runtime", "addressIsListed"),
    "accepts-a-revoked-key": passingStatus("revoked"),
    "accepts-an-expired-key": passingStatus("expired"),
    "charges-other-products": instead("exchange", "askLimiter", () => (call) => ({
      ask: "take",
      rate: call.deployment.rate,
      meter: { name: "map_loads", amount: 1, cap: mapLoadCap(call.snapshot.org) },
    })),
    "charges-the-malformed": before("runtime", ["askLimiter", "limiterAnswered", "limiterAllows"], "askBody"),
    "charges-the-shed": after("runtime", ["organizationHasRoom"], "limiterAllows"),
    "never-hard-stops": capped((meter, { snapshot }) => (snapshot.org.tier === "Pro" ? null : meter.cap)),
    "stops-at-the-soft-band": capped((meter, { snapshot }) =>
      meter.name === "map_loads" ? snapshot.org.map_load_allowance : meter.cap,
    ),
  },
);
