/** What each kind of key is good for (items 40-41, 145-149, 191, 197-198): where it may be used, and from where. */

import { outcomeOf } from "../../../contract/refusals.ts";
import type { RouteName } from "../../../contract/routes.ts";
import { type Cell, tableRule } from "../../cells.ts";
import { Checks } from "../../checks.ts";
import { pairwise } from "../../pairwise.ts";
import { RUNTIME_ROUTES, type Rule } from "../../rule.ts";
import { isAdmitted, told } from "../../sending/answer.ts";
import { exchangeCall, FORMS, role, type TestCall } from "../../sending/test-call.ts";

const PUBLISHABLE = outcomeOf("publishable_requires_session");
const KIND = outcomeOf("publishable_key_required");
const NO_ORIGIN = outcomeOf("origin_required");
const BROWSER = outcomeOf("server_key_in_browser");
const ADDRESS = outcomeOf("ip_not_allowed");
const UNAUTHENTICATED = outcomeOf("unauthenticated");

const server = { as: "server", of: role("server") } as const;

const publishableAtRuntime = tableRule({
  id: "publishable-key-at-runtime",
  level: "must",
  spec: [40, 68, 149, 191],
  title: "a publishable key sent to a runtime route is answered 401 publishable_requires_session",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 30 },
  cells: () =>
    pairwise({ route: RUNTIME_ROUTES, origin: ["listed", "none", "foreign"] as const, form: FORMS }).map(
      ({ route, origin, form }): Cell => ({
        testCall: { route, credential: { as: "publishable", of: role("publishable") }, origin, form },
        accepts: [PUBLISHABLE],
        tolerates: origin === "none" ? [NO_ORIGIN] : [],
      }),
    ),
});

/** Tiles may be public, or behind another server with answers of its own: what must not be is that this key opens them. */
const publishableAtTiles: Rule = {
  id: "publishable-key-at-tiles",
  level: "must",
  spec: [40, 68, 149],
  title: "a tile that nobody gets without a credential is not served to a publishable key either",
  phase: "lattice",
  needs: { roles: ["publishable"], tileUrl: true, spends: { map_loads: 1 } },
  cost: { calls: 2 },
  run: async (context) => {
    const checks = new Checks("no tile for a publishable key that was not exchanged");
    const nobody = await context.send({ route: "maps.tiles", credential: { as: "none" }, origin: "listed" });
    if (isAdmitted(nobody)) return checks.result("tiles are public here");
    const credential = { as: "publishable", of: role("publishable") } as const;
    const answer = await context.send({ route: "maps.tiles", credential, origin: "listed" });
    if (answer.status === null || answer.transient) checks.unclear(told(answer));
    else checks.require(!isAdmitted(answer), answer, PUBLISHABLE, told(answer));
    return checks.result();
  },
};

const inBrowser = (route: RouteName, origin: TestCall["origin"], form: TestCall["form"] = "bearer"): Cell => ({
  testCall: { route, credential: server, origin, form },
  accepts: [BROWSER],
});

const serverKeyInBrowser = tableRule({
  id: "server-key-in-browser",
  level: "must",
  spec: [41, 145, 197],
  title: "a server key that comes with an Origin is answered 403 server_key_in_browser",
  phase: "lattice",
  needs: { roles: ["server"] },
  cost: { calls: 20 },
  cells: () =>
    pairwise({ route: RUNTIME_ROUTES, origin: ["listed", "foreign"] as const, form: FORMS }).map(
      ({ route, origin, form }) => inBrowser(route, origin, form),
    ),
});

const serverKeyInFrame = tableRule({
  id: "server-key-in-a-sandboxed-frame",
  level: "should",
  spec: [148],
  title: "a server key that comes with Origin: null is answered 403 server_key_in_browser",
  phase: "lattice",
  needs: { roles: ["server"] },
  cost: { calls: 2 },
  cells: () => [inBrowser("design.styles", "null"), inBrowser("poi.enrich", "null", "x-api-key")],
});

const serverKeyCors: Rule = {
  id: "server-key-is-blocked-by-cors",
  level: "must",
  spec: [146],
  title: "an answer to a server key in a browser carries no Access-Control-Allow-Origin",
  phase: "lattice",
  needs: { roles: ["server"] },
  cost: { calls: 2 },
  run: async (context) => {
    const checks = new Checks("no Access-Control-Allow-Origin on the answer to a server key with an Origin");
    await context.each(["design.styles", "chat.control"] as const, async (route) => {
      const answer = await context.send(inBrowser(route, "listed").testCall);
      if (answer.transient) return checks.unclear("overload or no answer");
      const allowed = answer.headers["access-control-allow-origin"];
      checks.require(allowed === undefined, answer, "no Access-Control-Allow-Origin", `it was "${allowed}"`);
    });
    return checks.result();
  },
};

const foreignAddress = tableRule({
  id: "ip-not-allowed",
  level: "must",
  spec: [44, 147, 198],
  title: "a server key used from an address outside its allowlist is answered 403 ip_not_allowed",
  phase: "lattice",
  needs: { roles: ["server_foreign_ip"] },
  cost: { calls: 10 },
  cells: () =>
    RUNTIME_ROUTES.map(
      (route, i): Cell => ({
        testCall: {
          route,
          credential: { as: "server", of: role("server_foreign_ip") },
          origin: "none",
          form: FORMS[i % 2] as "bearer",
        },
        accepts: [ADDRESS],
      }),
    ),
});

const wrongKind = tableRule({
  id: "exchange-wrong-kind",
  level: "must",
  spec: [68, 70, 199],
  title: "the exchange answers a server key with 403 publishable_key_required",
  phase: "lattice",
  needs: { roles: ["server"] },
  cost: { calls: 9 },
  cells: () =>
    pairwise({ origin: ["none", "listed", "foreign"] as const, product: ["chat", "editor", "viewer"] as const }).map(
      ({ origin, product }): Cell => ({
        testCall: { route: "sdk.sessions", credential: server, origin, product },
        accepts: [KIND],
        tolerates: origin === "none" ? [] : [BROWSER],
      }),
    ),
});

const sessionAtExchange = tableRule({
  id: "exchange-with-a-session",
  level: "must",
  spec: [70, 84],
  title: "the exchange does not turn a session token into another one",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 2 },
  cells: () =>
    (["listed", "none"] as const).map(
      (origin): Cell => ({
        testCall: {
          ...exchangeCall("publishable", origin, "chat"),
          credential: { as: "session", of: role("publishable"), product: "chat" },
        },
        accepts: [KIND],
        tolerates: [UNAUTHENTICATED],
      }),
    ),
});

export const KEY_KIND_RULES: readonly Rule[] = [
  publishableAtRuntime,
  publishableAtTiles,
  serverKeyInBrowser,
  serverKeyInFrame,
  serverKeyCors,
  foreignAddress,
  wrongKind,
  sessionAtExchange,
];
