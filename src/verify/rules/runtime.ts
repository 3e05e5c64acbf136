/** Who may call at runtime, from where, and what is answered (items 2-5, 22, 40-48, 89-117, 143-156, 191-209). */

import { foreignHeader } from "../../contract/foreign-text.ts";
import { BYTE_ORDER_MARK } from "../../contract/refusals.ts";
import { type RouteName, routeOf } from "../../contract/routes.ts";
import type { KeyRole } from "../../target/roles.ts";
import { CATALOGS } from "../../workload/stories/reads.ts";
import { callerOf, callersOf, RUNTIME_ROUTES, scopeOf } from "../context.ts";
import { headerHintOf } from "../reach.ts";
import { all, pairwise, type Row, type Rule, rulesOf } from "../rule.ts";
import { type Answer, inWords, isAdmitted, isMalformed } from "../sending/answer.ts";
import { asNobody, asPublishable, asServer, FORMS, inSession, mint, type TestCall } from "../sending/test-call.ts";
import { analyses, summariesOfEitherType } from "./optional-members.ts";

const { must, should } = rulesOf("lattice");

const inTurn = (routes: readonly RouteName[], call: (route: RouteName, more: Partial<TestCall>) => TestCall) =>
  routes.map((route, i) => call(route, { form: FORMS[i % 2] ?? "bearer" }));
const ofScope = (scope: "ai" | "design"): RouteName[] => RUNTIME_ROUTES.filter((route) => scopeOf(route) === scope);
const SOME = ["design.styles", "poi.enrich", "chat.control"] as const;
const tile = (more: Partial<TestCall>): TestCall => inSession("tile", "maps.tiles", more);
const ONE_TILE = { tileUrl: true, spends: { map_loads: 1 }, roles: ["publishable"] } as const;
const PUBLIC_TILES = "tiles are public here";
const inBrowser = (route: RouteName, of: KeyRole, more: Partial<TestCall> = {}): TestCall =>
  asServer(route, { origin: "foreign", ...more }, of);

/** Each row breaks one condition or, in `runtime-order`, two; there a refusal for either passes. */
// biome-ignore format: a table, a rule in a few lines
export const RUNTIME_RULES: readonly Rule[] = [
  must("either-header", [22, 143], {
    title: "a credential is accepted in Authorization: Bearer and in X-Api-Key alike",
    needs: { anyOf: ["publishable", "server"] },
    cost: { calls: 8 },
    step: async (context, checks) => {
      const calls = (["design.styles", "design.themes"] as const).flatMap((route) =>
        callersOf(context, "design").flatMap((caller) => FORMS.map((form) => ({ ...caller, route, form }))));
      await context.each(calls, async (call) => {
        const answer = await context.send(call);
        const hint = checks.admits(answer) ? null : await headerHintOf(answer, context);
        if (hint !== null) checks.note(hint);
      });
    } }),
  must("publishable-key-at-runtime", [40, 68, 149, 191], {
    title: "a publishable key sent to a runtime route is answered 401 publishable_requires_session",
    rows: pairwise({ route: RUNTIME_ROUTES, origin: ["listed", "none", "foreign"] as const, form: FORMS }).map(({ route, ...more }): Row =>
      [asPublishable(route, more), "publishable_requires_session", more.origin === "none" ? "origin_required" : []]) }),
  // Tiles may be public or served by another server: only an admission by this key alone is a breach.
  must("publishable-key-at-tiles", [40, 68, 149], {
    title: "a tile that nobody gets without a credential is not served to a publishable key either",
    needs: ONE_TILE,
    cost: { calls: 2 },
    step: async (context, checks) => {
      if (isAdmitted(await context.send(asNobody("maps.tiles", { origin: "listed" })))) return PUBLIC_TILES;
      const answer = await context.send(asPublishable("maps.tiles"));
      if (answer.status === null || answer.transient) checks.unclear(inWords(answer), answer);
      else checks.require(!isAdmitted(answer), answer, "401 publishable_requires_session", inWords(answer));
    } }),
  must("server-key-in-browser", [41, 145, 197], {
    title: "a server key that comes with an Origin is answered 403 server_key_in_browser",
    rows: all(pairwise({ route: RUNTIME_ROUTES, origin: ["listed", "foreign"] as const, form: FORMS }).map(({ route, ...more }) =>
      asServer(route, more)), "server_key_in_browser") }),
  should("server-key-in-a-sandboxed-frame", [148], {
    title: "a server key that comes with Origin: null is answered 403 server_key_in_browser",
    rows: all([inBrowser("design.styles", "server", { origin: "null", form: "bearer" }),
      inBrowser("poi.enrich", "server", { origin: "null", form: "x-api-key" })], "server_key_in_browser") }),
  must("ip-not-allowed", [44, 147, 198], {
    title: "a server key used from an address outside its allowlist is answered 403 ip_not_allowed",
    rows: all(inTurn(RUNTIME_ROUTES, (route, more) => asServer(route, more, "server_foreign_ip")), "ip_not_allowed") }),
  must("session-origin-mismatch", [151, 195], {
    title: "a session used from an Origin outside the key's allowlist is answered 403 session_origin_mismatch",
    rows: all(RUNTIME_ROUTES.flatMap((route) => FORMS.map((form) =>
      inSession(scopeOf(route) === "ai" ? "chat" : "editor", route, { origin: "foreign", form }))), "session_origin_mismatch") }),
  must("tile-foreign-origin", [208, 209], {
    title: "a tile asked for from a foreign Origin is refused: 429 tile_access_restricted or 403 session_origin_mismatch",
    needs: ONE_TILE,
    cost: { calls: 3, map_loads: 1 },
    step: async (context, checks) => {
      if (isAdmitted(await context.send(asNobody("maps.tiles", { origin: "foreign" })))) return PUBLIC_TILES;
      for (const form of FORMS)
        checks.expect(await context.send(tile({ origin: "foreign", form })), "tile_access_restricted", [], "session_origin_mismatch");
    } }),
  should("tile-listed-origin", [208], {
    title: "a tile asked for with a tile session from its allowlisted Origin is served",
    needs: ONE_TILE,
    cost: { map_loads: 1 },
    rows: all([tile({})], "2xx", ["404 Not Found", "edge 404"]) }),
  must("runtime-insufficient-scope", [5, 117, 156, 192], {
    title: "a key without the scope design is answered 403 insufficient_scope on every design route",
    rows: all(inTurn(ofScope("design"), (route, more) => asServer(route, more, "server_no_design")), "insufficient_scope") }),
  must("runtime-serves-what-is-in-scope", [4, 42, 156], {
    title: "a key without design is still served on the routes of its other scopes",
    rows: [[asServer("chat.control", {}, "server_no_design"), "2xx"]] }),
  must("session-insufficient-scope", [4, 100, 156, 192], {
    title: "a session of a key without the scope ai is refused on every route of that scope",
    rows: all(inTurn(ofScope("ai"), (route, more) => inSession("editor", route, more, "publishable_no_ai")),
      "insufficient_scope", "product_not_allowed") }),
  should("session-keeps-to-its-product", [2, 156], {
    title: "a session minted for one product is refused on the routes of another scope (A16)",
    rows: all([inSession("chat", "design.styles"), inSession("chat", "design.apply"), inSession("editor", "chat.control"),
      inSession("editor", "poi.enrich")], "insufficient_scope", "product_not_allowed") }),
  should("downgraded-session-is-refused", [46, 156, 193], {
    title: "a tile session of a downgraded organization opens neither chat nor design (A16, A17)",
    needs: { roles: ["publishable_downgraded"], spends: { map_loads: 1 } },
    cost: { calls: 4, map_loads: 1 },
    rows: all(SOME.map((route) => inSession("tile", route, {}, "publishable_downgraded")),
      "insufficient_scope", ["tier_capability_not_allowed", "product_not_allowed"]) }),
  should("downgraded-server-key", [13, 48], {
    title: "a server key of an organization downgraded to Free is answered 403 tier_capability_not_allowed (A15)",
    rows: all(SOME.map((route) => asServer(route, {}, "server_downgraded")), "tier_capability_not_allowed", "insufficient_scope") }),
  rulesOf("order").should("runtime-order", [148, 150, 151, 156], {
    title: "at runtime kind, browser and address decide before scope and tier",
    needs: { anyOf: ["publishable", "server_no_design", "server_foreign_ip", "publishable_no_ai"] },
    rows: [
      [inBrowser("design.styles", "server_no_design"), "server_key_in_browser", "insufficient_scope"],
      [inBrowser("design.styles", "server_foreign_ip"), "server_key_in_browser", "ip_not_allowed"],
      [inBrowser("poi.enrich", "server_downgraded"), "server_key_in_browser", ["tier_capability_not_allowed", "insufficient_scope"]],
      [asPublishable("poi.enrich", {}, "publishable_no_ai"), "publishable_requires_session", "insufficient_scope"],
      [inSession("chat", "design.styles", { origin: "foreign" }), "session_origin_mismatch", ["insufficient_scope", "product_not_allowed"]],
      ...(["revoked", "expired"] as const).map((of): Row => [asPublishable("sdk.sessions", { origin: "foreign", product: "chat" }, of),
        "unauthenticated", ["session_origin_mismatch", "publishable_key_required"]]),
    ] }),
];

const browser = rulesOf("lattice", { needs: { roles: ["publishable"] } });

const allowed = ({ headers }: Answer): string | undefined => headers["access-control-allow-origin"];
const overloaded = "overload or no answer";
export const preflightHeaders = (names: string): Record<string, string> => ({
  ...{ "access-control-request-method": "POST", "access-control-request-headers": names },
});

/** In the Fetch standard `*` covers every header but Authorization. */
const lets = ({ headers }: Answer, name: string): boolean => {
  const names = (headers["access-control-allow-headers"] ?? "").toLowerCase().split(/\s*,\s*/);
  return names.includes(name) || (names.includes("*") && name !== "authorization");
};

/** CORS. How a preflight is answered is not specified, and a proxy may answer it (item 160). */
export const CORS_RULES: readonly Rule[] = [
  browser.must("server-key-is-blocked-by-cors", [146], {
    title: "an answer to a server key in a browser carries no Access-Control-Allow-Origin",
    needs: { roles: ["server"] },
    cost: { calls: 2 },
    step: async (context, checks) => {
      await context.each(["design.styles", "chat.control"] as const, async (route) => {
        const answer = await context.send(asServer(route, { origin: "listed", form: "bearer" }));
        if (answer.transient) return checks.unclear(overloaded);
        const got = `it was ${foreignHeader(allowed(answer), answer.request.headers.origin)}`;
        checks.require(allowed(answer) === undefined, answer, "no Access-Control-Allow-Origin", got);
      });
    },
  }),
  browser.should("listed-origin-is-not-blocked-by-cors", [159], {
    title: "a browser on an allowlisted Origin may read the answers",
    expected: "Access-Control-Allow-Origin names the allowlisted Origin",
    cost: { calls: 3 },
    step: async (context, checks) => {
      const listed = context.keyRole("publishable")?.origin;
      const minted = await context.mint("publishable", "editor");
      const calls = [inSession("editor", "design.styles"), inSession("chat", "chat.control")];
      for (const answer of [minted, ...(await Promise.all(calls.map(context.send)))]) {
        const isRead = allowed(answer) === "*" || allowed(answer) === listed;
        if (answer.transient) checks.unclear(overloaded);
        else checks.require(isRead, answer, `${listed} or *`, `it was ${foreignHeader(allowed(answer), listed)}`);
      }
    },
  }),
  // No page can use the API if a preflight allows its Origin but no credential header (item 143: one is enough).
  browser.should("preflight-allows-a-credential", [143, 159, 160], {
    title: "a preflight that lets an allowlisted Origin in lets it send X-Api-Key or Authorization",
    cost: { calls: 2 },
    step: async (context, checks) => {
      const refused: Answer[] = [];
      for (const carrier of ["x-api-key", "authorization"]) {
        const originValue = context.keyRole("publishable")?.origin ?? "";
        const headers = preflightHeaders(`content-type,${carrier}`);
        const preflight = { path: "/sdk/sessions", method: "OPTIONS", origin: "listed", originValue, headers } as const;
        const answer = await context.send(asNobody("-", { ...preflight, what: `preflight for ${carrier}` }));
        const isDone = /^2\d\d$/.test(`${answer.status}`);
        const isBlocked = isDone || answer.status === 401 || answer.status === 403;
        if (!isDone || allowed(answer) === undefined) {
          if (!isBlocked || allowed(await context.mint("publishable", "editor")) === undefined)
            return checks.idle("preflights are not answered with CORS here");
          // A preflight carries no credential, so a page never gets to read the answers that its Origin may read.
          const wanted = "Access-Control-Allow-Origin, as on the answers to that Origin";
          return void checks.require(false, answer, wanted, "a browser sends nothing after it");
        }
        if (lets(answer, carrier)) checks.fine();
        else refused.push(answer);
      }
      const [first] = refused;
      if (first === undefined || refused.length < 2) return;
      const got = `it was ${foreignHeader(first.headers["access-control-allow-headers"] ?? "absent")}`;
      checks.require(false, first, "X-Api-Key or Authorization in Access-Control-Allow-Headers", got);
    },
  }),
];

const answered = rulesOf("lattice", { needs: { anyOf: ["publishable", "server"] } });

/** Routes that may answer 204: a catalog may be empty, and a place unknown. */
const MAY_BE_EMPTY: ReadonlySet<string> = new Set([...CATALOGS, "poi.enrich"]);

export const RUNTIME_ANSWER_RULES: readonly Rule[] = [
  answered.must("runtime-admits", [2, 4, 5, 90, 93, 94, 99, 100, 112, 113, 114, 115, 116, 117, 143], {
    title: "a correct call with a session or a server key of the right scope is served, on every route",
    cost: { calls: 19, analyses: 1 },
    step: async (context, checks) => {
      const judge = (route: RouteName, answer: Answer): void => {
        const shown = route === "poi.enrich" ? "the types of its query are" : "its body is";
        const isQuery = route === "poi.enrich" && answer.status === 400;
        if (isQuery || (routeOf(route).open === true && answer.outcome === "422 malformed_body"))
          checks.note(`${route}: ${answer.status}, ${shown} not shown in the specification`);
        else if (route === "poi.enrich" && answer.status === 404) checks.note("poi.enrich: 404, no such place");
        else checks.expect(answer, "2xx", [], route === "chat.route" ? "200 error" : []);
      };
      const calls = RUNTIME_ROUTES.filter((route) => route !== "chat.summary" && route !== "design.analyze").flatMap(
        (route) => callersOf(context, scopeOf(route)).map((caller) => ({ route, ...caller })),
      );
      await context.each(calls, async (call) => judge(call.route, await context.send(call)));
      for (const answer of await summariesOfEitherType(context)) judge("chat.summary", answer);
      // One analysis is enough, with or without a prompt; an admitted one is preferred.
      const [analysed] = (await analyses(context)).toSorted((a, b) => Number(isAdmitted(b)) - Number(isAdmitted(a)));
      if (analysed !== undefined) judge("design.analyze", analysed);
      else checks.short(context.budget.shortage("analyses", 1), "design.analyze");
    },
  }),
  answered.must("answers-are-json", [114, 115, 116, 99, 112, 113], {
    title: "the JSON routes answer JSON",
    cost: { calls: 7, analyses: 1 },
    step: async (context, checks) => {
      const look = (answer: Answer): void => {
        if (checks.isUnclear(answer) || !isAdmitted(answer)) return;
        if (answer.status === 204 && MAY_BE_EMPTY.has(answer.testCall.route)) return;
        checks.require(answer.body !== undefined, answer, "a JSON body", "it was no JSON");
        const mark = "a byte order mark";
        const isMarked = answer.text.startsWith(BYTE_ORDER_MARK);
        checks.require(!isMarked, answer, `JSON without ${mark} (RFC 8259)`, `it begins with ${mark}`);
        const type = answer.headers["content-type"] ?? "none";
        checks.require(/json/i.test(type), answer, "a JSON content type", `it was ${foreignHeader(type)}`);
      };
      await context.each([...CATALOGS, "poi.enrich", "chat.route", "design.apply"] as const, async (route) => {
        look(await context.send({ route, ...callerOf(context, scopeOf(route)) }));
      });
      const analysed = await analyses(context);
      for (const answer of analysed) look(answer);
      if (analysed.length === 0) checks.short(context.budget.shortage("analyses", 1), "design.analyze");
      return "no JSON route was served";
    },
  }),
  rulesOf("organizations").must("organizations-are-served-alike", [46, 74], {
    title: "a second organization with the same plan is served the same",
    needs: { roles: ["publishable_other_org"] },
    cost: { calls: 2 },
    step: async (context, checks) => {
      if (!checks.admits(await context.send(mint("publishable_other_org", "chat")))) return;
      const place = await context.send(inSession("chat", "poi.enrich", {}, "publishable_other_org"));
      // The query's types are not specified, and the place may be unknown.
      if (place.status === 404 || isMalformed(place)) checks.note(inWords(place));
      else checks.admits(place);
    },
  }),
];
