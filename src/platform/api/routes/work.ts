/** The success side of each route (items 90-123, 128). Chat and design analysis hold a slot of the inference. */
import { type Product, type RouteName, routeOf } from "../../../contract/routes.ts";
import { jsonHeaders } from "../answer.ts";
import type { IncomingCall, Work } from "../incoming-call.ts";
import { answerAnalyze, answerApply, answerRoute, CATALOGS } from "./answers.ts";
import { StreamRun } from "./stream-run.ts";

const NO_STORE = ["Cache-Control", "no-store"] as const;

/** Item 178: nothing between us and the client may keep events back. */
const STREAM_HEADERS = ["Content-Type", "text/event-stream", ...NO_STORE, "X-Accel-Buffering", "no"];

const bodyOf = <T>(call: IncomingCall): T => (call.call.body as { value: T }).value;

/** A 200 that reports a failure (items 97, 186); what was charged for it is undone (item 123). */
const fails = (call: IncomingCall, message: string): void => {
  call.undoCharge("work-failed");
  const body = JSON.stringify({ error: message });
  call.answer(200, jsonHeaders(body), body, "200 error");
};

const succeeds = (call: IncomingCall, body: string, headers: readonly string[] = jsonHeaders(body)): void => {
  const failure = call.context.deployment.takeFailure(call.route.name);
  if (failure === null) call.answer(200, headers, body, "200");
  else if (failure.mode === "truncate" || failure.mode === "reset") call.failConnection(failure.mode, headers, body);
  else fails(call, "the service could not do this");
};

const exchange: Work = (call) => {
  const { context } = call;
  const { snapshot, nowMs } = call.call;
  const { product, map_id: mapId } = bodyOf<{ product: Product; map_id?: string }>(call);
  const mint = { snapshot, product, mapId: mapId ?? null, id: context.freshId(), nowS: Math.floor(nowMs / 1000) };
  const claims = context.parts.sessionClaims(mint, context.sessionLifetimeS);
  const style = snapshot.org.basemap_style_id;
  const answer = {
    session_token: context.sessions.sign(snapshot.key.env, claims),
    expires_in: claims.exp - claims.iat,
    product: claims.product,
    // Absent unless stored (item 34).
    basemap_style_id: style || undefined,
  };
  const body = JSON.stringify(answer);
  succeeds(call, body, [...jsonHeaders(body), ...NO_STORE]);
};

const stream: Work = (call) => {
  const { context, route } = call;
  const kind = route.stream as NonNullable<typeof route.stream>;
  const body = bodyOf<Record<string, unknown>>(call);
  const org = call.call.snapshot.org.id;
  const used = (context.chatTurns.get(org) ?? 0) + 1;
  if (kind === "control") context.chatTurns.set(org, used);
  const { tokens } = context.inference.options;
  const frames = context.parts.voice.script({
    kind,
    tokens,
    body,
    sessionId: typeof body.session_id === "string" ? body.session_id : call.requestId,
    quota: { limit: context.chatTurnLimit, used: Math.min(used, context.chatTurnLimit) },
  });
  // A stream may live for minutes, and has no more use for what was asked.
  call.call.body = undefined;
  const failure = context.deployment.takeFailure(route.name);
  call.beginStream(new StreamRun(call, frames, tokens, failure), STREAM_HEADERS);
};

const route: Work = (call) =>
  call.infer(() => {
    const answer = answerRoute(bodyOf(call));
    if ("error" in answer) fails(call, answer.error);
    else succeeds(call, JSON.stringify(answer));
  });

const enrich: Work = (call) => {
  const { name, category, lat, lon, source, id } = bodyOf<Record<string, unknown>>(call);
  const poi = { name, category, lat, lon, source, id };
  succeeds(call, JSON.stringify({ poi, facts: [`${name} is listed as ${category}`] }));
};

const recordLoad: Work = (call) => {
  const taken = call.call.taken as { used: number };
  const limit = call.call.snapshot.org.map_load_allowance;
  succeeds(call, JSON.stringify({ meter: "map_loads", limit, used: taken.used }));
};

/** A zoom has 2^z tiles each way. */
const tile: Work = (call) => {
  const { z, x, y } = bodyOf<{ z: number; x: number; y: number }>(call);
  if (x < 2 ** z && y < 2 ** z) succeeds(call, JSON.stringify({ z, x, y }));
  else call.refuse({ refuse: "not_found" });
};

const catalog = (name: keyof typeof CATALOGS): Work => {
  const body = CATALOGS[name];
  const headers = jsonHeaders(body);
  return (call) => succeeds(call, body, headers);
};

export const WORK: Readonly<Record<Exclude<RouteName, `keys.${string}`>, Work>> = {
  "sdk.sessions": exchange,
  "chat.control": stream,
  "chat.summary": stream,
  "chat.button": stream,
  "chat.route": route,
  "poi.enrich": enrich,
  "design.analyze": (call) => call.infer(() => succeeds(call, JSON.stringify(answerAnalyze(bodyOf(call))))),
  "design.apply": (call) => succeeds(call, JSON.stringify(answerApply(bodyOf(call)))),
  "design.styles": catalog("design.styles"),
  "design.samples": catalog("design.samples"),
  "design.themes": catalog("design.themes"),
  "maps.loads": recordLoad,
  "maps.tiles": tile,
};

export const isManagement = (name: RouteName): name is Extract<RouteName, `keys.${string}`> =>
  routeOf(name).surface === "management";
