/** Who may mint which session, from which origin, and which check decides if two fail (items 42-53, 68-81, 192-199). */
import { PRODUCTS, type Product } from "../../contract/routes.ts";
import type { KeyRole } from "../../target/roles.ts";
import type { Context } from "../context.ts";
import { all, inEachForm, pairwise, type Row, type Rule, rulesOf } from "../rule.ts";
import { asServer, exchangeCall, FORMS, inSession, mint, type TestCall } from "../sending/test-call.ts";

const PUBLISHABLE = { needs: { roles: ["publishable"] } } as const;
const { must, should, info } = rulesOf("lattice", PUBLISHABLE);
const order = rulesOf("order");

const CHAT_EDITOR = ["chat", "editor"] as const;
const both = (of: KeyRole): TestCall[] => CHAT_EDITOR.map((product) => mint(of, product));
/** A refusal for a used-up allowance passes too, because it shows that the product was allowed. */
const oneTile = (of: KeyRole) => ({
  needs: { roles: [of], spends: { map_loads: 1 } },
  cost: { map_loads: 1 },
  rows: all([mint(of, "tile")], "2xx", ["map_load_quota_exceeded", "map_load_hard_stop"]),
});
const atEach = (origin: "none" | "foreign", fits: "origin_required" | "session_origin_mismatch"): Row[] =>
  inEachForm(CHAT_EDITOR.map((product): Row => [exchangeCall("publishable", origin, product), fits]));
const fromElsewhere = (more: Partial<TestCall>, of: KeyRole = "publishable"): TestCall =>
  exchangeCall(of, "foreign", "chat", more);

const listedOrigin = ({ keyRole }: Context): string | undefined => keyRole("publishable")?.origin;

/** Origins that resemble the listed one. No wildcard matches the `strict` ones; item 52 leaves the others open. */
const lookalikesOf = (listed: string): { strict: string[]; lenient: string[] } => {
  const { protocol, hostname, port } = new URL(listed);
  const at = port === "" ? "" : `:${port}`;
  const hasDots = !/^[\d.]+$/.test(hostname) && hostname.includes(".");
  const strict = [`${hostname}.attacker.example${at}`, `not-${hostname}${at}`, hostname.slice(0, -1)];
  return {
    strict: [...strict, ...(hasDots ? [`${hostname.replace(".", "x")}${at}`] : [])].map(
      (host) => `${protocol}//${host}`,
    ),
    lenient: [
      `${protocol === "https:" ? "http:" : "https:"}//${hostname}${at}`,
      `${protocol}//${hostname}:${port === "8443" ? "9443" : "8443"}`,
      `${protocol}//sub.${hostname}${at}`,
    ],
  };
};

const lookalikes = (which: "strict" | "lenient", title: string, calls: number) => ({
  ...{ title, cost: { calls }, nothing: "no origin resembles that of publishable closely enough to be tried" },
  rows: (context: Context): Row[] => {
    const listed = listedOrigin(context);
    if (listed === undefined || !URL.canParse(listed)) return [];
    return lookalikesOf(listed)[which].flatMap((originValue) => {
      const session = inSession("chat", "poi.enrich", { origin: "foreign", originValue });
      return all([fromElsewhere({ originValue }), session], "session_origin_mismatch");
    });
  },
});

const SERVERS = ["server", "server_no_design", "server_downgraded"] as const;
// biome-ignore format: a row is a line
const REFUSED_LATER: readonly (readonly [of: KeyRole, product: Product])[] = [
  ["publishable", "viewer"], ["publishable_no_ai", "chat"], ["publishable_tile_only", "editor"],
  ["publishable_tile_only", "chat"], ["publishable_downgraded", "chat"], ["publishable_exhausted", "chat"],
];

/** Each row breaks one condition or, in the phase `order`, two: the earlier check decides (items 69, 81). */
// biome-ignore format: a table, a rule in a few lines
export const EXCHANGE_RULES: readonly Rule[] = [
  must("exchange-wrong-kind", [68, 70, 199], {
    title: "the exchange answers a server key with 403 publishable_key_required",
    rows: pairwise({ origin: ["none", "listed", "foreign"] as const, product: ["chat", "editor", "viewer"] as const }).map((more): Row =>
      [asServer("sdk.sessions", more), "publishable_key_required", more.origin === "none" ? [] : "server_key_in_browser"]) }),
  must("exchange-with-a-session", [70, 84], {
    title: "the exchange does not turn a session token into another one",
    rows: all((["listed", "none"] as const).map((origin) => inSession("chat", "sdk.sessions", { origin, product: "chat" })),
      "publishable_key_required", "unauthenticated") }),
  should("either-header-at-the-exchange", [143], {
    title: "the exchange takes a publishable key in Authorization: Bearer and in X-Api-Key alike",
    rows: all(FORMS.map((form) => mint("publishable", "editor", { form })), "2xx") }),
  must("exchange-origin-required", [71, 194], {
    title: "the exchange answers a call without an Origin with 403 origin_required",
    cost: { calls: 6 },
    rows: (context) => [
      ...atEach("none", "origin_required"),
      // Anybody can send a Referer; only Origin is set by the browser.
      [exchangeCall("publishable", "none", "chat", { headers: { referer: `${listedOrigin(context)}/` } }), "origin_required"],
      [fromElsewhere({ originValue: "", what: "an empty Origin" }), ["origin_required", "session_origin_mismatch"]],
    ] }),
  must("exchange-origin-mismatch", [43, 72, 73, 195], {
    title: "the exchange answers an Origin outside the key's allowlist with 403 session_origin_mismatch",
    cost: { calls: 5 },
    rows: (context) => {
      const originValue = new URL(context.target.base_url).origin;
      const own = originValue === listedOrigin(context) ? [] : [fromElsewhere({ originValue, what: "the API's own Origin" })];
      return [...atEach("foreign", "session_origin_mismatch"), ...all(own, "session_origin_mismatch")];
    } }),
  must("origin-lookalikes", [43, 72],
    lookalikes("strict", "an Origin that merely contains an allowlisted host name is refused", 8)),
  info("origin-is-matched-exactly", [52],
    lookalikes("lenient", "whether an Origin of another scheme, port or subdomain is refused", 6)),
  // Whether `null` is an Origin is not specified (item 53); both readings refuse it, unless the key lists that text.
  must("exchange-origin-null", [71, 72], {
    title: "the exchange refuses Origin: null, as a missing or as a foreign origin",
    cost: { calls: 1 },
    rows: (context) => all(listedOrigin(context) === "null" ? [] : [exchangeCall("publishable", "null", "chat")],
      ["session_origin_mismatch", "origin_required"]) }),
  must("exchange-insufficient-scope", [42, 76, 192], {
    title: "a key that never had the scope ai cannot mint a chat session: 403 insufficient_scope",
    rows: inEachForm([[mint("publishable_no_ai", "chat"), "insufficient_scope"]]) }),
  must("exchange-mints-what-is-in-scope", [42, 46, 76], {
    title: "a key without ai still mints the session that its other scopes allow",
    rows: inEachForm([[mint("publishable_no_ai", "editor"), "2xx"]]) }),
  // The key's scopes are unknown; `key-is-narrowed-and-widened` tests a key with known scopes.
  must("exchange-product-not-allowed", [45, 74, 77, 196], {
    title: "a key restricted to tile cannot mint another product: 403 product_not_allowed",
    rows: inEachForm(all(both("publishable_tile_only"), "product_not_allowed", "insufficient_scope")) }),
  must("exchange-restricted-key-mints-tile", [45, 46, 74], {
    title: "a key restricted to tile mints tile", ...oneTile("publishable_tile_only") }),
  must("exchange-tier-capability", [13, 46, 75, 193], {
    title: "a full key of an organization downgraded to Free mints nothing but tile: 403 tier_capability_not_allowed",
    rows: inEachForm(all(both("publishable_downgraded"), "tier_capability_not_allowed")) }),
  must("exchange-downgraded-mints-tile", [46, 75], {
    title: "an organization downgraded to Free still mints tile", ...oneTile("publishable_downgraded") }),
  order.must("exchange-order-kind-before-origin", [69, 70, 81], {
    title: "a key of the wrong kind without an Origin: the kind decides",
    rows: all(SERVERS.flatMap((of) => PRODUCTS.map((product) => asServer("sdk.sessions", { product }, of))), "publishable_key_required") }),
  order.must("exchange-order-origin-before-product", [69, 71, 72, 74, 81], {
    title: "an Origin that is missing or foreign decides before a product that is not admitted",
    needs: { anyOf: ["publishable", "publishable_no_ai", "publishable_tile_only", "publishable_downgraded"] },
    rows: REFUSED_LATER.flatMap(([of, product]): Row[] => [
      [exchangeCall(of, "none", product), "origin_required"],
      [exchangeCall(of, "foreign", product), "session_origin_mismatch"]]) }),
  order.must("exchange-order-origin-before-quota", [69, 79, 81], {
    title: "an Origin that is missing or foreign decides before an allowance that is used up",
    rows: (["publishable_exhausted", "publishable_hard_stop"] as const).flatMap((of): Row[] => [
      [exchangeCall(of, "none", "tile"), "origin_required"],
      [exchangeCall(of, "foreign", "tile"), "session_origin_mismatch", "tile_access_restricted"]]) }),
  order.must("exchange-order-product-before-quota", [69, 74, 80, 81], {
    title: "a product that the tier does not admit decides before an allowance that is used up",
    rows: all(both("publishable_exhausted"), "tier_capability_not_allowed", ["product_not_allowed", "insufficient_scope"]) }),
  rulesOf("meters").must("quota-concerns-tile-only", [80, 205, 225], {
    title: "an organization past its map loads still mints other products",
    rows: all(both("publishable_hard_stop"), "2xx") }),
  rulesOf("organizations").must("origin-of-another-organization", [43, 72, 151], {
    title: "an Origin that only another organization's key lists is refused",
    needs: { roles: ["publishable", "publishable_other_org"] },
    cost: { calls: 3 },
    nothing: "publishable and publishable_other_org have the same origin in the target file, or none",
    rows: (context) => {
      const [ours, theirs] = [listedOrigin(context), context.keyRole("publishable_other_org")?.origin];
      if (ours === undefined || theirs === undefined || ours === theirs) return [];
      const session = inSession("chat", "poi.enrich", { origin: "foreign", originValue: theirs });
      const minted = [fromElsewhere({ originValue: theirs }), fromElsewhere({ originValue: ours }, "publishable_other_org")];
      return all([...minted, session], "session_origin_mismatch");
    } }),
];
