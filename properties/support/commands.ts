/**
 * What can be done to a deployment, as commands that do it to the model and to the real server and compare. A command
 * names organizations, keys and tokens by number, taken modulo how many there are, so that shrinking keeps it meaningful.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { readAnswer } from "../../src/contract/envelopes.ts";
import { PRODUCTS, type Product, type RouteName, routeOf, SCOPES, type Scope } from "../../src/contract/routes.ts";
import { outcomeOf } from "../../src/contract/subcodes.ts";
import type { Session } from "../../src/core/call.ts";
import {
  decideCreation,
  decideRevocation,
  decideUpdate,
  type KeyCreation,
  type KeyUpdate,
  type ManagementRefusal,
} from "../../src/core/management.ts";
import type { KeyRecord, Organization, Tier } from "../../src/core/records.ts";
import { type BodyKind, CAPS, type Expected, type KnownKey, type Model } from "./model.ts";
import type { Fault, Heard, Link, RealApi } from "./real-api.ts";

export type Real = {
  api: RealApi;
  /** Prefix of this run's request ids, so that its ledger can be read alone. */
  run: string;
  sent: number;
};

export const ORIGIN = "https://app.example";
const FOREIGN = "https://evil.example";
const MINUTE_MS = 60_000;
const TOKEN = /^svc_sess_(live|test)_[\w-]+\.[\w-]+\.[\w-]+$/;

type Command = fc.AsyncCommand<Model, Real>;
/** A command from its words: shows itself as it would be written. */
const command = (
  text: string,
  run: (model: Model, real: Real, what: string) => Promise<void>,
  check: (model: Readonly<Model>) => boolean = () => true,
): Command => ({ check, run: (model, real) => run(model, real, text), toString: () => text });

const pick = <T>(items: readonly T[], which: number): T => items[which % items.length] as T;
const orgIdAt = (model: Readonly<Model>, which: number): string => pick([...model.orgs.keys()], which);

/** Mostly a key or token that is still good, because the rest of the checks stand behind that. */
const keyAt = (model: Readonly<Model>, which: number): KnownKey => {
  const live = model.keys.filter(({ key }) => model.isLive(key));
  return pick(which < 5 && live.length > 0 ? live : model.keys, which);
};
const publishableAt = (model: Readonly<Model>, which: number): KnownKey => {
  const live = model.keys.filter(({ key }) => key.kind === "publishable" && model.isLive(key));
  return which < 5 && live.length > 0 ? pick(live, which) : keyAt(model, which);
};
const tokenAt = (model: Readonly<Model>, which: number): string | null => {
  const fresh = model.tokens.filter(({ session }) => session.expiresAtS * 1000 > model.nowMs());
  const from = which < 5 && fresh.length > 0 ? fresh : model.tokens;
  // The newest first: its key is the likeliest to be good still.
  return from.length === 0 ? null : pick(from.toReversed(), which).token;
};

const requestId = (real: Real): string => {
  real.sent += 1;
  return `${real.run}.${real.sent}`;
};

const compare = (heard: Heard, expected: Expected, what: string): void => {
  const read = readAnswer(heard.status, heard.text);
  if (read.outcome !== expected.outcome) throw new Error(`${what}: expected ${expected.outcome}, got ${read.outcome}`);
  if (expected.quota !== undefined) expect(read.quota, `${what}: its quota`).toEqual(expected.quota);
};

// ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

const manage = async (real: Real, org: string, method: "POST" | "PATCH" | "DELETE", id: string, body?: object) => {
  const { json } = await real.api.operate("POST", "/admin-tokens", { org });
  return real.api.call({
    method,
    path: `/shared-api/api-keys${id === "" ? "" : `/${id}`}`,
    credential: (json as { token: string }).token,
    ...(body === undefined ? {} : { body }),
  });
};
/** Where an answer was lost nobody knows what was stored, so keys are managed over a healthy link or a dead one. */
const managementIsCertain = (model: Readonly<Model>): boolean =>
  !["reply-lost", "truncated-reply"].includes(model.faults.keys);

const answerOf = (model: Model, decided: object | ManagementRefusal, success: number): string => {
  if (model.faults.keys !== "none") return outcomeOf("key_service_unavailable");
  return "refuse" in decided ? outcomeOf(decided.refuse as ManagementRefusal["refuse"]) : String(success);
};
const replace = (model: Model, known: KnownKey, key: KeyRecord): void => {
  model.keys[model.keys.indexOf(known)] = { ...known, key };
};

const create = (which: number, request: KeyCreation, livesMs: number | null): Command =>
  command(
    `create(${which}, ${JSON.stringify(request)}, ${livesMs})`,
    async (model, real, what) => {
      const org = model.org(orgIdAt(model, which));
      const expires_at = livesMs === null ? null : model.nowMs() + livesMs;
      const decided = decideCreation(org, model.liveKeys(org.id), { ...request, expires_at });
      const heard = await manage(real, org.id, "POST", "", { ...request, expires_at });
      compare(heard, { outcome: answerOf(model, decided, 201) }, what);
      if (heard.status !== 201) return;
      const { key: secret, ...key } = heard.json as Omit<KeyRecord, never> & { key: string };
      expect(key).toMatchObject(decided);
      expect(secret.startsWith(key.kind === "server" ? "svc_sk_" : "svc_pk_")).toBe(true);
      model.keys.push({ key, secret });
    },
    managementIsCertain,
  );

const update = (which: number, request: KeyUpdate, asOther: boolean): Command =>
  command(
    `update(${which}, ${JSON.stringify(request)}, ${asOther})`,
    async (model, real, what) => {
      const known = keyAt(model, which);
      const owner = known.key.org_id;
      const org = asOther ? ([...model.orgs.keys()].find((id) => id !== owner) as string) : owner;
      const alive = model.isLive(known.key) ? known.key : null;
      const decided = decideUpdate(model.org(org), alive, request);
      const heard = await manage(real, org, "PATCH", known.key.id, request);
      compare(heard, { outcome: answerOf(model, decided, 200) }, what);
      if (heard.status !== 200) return;
      expect(heard.json).toEqual(decided);
      expect(heard.text).not.toContain(known.secret);
      replace(model, known, decided as KeyRecord);
    },
    managementIsCertain,
  );

const revoke = (which: number): Command =>
  command(
    `revoke(${which})`,
    async (model, real, what) => {
      const known = pick(model.keys, which);
      const { org_id: org, id } = known.key;
      const decided = decideRevocation(model.org(org), known.key);
      const heard = await manage(real, org, "DELETE", id);
      compare(heard, { outcome: answerOf(model, decided, 204) }, what);
      if (heard.status === 204) replace(model, known, decided as KeyRecord);
    },
    managementIsCertain,
  );

// ── calls ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

type From = "app" | "foreign" | "lookalike" | "nowhere" | "null";
const ORIGINS: Readonly<Record<From, string | null>> = {
  app: ORIGIN,
  foreign: FOREIGN,
  lookalike: `${ORIGIN}.evil.example`,
  nowhere: null,
  null: "null",
};

export const mint = (which: number, product: Product, from: From, byToken: boolean): Command =>
  command(`mint(${which}, ${product}, ${from}, ${byToken})`, async (model, real, what) => {
    const known = publishableAt(model, which);
    const credential = (byToken ? tokenAt(model, which) : null) ?? known.secret;
    const origin = ORIGINS[from];
    const expected = model.decide({ route: "sdk.sessions", credential, origin, product });
    const beforeS = Math.floor(model.nowMs() / 1000);
    const path = "/sdk/sessions";
    const sent = { method: "POST", path, body: { product }, credential, origin, requestId: requestId(real) } as const;
    const heard = await real.api.call(sent);
    compare(heard, expected, what);
    if (heard.status !== 200) return;
    // P8: the shape of a successful exchange.
    const answer = heard.json as { session_token: string; expires_in: number; product: string };
    expect(TOKEN.test(answer.session_token), `${what}: the shape of its token`).toBe(true);
    expect(answer.expires_in, `${what}: expires_in`).toBeGreaterThan(0);
    expect(answer.expires_in, `${what}: expires_in`).toBeLessThanOrEqual(1800);
    expect(answer.product, `${what}: its product`).toBe(product);
    const stored = model.org(known.key.org_id).basemap_style_id;
    // Absent, never null, where none is stored (item 33).
    expect("basemap_style_id" in answer ? [answer.basemap_style_id] : [], `${what}: its style`).toEqual(
      stored === null ? [] : [stored],
    );
    expect(model.tokens.some(({ token: other }) => other === answer.session_token)).toBe(false);
    const session: Session = {
      keyId: known.key.id,
      orgId: known.key.org_id,
      product,
      expiresAtS: beforeS + answer.expires_in,
      id: "",
    };
    model.tokens.push({ token: answer.session_token, session });
  });

const BODIES: Partial<Record<RouteName, object>> = {
  "chat.route": {
    places: [
      { lat: 1, lon: 1 },
      { lat: 2, lon: 2 },
    ],
    profile: "walking",
    raw_query: "x",
  },
  "design.analyze": { dataset: { sample_rows: [] } },
};
const PATHS: Partial<Record<RouteName, string>> = { "maps.tiles": "/maps/tiles/1/0/0" };
const USED_ROUTES = ["design.styles", "chat.route", "maps.tiles", "maps.loads", "design.analyze"] as const;

/** One place is no route: the answer is a 200 that says so. */
const ONE_PLACE = { places: [{ lat: 1, lon: 1 }], profile: "walking", raw_query: "x" };

const use = (by: "token" | "key" | "nothing", which: number, route: RouteName, from: From, kind: BodyKind): Command =>
  command(`use(${by}, ${which}, ${route}, ${from}, ${kind})`, async (model, real, what) => {
    const credential = by === "nothing" ? null : by === "token" ? tokenAt(model, which) : keyAt(model, which).secret;
    const origin = ORIGINS[from];
    const { method, path } = routeOf(route);
    // Only a route that reads a body can be sent a bad one, and only a route of places can fail.
    const sent = BODIES[route] === undefined || (kind === "failing" && route !== "chat.route") ? "fine" : kind;
    const expected = model.decide({ route, credential, origin, body: sent });
    const body = sent === "malformed" ? [] : sent === "failing" ? ONE_PLACE : BODIES[route];
    const heard = await real.api.call({
      method,
      path: PATHS[route] ?? path,
      credential,
      origin,
      requestId: requestId(real),
      ...(body === undefined ? {} : { body }),
    });
    compare(heard, expected, what);
  });

/** `2 x 200, 7 x 429 map_load_hard_stop`. */
const tally = (outcomes: readonly string[]): string =>
  [...new Set(outcomes)]
    .sort()
    .map((outcome) => `${outcomes.filter((other) => other === outcome).length} x ${outcome}`)
    .join(", ");

const stampede = (which: number, size: number): Command =>
  command(`stampede(${which}, ${size})`, async (model, real, what) => {
    const credential = publishableAt(model, which).secret;
    const wanted = { route: "sdk.sessions" as const, credential, origin: ORIGIN, product: "tile" as const };
    const expected = Array.from({ length: size }, () => model.decide(wanted).outcome);
    const body = { product: "tile" };
    const heard = await Promise.all(
      expected.map(() =>
        real.api.call({
          method: "POST",
          path: "/sdk/sessions",
          body,
          credential,
          origin: ORIGIN,
          requestId: requestId(real),
        }),
      ),
    );
    const outcomes = heard.map(({ status, text }) => readAnswer(status, text).outcome);
    if (tally(outcomes) !== tally(expected))
      throw new Error(`${what}: expected ${tally(expected)}, got ${tally(outcomes)}`);
  });

// ── the operator, the clock, the faults ───────────────────────────────────────────────────────────────────────────────

const setTier = (which: number, tier: Tier | null): Command =>
  command(`setTier(${which}, ${tier})`, async (model, real) => {
    const id = orgIdAt(model, which);
    await real.api.operate("PATCH", `/orgs/${id}`, { tier });
    model.orgs.set(id, { ...model.org(id), tier });
  });

/** By its time, or because its record says so. */
const expire = (which: number, byStatus: boolean): Command =>
  command(`expire(${which}, ${byStatus})`, async (model, real) => {
    const known = pick(model.keys, which);
    const change = byStatus ? { status: "expired" as const } : { expires_at: model.nowMs() - 1 };
    await real.api.operate("PATCH", `/keys/${known.key.id}`, change);
    replace(model, known, { ...known.key, ...change });
  });

const setDeployment = (
  fields: Partial<Pick<Model, "sessions">> & { full?: "replica" | "organizations" | null },
): Command =>
  command(`setDeployment(${JSON.stringify(fields)})`, async (model, real) => {
    if (fields.sessions !== undefined) model.sessions = fields.sessions;
    if (fields.full !== undefined) {
      model.caps = {
        globalInFlight: fields.full === "replica" ? 0 : CAPS.globalInFlight,
        orgInFlight: fields.full === "organizations" ? 0 : CAPS.orgInFlight,
      };
    }
    const { globalInFlight: global_in_flight, orgInFlight: org_in_flight } = model.caps;
    await real.api.operate("PATCH", "/deployment", { sessions: model.sessions, global_in_flight, org_in_flight });
  });

export const setClock = async (model: Model, real: Real, offsetMs: number): Promise<void> => {
  model.offsetMs = Math.round(offsetMs);
  await real.api.operate("PATCH", "/deployment", { clock_offset_ms: model.offsetMs });
};
/** Noon of the 15th, so that no edge of a month is near. */
export const middleOfMonth = (nowMs: number, monthsOn: number): number => {
  const date = new Date(nowMs);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + monthsOn, 15, 12);
};
const newMonth = (): Command =>
  command("newMonth()", (model, real) => setClock(model, real, middleOfMonth(model.nowMs(), 1) - Date.now()));
const tenMinutesOn = (): Command =>
  command("tenMinutesOn()", (model, real) => setClock(model, real, model.offsetMs + 10 * MINUTE_MS));

const fault = (link: Link, kind: Fault): Command =>
  command(
    `fault(${link}, ${kind})`,
    async (model, real) => {
      await real.api.setFault(link, kind);
      model.faults[link] = kind;
    },
    (model) => model.faults[link] === "none",
  );
export const heal = async (model: Model, real: Real): Promise<void> => {
  for (const link of ["keys", "limiter"] as const) {
    await real.api.setFault(link, "none");
    model.faults[link] = "none";
  }
  await real.api.settled();
};
const healing = (): Command =>
  command("heal()", heal, ({ faults }) => faults.keys !== "none" || faults.limiter !== "none");

const readMeters = (): Command =>
  command(
    "readMeters()",
    async (model, real) => {
      for (const id of model.orgs.keys()) {
        const { map_loads_used: used, ...org } = (await real.api.operate("GET", `/orgs/${id}`)).json as Organization & {
          map_loads_used: number;
        };
        expect(used, "map loads used, by the control plane").toBe(model.used(id, "map_loads"));
        expect(org).toEqual(model.org(id));
      }
    },
    // While answers are lost a charge may be on its way back.
    ({ faults }) => faults.limiter === "none",
  );

// ── what a run is made of ─────────────────────────────────────────────────────────────────────────────────────────────

const whichArb = fc.noBias(fc.nat({ max: 6 }));
const scopesArb: fc.Arbitrary<Scope[]> = fc.oneof(
  fc.constant<Scope[]>(["ai", "design", "maps"]),
  fc.subarray([...SCOPES]),
);
const productsArb: fc.Arbitrary<Product[]> = fc.oneof(fc.constant<Product[]>([]), fc.subarray([...PRODUCTS]));
const fieldsArb = {
  scopes: scopesArb,
  products: productsArb,
  allowed_origins: fc.constantFrom<string[]>([ORIGIN], [ORIGIN], [FOREIGN], []),
  acknowledge_vendor: fc.boolean(),
};
const creationArb: fc.Arbitrary<KeyCreation> = fc.record({
  kind: fc.constantFrom("publishable" as const, "publishable" as const, "server" as const),
  env: fc.constantFrom("live" as const, "test" as const),
  ...fieldsArb,
});
const updateArb: fc.Arbitrary<KeyUpdate> = fc.record(fieldsArb, { requiredKeys: [] });
const fromArb = fc.oneof(
  { weight: 5, arbitrary: fc.constant<From>("app") },
  fc.constantFrom<From>("foreign", "lookalike", "nowhere", "null"),
);
const rarely = fc.nat({ max: 5 }).map((n) => n === 5);
const SESSIONS = ["enabled", "enabled", "enabled", "disabled", "not_configured"] as const;
const FULL = [null, null, null, "replica", "organizations"] as const;

/** Weighted so that most calls get somewhere: what takes keys, plans or links away is done seldom, and mended soon. */
export const commandArb: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc
      .tuple(whichArb, fc.constantFrom("tile" as const, ...PRODUCTS), fromArb, rarely)
      .map((a) => mint(...a)),
  },
  {
    weight: 12,
    arbitrary: fc
      .tuple(
        fc.constantFrom<"token" | "key" | "nothing">("token", "token", "token", "token", "key", "key", "nothing"),
        whichArb,
        fc.constantFrom<RouteName>(...USED_ROUTES),
        fromArb,
        fc.constantFrom<BodyKind>("fine", "fine", "failing", "malformed"),
      )
      .map((args) => use(...args)),
  },
  { weight: 3, arbitrary: fc.tuple(whichArb, fc.integer({ min: 2, max: 12 })).map((args) => stampede(...args)) },
  {
    weight: 4,
    arbitrary: fc
      .tuple(whichArb, creationArb, fc.constantFrom(null, null, 5 * MINUTE_MS))
      .map((args) => create(...args)),
  },
  { weight: 4, arbitrary: fc.tuple(whichArb, updateArb, rarely).map((args) => update(...args)) },
  { weight: 1, arbitrary: whichArb.map(revoke) },
  { weight: 1, arbitrary: fc.tuple(whichArb, fc.boolean()).map((args) => expire(...args)) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(whichArb, fc.constantFrom<Tier | null>("Free", "Free", "Pro", "Pro", "Pro", null))
      .map((args) => setTier(...args)),
  },
  { weight: 1, arbitrary: fc.constant(null).map(newMonth) },
  { weight: 1, arbitrary: fc.constant(null).map(tenMinutesOn) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(
        fc.constantFrom<Link>("keys", "limiter", "limiter"),
        fc.oneof(
          {
            weight: 4,
            arbitrary: fc.constantFrom<Fault>(
              "refused",
              "reset",
              "truncated-reply",
              "accepted-then-closed",
              "nonsense",
            ),
          },
          // These two cost a whole budget for each call.
          fc.constantFrom<Fault>("request-lost", "reply-lost"),
        ),
      )
      .map((args) => fault(...args)),
  },
  { weight: 6, arbitrary: fc.constant(null).map(healing) },
  {
    weight: 2,
    arbitrary: fc
      .oneof(fc.record({ sessions: fc.constantFrom(...SESSIONS) }), fc.record({ full: fc.constantFrom(...FULL) }))
      .map(setDeployment),
  },
  { weight: 2, arbitrary: fc.constant(null).map(readMeters) },
);
