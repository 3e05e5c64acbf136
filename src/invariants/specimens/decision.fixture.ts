/** Specimens of the judges of single answers: order of checks, envelopes, capability, retry, sessions, secrets. */
import type { CallFacts } from "../../contract/call-facts.ts";
import type { CallLine } from "../../history/line.ts";
import {
  call,
  foreignStage,
  inOrder,
  lost,
  many,
  mark,
  PUBLISHABLE,
  SERVER,
  SESSION,
  type Specimens,
  sharedStage,
} from "./specimen.fixture.ts";

const mint = (id: string, outcome: string, facts: Partial<CallFacts> = {}, more: Partial<CallLine> = {}): CallLine =>
  call(id, { route: "sdk.sessions", outcome, facts: { ...PUBLISHABLE, ...facts }, ...more });
const chat = (id: string, outcome: string, facts: CallFacts, more: Partial<CallLine> = {}): CallLine =>
  call(id, { route: "chat.control", outcome, facts, ...more });

export const firstFailingCheckDecides: Specimens = {
  good: [
    {
      name: "each refusal of the exchange at its place",
      lines: [
        mint("1", "200"),
        mint("2", "401", { credential: "none" }),
        mint("3", "401", { credential: "unknown" }),
        mint("4", "401", { state: "expired" }),
        mint("5", "403 publishable_key_required", { credential: "server", origin: "none" }),
        mint("6", "403 origin_required", { origin: "none", tier: "Free" }),
        mint("7", "403 session_origin_mismatch", { origin: "foreign", product: "tile" }),
        mint("8", "422 malformed_body", { body: "malformed", scopes: [] }),
        mint("9", "403 insufficient_scope", { scopes: ["maps"], tier: "Free" }),
        mint("10", "403 product_not_allowed", { products: ["tile"], tier: "Free" }),
        mint("11", "403 tier_capability_not_allowed", { tier: "Free" }),
        mint("12", "429 map_load_quota_exceeded", { tier: "Free", product: "tile" }),
        mint("13", "429 map_load_hard_stop", { product: "tile" }),
        mint("14", "403 sessions_disabled", { credential: "server" }),
      ],
    },
    {
      name: "each refusal of a runtime call at its place",
      lines: [
        chat("1", "200", SESSION),
        chat("2", "401 publishable_requires_session", { ...PUBLISHABLE, origin: "none" }),
        chat("3", "403 server_key_in_browser", { ...SERVER, origin: "listed", ip: "foreign" }),
        chat("4", "403 ip_not_allowed", { ...SERVER, ip: "foreign", scopes: [] }),
        chat("5", "403 session_origin_mismatch", { ...SESSION, origin: "null" }),
        call("6", {
          route: "maps.tiles",
          outcome: "429 tile_access_restricted",
          facts: { ...SESSION, origin: "foreign" },
        }),
        chat("7", "403 insufficient_scope", { ...SESSION, product: "tile" }),
        chat("8", "403 tier_capability_not_allowed", { ...SESSION, tier: "Free" }),
        chat("9", "422 malformed_body", { ...SERVER, body: "malformed" }),
        call("10", { route: "chat.route", outcome: "200 error", facts: SERVER }),
      ],
    },
    {
      name: "overload, limiter and key service at their places",
      lines: [
        chat("1", "429 b2b_overloaded", { ...SERVER, credential: "none" }),
        chat("2", "503", { ...SERVER, ip: "foreign" }),
        chat("3", "429 org_overloaded", { ...SERVER, body: "malformed" }),
        chat("4", "429 limiter_unavailable", SERVER),
        chat("5", "429 rate_limited", SERVER),
      ],
    },
    {
      name: "answers that say nothing, or not of the platform",
      lines: [mint("1", "200"), lost("2", { facts: SERVER }), chat("3", "edge 502", SERVER)],
    },
    {
      name: "facts that are not known acquit",
      lines: [chat("1", "403 ip_not_allowed", { credential: "server", origin: "none", body: "ok" })],
    },
    {
      name: "a revoked key served on for the budget",
      lines: inOrder(
        mint("0", "200"),
        chat("1", "200", { ...SERVER, state: "revoked" }, { sent_us: 5_900_000, done_us: 5_901_000 }),
        mark("revoked", 5_900, { org: "a" }),
        chat("2", "401", { ...SERVER, state: "revoked" }, { sent_us: 8_000_000, done_us: 8_001_000 }),
      ),
    },
    {
      name: "other readings of another deployment",
      facts: foreignStage(),
      lines: [
        mint("1", "422 malformed_body", { origin: "none", body: "malformed" }),
        mint("2", "403 server_key_in_browser", { credential: "server", origin: "listed" }),
        mint("3", "403 tier_capability_not_allowed", { scopes: [], tier: "Free" }),
        mint("4", "201"),
        chat("5", "403 origin_required", { ...PUBLISHABLE, origin: "none" }),
        chat("6", "200", { ...SESSION, state: "revoked" }),
        chat("7", "200", { ...SESSION, tier: "Free" }),
        chat("8", "502 bad gateway", SERVER),
        // A2: limiter and overload are not placed among the checks.
        mint("10", "429 rate_limited", { origin: "none" }),
        chat("11", "503", { ...SERVER, credential: "none" }),
        chat("12", "429 org_overloaded", { ...SERVER, scopes: [] }),
        call("9", { route: "maps.loads", outcome: "404 Not Found", facts: SERVER }),
        call("10", { route: "chat.route", outcome: "200 error", facts: { ...SERVER, scopes: [] } }),
        call("11", { route: "keys.create", outcome: "403 not an administrator", facts: SERVER }),
        call("12", { route: "keys.delete", outcome: "401 no such token", facts: { ...SERVER, credential: "admin" } }),
      ],
    },
    {
      // Items 53, 84, 88, 104-109, 126.
      name: "bodies and origins of which the specification does not decide, at another deployment",
      facts: foreignStage(),
      lines: [
        ...["200", "422 malformed_body", "403 product_not_allowed"].map((outcome, i) =>
          mint(`m${i}`, outcome, { body: "unknown", product: undefined }),
        ),
        mint("m3", "403 product_not_allowed", { body: "malformed", product: undefined }),
        ...(["chat.summary", "chat.route"] as const).flatMap((route) =>
          ["200", "422 malformed_body"].map((outcome) =>
            call(`${route} ${outcome}`, { route, outcome, facts: { ...SERVER, body: "unknown" } }),
          ),
        ),
        call("k", { route: "keys.create", outcome: "201", facts: { ...SERVER, credential: "admin", body: "unknown" } }),
        call("b", { route: "chat.button", outcome: "422 malformed_body", facts: SERVER }),
        ...["404 no_such_place", "400 bad_query"].map((outcome) =>
          call(outcome, { route: "poi.enrich", outcome, facts: { ...SERVER, body: "none" } }),
        ),
        mint("n1", "403 origin_required", { origin: "null" }),
        chat("n2", "200", { ...SESSION, origin: "null" }),
        chat("n3", "200", { ...SERVER, origin: "null" }),
        mint("n4", "401", { credential: "session" }),
      ],
    },
  ],
  bad: [
    {
      name: "origin before kind",
      lines: [mint("1", "403 origin_required", { credential: "server", origin: "none" })],
      says: /403 origin_required where only/,
    },
    {
      name: "quota before origin",
      lines: [mint("1", "429 map_load_quota_exceeded", { tier: "Free", product: "tile", origin: "foreign" })],
      says: /session_origin_mismatch/,
    },
    {
      name: "malformed before everything",
      lines: [mint("1", "422 malformed_body", { origin: "none", body: "malformed" })],
      says: /origin_required/,
    },
    {
      name: "capability before origin",
      lines: [mint("1", "403 tier_capability_not_allowed", { origin: "none", tier: "Free" })],
      says: /origin_required/,
    },
    {
      name: "admitted although it lacks the scope",
      lines: [chat("1", "200", { ...SERVER, scopes: ["maps"] })],
      says: /insufficient_scope/,
    },
    {
      name: "a quota where nothing is metered",
      lines: [mint("1", "429 map_load_quota_exceeded", { tier: "Free", product: "chat" })],
      says: /map_load_quota_exceeded/,
    },
    { name: "401 for a good key", lines: [chat("1", "401", SERVER)], says: /answered 401/ },
    {
      name: "an organization's overload before its key is known",
      lines: [chat("1", "429 org_overloaded", { ...SERVER, credential: "none" })],
      says: /org_overloaded/,
    },
    {
      name: "a missing credential admitted elsewhere",
      facts: foreignStage(),
      lines: [chat("1", "200", { ...SERVER, credential: "none" })],
      says: /answered 200/,
    },
    {
      name: "a platform key let into key management elsewhere",
      facts: foreignStage(),
      lines: [call("1", { route: "keys.create", outcome: "201", facts: SERVER })],
      says: /answered 201/,
    },
    ...[undefined, foreignStage()].map((facts) => ({
      name: `a body without its product admitted ${facts === undefined ? "here" : "elsewhere"}`,
      ...(facts === undefined ? {} : { facts }),
      lines: [mint("1", "200", { body: "malformed", product: undefined })],
      says: /answered 200 .*malformed_body/,
    })),
    {
      name: "a body that the reference platform refuses, admitted by it",
      lines: [call("1", { route: "chat.summary", facts: { ...SERVER, body: "unknown" } })],
      says: /answered 200 .*malformed_body/,
    },
    {
      name: "a good body refused as malformed elsewhere, on a route whose body is specified",
      facts: foreignStage(),
      lines: [chat("1", "422 malformed_body", SERVER)],
      says: /answered 422 malformed_body/,
    },
    {
      name: "Origin: null admitted to the exchange elsewhere",
      facts: foreignStage(),
      lines: [mint("1", "200", { origin: "null" })],
      says: /origin_required/,
    },
    {
      name: "wrong order elsewhere",
      facts: foreignStage(),
      lines: [mint("1", "403 session_origin_mismatch", { credential: "server", origin: "none" })],
      says: /publishable_key_required/,
    },
  ],
  thin: [
    { name: "no call", lines: [], verdict: "inconclusive", says: /facts/ },
    { name: "calls without facts", lines: [call("1")], verdict: "inconclusive", says: /facts/ },
  ],
};

export const envelopeFitsSubcode: Specimens = {
  good: [
    {
      name: "each kind of envelope",
      lines: [
        call("1", { outcome: "401", envelope: "none" }),
        call("2", { outcome: "403 insufficient_scope", envelope: "detail" }),
        call("3", { outcome: "429 b2b_overloaded", envelope: "flat" }),
        call("4", {
          outcome: "429 map_load_quota_exceeded",
          envelope: "flat",
          quota: { meter: "map_loads", limit: 3, used: 3 },
        }),
        call("5", { outcome: "503", envelope: "other" }),
        call("6", { outcome: "edge 502", envelope: "other" }),
        lost("7"),
      ],
    },
    {
      name: "the flat form of A13 elsewhere",
      facts: foreignStage(),
      lines: [call("1", { outcome: "429 rate_limited", envelope: "flat" })],
    },
    {
      name: "a firewall that speaks JSON",
      facts: sharedStage(),
      lines: [
        call("1", { outcome: "429 org_overloaded", envelope: "flat" }),
        call("2", { outcome: "429 Rate limit exceeded", envelope: "flat" }),
      ],
    },
    {
      name: "what key management elsewhere says to the wrong administrator (item 127)",
      facts: foreignStage(),
      lines: [
        call("1", { outcome: "403 ip_not_allowed", envelope: "detail" }),
        call("2", { route: "keys.update", outcome: "403 wrong organization", envelope: "flat" }),
        call("3", { route: "keys.create", outcome: "401 no administrator", envelope: "detail" }),
        call("4", { route: "keys.create", outcome: "401", envelope: "detail" }),
        chat("5", "401 session_expired", { ...SESSION, state: "expired" }, { envelope: "detail" }),
        call("6", { route: "poi.enrich", outcome: "400 bad_query", envelope: "detail" }),
      ],
    },
  ],
  bad: [
    {
      name: "a wrapped flat body",
      lines: [call("1", { outcome: "429 org_overloaded", envelope: "detail" })],
      says: /envelope "detail", not "flat"/,
    },
    {
      name: "a flattened detail",
      lines: [call("1", { outcome: "403 ip_not_allowed", envelope: "flat" })],
      says: /envelope "flat", not "detail"/,
    },
    { name: "both at once", lines: [call("1", { outcome: "429 b2b_overloaded", envelope: "both" })], says: /"both"/ },
    {
      name: "an invented subcode",
      lines: [call("1", { outcome: "403 computer_says_no", envelope: "detail" })],
      says: /no refusal of the specification/,
    },
    {
      name: "a 401 that explains the end of a key",
      facts: foreignStage(),
      lines: [chat("1", "401 key_expired", { ...SERVER, state: "expired" }, { envelope: "detail" })],
      says: /no refusal/,
    },
    {
      name: "a 401 that explains itself",
      facts: foreignStage(),
      lines: [call("1", { outcome: "401 Not authenticated", envelope: "detail" })],
      says: /no refusal/,
    },
    {
      name: "a quota reported in words",
      lines: [
        call("1", {
          outcome: "429 map_load_quota_exceeded",
          envelope: "flat",
          quota: { meter: "map_loads", limit: "3", used: 3 },
        }),
      ],
      says: /limit is "3"/,
    },
  ],
  thin: [{ name: "no refusal", lines: [call("1")], verdict: "inconclusive", says: /no refusal/ }],
};

export const admissionIsStoredAndTier: Specimens = {
  good: [
    {
      name: "stored and admitted, or not",
      lines: [
        mint("1", "200"),
        mint("2", "403 tier_capability_not_allowed", { tier: "Free" }),
        mint("3", "403 insufficient_scope", { scopes: [] }),
      ],
    },
    {
      name: "the old tier while its change travels",
      lines: inOrder(
        mint("1", "200", { tier: "Free" }, { sent_us: 10_500_000, done_us: 10_501_000 }),
        mark("tier-changed", 10_000, { org: "a" }),
        mint("2", "403 tier_capability_not_allowed", { tier: "Free" }, { sent_us: 12_000_000, done_us: 12_001_000 }),
      ),
    },
    {
      name: "a session frozen at its mint elsewhere",
      facts: foreignStage(),
      lines: [
        chat("1", "200", { ...SESSION, tier: "Free" }),
        mint("2", "403 tier_capability_not_allowed", { tier: "Free" }),
      ],
    },
    {
      name: "a refusal reported under 200 (A11), and a session as wide as its key (A16), elsewhere",
      facts: foreignStage(),
      lines: [
        call("1", { route: "chat.route", outcome: "200 error", facts: { ...SERVER, scopes: ["maps"] } }),
        call("2", { route: "design.styles", outcome: "200", facts: SESSION }),
        mint("3", "403 insufficient_scope", { scopes: [] }),
      ],
    },
  ],
  bad: [
    {
      name: "a refusal reported under 200 by ours",
      lines: [call("1", { route: "chat.route", outcome: "200 error", facts: { ...SERVER, scopes: ["maps"] } })],
      says: /200 error for server/,
    },
    {
      name: "a session wider than its key elsewhere",
      facts: foreignStage(),
      lines: [call("1", { route: "design.styles", outcome: "200", facts: { ...SESSION, scopes: ["ai"] } })],
      says: /200 for session/,
    },
    { name: "united: the tier suffices", lines: [mint("1", "200", { scopes: ["maps"] })], says: /200 for publishable/ },
    { name: "united: the key suffices", lines: [mint("1", "200", { tier: "Free" })], says: /tier Free/ },
    {
      name: "the old tier remembered",
      lines: inOrder(
        mark("tier-changed", 1_000, { org: "a" }),
        mint("1", "200", { tier: "Free" }, { sent_us: 9_000_000, done_us: 9_001_000 }),
      ),
      says: /tier Free/,
    },
    {
      name: "refused for what it has",
      lines: [chat("1", "403 insufficient_scope", SERVER)],
      says: /insufficient_scope for server/,
    },
  ],
  thin: [
    { name: "only capable calls", lines: [mint("1", "200")], verdict: "inconclusive", says: /lacks a capability/ },
    {
      name: "not known",
      lines: [mint("1", "200", { tier: "Free" }), lost("2")].slice(1),
      verdict: "inconclusive",
      says: /lacks/,
    },
  ],
};

const limited = (id: string, atMs: number, more: Partial<CallLine> = {}): CallLine =>
  call(id, { atMs, outcome: "429 rate_limited", retry_after: "1", bucket: "k", ...more });

export const tellsWhenToRetry: Specimens = {
  good: [
    {
      name: "each header",
      lines: [
        limited("1", 0),
        call("2", { outcome: "429 tile_access_restricted", retry_after: "3600" }),
        call("3", { outcome: "429 b2b_overloaded", retry_after: "1" }),
      ],
    },
    {
      name: "refused again, but not alone",
      lines: [limited("1", 0), call("2", { atMs: 900, bucket: "k" }), limited("3", 1500)],
    },
    {
      name: "refused again, while one of unknown end was under way",
      lines: [lost("0", { bucket: "k", tookMs: 5 }), limited("1", 10), limited("2", 1500)],
    },
    { name: "refused again, come too soon", lines: [limited("1", 0), limited("2", 900)] },
    {
      name: "another token taken meanwhile",
      lines: inOrder(
        limited("1", 0),
        limited("2", 1500, { done_us: 1_520_000 }),
        call("3", { atMs: 1505, bucket: "k" }),
      ),
    },
    {
      name: "a date elsewhere, and no header on overload",
      facts: foreignStage(),
      lines: [
        limited("1", 0, { retry_after: "Wed, 21 Oct 2026 07:28:00 GMT" }),
        limited("4", 1, { retry_after: "Wednesday, 21-Oct-26 07:28:00 GMT" }),
        limited("5", 2, { retry_after: "Wed Oct 21 07:28:00 2026" }),
        call("2", { outcome: "429 b2b_overloaded" }),
      ],
    },
    {
      name: "refused again, beside others who may have taken the token",
      facts: sharedStage(),
      lines: [limited("1", 0), limited("2", 1500)],
    },
    {
      name: "refused again elsewhere, where the rate may be another key's as well",
      facts: foreignStage(),
      lines: [limited("1", 0), call("2", { atMs: 900, bucket: "other" }), limited("3", 1500)],
    },
  ],
  bad: [
    {
      name: "too early elsewhere, alone",
      facts: foreignStage(),
      lines: [limited("1", 0), limited("2", 1500)],
      says: /refused again/,
    },
    { name: "no header", lines: [call("1", { outcome: "429 rate_limited" })], says: /without Retry-After/ },
    { name: "zero", lines: [limited("1", 0, { retry_after: "0" })], says: /Retry-After 0/ },
    { name: "words", lines: [limited("1", 0, { retry_after: "soon" })], says: /neither seconds nor a date/ },
    { name: "half a second", lines: [limited("1", 0, { retry_after: "1.5" })], says: /neither seconds nor a date/ },
    {
      name: "no real day",
      lines: [limited("1", 0, { retry_after: "Sat, 31 Feb 2026 07:28:00 GMT" })],
      says: /nor a date/,
    },
    {
      name: "another time for tiles",
      lines: [call("1", { outcome: "429 tile_access_restricted", retry_after: "60" })],
      says: /not 3600/,
    },
    { name: "overload of ours without it", lines: [call("1", { outcome: "429 org_overloaded" })], says: /without/ },
    { name: "too early", lines: [limited("1", 0), limited("2", 1500)], says: /refused again/ },
  ],
  thin: [{ name: "nobody limited", lines: [call("1")], verdict: "inconclusive", says: /no refusal/ }],
};

const minted = (id: string, expires_in: unknown, product: unknown = "chat"): CallLine =>
  mint(id, "200", {}, { expires_in, product });

export const sessionLifetimeIsBounded: Specimens = {
  good: [
    {
      name: "from a second to half an hour",
      lines: [minted("1", 900), minted("2", 1800), minted("3", 0.5), lost("4", { route: "sdk.sessions" })],
    },
  ],
  bad: [
    { name: "an hour", lines: [minted("1", 3600)], says: /3600/ },
    { name: "over already", lines: [minted("1", 0)], says: /expires_in is 0/ },
    { name: "in words", lines: [minted("1", "900")], says: /not a number/ },
    { name: "another product", lines: [minted("1", 900, "tile")], says: /minted for "tile"/ },
  ],
  thin: [
    {
      name: "no mint with a lifetime",
      lines: [mint("1", "200"), ...many(3, (at) => call(`${at}`))],
      verdict: "inconclusive",
      says: /no minted session/,
    },
  ],
};

// Put together here, so that no text of this file looks like a credential itself.
const SECRET = ["svc", "sk", "live", "abcdefghijklmnop"].join("_");

export const secretsStaySecret: Specimens = {
  good: [
    {
      name: "masked",
      facts: { texts: [{ name: "api.log", text: `key ${SECRET.slice(0, 12)}...mnop was refused` }] },
      lines: [],
    },
  ],
  bad: [
    {
      name: "a key in a log",
      facts: { texts: [{ name: "api.log", text: `refused ${SECRET}` }] },
      lines: [],
      says: /api\.log/,
    },
  ],
  thin: [
    { name: "no texts", lines: [], verdict: "skipped", says: /texts/ },
    {
      name: "empty texts",
      facts: { texts: [{ name: "api.log", text: "" }] },
      lines: [],
      verdict: "inconclusive",
      says: /nothing was written/,
    },
  ],
};
