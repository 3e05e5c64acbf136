/** Calls of the public API as commands: mints, uses of a session or a key, and many mints at once. */
import { expect } from "vitest";
import { readAnswer } from "../../src/contract/refusals.ts";
import { type Product, type RouteName, routeOf } from "../../src/contract/routes.ts";
import type { Session } from "../../src/core/call.ts";
import {
  type Command,
  command,
  compare,
  FOREIGN,
  keyAt,
  ORIGIN,
  publishableAt,
  requestId,
  tokenAt,
} from "./command-frame.ts";
import type { BodyKind } from "./model.ts";

const TOKEN = /^svc_sess_(live|test)_[\w-]+\.[\w-]+\.[\w-]+$/;
export type From = "app" | "foreign" | "lookalike" | "nowhere" | "null";
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
    // The member is absent, and never null, if no style is stored (item 33).
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

/** Of routes that read one. */
export const BODIES: Partial<Record<RouteName, object>> = {
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
export const USED_ROUTES = ["design.styles", "chat.route", "maps.tiles", "maps.loads", "design.analyze"] as const;

/** A route needs two places: this body is answered with a 200 that reports the failure. */
const ONE_PLACE = { places: [{ lat: 1, lon: 1 }], profile: "walking", raw_query: "x" };

export const use = (by: "token" | "key" | "nothing", which: number, route: RouteName, from: From, kind: BodyKind) =>
  command(`use(${by}, ${which}, ${route}, ${from}, ${kind})`, async (model, real, what) => {
    const credential = by === "nothing" ? null : by === "token" ? tokenAt(model, which) : keyAt(model, which).secret;
    const origin = ORIGINS[from];
    const { method, path } = routeOf(route);
    // Only routes that read a body can refuse one, and only `chat.route` can fail.
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

export const stampede = (which: number, size: number): Command =>
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
