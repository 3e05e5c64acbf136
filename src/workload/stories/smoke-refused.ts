/**
 * One wrong call for each refusal of the exchange and of runtime calls that a caller can provoke alone. Nothing is
 * charged for any of them.
 */
import type { Product, RouteName } from "../../contract/routes.ts";
import type { CredentialRef, OriginRef, StepWish } from "../step.ts";
import { role, type SmokeCase } from "./smoke-case.ts";

const call = (route: RouteName, credential: CredentialRef, more: Partial<StepWish> = {}): SmokeCase => ({
  wish: { route, credential, ...more },
});

const publishable = (name = "publishable"): CredentialRef => ({ as: "publishable", of: role(name) });
const server = (name = "server"): CredentialRef => ({ as: "server", of: role(name) });
const session = (product: Product): CredentialRef => ({ as: "session", of: role("publishable"), product });

const exchange = (credential: CredentialRef, product: Product, origin: OriginRef = "listed"): SmokeCase =>
  call("sdk.sessions", credential, { product, origin });

const malformed = (text: string): NonNullable<StepWish["body"]> => ({ is: "malformed", text });

const unauthenticated: SmokeCase[] = [
  call("design.styles", { as: "none" }),
  call("chat.control", { as: "none" }),
  call("chat.route", { as: "none" }),
  call("design.styles", { as: "garbage" }),
  call("chat.control", { as: "unknown" }),
  exchange({ as: "none" }, "chat"),
  exchange({ as: "garbage" }, "chat"),
  exchange({ as: "unknown" }, "chat"),
  exchange(publishable("revoked"), "chat"),
  exchange(publishable("expired"), "chat"),
];

const wrongKind: SmokeCase[] = [
  call("design.styles", publishable(), { origin: "listed" }),
  call("chat.control", publishable(), { origin: "listed" }),
  call("poi.enrich", publishable(), { origin: "none" }),
  exchange(server(), "chat", "none"),
  exchange(server(), "chat", "foreign"),
  exchange(session("chat"), "chat"),
  call("design.styles", server(), { origin: "foreign" }),
  call("chat.control", server(), { origin: "null" }),
  call("design.styles", server("server_foreign_ip")),
  // Browser before address (A6, item 148).
  call("design.styles", server("server_foreign_ip"), { origin: "foreign" }),
];

const wrongOrigin: SmokeCase[] = [
  exchange(publishable(), "chat", "none"),
  exchange(publishable(), "chat", "foreign"),
  exchange(publishable(), "chat", "null"),
  // The earlier check decides (item 81).
  exchange(publishable("publishable_tile_only"), "chat", "none"),
  exchange(publishable("publishable_exhausted"), "tile", "foreign"),
  call("chat.control", session("chat"), { origin: "foreign" }),
  call("poi.enrich", session("chat"), { origin: "null" }),
  call("maps.loads", session("tile"), { origin: "foreign" }),
  call("maps.tiles", session("tile"), { origin: "foreign" }),
];

const notAdmitted: SmokeCase[] = [
  exchange(publishable("publishable_no_ai"), "chat"),
  exchange(publishable("publishable_tile_only"), "editor"),
  exchange(publishable(), "viewer"),
  exchange(publishable("publishable_downgraded"), "chat"),
  exchange(publishable("publishable_downgraded"), "editor"),
  call("design.styles", session("chat"), { origin: "listed" }),
  call("chat.control", session("tile"), { origin: "listed" }),
  call("maps.loads", session("editor"), { origin: "listed" }),
  call("design.styles", server("server_no_design")),
  call("design.styles", server("server_downgraded")),
  call("chat.control", server("server_downgraded")),
];

const exhausted: SmokeCase[] = [
  exchange(publishable("publishable_exhausted"), "tile"),
  exchange(publishable("publishable_hard_stop"), "tile"),
];

const malformedBodies: SmokeCase[] = [
  call("sdk.sessions", publishable(), { origin: "listed", body: malformed("{") }),
  call("sdk.sessions", publishable(), { origin: "listed", body: malformed("{}") }),
  call("sdk.sessions", publishable(), { origin: "listed", body: malformed('{"product":"teapot"}') }),
  call("chat.control", server(), { body: malformed('{"messages":"hello"}') }),
  call("chat.control", server(), { body: malformed("not json") }),
  call("chat.summary", server(), { body: malformed('{"type":"teapot"}') }),
  call("chat.route", server(), { body: malformed('{"profile":"walking"}') }),
  call("poi.enrich", server(), {
    path: "/retrieval/poi/enrich?lat=here&lon=13.4&name=x&category=y",
    body: { is: "malformed", text: undefined },
  }),
  call("design.analyze", server(), { body: malformed('{"prompt":"no dataset"}') }),
];

export const refusedCases: readonly SmokeCase[] = [
  ...unauthenticated,
  ...wrongKind,
  ...wrongOrigin,
  ...notAdmitted,
  ...exhausted,
  ...malformedBodies,
];
