import { describe, expect, test } from "vitest";
import { PRODUCT_SCOPE, PRODUCTS, ROUTE_NAMES, type RouteName, routeOf, SCOPES } from "./routes.ts";

/** Section 4, row by row. `open`: the specification does not decide which bodies the route serves. */
const TABLE: [RouteName, string, string, string, string | null, object][] = [
  ["sdk.sessions", "POST", "/sdk/sessions", "exchange", null, {}],
  ["chat.control", "POST", "/chat/control/stream", "runtime", "ai", { stream: "control" }],
  ["chat.summary", "POST", "/chat/summary/stream", "runtime", "ai", { open: true, stream: "summary" }],
  ["chat.button", "POST", "/chat/button/stream", "runtime", "ai", { open: true, stream: "button" }],
  ["chat.route", "POST", "/chat/control/route", "runtime", "ai", { open: true }],
  ["poi.enrich", "GET", "/retrieval/poi/enrich", "runtime", "ai", { open: true }],
  ["design.analyze", "POST", "/design/analyze", "runtime", "design", { open: true, meter: "design_analyses" }],
  ["design.apply", "POST", "/design/apply-direct", "runtime", "design", { open: true }],
  ["design.styles", "GET", "/design/styles", "runtime", "design", {}],
  ["design.samples", "GET", "/design/samples", "runtime", "design", {}],
  ["design.themes", "GET", "/design/themes", "runtime", "design", {}],
  ["maps.loads", "POST", "/maps/loads", "runtime", "maps", { meter: "map_loads", tile: true, extension: true }],
  ["maps.tiles", "GET", "/maps/tiles/{z}/{x}/{y}", "runtime", "maps", { tile: true, extension: true }],
  ["keys.create", "POST", "/shared-api/api-keys", "management", null, {}],
  ["keys.update", "PATCH", "/shared-api/api-keys/{key_id}", "management", null, {}],
  ["keys.delete", "DELETE", "/shared-api/api-keys/{key_id}", "management", null, {}],
];

describe("the routes of section 4", () => {
  test.each(TABLE)("%s: %s %s", (name, method, path, surface, scope, more) => {
    expect(routeOf(name)).toEqual({ name, method, path, surface, scope, ...more });
  });

  test("are all there are (item 181)", () => {
    expect([...ROUTE_NAMES].sort()).toEqual(TABLE.map(([name]) => name).sort());
  });

  test("four scopes, four products, and what minting each needs (items 3, 9, 82)", () => {
    expect(SCOPES).toEqual(["ai", "design", "maps", "vendor"]);
    expect(PRODUCTS).toEqual(["chat", "editor", "viewer", "tile"]);
    expect(PRODUCT_SCOPE).toEqual({ chat: "ai", editor: "design", viewer: null, tile: "maps" });
  });
});
