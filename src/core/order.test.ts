import { describe, expect, test } from "vitest";
import { type RouteName, routeOf } from "../contract/routes.ts";
import {
  type Ask,
  Call,
  type Deployment,
  type KeyRecord,
  type Organization,
  type Refuse,
  type TakeOutcome,
  UNAVAILABLE,
} from "./call.ts";
import { advance, HEALTHY_ORDERS } from "./order.ts";
import { fixedShedder } from "./shedding.ts";

const NOW_MS = 1_800_000_000_000;
const PUBLISHABLE = "svc_pk_live_0123456789abcdef";
const SERVER = "svc_sk_live_0123456789abcdef";
const TOKEN = "svc_sess_live_eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJrIn0.c2lnbmF0dXJl";
const APP = "https://app.example";
const EVIL = "https://evil.example";
const TAKEN: TakeOutcome = { verdict: "taken", used: 1, window: "2027-01" };
const QUOTA: TakeOutcome = { verdict: "over_cap", used: 10, window: "2027-01" };

/** What differs from a healthy mint of a `chat` session by a full Pro key from its own origin. */
type World = {
  route?: RouteName;
  credential?: string | null;
  origin?: string | null;
  address?: string;
  product?: "chat" | "editor" | "viewer" | "tile";
  key?: Partial<KeyRecord>;
  org?: Partial<Organization>;
  /** The product of the session token. */
  session?: "chat" | "editor" | "tile" | null;
  lookup?: null | typeof UNAVAILABLE;
  malformed?: true;
  taken?: TakeOutcome | typeof UNAVAILABLE;
  deployment?: Partial<Deployment>;
  caps?: { globalInFlight?: number; orgInFlight?: number };
};

const runtime = (more: World = {}): World => ({ route: "chat.control", credential: TOKEN, ...more });
const server = (more: World = {}): World => ({ route: "design.styles", credential: SERVER, origin: null, ...more });

const decide = (world: World): { answer: Refuse | null; asked: Ask[]; call: Call } => {
  const { credential = PUBLISHABLE, origin = APP, product = "chat", session = "chat" } = world;
  const key: KeyRecord = {
    id: "key_1",
    org_id: "org_1",
    kind: credential === SERVER ? "server" : "publishable",
    env: "live",
    name: "",
    scopes: ["ai", "design", "maps", "vendor"],
    products: [],
    allowed_origins: [APP],
    allowed_ips: [],
    vendor_acknowledged: true,
    status: "valid",
    created_at: 0,
    expires_at: null,
    last4: "cdef",
    ...world.key,
  };
  const org: Organization = {
    id: "org_1",
    tier: "Pro",
    map_load_allowance: 10,
    key_limit: 3,
    basemap_style_id: null,
    in_flight_cap: null,
    ...world.org,
  };
  const call = new Call(
    routeOf(world.route ?? "sdk.sessions"),
    { readCaller: () => ({ credential, origin, address: world.address ?? "10.0.0.1" }), nowMs: () => NOW_MS },
    { sessions: "enabled", rate: { perS: 50, burst: 100 }, designCap: null, ...world.deployment },
    fixedShedder({ globalInFlight: 1, orgInFlight: 1, ...world.caps }),
  );
  const asked: Ask[] = [];
  for (;;) {
    const next = advance(call, HEALTHY_ORDERS);
    if (next === null) return { answer: null, asked, call };
    if ("refuse" in next) return { answer: next, asked, call };
    asked.push(next);
    if (next.ask === "session") {
      call.session =
        session === null ? null : { keyId: "key_1", orgId: "org_1", product: session, expiresAtS: 1, id: "jti" };
    } else if (next.ask === "key" || next.ask === "key-by-id") {
      call.lookup = world.lookup === undefined ? { key, org } : world.lookup;
    } else if (next.ask === "body") {
      call.body = world.malformed
        ? { ok: false, errors: [{ loc: ["body"], msg: "x", type: "x" }] }
        : { ok: true, value: call.route.surface === "exchange" ? { product } : {} };
    } else call.taken = world.taken ?? TAKEN;
  }
};
const answerTo = (world: World): string => decide(world).answer?.refuse ?? "admitted";

type Row = [promise: string, world: World, answer: string];

describe("one thing wrong: session exchange", () => {
  test.each<Row>([
    ["a full Pro key from its own origin mints chat", {}, "admitted"],
    ["and editor", { product: "editor" }, "admitted"],
    ["and tile", { product: "tile" }, "admitted"],
    ["a full replica sheds", { caps: { globalInFlight: 0 } }, "b2b_overloaded"],
    ["no credential", { credential: null }, "unauthenticated"],
    ["a credential of no known shape", { credential: "sk-abcdefgh" }, "unauthenticated"],
    ["a key of 257 characters", { credential: `svc_pk_${"a".repeat(250)}` }, "unauthenticated"],
    ["a key service that does not answer", { lookup: UNAVAILABLE }, "key_service_unavailable"],
    ["an unknown key", { lookup: null }, "unauthenticated"],
    ["a revoked key", { key: { status: "revoked" } }, "unauthenticated"],
    ["a key whose record says expired", { key: { status: "expired" } }, "unauthenticated"],
    ["a key at the moment it expires", { key: { expires_at: NOW_MS } }, "unauthenticated"],
    ["a key a millisecond before it expires", { key: { expires_at: NOW_MS + 1 } }, "admitted"],
    ["sessions that are not configured", { deployment: { sessions: "not_configured" } }, "sessions_not_configured"],
    ["sessions that are disabled", { deployment: { sessions: "disabled" } }, "sessions_disabled"],
    ["a server key", { credential: SERVER, origin: null }, "publishable_key_required"],
    ["a server key from a browser (A4)", { credential: SERVER }, "publishable_key_required"],
    [
      "a server key from a foreign address (A4)",
      { credential: SERVER, origin: null, key: { allowed_ips: ["192.0.2.0/24"] } },
      "publishable_key_required",
    ],
    ["a valid session token (A4)", { credential: TOKEN }, "publishable_key_required"],
    ["an invalid session token (A4)", { credential: TOKEN, session: null }, "unauthenticated"],
    ["no origin", { origin: null }, "origin_required"],
    ["a foreign origin", { origin: EVIL }, "session_origin_mismatch"],
    ["the opaque origin (item 53)", { origin: "null" }, "session_origin_mismatch"],
    ["a malformed body", { malformed: true }, "malformed_body"],
    ["a key without the product's scope", { key: { scopes: ["maps"] } }, "insufficient_scope"],
    ["a key restricted to another product", { key: { products: ["tile"] } }, "product_not_allowed"],
    ["a viewer that the key does not name (A7)", { product: "viewer" }, "product_not_allowed"],
    ["a viewer that the key names (A7)", { product: "viewer", key: { products: ["viewer"] } }, "admitted"],
    ["a full Pro key on an organization gone Free", { org: { tier: "Free" } }, "tier_capability_not_allowed"],
    ["tile on an organization gone Free", { product: "tile", org: { tier: "Free" } }, "admitted"],
    ["an organization without a plan (item 158)", { org: { tier: null } }, "tier_capability_not_allowed"],
    ["an organization at its cap", { caps: { orgInFlight: 0 } }, "org_overloaded"],
    ["an organization with a cap of its own", { org: { in_flight_cap: 0 } }, "org_overloaded"],
    ["a limiter that does not answer", { taken: UNAVAILABLE }, "limiter_unavailable"],
    ["a key over its rate", { taken: { verdict: "rate_limited", wait_ms: 1 } }, "rate_limited"],
    [
      "tile over the allowance on Free",
      { product: "tile", org: { tier: "Free" }, taken: QUOTA },
      "map_load_quota_exceeded",
    ],
    ["tile over five times the allowance on Pro", { product: "tile", taken: QUOTA }, "map_load_hard_stop"],
  ])("%s", (_, world, answer) => {
    expect(answerTo(world)).toBe(answer);
  });
});

describe("one thing wrong: runtime", () => {
  test.each<Row>([
    ["a chat session talks", runtime(), "admitted"],
    ["a session without an origin (item 152)", runtime({ origin: null }), "admitted"],
    ["a server key from a server", server(), "admitted"],
    [
      "a publishable key with its own origin (A3)",
      runtime({ credential: PUBLISHABLE }),
      "publishable_requires_session",
    ],
    [
      "a publishable key without an origin (A3)",
      runtime({ credential: PUBLISHABLE, origin: null }),
      "publishable_requires_session",
    ],
    ["a server key from a browser", server({ origin: APP }), "server_key_in_browser"],
    ["a server key from the opaque origin (A6)", server({ origin: "null" }), "server_key_in_browser"],
    ["a server key from a foreign address", server({ key: { allowed_ips: ["192.0.2.0/24"] } }), "ip_not_allowed"],
    ["a server key from a listed block", server({ key: { allowed_ips: ["10.0.0.0/8"] } }), "admitted"],
    ["a session from a foreign origin", runtime({ origin: EVIL }), "session_origin_mismatch"],
    [
      "a tile call from a foreign origin (A12)",
      runtime({ route: "maps.tiles", session: "tile", origin: EVIL }),
      "tile_access_restricted",
    ],
    [
      "a map load from a foreign origin (A12)",
      runtime({ route: "maps.loads", session: "tile", origin: EVIL }),
      "tile_access_restricted",
    ],
    ["a session whose token is bad", runtime({ session: null }), "unauthenticated"],
    ["a session whose key was revoked (A14)", runtime({ key: { status: "revoked" } }), "unauthenticated"],
    ["a server key without the route's scope", server({ key: { scopes: ["ai"] } }), "insufficient_scope"],
    ["a tile session that wants to chat (A16)", runtime({ session: "tile" }), "insufficient_scope"],
    ["a session whose product the key lost", runtime({ key: { products: ["tile"] } }), "product_not_allowed"],
    ["a chat session after a downgrade (A14, A17)", runtime({ org: { tier: "Free" } }), "tier_capability_not_allowed"],
    [
      "a tile session after a downgrade",
      runtime({ route: "maps.tiles", session: "tile", org: { tier: "Free" } }),
      "admitted",
    ],
    ["a server key after a downgrade (A15)", server({ org: { tier: "Free" } }), "tier_capability_not_allowed"],
    [
      "a server key with a scope that Free admits (A15)",
      server({ route: "maps.tiles", org: { tier: "Free" } }),
      "tier_capability_not_allowed",
    ],
    ["an organization at its cap", runtime({ caps: { orgInFlight: 0 } }), "org_overloaded"],
    ["a malformed body", runtime({ malformed: true }), "malformed_body"],
    ["a limiter that does not answer", runtime({ taken: UNAVAILABLE }), "limiter_unavailable"],
    ["a key over its rate", runtime({ taken: { verdict: "rate_limited", wait_ms: 1 } }), "rate_limited"],
    [
      "a map load over the hard stop",
      runtime({ route: "maps.loads", session: "tile", taken: QUOTA }),
      "map_load_hard_stop",
    ],
    [
      "an analysis over its cap (item 122)",
      server({ route: "design.analyze", deployment: { designCap: 10 }, taken: QUOTA }),
      "rate_limited",
    ],
  ])("%s", (_, world, answer) => {
    expect(answerTo(world)).toBe(answer);
  });
});

describe("two things wrong: the earlier check decides (item 81; A1-A4)", () => {
  const exhausted = { product: "tile" as const, org: { tier: "Free" as const }, taken: QUOTA };
  test.each<Row>([
    ["wrong kind of key, no origin", { credential: SERVER, origin: null }, "publishable_key_required"],
    ["no origin, product not admitted", { origin: null, org: { tier: "Free" } }, "origin_required"],
    ["bad origin, quota exhausted", { ...exhausted, origin: EVIL }, "session_origin_mismatch"],
    ["scope missing, quota exhausted", { ...exhausted, key: { scopes: ["ai"] } }, "insufficient_scope"],
    ["product not listed, quota exhausted", { ...exhausted, key: { products: ["chat"] } }, "product_not_allowed"],
    ["tier does not admit, quota exhausted", { ...exhausted, product: "chat" }, "tier_capability_not_allowed"],
    ["overloaded, no credential", { caps: { globalInFlight: 0 }, credential: null }, "b2b_overloaded"],
    ["no credential, key service down", { credential: null, lookup: UNAVAILABLE }, "unauthenticated"],
    ["bad token, key service down", runtime({ session: null, lookup: UNAVAILABLE }), "unauthenticated"],
    [
      "revoked, sessions disabled",
      { key: { status: "revoked" }, deployment: { sessions: "disabled" } },
      "unauthenticated",
    ],
    [
      "sessions disabled, wrong kind",
      { deployment: { sessions: "disabled" }, credential: SERVER },
      "sessions_disabled",
    ],
    ["bad origin, malformed body", { origin: EVIL, malformed: true }, "session_origin_mismatch"],
    ["malformed body, product not admitted", { malformed: true, org: { tier: "Free" } }, "malformed_body"],
    ["product not admitted, organization full", { product: "viewer", caps: { orgInFlight: 0 } }, "product_not_allowed"],
    ["organization full, limiter down", { caps: { orgInFlight: 0 }, taken: UNAVAILABLE }, "org_overloaded"],
    ["browser, foreign address", server({ origin: APP, key: { allowed_ips: ["192.0.2.1"] } }), "server_key_in_browser"],
    ["foreign address, scope missing", server({ key: { allowed_ips: ["192.0.2.1"], scopes: [] } }), "ip_not_allowed"],
    ["foreign origin, scope missing", runtime({ origin: EVIL, key: { scopes: [] } }), "session_origin_mismatch"],
    [
      "scope missing, tier does not admit",
      runtime({ key: { scopes: [] }, org: { tier: "Free" } }),
      "insufficient_scope",
    ],
    [
      "tier does not admit, organization full",
      runtime({ org: { tier: "Free", in_flight_cap: 0 } }),
      "tier_capability_not_allowed",
    ],
    ["organization full, malformed body", runtime({ caps: { orgInFlight: 0 }, malformed: true }), "org_overloaded"],
    ["malformed body, limiter down", runtime({ malformed: true, taken: UNAVAILABLE }), "malformed_body"],
    ["both caps reached (item 221)", { caps: { globalInFlight: 0, orgInFlight: 0 } }, "b2b_overloaded"],
  ])("%s", (_, world, answer) => {
    expect(answerTo(world)).toBe(answer);
  });
});

describe("what is asked", () => {
  test("a mint asks for key, body and limiter, in this order", () => {
    expect(decide({}).asked.map(({ ask }) => ask)).toEqual(["key", "body", "take"]);
  });

  test("a session's call asks for the token, the key by its id, the body, the limiter", () => {
    expect(decide(runtime()).asked).toMatchObject([
      { ask: "session", token: TOKEN },
      { ask: "key-by-id", id: "key_1" },
      { ask: "body" },
      { ask: "take", meter: null },
    ]);
  });

  test.each<[string, World, object | null]>([
    [
      "a tile mint on Pro takes a map load up to five times the allowance (A8, A9)",
      { product: "tile" },
      { name: "map_loads", amount: 1, cap: 50 },
    ],
    [
      "a tile mint on Free up to the allowance",
      { product: "tile", org: { tier: "Free" } },
      { name: "map_loads", amount: 1, cap: 10 },
    ],
    ["another mint takes no meter (item 80)", {}, null],
    ["a map load is one", runtime({ route: "maps.loads", session: "tile" }), { name: "map_loads", amount: 1, cap: 50 }],
    ["a tile is free (A9)", runtime({ route: "maps.tiles", session: "tile" }), null],
    [
      "an analysis is counted without a cap (item 122)",
      server({ route: "design.analyze" }),
      { name: "design_analyses", amount: 1, cap: null },
    ],
  ])("%s", (_, world, meter) => {
    expect(decide(world).asked.at(-1)).toMatchObject({ ask: "take", rate: { perS: 50, burst: 100 }, meter });
  });

  test.each<[string, World]>([
    ["a shed call", { caps: { globalInFlight: 0 } }],
    ["a call without a credential", { credential: null }],
  ])("%s asks for nothing", (_, world) => {
    expect(decide(world).asked).toEqual([]);
  });
});

describe("what a refusal carries", () => {
  test("the quota refusal: meter, allowance, used", () => {
    const { answer } = decide({ product: "tile", org: { tier: "Free" }, taken: QUOTA });
    expect(answer?.quota).toEqual({ meter: "map_loads", limit: 10, used: 10 });
  });

  test("after a downgrade `used` may be above `limit`", () => {
    const taken: TakeOutcome = { verdict: "over_cap", used: 42, window: "2027-01" };
    expect(decide({ product: "tile", org: { tier: "Free" }, taken }).answer?.quota).toMatchObject({
      limit: 10,
      used: 42,
    });
  });

  test("the hard stop carries nothing (item 185)", () => {
    expect(decide({ product: "tile", taken: QUOTA }).answer).toEqual({ refuse: "map_load_hard_stop" });
  });

  test.each([
    [1, 1],
    [1_000, 1],
    [1_001, 2],
    [61_500, 62],
  ])("a rate refusal of %i ms says %i s, rounded up", (wait_ms, retryAfterS) => {
    expect(decide({ taken: { verdict: "rate_limited", wait_ms } }).answer?.retryAfterS).toBe(retryAfterS);
  });

  test("a malformed body says where", () => {
    expect(decide({ malformed: true }).answer?.errors).toEqual([{ loc: ["body"], msg: "x", type: "x" }]);
  });
});

describe("slots", () => {
  test("an admitted call holds both, and leaving twice gives each back once", () => {
    const { call } = decide({});
    expect([call.shedder.inFlight(), call.shedder.inFlightByOrganization()]).toEqual([1, { org_1: 1 }]);
    call.leave();
    call.leave();
    expect([call.shedder.inFlight(), call.shedder.inFlightByOrganization()]).toEqual([0, {}]);
  });

  test("a call refused before its organization was asked holds only the replica's", () => {
    const { call } = decide({ origin: null });
    expect([call.shedder.inFlight(), call.shedder.inFlightByOrganization()]).toEqual([1, {}]);
  });

  test("a shed call holds none", () => {
    const { call } = decide({ caps: { globalInFlight: 0 } });
    call.leave();
    expect(call.shedder.inFlight()).toBe(0);
  });
});

describe("a refusal asks for nothing that stands behind it", () => {
  const asksOf = (world: World): string[] => decide(world).asked.map(({ ask }) => ask);
  test.each<[promise: string, world: World, asks: string[]]>([
    ["a full replica asks nothing", { caps: { globalInFlight: 0 } }, []],
    ["a bad session does not look for its key", runtime({ session: null }), ["session"]],
    ["a foreign origin is not waited for with its body", { origin: EVIL }, ["key"]],
    ["a full organization sheds before the body", runtime({ caps: { orgInFlight: 0 } }), ["session", "key-by-id"]],
    ["a malformed body takes nothing from the limiter", { malformed: true }, ["key", "body"]],
    ["a full organization takes nothing from the limiter", { caps: { orgInFlight: 0 } }, ["key", "body"]],
  ])("%s", (_, world, asks) => {
    expect(asksOf(world)).toEqual(asks);
  });
});

describe("key management (B5)", () => {
  const MANAGER = { org_id: "org_1", role: "org_admin" };
  type Managed = { admin?: Call["admin"]; value?: unknown; malformed?: true; changed?: Call["changed"] };

  const manage = ({ admin = MANAGER, value = {}, malformed, changed }: Managed = {}) => {
    const head = { readCaller: () => ({ credential: "x", origin: null, address: "" }), nowMs: () => NOW_MS };
    const deployment: Deployment = { sessions: "enabled", rate: null, designCap: null };
    const caps = { globalInFlight: 0, orgInFlight: 0 };
    const call = new Call(routeOf("keys.update"), head, deployment, fixedShedder(caps));
    const asked: Ask["ask"][] = [];
    for (;;) {
      const next = advance(call, HEALTHY_ORDERS);
      if (next === null || "refuse" in next) return { answer: next, asked, call };
      asked.push(next.ask);
      if (next.ask === "admin") call.admin = admin;
      else if (next.ask === "body") call.body = malformed ? { ok: false, errors: [] } : { ok: true, value };
      else call.changed = changed;
    }
  };

  test("goes on when the replica sheds, and its organization is the admin's", () => {
    const { answer, asked, call } = manage({ changed: { key: {} as KeyRecord } });
    expect([answer, asked, call.organization]).toEqual([null, ["admin", "body", "change"], "org_1"]);
  });

  test.each<[string, Managed, string, asked: number]>([
    ["no admin", { admin: null, malformed: true }, "unauthenticated", 1],
    ["another role", { admin: { ...MANAGER, role: "member" }, malformed: true }, "forbidden", 1],
    ["a malformed body", { malformed: true }, "malformed_body", 2],
    ["an origin that never matches (item 52)", { value: { allowed_origins: ["x"] } }, "malformed_body", 2],
    ["a block that never matches (item 55)", { value: { allowed_ips: ["10.0.0.0/33"] } }, "malformed_body", 2],
    ["a key service that does not answer", { changed: UNAVAILABLE }, "key_service_unavailable", 3],
    ["what the key service refuses", { changed: { refuse: "not_found" } }, "not_found", 3],
  ])("%s", (_name, managed, refusal, asked) => {
    const decided = manage(managed);
    expect([decided.answer?.refuse, decided.asked.length]).toEqual([refusal, asked]);
  });

  test("at most eight faults of a list are named, by their place", () => {
    const { answer } = manage({ value: { allowed_origins: [APP, ...new Array<string>(12).fill("x")] } });
    expect(answer?.errors).toHaveLength(8);
    expect(answer?.errors?.[0]?.loc).toEqual(["body", "allowed_origins", 1]);
  });
});
