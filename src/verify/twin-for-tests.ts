/**
 * A second deployment of the same API for the tests of `verify`: written from the specification alone, sharing nothing with
 * the reference platform, so that the rules are not fitted to one implementation. It speaks every other reading of
 * spec-checklist.md part C (`variants`) and can be wrong in one way at a time (`defects`).
 */
import { createHmac, randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Target } from "../drivers/target.ts";
import {
  fieldRefusal,
  memberRefusal,
  productRead,
  routeReply,
  strictReply,
  stumbles,
} from "./twin-bodies-for-tests.ts";
import { bodyRead, recordOf } from "./twin-keys-for-tests.ts";

type Org = { id: string; tier: "Free" | "Pro" | null; limit: number; used: number; keyLimit: number; style?: string };
type Key = {
  id: string;
  secret: string;
  org: string;
  kind: "pk" | "sk";
  scopes: string[];
  products: string[];
  origins: string[];
  ipOk: boolean;
  state: "valid" | "revoked" | "expired";
};
type Reply = { status: number; body?: unknown; text?: string; headers?: Record<string, string> };

export type Twin = {
  target: Target;
  /** Keys that are neither revoked nor expired. */
  liveKeys(): number;
  /** Takes no connections for so long, as a deployment does while it is replaced. */
  restart(awayMs: number): Promise<void>;
  /** Answers 503 for so long, as if its key service were away. */
  loseTheKeys(forMs: number): void;
  /** Whether a month has begun since the start. */
  inNewMonth(): boolean;
  /** `X-Request-Id` of each call that came. */
  requestIds(): string[];
  close(): Promise<void>;
};
export type TwinOptions = { variants?: readonly string[]; defects?: readonly string[]; streamMs?: number };

const ORIGIN = "https://shop.example";
const OTHER_ORIGIN = "https://elsewhere.example";
const SCOPES = ["ai", "design", "maps"];
const SCOPE_OF: Record<string, string | null> = { chat: "ai", editor: "design", viewer: null, tile: "maps" };
const FREE_PRODUCTS = ["tile"];
const FREE_SCOPES = ["maps"];
const NEEDS: Record<string, string> = {
  "POST /chat/control/stream": "ai",
  "POST /chat/summary/stream": "ai",
  "POST /chat/button/stream": "ai",
  "POST /chat/control/route": "ai",
  "GET /retrieval/poi/enrich": "ai",
  "POST /design/analyze": "design",
  "POST /design/apply-direct": "design",
  "GET /design/styles": "design",
  "GET /design/samples": "design",
  "GET /design/themes": "design",
};

/** Bodies that are good but for one value, by the defect that stumbles over it. */
const STUMBLES: Readonly<Record<string, (text: string) => boolean>> = {
  "500-on-long-bodies": (text) => text.length > 1 << 20,
  "500-on-long-texts": (text) => text.length > 20_000 && text.length < 1 << 20,
  "500-on-great-numbers": (text) => /: (1e400|9{20})/.test(text),
  "500-on-bad-utf8": (text) => text.includes("\ufffd"),
  "500-on-half-pairs": (text) => text.includes("\\ud800"),
  "500-on-null-characters": (text) => text.includes("\\u0000"),
  "500-on-proto": (text) => text.includes('"__proto__"'),
};

const b64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");

export const startTwin = async ({ variants = [], defects = [], streamMs = 40 }: TwinOptions = {}): Promise<Twin> => {
  const is = (name: string): boolean => variants.includes(name);
  const has = (name: string): boolean => defects.includes(name);
  const names = { is, has };
  const secret = randomBytes(16).toString("hex");
  const orgs = new Map<string, Org>();
  const keys = new Map<string, Key>();
  const admins = new Map<string, string>();
  const loads = new Set<string>();
  const inFlight = new Map<string, number>();
  const buckets = new Map<string, { tokens: number; atMs: number }>();
  const leewayMs = is("clock-leeway") ? 3_000 : 0;
  let total = 0;
  let shedForEver = false;
  let streams = 0;
  let lost = 0;
  let calls = 0;
  const requestIds: string[] = [];
  const reusable = new Map<string, string>();
  const mintedAtMs = new Map<string, number>();
  const sinceFirst = new Map<string, number>();
  let ids = 0;
  let monthHasTurned = false;
  let awayUntilMs = 0;
  let withoutKeysUntilMs = 0;

  const org = (id: string, tier: Org["tier"], more: Partial<Org> = {}): string => {
    orgs.set(id, { id, tier, limit: 1000, used: 0, keyLimit: 10, ...more });
    return id;
  };
  /** `aZ` for keys that are too short a draw of both cases. */
  const letters = (): string =>
    is("hex-keys") ? randomBytes(12).toString("hex") : `${randomBytes(15).toString("base64").replace(/[+/=]/g, "x")}aZ`;
  const addKey = (of: string, kind: Key["kind"], more: Partial<Key> = {}): Key => {
    const key: Key = {
      id: `k${ids++}`,
      secret: `svc_${kind}_${is("no-env-in-keys") ? "" : "live_"}${letters()}`,
      org: of,
      kind,
      scopes: SCOPES,
      products: [],
      origins: [ORIGIN],
      ipOk: true,
      state: "valid",
      ...more,
    };
    keys.set(key.id, key);
    return key;
  };
  const acknowledged = new Set<string>();
  const remembered = new Map<string, Key>();
  const arrivesAt = new Map<Key, number>();
  const isSecretOf = (key: Key, text: string): boolean =>
    key.secret === text ||
    ((has("forgets-the-case") || is("hex-keys")) &&
      key.secret === key.secret.slice(0, 7) + text.slice(7).toLowerCase()) ||
    (has("forgets-the-case") && key.secret.toLowerCase() === text.toLowerCase()) ||
    (has("strips-keys") && key.secret === text.replace(/\W/g, ""));
  const lingering = new Set<string>();
  /** Calls go to two replicas in turn, of which one never hears of a deletion. */
  const isOnOtherReplica = (key: Key): boolean => lingering.has(key.id) && turns++ % 2 === 1;
  let turns = 0;
  const byS = (text: string): Key | undefined =>
    [...keys.values()].find((key) => isSecretOf(key, text) && (arrivesAt.get(key) ?? 0) <= performance.now());

  // ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  const extra = is("extra-fields") ? { request_id: "r-1", doc: "https://docs.example" } : {};
  const detail = (status: number, code: string, headers: Record<string, string> = {}): Reply => ({
    status,
    headers,
    body: has("flattens-the-detail") ? { error: code } : { detail: code, ...extra },
  });
  const flat = (code: string, fields: object = {}, headers: Record<string, string> = {}): Reply => ({
    status: 429,
    headers,
    body: has("wraps-the-flat-body")
      ? { detail: { error: code, ...fields } }
      : has("both-envelopes")
        ? { detail: code, error: code, ...fields }
        : { error: code, ...fields, ...extra },
  });
  const unauthenticated = (): Reply => {
    if (has("detail-on-401")) return { status: 401, body: { detail: "Not authenticated" } };
    if (has("403-for-nobody")) return detail(403, "forbidden");
    if (is("empty-401")) return { status: 401 };
    if (is("message-401")) return { status: 401, body: { message: "no", error: "unauthorized" } };
    return { status: 401, body: {} };
  };
  const malformed = (): Reply => {
    if (has("500-on-malformed")) return { status: 500, text: "Internal Server Error" };
    if (has("400-on-malformed")) return detail(400, "bad_request");
    return is("fastapi-422")
      ? { status: 422, body: { detail: [{ loc: ["body"], msg: "field required", type: "missing" }] } }
      : detail(422, "malformed_body");
  };

  // ── credentials ─────────────────────────────────────────────────────────────────────────────────────────────────────

  const sign = (text: string): string => createHmac("sha256", secret).update(text).digest("base64url");
  const mintToken = (key: Key, product: string): string => {
    const nowS = Date.now() / 1000;
    const lifeS = has("mints-for-an-hour") ? 3600 : is("short-sessions") ? 3 : 900;
    const claims = is("opaque-token") ? { h: randomBytes(8).toString("hex") } : { exp: nowS + lifeS };
    const body = `${b64({ alg: "HS256", typ: "JWT" })}.${b64({ ...claims, k: key.id, p: product, n: ids++ })}`;
    return `svc_sess_live_${body}.${sign(body)}`;
  };
  let editorReads = 0;
  const readToken = (token: string): { key: Key; product: string } | null => {
    const [head = "", payload = "", signature = ""] = token.replace(/^svc_sess_[^_]*_/, "").split(".");
    try {
      const { alg } = JSON.parse(Buffer.from(head, "base64url").toString()) as { alg: string };
      const good =
        signature === sign(`${head}.${payload}`) ||
        has("any-signature") ||
        (has("alg-none") && alg === "none") ||
        (has("looks-at-the-first-characters") && sign(`${head}.${payload}`).startsWith(signature.slice(0, 8))) ||
        (has("takes-half-a-signature") && sign(`${head}.${payload}`).startsWith(signature || "-"));
      const { k, p, exp } = JSON.parse(Buffer.from(payload, "base64url").toString()) as {
        k: string;
        p: string;
        exp?: number;
      };
      if (has("ends-sessions-early") && p === "editor" && editorReads++ >= 3) return null;
      if (exp !== undefined && exp * 1000 < Date.now() - leewayMs && !has("never-ends-sessions")) return null;
      const key = keys.get(k);
      return good && key !== undefined ? { key, product: p } : null;
    } catch {
      return null;
    }
  };
  /** Ours, and over. */
  const endedAt = (token: string): boolean => {
    const [head = "", payload = "", signature = ""] = token.replace(/^svc_sess_[^_]*_/, "").split(".");
    return token.startsWith("svc_sess_") && signature === sign(`${head}.${payload}`);
  };
  let latest: string | null = null;
  const credentialIn = (req: IncomingMessage): string | null =>
    has("mixes-up-callers") ? latest : ownCredentialIn(req);
  const ownCredentialIn = (req: IncomingMessage): string | null => {
    const bearer = /^Bearer\s+(\S+)$/i.exec(String(req.headers.authorization ?? ""))?.[1];
    const api = has("ignores-x-api-key") ? undefined : (req.headers["x-api-key"] as string | undefined);
    return bearer ?? api ?? null;
  };
  const isListed = (key: Key, origin: string): boolean =>
    key.origins.some((listed) =>
      has("matches-by-prefix")
        ? origin.startsWith(listed)
        : has("matches-a-part")
          ? listed.startsWith(origin)
          : has("takes-dots-for-anything")
            ? new RegExp(`^${listed}$`).test(origin)
            : has("matches-by-suffix")
              ? origin.endsWith(new URL(listed).hostname)
              : origin === listed,
    );

  // ── limits ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  const RATE_PER_S = is("strict-rate") ? 8 : 60;
  const BURST = is("strict-rate") ? 4 : 90;
  const rateLimited = (key: Key): boolean => {
    if (is("no-rate-limit")) return false;
    const nowMs = performance.now();
    const bucket = buckets.get(key.id) ?? { tokens: BURST, atMs: nowMs };
    bucket.tokens = Math.min(BURST, bucket.tokens + ((nowMs - bucket.atMs) / 1000) * RATE_PER_S);
    bucket.atMs = nowMs;
    buckets.set(key.id, bucket);
    if (bucket.tokens < 1) return true;
    bucket.tokens -= 1;
    return false;
  };
  const limited = (): Reply => {
    const headers: Record<string, string> = has("hides-retry-after") ? {} : { "Retry-After": "1" };
    if (has("limits-with-503")) return { status: 503, body: {}, headers };
    if (has("limits-as-unavailable")) return detail(429, "limiter_unavailable", headers);
    if (is("retry-after-date")) headers["Retry-After"] = new Date(Date.now() + 1000).toUTCString();
    if (has("tells-a-date-that-has-passed")) headers["Retry-After"] = new Date(0).toUTCString();
    return is("flat-limiter") ? { ...flat("rate_limited"), headers } : detail(429, "rate_limited", headers);
  };
  const ORG_CAP = 12;
  const GLOBAL_CAP = 40;

  // ── map loads ───────────────────────────────────────────────────────────────────────────────────────────────────────

  const quotaBody = (of: Org): object => ({
    meter: has("wrong-meter") ? "tiles" : "map_loads",
    limit: of.limit,
    used: has("used-as-text") ? String(of.used) : of.used,
  });
  const capOf = (of: Org): number => {
    if (of.tier === "Free" || is("stops-paid-at-allowance") || has("no-band-at-all")) return of.limit;
    if (has("stops-hard-at-twice")) return of.limit * 2;
    if (has("stops-hard-at-four-times")) return of.limit * 4;
    if (has("stops-at-the-soft-band")) return of.limit;
    return of.limit * 5 + (is("over-means-over") ? 1 : 0);
  };
  let charged: Org | undefined;
  /** `null`: let in and charged. */
  const charge = async (from: Org, id: string): Promise<Reply | null> => {
    let of = from;
    if (has("charges-whoever-comes-last")) {
      charged = from;
      await new Promise((resolve) => setTimeout(resolve, 3));
      of = charged;
    }
    if (has("one-stop-for-all") && of.id === "acme") return flat("map_load_quota_exceeded", quotaBody(of));
    // One count for each of two replicas.
    const replicas = has("counts-by-replica") ? 2 : 1;
    const cap = replicas * capOf(of) + (has("admits-one-too-many") ? 1 : 0) - (has("stops-one-early") ? 1 : 0);
    if (has("loses-counts") && of.used < cap) {
      const read = of.used;
      await new Promise((resolve) => setTimeout(resolve, 15));
      of.used = read + 1;
      return null;
    }
    const endless = (has("never-hard-stops") && of.tier === "Pro") || has("never-counts");
    if (of.used < cap || endless) {
      if (has("checks-then-charges")) await new Promise((resolve) => setTimeout(resolve, 15));
      if (is("mints-are-free") || has("counts-nothing")) return null;
      if (!(has("trusts-the-client-id") && loads.has(id))) of.used += 1;
      loads.add(id);
      return null;
    }
    if (has("charges-the-refused")) of.used += 1;
    if (is("new-month-after-a-stop") && !monthHasTurned) {
      monthHasTurned = true;
      // What this call is answered is still the old month's.
      setImmediate(() => {
        for (const each of orgs.values()) each.used = 0;
      });
    }
    const quota = is("stops-paid-at-allowance") || has("no-band-at-all") || has("quota-code-at-hard-stop");
    if (of.tier === "Free" || quota) {
      return has("quota-as-403")
        ? detail(403, "map_load_quota_exceeded")
        : flat("map_load_quota_exceeded", quotaBody(of));
    }
    return has("flat-hard-stop") ? flat("map_load_hard_stop") : detail(429, "map_load_hard_stop");
  };

  // ── the exchange ────────────────────────────────────────────────────────────────────────────────────────────────────

  type Check = () => Reply | null | Promise<Reply | null>;
  const exchange = async (req: IncomingMessage, text: string): Promise<Reply> => {
    const credential = credentialIn(req);
    const origin = req.headers.origin;
    let body: { product?: unknown } = {};
    let broken = false;
    try {
      body = JSON.parse(text) as typeof body;
    } catch {
      broken = true;
    }
    if (has("500-on-null") && text === "null") return { status: 500, text: "Internal Server Error" };
    if (has("500-on-depth") && text.includes("[".repeat(999))) return { status: 500, text: "Internal Server Error" };
    if (has("500-on-long-heads") && String(origin).length > 4096) return { status: 500, text: "Internal Server Error" };
    const known = typeof body === "object" && body !== null && !Array.isArray(body);
    const product = known ? productRead(body.product, names) : undefined;
    const isProduct = typeof product === "string" && product in SCOPE_OF;
    if (is("sessions-disabled")) return detail(403, "sessions_disabled");
    if (credential === null && is("anonymous-viewer") && product === "viewer") {
      return {
        status: 200,
        body: { session_token: `svc_sess_live_${b64({})}.${b64({})}.x`, expires_in: 900, product },
      };
    }
    if (credential === null) return unauthenticated();
    if (is("prefix-first") && !/^svc_pk_/.test(credential) && /^svc_/.test(credential))
      return detail(403, "publishable_key_required");
    const session = credential.startsWith("svc_sess_") ? readToken(credential) : null;
    const key = session?.key ?? byS(credential);
    if (key === undefined) return unauthenticated();
    const late = is("ends-arrive-late") && (sinceFirst.get(key.id) ?? performance.now()) > performance.now() - 900;
    if (!sinceFirst.has(key.id)) sinceFirst.set(key.id, performance.now());
    if (key.state !== "valid" && !late && !isOnOtherReplica(key) && !has(`serves-${key.state}`))
      return unauthenticated();
    const of = orgs.get(key.org) as Org;
    const kind: Check = () => {
      if (key.kind === "pk" && session === null) return null;
      if (has("exchanges-server-keys")) return null;
      if (has("renews-sessions") && session !== null) return null;
      if (is("browser-first") && key.kind === "sk" && origin !== undefined) return detail(403, "server_key_in_browser");
      return has("wrong-kind-is-401") ? unauthenticated() : detail(403, "publishable_key_required");
    };
    const from: Check = () => {
      const missing = origin === undefined || (is("null-is-missing") && origin === "null");
      const named = has("takes-the-referer") && req.headers.referer !== undefined;
      if (origin === "" && has("takes-an-empty-origin")) return null;
      if (has("takes-its-own-origin") && origin === `http://${req.headers.host}`) return null;
      if (missing) return has("no-origin-is-fine") || named ? null : detail(403, "origin_required");
      if (isListed(key, origin) || has("any-origin") || (has("takes-null-origin") && origin === "null")) return null;
      if (has("invents-a-subcode")) return detail(403, "origin_mismatch");
      return detail(403, is("legacy-origin-name") ? "origin_not_allowed" : "session_origin_mismatch");
    };
    const shape: Check = () => {
      if (!broken && isProduct) return memberRefusal(body, names);
      return has("mints-anything") && !broken ? null : malformed();
    };
    const may: Check = () => {
      if (!isProduct) return null;
      const needed = SCOPE_OF[product] as string | null;
      if (needed !== null && !key.scopes.includes(needed) && !has("mints-without-scope")) {
        return detail(403, has("product-for-scope") ? "product_not_allowed" : "insufficient_scope");
      }
      if (has("refuses-chat-of-others") && of.id === "bolt" && product === "chat")
        return detail(403, "product_not_allowed");
      const free = of.tier !== "Pro" && !FREE_PRODUCTS.includes(product);
      if (free && is("tier-first")) return detail(403, "tier_capability_not_allowed");
      const restricted =
        key.products.length > 0 ? !key.products.includes(product) : product === "viewer" && !is("viewer-mints");
      if (restricted && !has("mints-any-product"))
        return detail(403, has("scope-for-product") ? "insufficient_scope" : "product_not_allowed");
      if (!free || has("remembers-the-old-tier")) return null;
      return detail(403, has("scope-for-tier") ? "insufficient_scope" : "tier_capability_not_allowed");
    };
    const reused =
      is("reuses-sessions") || has("reuses-with-a-full-life") ? reusable.get(`${key.id} ${product}`) : undefined;
    const rate: Check = () => (rateLimited(key) ? limited() : null);
    const meter: Check = () =>
      (product === "tile" && reused === undefined) || has("charges-every-mint")
        ? charge(of, String(req.headers["x-request-id"]))
        : null;
    const order: Check[] = has("origin-before-kind")
      ? [from, kind, shape, may, rate, meter]
      : has("product-before-origin")
        ? [kind, shape, may, from, rate, meter]
        : has("quota-before-origin")
          ? [kind, meter, from, shape, may, rate]
          : is("body-first")
            ? [shape, kind, from, may, rate, meter]
            : [kind, from, shape, may, rate, meter];
    for (const check of order) {
      const refusal = await check();
      if (refusal !== null) return refusal;
    }
    const token = reused ?? mintToken(key, String(product));
    if (reused === undefined) mintedAtMs.set(token, Date.now());
    const passedS = has("reuses-with-a-full-life")
      ? 0
      : Math.ceil((Date.now() - (mintedAtMs.get(token) as number)) / 1000);
    // What came at the same moment does not know of each other.
    setTimeout(() => reusable.set(`${key.id} ${product}`, token), 5);
    const silent = has("forgets-the-style") || (has("tells-the-style-to-chat-alone") && product !== "chat");
    const standard = has("has-a-style-for-everybody") ? "svc-morning" : undefined;
    const style = silent || is("older-revision") ? undefined : has("tells-another-style") ? "svc-morning" : of.style;
    const styleName = has("renames-the-style") ? "basemapStyleId" : "basemap_style_id";
    return {
      status: is("201-on-mint") ? 201 : 200,
      body: {
        session_token: has("token-without-env") ? token.replace("live_", "") : token,
        expires_in: has("expires-in-text")
          ? "900"
          : has("expires-in-an-hour")
            ? 3600
            : is("float-expiry")
              ? 899.5
              : is("short-sessions")
                ? 3
                : 900 - passedS,
        product: has("echoes-chat") ? "chat" : product,
        ...(style === undefined ? (has("null-style") ? { basemap_style_id: null } : {}) : { [styleName]: style }),
        ...(of.style === undefined && standard !== undefined ? { basemap_style_id: standard } : {}),
        ...extra,
      },
    };
  };

  // ── runtime ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  const admitRuntime = (req: IncomingMessage, route: string, tile: boolean): Reply | { key: Key } => {
    const credential = credentialIn(req);
    const origin = req.headers.origin;
    if (credential === null && has("open-catalogs") && route === "GET /design/themes")
      return { key: [...keys.values()][0] as Key };
    if (credential === null) return unauthenticated();
    if (is("prefix-first") && credential.startsWith("svc_pk_")) return detail(401, "publishable_requires_session");
    const session = credential.startsWith("svc_sess_") ? readToken(credential) : null;
    const key = session?.key ?? remembered.get(credential) ?? byS(credential);
    if (has("remembers-server-keys") && key?.kind === "sk" && key.state === "valid")
      remembered.set(credential, { ...key });
    if (key === undefined && is("ended-session-detail") && endedAt(credential))
      return { status: 401, body: { detail: "session_expired" } };
    if (key === undefined) return has("503-for-unknown") ? { status: 503, body: {} } : unauthenticated();
    const frozen = session !== null && is("frozen-tokens");
    if (key.state !== "valid" && !frozen && !isOnOtherReplica(key) && !has(`serves-${key.state}`))
      return unauthenticated();
    if (session === null && key.kind === "pk") {
      if (has("serves-publishable-keys")) return { key };
      if (is("origin-required-at-runtime") && origin === undefined) return detail(403, "origin_required");
      return detail(has("publishable-as-403") ? 403 : 401, "publishable_requires_session");
    }
    if (session === null && origin !== undefined && !has("server-key-in-any-browser")) {
      const cors = has("cors-for-server-keys") ? { "Access-Control-Allow-Origin": "*" } : {};
      return detail(403, "server_key_in_browser", cors);
    }
    if (!key.ipOk && !has("any-address")) return detail(403, "ip_not_allowed");
    const needsOrigin = is("sessions-need-origin") || has("takes-null-for-enough");
    if (session !== null && origin === undefined && needsOrigin) return detail(403, "origin_required");
    if (session !== null && origin === "null" && (is("null-counts-as-none") || has("takes-null-for-enough")))
      return { key };
    if (session !== null && origin !== undefined && !isListed(key, origin) && !has("session-from-anywhere")) {
      if (!tile || is("tile-as-403"))
        return detail(403, is("legacy-origin-name") ? "origin_not_allowed" : "session_origin_mismatch");
      const restricted = flat(
        "tile_access_restricted",
        {},
        has("tile-without-retry-after") ? {} : { "Retry-After": "3600" },
      );
      return has("restricts-tiles-with-403") ? { ...restricted, status: 403 } : restricted;
    }
    const needed = tile ? "maps" : (NEEDS[route] as string);
    const of = orgs.get(key.org) as Org;
    const unscoped = has("forgets-a-scope") && route === "GET /design/samples";
    if (!key.scopes.includes(needed) && !unscoped) {
      return detail(403, has("tier-for-scope") ? "tier_capability_not_allowed" : "insufficient_scope");
    }
    if (session !== null && !is("sessions-are-wide") && SCOPE_OF[session.product] !== needed) {
      return detail(403, is("product-for-session") ? "product_not_allowed" : "insufficient_scope");
    }
    const lax = is("server-keys-on-free") && key.kind === "sk";
    if (of.tier !== "Pro" && !lax && !frozen && (key.kind === "sk" || !FREE_SCOPES.includes(needed))) {
      return detail(403, "tier_capability_not_allowed");
    }
    return { key };
  };

  const stream = (res: ServerResponse, route: string, done: () => void): void => {
    const own = route.split("/")[2] as "control" | "summary" | "button";
    const asControl = has("speaks-control-everywhere") || (has("summary-speaks-control") && own === "summary");
    const kind = asControl ? "control" : own;
    const NL = is("crlf") ? "\r\n" : "\n";
    const name = { control: "token", summary: "summary_delta", button: "chunk" }[kind];
    const last = { control: "done", summary: "summary_done", button: "end" }[kind];
    const field = { control: "text", summary: "delta", button: "content" }[kind];
    const frame = (event: string, data: unknown): string =>
      has("nameless-events")
        ? `data: ${JSON.stringify(data)}${NL}${NL}`
        : `event: ${event}${NL}data: ${JSON.stringify(data)}${NL}${NL}`;
    const frames = Array.from({ length: 6 }, (_, i) => frame(name, { type: name, [field]: `w\u00e9${i} ` }));
    if (own === "control") frames.splice(3, 0, frame("quota", { limit: 10, used: 1, remaining: 9 }));
    if (is("extra-events"))
      frames.splice(
        1,
        0,
        `: ping${NL}${NL}`,
        `event: nothing${NL}${NL}`,
        frame("heartbeat", { n: 1 }),
        frame("citation", { url: "x" }),
      );
    if (has("ends-with-done-text")) frames.push(`data: [DONE]${NL}${NL}`);
    else if (has("error-events")) {
      frames.push(
        frame(
          "error",
          has("error-without-partial-text")
            ? { type: "error", message: "m", code: "c" }
            : { type: "error", message: "m", code: "c", partial_text: "w0" },
        ),
      );
      if (has("talks-after-error")) frames.push(frame(name, { type: name, [field]: "more" }));
    } else frames.push(frame(last, { type: last }));
    const type = has("stream-as-text")
      ? "text/plain"
      : is("charset")
        ? "text/event-stream; charset=utf-8"
        : "text/event-stream";
    res.writeHead(200, { "Content-Type": type });
    res.flushHeaders();
    let i = 0;
    const cut = streams++ % 3 === 0;
    let over = false;
    const finish = (): void => {
      if (over) return;
      over = true;
      clearInterval(timer);
      done();
    };
    const send = (piece: string): void => {
      if (has("streams-latin1")) res.write(Buffer.from(piece, "latin1"));
      else if (is("splits-letters")) for (const byte of Buffer.from(piece)) res.write(Uint8Array.of(byte));
      else res.write(piece);
    };
    const everyMs = streamMs / frames.length;
    const pieces = is("tiny-chunks") ? frames.flatMap((text) => text.match(/[\s\S]{1,7}/g) ?? []) : frames;
    const perTick = Math.ceil(pieces.length / frames.length);
    const timer = setInterval(() => {
      if (has("buffers") && i * 1.0 < pieces.length - perTick) {
        i += perTick;
        return;
      }
      const text = has("buffers") ? pieces.join("") : pieces.slice(i, i + perTick).join("");
      i += perTick;
      if (is("tiny-chunks")) for (const piece of text.match(/[\s\S]{1,7}/g) ?? []) send(piece);
      else send(text);
      if ((has("cuts-streams") || (is("cuts-a-stream-now-and-then") && cut)) && i > pieces.length / 2) {
        finish();
        res.destroy();
        return;
      }
      if (i < pieces.length) return;
      finish();
      if (is("cuts-after-the-last-event")) {
        setTimeout(() => res.destroy(), 20);
        return;
      }
      res.end();
    }, everyMs);
    res.on("close", () => {
      if (has("keeps-the-slot-of-a-gone-client") && !over) {
        over = true;
        clearInterval(timer);
        return;
      }
      finish();
    });
  };

  const runtime = (
    req: IncomingMessage,
    res: ServerResponse,
    route: string,
    text: string,
    tile: boolean,
    done: () => void,
  ): Reply | null => {
    const admitted = admitRuntime(req, route, tile);
    if (!("key" in admitted)) {
      const swallow = is("route-swallows") && route === "POST /chat/control/route";
      return swallow ? { status: 200, body: { error: "refused" } } : admitted;
    }
    const { key } = admitted;
    const others = inFlight.get(key.org) ?? 0;
    if (shedForEver) return flat("org_overloaded", {}, { "Retry-After": "1" });
    if (has("drops-over-the-cap") && others >= ORG_CAP) {
      res.destroy();
      return null;
    }
    if (others >= (has("forgets-the-cap") ? 1_000 : has("sheds-at-a-quarter") ? ORG_CAP / 4 : ORG_CAP)) {
      shedForEver = has("never-recovers");
      if (has("sheds-with-503")) return { status: 503, body: { detail: "overloaded" } };
      if (has("swaps-the-two-overloads")) return flat("b2b_overloaded", {}, { "Retry-After": "1" });
      if (has("sheds-with-detail")) return detail(429, "org_overloaded");
      return flat("org_overloaded", {}, { "Retry-After": "1" });
    }
    let body: Record<string, unknown> = {};
    if (req.method === "POST") {
      try {
        body = JSON.parse(text) as typeof body;
        if (typeof body !== "object" || body === null) return malformed();
      } catch {
        return has("500-on-broken-json") ? { status: 500, body: { detail: "Internal Server Error" } } : malformed();
      }
    }
    if (route === "POST /chat/control/stream" && !Array.isArray(body.messages)) {
      if (has("streams-malformed")) {
        stream(res, route, done);
        return null;
      }
      return malformed();
    }
    const refused = fieldRefusal(route, req.url ?? "", body, names);
    if (refused !== null) return refused;
    if (rateLimited(key)) {
      if (has("keeps-the-slot-of-the-limited")) inFlight.set(key.org, others + 1);
      return limited();
    }
    if (route.endsWith("/stream")) {
      inFlight.set(key.org, others + 1);
      total += 1;
      stream(res, route, () => {
        inFlight.set(key.org, (inFlight.get(key.org) ?? 1) - 1);
        total -= 1;
        done();
      });
      return null;
    }
    if (route === "POST /chat/control/route") return routeReply(body, names);
    if (route === "POST /design/analyze" && has("analyzes-later")) return { status: 202 };
    if (route === "POST /design/analyze" && has("demands-a-prompt") && !("prompt" in body)) return malformed();
    // Readings in which what is loaded under a session counts (A8, A9).
    if (tile && (is("mints-are-free") || is("stops-paid-at-allowance"))) (orgs.get(key.org) as Org).used += 1;
    if (has("catalog-as-text") && route === "GET /design/styles") return { status: 200, text: "svc-morning" };
    return { status: 200, body: { items: [{ id: "svc-morning", name: "Morning" }], ...extra } };
  };

  // ── key management ──────────────────────────────────────────────────────────────────────────────────────────────────

  const manage = (req: IncomingMessage, method: string, id: string | undefined, text: string): Reply => {
    const credential = credentialIn(req) ?? "";
    const byHead = has("x-api-key-manages") && req.headers["x-api-key"] === credential;
    const claimed = has("any-admin-token") ? /^[^.]+\.([^.]+)\./.exec(credential)?.[1] : undefined;
    const adminOf =
      admins.get(credential) ??
      (has("platform-key-manages") || byHead ? byS(credential)?.org : undefined) ??
      (has("session-manages") ? readToken(credential)?.key.org : undefined) ??
      (has("anybody-deletes") && method === "DELETE" ? keys.get(id ?? "")?.org : undefined) ??
      (claimed === undefined ? undefined : (JSON.parse(Buffer.from(claimed, "base64url").toString()).org as string));
    if (adminOf === undefined)
      return is("detail-on-management-401") ? { status: 401, body: { detail: "not an admin" } } : unauthenticated();
    const of = orgs.get(adminOf) as Org;
    let body: Partial<{
      kind: string;
      env: string;
      scopes: string[];
      products: string[];
      allowed_origins: string[];
      allowed_ips: string[];
      acknowledge_vendor: boolean;
    }> = {};
    try {
      if (text !== "") body = JSON.parse(text) as typeof body;
    } catch {
      if (has("500-on-broken-key-bodies")) return { status: 500, body: {} };
      if (!has("makes-keys-of-nothing")) return malformed();
      body = { kind: "publishable", allowed_origins: [ORIGIN] };
    }
    body = bodyRead(body, names) as typeof body;
    const known = ["kind", "env", "name", "scopes", "products", "allowed_origins", "acknowledge_vendor"];
    if (is("strict-key-bodies") && Object.keys(body).some((name) => !known.includes(name))) return malformed();
    if (is("live-keys-alone") && body.env !== undefined && body.env !== "live") return malformed();
    const key = id === undefined ? undefined : keys.get(id);
    if (id !== undefined && key === undefined && has("500-on-unknown-keys")) return { status: 500, body: {} };
    if (id !== undefined && key === undefined && is("forgives-deletions") && method === "DELETE")
      return { status: 204 };
    if (id !== undefined && (key === undefined || (key.org !== of.id && !has("any-admin-will-do")))) {
      if (has("refuses-and-does") && key !== undefined) key.products = ["tile"];
      return detail(404, "Not Found");
    }
    if (method === "DELETE") {
      if (has("500-on-the-second-deletion") && key?.state === "revoked") return { status: 500, body: {} };
      const lives = has("delete-does-nothing") || (has("server-keys-live-on") && key?.kind === "sk");
      if (!lives) (key as Key).state = "revoked";
      if (has("one-replica-remembers")) lingering.add((key as Key).id);
      return { status: 204 };
    }
    if (of.tier === null && has("404-without-plan")) return detail(404, "not_found");
    if (of.tier === null && !has("no-plan-needed")) return detail(403, "plan_required");
    const live = [...keys.values()].filter((one) => one.org === of.id && one.state === "valid").length;
    const full = key === undefined && live >= of.keyLimit && !has("no-key-limit");
    const noRoom = detail(has("key-limit-as-403") ? 403 : 409, "key_limit_reached");
    if (full && is("no-keys-left")) return noRoom;
    if (is("servers-are-secret") && body.kind === "server") return malformed();
    const scopes = body.scopes ?? key?.scopes ?? [];
    const products = body.products ?? key?.products ?? [];
    const alien =
      [...scopes].some((scope) => ![...SCOPES, "vendor"].includes(scope)) || products.some((p) => !(p in SCOPE_OF));
    if (has("tier-before-names") && alien) return detail(403, "tier_capability_not_allowed");
    if (scopes.some((scope) => ![...SCOPES, "vendor"].includes(scope)) && !has("any-scope"))
      return detail(422, has("422-for-scope") ? "malformed_body" : "unknown_scope");
    if (products.some((product) => !(product in SCOPE_OF)) && !has("any-product-name"))
      return detail(422, "unknown_product");
    const origins = body.allowed_origins ?? key?.origins ?? [];
    const publishable = (body.kind ?? (key?.kind === "sk" ? "server" : "publishable")) === "publishable";
    const unasked = has("no-origins-member-needed") && body.allowed_origins === undefined;
    const isTest = is("live-is-asked-for") && key === undefined;
    if (publishable && origins.length === 0 && !has("no-origins-needed") && !unasked && !isTest)
      return detail(422, "publishable_live_requires_origins");
    const forTests = has("test-server-keys-for-free") && body.env === "test";
    if (of.tier === "Free" && !publishable && !has("server-keys-for-free") && !forTests)
      return detail(403, "free_plan_publishable_only");
    if ((has("no-server-keys-at-all") && !publishable) || (has("no-keys-for-free") && of.tier === "Free"))
      return detail(403, "free_plan_publishable_only");
    if (has("no-tiles-for-free") && of.tier === "Free") return detail(403, "tier_capability_not_allowed");
    if (is("server-keys-need-addresses") && !publishable) return malformed();
    if (body.allowed_ips !== undefined && !Array.isArray(body.allowed_ips)) return malformed();
    const isAddress = (text: string): boolean => /^[\d.]+(\/\d+)?$/.test(text) || has("takes-any-address");
    if (body.allowed_ips?.every(isAddress) === false) return malformed();
    if (body.acknowledge_vendor === true) acknowledged.add(of.id);
    const onceForAll = has("acknowledges-for-ever") && acknowledged.has(of.id);
    const anyWord = onceForAll || (has("any-word-acknowledges") && body.acknowledge_vendor !== undefined);
    if (scopes.includes("vendor") && body.acknowledge_vendor !== true && !has("vendor-without-word") && !anyWord)
      return detail(403, "vendor_scope_requires_acknowledgement");
    // A key without restrictions has every product stored.
    const isStored = (product: string): boolean => key?.products.length === 0 && product in SCOPE_OF;
    const widens =
      of.tier === "Free" &&
      (scopes.some((s) => !FREE_SCOPES.includes(s)) ||
        products.some((p) => !FREE_PRODUCTS.includes(p) && !isStored(p)));
    if (widens && has("refuses-and-widens") && key !== undefined) Object.assign(key, { scopes, products });
    if (widens && !has("widens-beyond-tier")) return detail(403, "tier_capability_not_allowed");
    if (key !== undefined) {
      if (has("500-on-changes")) return { status: 500, body: {} };
      if (has("narrowing-is-beyond-tier")) return detail(403, "tier_capability_not_allowed");
      if (!has("patch-does-nothing"))
        Object.assign(key, {
          scopes: has("keeps-old-scopes") ? key.scopes : scopes,
          products,
          origins: has("keeps-old-origins") ? key.origins : origins,
        });
      return { status: 200, body: { id: key.id, scopes, products } };
    }
    if (full) return noRoom;
    if (has("500-on-creation")) return { status: 500, body: {} };
    const addresses = has("forgets-addresses") ? [] : (body.allowed_ips ?? []);
    const isHere = addresses.length === 0;
    const made = addKey(of.id, publishable ? "pk" : "sk", {
      ...{ scopes, products: has("forgets-products") ? [] : products, origins },
      ...(publishable ? {} : { ipOk: isHere && !is("server-keys-know-no-address") }),
    });
    if (isTest) made.secret = made.secret.replace("_live_", "_test_");
    if (has("dead-server-keys") && !publishable) made.state = "revoked";
    if (has("server-keys-without-scopes") && !publishable) made.scopes = [];
    if (is("keys-arrive-late")) arrivesAt.set(made, performance.now() + 700);
    if (is("hides-the-secret")) return { status: 201, body: { id: made.id, scopes, products } };
    if (is("address-alone"))
      return {
        status: 201,
        body: { secret: made.secret },
        headers: { Location: `/v1/shared-api/api-keys/${made.id}` },
      };
    const shape = recordOf(made, names);
    if (shape !== null) return { status: 201, body: shape };
    return {
      status: is("200-on-create") ? 200 : 201,
      body: is("nested-key")
        ? { api_key: { id: made.id, scopes }, secret: made.secret }
        : { id: made.id, key: has("other-prefix") ? made.secret.slice(4) : made.secret, scopes, products },
    };
  };

  // ── the listener ────────────────────────────────────────────────────────────────────────────────────────────────────

  const write = (res: ServerResponse, reply: Reply): void => {
    const text = reply.text ?? (reply.body === undefined ? "" : JSON.stringify(reply.body));
    const type =
      reply.text !== undefined || has("refuses-as-text")
        ? "text/plain"
        : is("charset")
          ? "application/json; charset=utf-8"
          : "application/json";
    const headers: Record<string, string> = { ...(text === "" ? {} : { "content-type": type }), ...reply.headers };
    const named = Object.entries(headers).map(([name, value]) => [
      is("upper-headers") ? name.toUpperCase() : name,
      value,
    ]);
    if (reply.status === 401 && has("keeps-a-slot-for-nobody")) lost += 1;
    // Others come, fill it up for a while and go.
    if (reply.status === 401 && is("is-full-for-a-while") && lost === 0) {
      lost = GLOBAL_CAP;
      setTimeout(() => {
        lost = 0.5;
      }, 3_000);
    }
    res.writeHead(reply.status, Object.fromEntries(named) as Record<string, string>);
    res.end(text);
  };
  const answer = async (req: IncomingMessage, res: ServerResponse, text: string): Promise<void> => {
    requestIds.push(String(req.headers["x-request-id"]));
    if (has("mixes-up-callers")) {
      latest = ownCredentialIn(req);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    if (req.method === "OPTIONS" && (is("answers-preflights") || has("preflights-without-a-key"))) {
      const allowed = has("preflights-without-a-key") ? "Content-Type" : "Content-Type, X-Api-Key";
      return write(res, {
        status: 204,
        headers: {
          "Access-Control-Allow-Origin": String(req.headers.origin),
          "Access-Control-Allow-Headers": allowed,
        },
      });
    }
    const page = req.headers.origin;
    if (has("echoes-the-credential")) res.setHeader("X-Debug-Key", credentialIn(req) ?? "");
    const caller = readToken(credentialIn(req) ?? "")?.key ?? byS(credentialIn(req) ?? "");
    const silent = has("cors-for-json-alone") && (req.url ?? "").endsWith("/stream");
    if (page !== undefined && caller?.kind === "pk" && isListed(caller, page) && !is("no-cors") && !silent) {
      res.setHeader("Access-Control-Allow-Origin", has("cors-for-another") ? `${page}.example` : page);
    }
    const path = (req.url ?? "").replace(/^\/v1/, "").replace(/\?.*$/, "");
    const route = `${req.method} ${path}`;
    if (has("500-on-escapes") && (req.url ?? "").includes("%zz")) return write(res, { status: 500, body: {} });
    if (defects.some((name) => STUMBLES[name]?.(text))) return write(res, { status: 500, body: {} });
    if (/[^\x20-\x7e]/.test(credentialIn(req) ?? "")) {
      if (has("500-on-foreign-letters")) return write(res, { status: 500, body: {} });
      if (has("403-on-foreign-letters")) return write(res, detail(403, "insufficient_scope"));
      if (is("400-on-foreign-letters")) return write(res, { status: 400, text: "Bad Request" });
      if (is("hangs-up-on-foreign-letters")) return void res.destroy();
    }
    if (has("500-on-charsets") && /charset=(?!utf-8)/i.test(req.headers["content-type"] ?? ""))
      return write(res, { status: 500, body: {} });
    if (is("404-for-nobody") && credentialIn(req) === null) return write(res, detail(404, "Not Found"));
    const asked = { route, path: (req.url ?? "").replace(/^\/v1/, ""), text, heads: req.headersDistinct };
    if (stumbles(defects, asked)) return write(res, { status: 500, body: {} });
    const strict = is("strict") ? strictReply(asked) : null;
    if (strict !== null) return write(res, strict);
    const tile = /^\/tiles\/\d+\/\d+\/\d+$/.test(path);
    if (Date.now() < withoutKeysUntilMs) return write(res, { status: 503, body: {} });
    if (is("busy") && calls++ % 7 === 3) return write(res, flat("b2b_overloaded", {}, { "Retry-After": "0" }));
    if (is("strays") && calls++ % 40 === 17) return write(res, flat("b2b_overloaded", {}, { "Retry-After": "0" }));
    if (is("stumbles") && Math.random() < 0.02) return write(res, { status: 503, body: {} });
    if (is("has-a-stumbling-limiter") && Math.random() < 0.02) return write(res, detail(429, "limiter_unavailable"));
    if (is("is-away-for-a-while")) {
      // Others begin a maintenance in the midst of the run.
      if (path === "/design/themes" && awayUntilMs === 0) awayUntilMs = performance.now() + 3_500;
      if (performance.now() < awayUntilMs) return write(res, { status: 503, body: {} });
    }
    if (total + lost >= GLOBAL_CAP)
      return write(res, flat(has("blames-an-organization") ? "org_overloaded" : "b2b_overloaded"));
    if (route === "POST /sdk/sessions") return write(res, await exchange(req, text));
    if (route in NEEDS || tile) {
      const reply = runtime(req, res, route, text, tile, () => {});
      if (reply !== null) write(res, reply);
      return;
    }
    if (route === "POST /maps/loads" && (is("offers-map-loads") || has("never-stops-loads"))) {
      const admitted = admitRuntime(req, route, true);
      if (!("key" in admitted)) return write(res, admitted);
      const of = orgs.get(admitted.key.org) as Org;
      // A8, the other reading: the band is for sessions that are there already.
      const inBand = is("stops-paid-at-allowance") && of.tier === "Pro" && of.used < of.limit * 5;
      if (!is("loads-count-nothing") && !has("never-stops-loads") && !inBand) {
        return write(res, (await charge(of, `load-${ids++}`)) ?? { status: 200, body: {} });
      }
      if (has("never-stops-loads") || inBand) of.used += 1;
      return write(res, { status: 200, body: {} });
    }
    const managed = /^\/shared-api\/api-keys(?:\/([^/]+))?$/.exec(path);
    if (managed !== null && !is("keys-live-elsewhere"))
      return write(res, manage(req, req.method ?? "", managed[1], text));
    if (is("unknown-is-403") && path.startsWith("/shared-api")) return write(res, detail(403, "forbidden"));
    write(res, is("unknown-is-401") ? unauthenticated() : { status: 404, body: { detail: "Not Found" } });
  };
  const server = createServer((req, res) => {
    let text = "";
    req.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
    req.on("end", () => {
      void answer(req, res, text);
    });
  });
  const listen = (port: number): Promise<void> => new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  const stop = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  await listen(0);
  const { port } = server.address() as AddressInfo;
  const base = `http://127.0.0.1:${port}/v1`;

  const pk = (key: Key, origin = ORIGIN) => ({ key: key.secret, origin, org: key.org });
  const admin = (of: string) => {
    const token = `${b64({ alg: "RS256" })}.${b64({ org: of })}.${randomBytes(12).toString("base64url")}`;
    admins.set(token, of);
    return { token, org: of };
  };
  const tenant = (name: string) => ({ org: org(name, "Pro"), server: { key: addKey(name, "sk").secret } });
  const a = org("acme", "Pro", is("comes-spent") ? { limit: 4, used: 20 } : {});
  const target: Target = {
    schema: "floodgate/target@1",
    name: "twin",
    base_url: base,
    tile_url: `${base}/tiles/{z}/{x}/{y}`,
    permits: { writes: true, quota_burn: true, load_max_rps: 150 },
    ...(is("few-connections") ? { transport: { connections: 6 } } : {}),
    ...(is("has-tenants") ? { tenants: ["t1", "t2", "t3", "t4"].map(tenant) } : {}),
    shedding: is("states-no-caps") ? "unknown" : "fixed",
    limits: {
      ...{ revocation_budget_ms: 0, global_in_flight: GLOBAL_CAP, org_in_flight: ORG_CAP },
      ...{ rate_per_s: RATE_PER_S, burst: BURST },
    },
    credentials: {
      publishable: pk(addKey(a, "pk")),
      server: { key: addKey(a, "sk").secret, org: a },
      publishable_other_org: pk(addKey(org("bolt", "Pro"), "pk", { origins: [OTHER_ORIGIN] }), OTHER_ORIGIN),
      publishable_no_ai: pk(addKey(a, "pk", { scopes: ["design", "maps"] })),
      publishable_tile_only: pk(
        addKey(a, "pk", { products: ["tile"], ...(is("tile-key-for-maps-alone") ? { scopes: ["maps"] } : {}) }),
      ),
      publishable_downgraded: pk(addKey(org("down", "Free"), "pk")),
      publishable_exhausted: { ...pk(addKey(org("full", "Free", { limit: 4, used: 4 }), "pk")), limit: 4 },
      publishable_hard_stop: { ...pk(addKey(org("stop", "Pro", { limit: 4, used: 20 }), "pk")), limit: 4 },
      publishable_expendable: {
        ...pk(addKey(org("burn", "Free", { limit: 6, used: is("comes-spent") ? 9 : is("others-load") ? 2 : 0 }), "pk")),
        limit: 6,
        tier: "Free",
      },
      publishable_expendable_paid: {
        ...pk(addKey(org("band", "Pro", { limit: 4, used: is("others-load") ? 8 : 0 }), "pk")),
        limit: 4,
        tier: "Pro",
      },
      publishable_basemap: {
        ...pk(addKey(org("look", "Pro", { style: "svc-noon" }), "pk")),
        ...(is("older-revision") ? {} : { basemap_style_id: "svc-noon" }),
      },
      server_no_design: { key: addKey(a, "sk", { scopes: ["ai", "maps"] }).secret, org: a },
      server_foreign_ip: { key: addKey(a, "sk", { ipOk: false }).secret, org: a },
      server_downgraded: { key: addKey("down", "sk").secret, org: "down" },
      revoked: pk(addKey(a, "pk", { state: "revoked" })),
      expired: pk(addKey(a, "pk", { state: "expired" })),
      admin_pro: admin(org("mgmt", "Pro", is("no-keys-left") ? { keyLimit: 0 } : {})),
      admin_free: admin(org("free", "Free", { keyLimit: is("no-keys-left") ? 0 : 3 })),
      admin_no_plan: admin(org("none", null)),
      admin_key_limit: admin(org("most", "Pro", { keyLimit: 0 })),
    },
  };
  return {
    target,
    inNewMonth: () => monthHasTurned,
    requestIds: () => requestIds,
    liveKeys: () => [...keys.values()].filter(({ state }) => state === "valid").length,
    restart: async (awayMs) => {
      await stop();
      await new Promise((resolve) => setTimeout(resolve, awayMs));
      await listen(port);
    },
    loseTheKeys: (forMs) => {
      withoutKeysUntilMs = Date.now() + forMs;
    },
    close: stop,
  };
};
