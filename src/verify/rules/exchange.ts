/** Who may mint which session, from where, and which check decides when two fail (items 42-53, 68-81, 192-199). */
import type { Product } from "../../contract/routes.ts";
import type { KeyRole } from "../../target/target.ts";
import { pairwise } from "../pairwise.ts";
import { all, inEachForm, type Row, type Rule, rulesOf } from "../rule.ts";
import { asServer, exchangeCall, FORMS, inSession, mint } from "../sending/test-call.ts";

const { must, should, info } = rulesOf("lattice", { needs: { roles: ["publishable"] } });
const order = rulesOf("order");

const both = (of: KeyRole) => (["chat", "editor"] as const).map((product) => mint(of, product));
/** An allowance that is used up is reported only after the product was found allowed. */
const oneTile = (of: KeyRole) => ({
  needs: { roles: [of], spends: { map_loads: 1 } },
  cost: { map_loads: 1 },
  rows: all([mint(of, "tile")], "2xx", ["map_load_quota_exceeded", "map_load_hard_stop"]),
});

/** What a key may mint: its scopes and products, and its organization's tier. Each row breaks one condition alone. */
const CAPABILITIES_AT_THE_EXCHANGE = [
  must("exchange-insufficient-scope", [42, 76, 192], {
    title: "a key that never had the scope ai cannot mint a chat session: 403 insufficient_scope",
    rows: inEachForm([[mint("publishable_no_ai", "chat"), "insufficient_scope"]]),
  }),
  must("exchange-mints-what-is-in-scope", [42, 46, 76], {
    title: "a key without ai still mints the session that its other scopes allow",
    rows: inEachForm([[mint("publishable_no_ai", "editor"), "2xx"]]),
  }),
  must("exchange-product-not-allowed", [45, 74, 77, 196], {
    title: "a key restricted to tile cannot mint another product: 403 product_not_allowed",
    // Its scopes are not stated; a key that was seen to have them is `key-is-narrowed-and-widened`'s.
    rows: inEachForm(all(both("publishable_tile_only"), "product_not_allowed", "insufficient_scope")),
  }),
  must("exchange-restricted-key-mints-tile", [45, 46, 74], {
    title: "a key restricted to tile mints tile",
    ...oneTile("publishable_tile_only"),
  }),
  must("exchange-tier-capability", [13, 46, 75, 193], {
    title: "a full key of an organization downgraded to Free mints nothing but tile: 403 tier_capability_not_allowed",
    rows: inEachForm(all(both("publishable_downgraded"), "tier_capability_not_allowed")),
  }),
  must("exchange-downgraded-mints-tile", [46, 75], {
    title: "an organization downgraded to Free still mints tile",
    ...oneTile("publishable_downgraded"),
  }),
];

const KINDS_AT_THE_EXCHANGE = [
  must("exchange-wrong-kind", [68, 70, 199], {
    title: "the exchange answers a server key with 403 publishable_key_required",
    rows: pairwise({
      origin: ["none", "listed", "foreign"] as const,
      product: ["chat", "editor", "viewer"] as const,
    }).map(({ origin, product }): Row => {
      const call = asServer("sdk.sessions", { origin, product });
      return [call, "publishable_key_required", origin === "none" ? [] : "server_key_in_browser"];
    }),
  }),
  must("exchange-with-a-session", [70, 84], {
    title: "the exchange does not turn a session token into another one",
    rows: all(
      (["listed", "none"] as const).map((origin) => inSession("chat", "sdk.sessions", { origin, product: "chat" })),
      "publishable_key_required",
      "unauthenticated",
    ),
  }),
];

const HEADER_OF_THE_EXCHANGE = should("either-header-at-the-exchange", [143], {
  title: "the exchange takes a publishable key in Authorization: Bearer and in X-Api-Key alike",
  rows: all(
    FORMS.map((form) => mint("publishable", "editor", { form })),
    "2xx",
  ),
});

const atEachProduct = (origin: "none" | "foreign", fits: "origin_required" | "session_origin_mismatch") =>
  inEachForm((["chat", "editor"] as const).map((product): Row => [exchangeCall("publishable", origin, product), fits]));

/** Origins that only look like the listed one. No pattern could mean the strict ones; the rest is a matter of matching (item 52). */
const lookalikesOf = (listed: string): { strict: string[]; lenient: string[] } => {
  const { protocol, hostname, port } = new URL(listed);
  const at = port === "" ? "" : `:${port}`;
  const hasDots = !/^[\d.]+$/.test(hostname) && hostname.includes(".");
  return {
    strict: [
      `${protocol}//${hostname}.attacker.example${at}`,
      `${protocol}//not-${hostname}${at}`,
      `${protocol}//${hostname.slice(0, -1)}`,
      ...(hasDots ? [`${protocol}//${hostname.replace(".", "x")}${at}`] : []),
    ],
    lenient: [
      `${protocol === "https:" ? "http:" : "https:"}//${hostname}${at}`,
      `${protocol}//${hostname}:${port === "8443" ? "9443" : "8443"}`,
      `${protocol}//sub.${hostname}${at}`,
    ],
  };
};

const lookalikes = (which: "strict" | "lenient", calls: number): Parameters<typeof must>[2] & object => ({
  title: `an Origin that merely contains an allowlisted host name is refused`,
  cost: { calls },
  nothing: "the origin of publishable is none that could be imitated",
  rows: (context) => {
    const listed = context.keyRole("publishable")?.origin;
    if (listed === undefined || !URL.canParse(listed)) return [];
    return lookalikesOf(listed)[which].flatMap((originValue) =>
      all(
        [
          exchangeCall("publishable", "foreign", "chat", { originValue }),
          inSession("chat", "poi.enrich", { origin: "foreign", originValue }),
        ],
        "session_origin_mismatch",
      ),
    );
  },
});

const ORIGINS_AT_THE_EXCHANGE = [
  must("exchange-origin-required", [71, 194], {
    title: "the exchange answers a call without an Origin with 403 origin_required",
    cost: { calls: 6 },
    rows: ({ keyRole }) => {
      // Anybody can write a Referer; only a browser's Origin says where a call comes from.
      const headers = { referer: `${keyRole("publishable")?.origin}/` };
      const empty = { originValue: "", what: "an empty Origin" };
      return [
        ...atEachProduct("none", "origin_required"),
        [exchangeCall("publishable", "none", "chat", { headers }), "origin_required"],
        [exchangeCall("publishable", "foreign", "chat", empty), ["origin_required", "session_origin_mismatch"]],
      ];
    },
  }),
  must("exchange-origin-mismatch", [43, 72, 73, 195], {
    title: "the exchange answers an Origin outside the key's allowlist with 403 session_origin_mismatch",
    cost: { calls: 5 },
    rows: ({ keyRole, target }) => {
      const own = { originValue: new URL(target.base_url).origin, what: "the API's own Origin" };
      const isListed = own.originValue === keyRole("publishable")?.origin;
      const call = exchangeCall("publishable", "foreign", "chat", own);
      return [
        ...atEachProduct("foreign", "session_origin_mismatch"),
        ...(isListed ? [] : all([call], "session_origin_mismatch")),
      ];
    },
  }),
  must("origin-lookalikes", [43, 72], lookalikes("strict", 8)),
  info("origin-is-matched-exactly", [52], {
    ...lookalikes("lenient", 6),
    title: "whether an Origin of another scheme, port or subdomain is refused",
  }),
  // Whether `null` counts as an Origin or as none is a gap (item 53); in either reading the call is refused (items 71, 72).
  must("exchange-origin-null", [71, 72], {
    title: "the exchange takes Origin: null neither for an allowlisted one nor for enough",
    cost: { calls: 1 },
    rows: ({ keyRole }) => {
      const call = exchangeCall("publishable", "null", "chat");
      // A key may list the text `null` itself, for pages without an origin.
      const isListed = keyRole("publishable")?.origin === "null";
      return isListed ? [] : all([call], ["session_origin_mismatch", "origin_required"]);
    },
  }),
];

const SERVERS = ["server", "server_no_design", "server_downgraded"] as const;
/** Keys and products that a later check would refuse. */
const REFUSED_LATER: readonly (readonly [of: KeyRole, product: Product])[] = [
  ["publishable", "viewer"],
  ["publishable_no_ai", "chat"],
  ["publishable_tile_only", "editor"],
  ["publishable_tile_only", "chat"],
  ["publishable_downgraded", "chat"],
  ["publishable_exhausted", "chat"],
];

/** Each call breaks an earlier and a later check of the exchange; the earlier one decides (items 69, 81). */
const ORDER_OF_THE_EXCHANGE = [
  order.must("exchange-order-kind-before-origin", [69, 70, 81], {
    title: "a key of the wrong kind without an Origin: the kind decides",
    rows: SERVERS.flatMap((of) =>
      all(
        (["chat", "editor", "tile", "viewer"] as const).map((product) => asServer("sdk.sessions", { product }, of)),
        "publishable_key_required",
      ),
    ),
  }),
  order.must("exchange-order-origin-before-product", [69, 71, 72, 74, 81], {
    title: "an Origin that is missing or foreign decides before a product that is not admitted",
    needs: { anyOf: ["publishable", "publishable_no_ai", "publishable_tile_only", "publishable_downgraded"] },
    rows: REFUSED_LATER.flatMap(([of, product]): Row[] => [
      [exchangeCall(of, "none", product), "origin_required"],
      [exchangeCall(of, "foreign", product), "session_origin_mismatch"],
    ]),
  }),
  order.must("exchange-order-origin-before-quota", [69, 79, 81], {
    title: "an Origin that is missing or foreign decides before an allowance that is used up",
    rows: (["publishable_exhausted", "publishable_hard_stop"] as const).flatMap((of): Row[] => [
      [exchangeCall(of, "none", "tile"), "origin_required"],
      [exchangeCall(of, "foreign", "tile"), "session_origin_mismatch", "tile_access_restricted"],
    ]),
  }),
  order.must("exchange-order-product-before-quota", [69, 74, 80, 81], {
    title: "a product that the tier does not admit decides before an allowance that is used up",
    rows: all(both("publishable_exhausted"), "tier_capability_not_allowed", [
      "product_not_allowed",
      "insufficient_scope",
    ]),
  }),
];

const QUOTA_OF_OTHER_PRODUCTS = rulesOf("meters").must("quota-concerns-tile-only", [80, 205, 225], {
  title: "an organization past its map loads still mints other products",
  rows: all(both("publishable_hard_stop"), "2xx"),
});

const ORIGIN_OF_ANOTHER_ORGANIZATION = rulesOf("organizations").must("origin-of-another-organization", [43, 72, 151], {
  title: "an Origin that only another organization's key lists is refused",
  needs: { roles: ["publishable", "publishable_other_org"] },
  cost: { calls: 3 },
  nothing: "publishable and publishable_other_org have the same origin in the target file, or none",
  rows: ({ keyRole }) => {
    const [ours, theirs] = [keyRole("publishable")?.origin, keyRole("publishable_other_org")?.origin];
    if (ours === undefined || theirs === undefined || ours === theirs) return [];
    return all(
      [
        exchangeCall("publishable", "foreign", "chat", { originValue: theirs }),
        exchangeCall("publishable_other_org", "foreign", "chat", { originValue: ours }),
        inSession("chat", "poi.enrich", { origin: "foreign", originValue: theirs }),
      ],
      "session_origin_mismatch",
    );
  },
});

export const EXCHANGE_RULES: readonly Rule[] = [
  ...[...KINDS_AT_THE_EXCHANGE, HEADER_OF_THE_EXCHANGE, ...ORIGINS_AT_THE_EXCHANGE, ...CAPABILITIES_AT_THE_EXCHANGE],
  ...[...ORDER_OF_THE_EXCHANGE, QUOTA_OF_OTHER_PRODUCTS, ORIGIN_OF_ANOTHER_ORGANIZATION],
];
