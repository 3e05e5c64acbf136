/**
 * P1 over real sockets, as a function of the server: the control plane and the links make the facts of a call true in a
 * deployment, and the answer must be what the independent order of checks demands. Facts that need a limiter's clock or a start
 * option (a spent rate, a capped meter of analyses) are left to the core's own law.
 */
import fc from "fast-check";
import { type AnyRefusalName, outcomeOf, readAnswer } from "../../src/contract/refusals.ts";
import { type Product, type RouteName, routeOf } from "../../src/contract/routes.ts";
import type { KeyRecord } from "../../src/core/call.ts";
import { BODIES } from "../model/call-commands.ts";
import { ALLOWANCE, type Facts, factsArb, ORIGIN } from "../model/facts.ts";
import { CAPS } from "../model/model.ts";
import { demanded } from "../model/order-oracle.ts";
import type { RealApi, Request } from "../rigs/real-api.ts";
import { unlessStalled } from "../rigs/stalls.ts";

const LISTED = "https://app.example";
const FULL = { scopes: ["ai", "design", "maps", "vendor"], products: ["chat", "editor", "viewer", "tile"] };

const SENT: typeof BODIES = { ...BODIES, "maps.loads": {} };
/** Routes without a stream. */
const ROUTES: readonly RouteName[] = [
  "sdk.sessions",
  "design.styles",
  "chat.route",
  "maps.tiles",
  "maps.loads",
  "design.analyze",
];
const READS_A_BODY: readonly RouteName[] = ["sdk.sessions", "chat.route", "design.analyze"];

/** Facts that can be made true from outside. */
const wireFactsArb: fc.Arbitrary<Facts> = factsArb
  .filter(({ route }) => ROUTES.includes(route))
  .map((facts) => ({
    ...facts,
    rateFull: false,
    designIsCapped: false,
    bodyMalformed: facts.bodyMalformed && READS_A_BODY.includes(facts.route),
    // A token names the key that it was minted from, so that key is known.
    keyUnknown: facts.keyUnknown && facts.credential !== "session",
  }));

type Key = KeyRecord & { key: string };

const mintFor = async (api: RealApi, credential: string, product: Product): Promise<string> => {
  const request: Request = { method: "POST", path: "/sdk/sessions", origin: LISTED, credential, body: { product } };
  const { status, json } = await api.call(request);
  if (status !== 200) throw new Error(`the session that a case needs was answered ${status}`);
  return (json as { session_token: string }).session_token;
};

/** Makes the organization and the key, and returns the credential of the call. */
const prepare = async (api: RealApi, facts: Facts): Promise<string | null> => {
  const fields = { tier: "Pro", map_load_allowance: ALLOWANCE, in_flight_cap: null };
  const { id: org } = (await api.operate("POST", "/orgs", fields)).json as { id: string };
  const { credential } = facts;
  const kind = credential === "server" ? "server" : "publishable";
  const record = { ...FULL, org_id: org, kind, allowed_origins: ["https://other.example", LISTED] };
  const { id, key: secret } = (await api.operate("POST", "/keys", record)).json as Key;
  const token = credential === "session" ? await mintFor(api, secret, facts.sessionProduct) : "";
  await api.operate("PATCH", `/keys/${id}`, {
    scopes: facts.scopes,
    products: facts.products,
    allowed_ips: facts.address === "unrestricted" ? [] : facts.address === "listed" ? ["127.0.0.0/8"] : ["192.0.2.7"],
    status: facts.keyRevoked ? "revoked" : facts.keyExpired && facts.expiredByStatus ? "expired" : "valid",
    expires_at: facts.keyExpired && !facts.expiredByStatus ? Date.now() - 1_000 : null,
  });
  await api.operate("PATCH", `/orgs/${org}`, {
    tier: facts.tier,
    map_load_allowance: ALLOWANCE,
    in_flight_cap: facts.orgFull ? 0 : null,
    map_loads_used: facts.meterFull ? (facts.tier === "Pro" ? 5 : 1) * ALLOWANCE : 0,
  });
  if (credential === "none") return null;
  if (credential === "nonsense") return "Basic-abcdefghijkl";
  if (credential === "oversized") return `svc_sk_live_${"a".repeat(300)}`;
  // Replaces the first character of the signature: the last one may hold bits that decoding ignores.
  if (credential === "session")
    return facts.tokenGood
      ? token
      : token.replace(/\.(.)([^.]*)$/, (_, one, rest) => `.${one === "A" ? "B" : "A"}${rest}`);
  return facts.keyUnknown ? `${secret.slice(0, -6)}nobody` : secret;
};

const bodyOf = ({ route, bodyMalformed, product }: Facts): unknown => {
  if (bodyMalformed) return [];
  return route === "sdk.sessions" ? { product } : SENT[route];
};

export const firstFailingCheckDecidesOverTheWire = (open: () => RealApi) =>
  fc.asyncProperty(wireFactsArb, (facts) =>
    unlessStalled(async () => {
      const api = open();
      await api.operate("PATCH", "/deployment", { sessions: "enabled", global_in_flight: CAPS.globalInFlight });
      for (const link of ["keys", "limiter"] as const) await api.setFault(link, "none");
      const credential = await prepare(api, facts);
      await api.operate("PATCH", "/deployment", {
        sessions: facts.sessions,
        global_in_flight: facts.replicaFull ? 0 : CAPS.globalInFlight,
      });
      if (facts.keyServiceDown) await api.setFault("keys", "refused");
      if (facts.limiterDown) await api.setFault("limiter", "refused");
      const { method, path } = routeOf(facts.route);
      const body = bodyOf(facts);
      const heard = await api.call({
        method,
        path: facts.route === "maps.tiles" ? "/maps/tiles/1/0/0" : path,
        credential,
        origin: ORIGIN[facts.origin],
        ...(body === undefined ? {} : { body }),
      });
      const name = demanded(facts) as AnyRefusalName | null;
      const [expected, got] = [name === null ? "200" : outcomeOf(name), readAnswer(heard.status, heard.text).outcome];
      if (got !== expected) throw new Error(`${facts.route}: expected ${expected}, got ${got}`);
    }),
  );
