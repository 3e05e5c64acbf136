/** The correct calls of the smoke story, and the two failures that travel under status 200 (items 97, 186). */
import type { Product, RouteName } from "../../contract/routes.ts";
import type { StepWish } from "../step.ts";
import { role, type SmokeCase } from "./smoke-case.ts";

const byServer = (route: RouteName, more: Partial<StepWish> = {}): SmokeCase => ({
  wish: { route, credential: { as: "server", of: role("server") }, ...more },
});

const bySession = (route: RouteName, product: Product, more: Partial<StepWish> = {}): SmokeCase => ({
  wish: { route, credential: { as: "session", of: role("publishable"), product }, origin: "listed", ...more },
});

const exchange = (name: string, product: Product): SmokeCase => ({
  wish: { route: "sdk.sessions", credential: { as: "publishable", of: role(name) }, origin: "listed", product },
});

export const correctCases: readonly SmokeCase[] = [
  exchange("publishable", "chat"),
  exchange("publishable", "editor"),
  exchange("publishable", "tile"),
  exchange("publishable_other_org", "chat"),
  exchange("publishable_basemap", "editor"),
  exchange("publishable_tile_only", "tile"),
  exchange("publishable_downgraded", "tile"),
  exchange("publishable_no_ai", "editor"),
  byServer("chat.control"),
  byServer("chat.summary"),
  byServer("chat.button"),
  byServer("chat.route"),
  byServer("poi.enrich"),
  byServer("design.analyze"),
  byServer("design.apply"),
  byServer("design.styles"),
  byServer("design.samples"),
  byServer("design.themes"),
  byServer("maps.loads"),
  byServer("maps.tiles"),
  bySession("chat.control", "chat"),
  bySession("chat.summary", "chat"),
  bySession("chat.button", "chat"),
  bySession("chat.route", "chat"),
  bySession("poi.enrich", "chat", { origin: "none" }),
  bySession("design.styles", "editor"),
  bySession("maps.loads", "tile"),
  bySession("maps.tiles", "tile", { origin: "none" }),
  // One place is no route: 200 with an `error` key.
  byServer("chat.route", {
    body: { is: "ok", text: JSON.stringify({ places: [{ name: "Station" }], profile: "walking", raw_query: "there" }) },
  }),
  // A reader who has seen enough: the slot has to come back.
  byServer("chat.control", { abort: { afterEvents: 1 } }),
];
