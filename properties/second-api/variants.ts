/**
 * The variants of the second deployment: other readings of the specification, all conforming. Each stands under the file that
 * asks for it first.
 */
export const VARIANTS = [
  // replies.ts
  "extra-fields",
  "empty-401",
  "message-401",
  "fastapi-422",
  // credentials.ts
  "hex-keys",
  "short-sessions",
  "opaque-token",
  "looks-sessions-up",
  "clock-leeway",
  // exchange-checks.ts
  "browser-first",
  "null-is-missing",
  "legacy-origin-name",
  "tier-first",
  "viewer-mints",
  "body-first",
  // exchange.ts
  "ends-arrive-late",
  "sessions-disabled",
  "anonymous-viewer",
  "prefix-first",
  "float-expiry",
  "older-revision",
  "201-on-mint",
  "reuses-sessions",
  "mints-hold-slots",
  // runtime-checks.ts
  "ended-session-detail",
  "origin-required-at-runtime",
  "tile-as-403",
  "sessions-are-wide",
  "product-for-session",
  "server-keys-on-free",
  "frozen-tokens",
  "sessions-need-origin",
  "null-counts-as-none",
  // runtime.ts
  "mints-are-free",
  "stops-paid-at-allowance",
  "route-swallows",
  // bodies.ts
  "no-other-members",
  "looks-maps-up",
  "maps-are-numbered",
  "sources-are-listed",
  "few-words-for-pois",
  "buildings-need-a-height",
  "buildings-need-a-number",
  "few-types-for-control",
  "one-place-is-malformed",
  "profiles-are-listed",
  "null-error",
  // stumbles.ts
  "400-on-foreign-letters",
  "hangs-up-on-foreign-letters",
  "404-for-nobody",
  "strict",
  // streams.ts
  "crlf",
  "extra-events",
  "charset",
  "splits-letters",
  "tiny-chunks",
  "cuts-a-stream-now-and-then",
  "cuts-after-the-last-event",
  // limits.ts
  "no-rate-limit",
  "retry-after-date",
  "retry-after-asctime",
  "asks-for-a-day",
  "flat-limiter",
  "is-full-for-a-while",
  // map-loads.ts
  "over-means-over",
  "new-month-after-a-stop",
  "loads-count-nothing",
  // management.ts
  "strict-key-bodies",
  "live-keys-alone",
  "forgives-deletions",
  "server-keys-know-no-address",
  "keys-arrive-late",
  "detail-on-management-401",
  "no-keys-left",
  "servers-are-secret",
  // key-rules.ts
  "live-is-asked-for",
  "server-keys-need-addresses",
  // key-shapes.ts
  "kind-is-key-type",
  "kind-is-server-unless-told",
  "scopes-are-grants",
  "products-are-surfaces",
  "origins-are-web-origins",
  "addresses-are-networks",
  "camel-key",
  "listed-key",
  "secret-alone",
  "hides-the-secret",
  "address-alone",
  "200-on-create",
  "nested-key",
  // cors.ts
  "answers-preflights",
  "no-cors",
  // disturbances.ts
  "busy",
  "strays",
  "stumbles",
  "has-a-stumbling-limiter",
  "is-away-for-a-while",
  // answer-call.ts
  "upper-headers",
  "compresses-unasked",
  "compresses",
  "offers-map-loads",
  "keys-live-elsewhere",
  "unknown-is-403",
  "unknown-is-401",
  // offer.ts
  "has-small-caps",
  "has-middling-caps",
  "strict-rate",
  // target-file.ts
  "comes-spent",
  "others-load",
  "tile-key-for-maps-alone",
  "few-connections",
  "has-tenants",
  "states-no-caps",
  "states-no-numbers",
  // state.ts
  "no-env-in-keys",
] as const;

export type Variant = (typeof VARIANTS)[number];
