/** What each route does for an admitted call (items 90-128). Chat and design analysis hold a slot of the inference. */
import { isObject } from "../../../contract/refusals.ts";
import type { Product, RouteName } from "../../../contract/routes.ts";
import type { ChangedKey } from "../../../core/call.ts";
import { jsonHeaders } from "../answer.ts";
import type { IncomingCall, Work } from "../incoming-call.ts";
import { streamRun } from "./stream-run.ts";

// Routes between places (items 96-98, 106-108), as straight lines. A failure is a 200 with an `error` key.

type Position = [number, number];

const PROFILES: Readonly<Record<string, number>> = { driving: 12, cycling: 5, walking: 1.4 };

/** A place's coordinates, or made-up ones by its number if it has none; `null` for impossible coordinates. */
const positionOf = (place: unknown, i: number): Position | null => {
  const fields = isObject(place) ? place : {};
  const numberIn = (...names: string[]) =>
    names.map((name) => fields[name]).find(Number.isFinite) as number | undefined;
  const [lat, lon] = [numberIn("lat", "latitude"), numberIn("lon", "lng", "longitude")];
  if (lat === undefined || lon === undefined) return [13.4 + i * 0.01, 52.5];
  return Math.abs(lat) <= 90 && Math.abs(lon) <= 180 ? [lon, lat] : null;
};

const distanceM = ([lon1, lat1]: Position, [lon2, lat2]: Position): number => {
  const rad = Math.PI / 180;
  const a =
    Math.sin(((lat2 - lat1) * rad) / 2) ** 2 +
    Math.cos(lat1 * rad) * Math.cos(lat2 * rad) * Math.sin(((lon2 - lon1) * rad) / 2) ** 2;
  return Math.round(2 * 6_371_000 * Math.asin(Math.min(1, Math.sqrt(a))));
};

const PLACES_MAX = 1_000;

const answerRoute = (body: { places: unknown[]; profile: unknown }): { error: string } | { route: object } => {
  const { places, profile } = body;
  if (places.length < 2) return { error: "a route needs at least two places" };
  if (places.length > PLACES_MAX) return { error: `a route has at most ${PLACES_MAX} places` };
  const speed = typeof profile === "string" && Object.hasOwn(PROFILES, profile) ? PROFILES[profile] : undefined;
  if (speed === undefined) return { error: `unknown profile; known are ${Object.keys(PROFILES).join(", ")}` };
  const coordinates = places.map(positionOf);
  const unknown = coordinates.indexOf(null);
  if (unknown >= 0) return { error: `no route to place ${unknown + 1}` };
  const legs = coordinates.slice(1).map((to, i) => {
    const distance_m = distanceM(coordinates[i] as Position, to as Position);
    return { distance_m, duration_s: Math.round(distance_m / speed) };
  });
  const sum = (of: "distance_m" | "duration_s"): number => legs.reduce((total, leg) => total + leg[of], 0);
  const whole = { distance_m: sum("distance_m"), duration_s: sum("duration_s") };
  return { route: { profile, ...whole, geometry: { type: "LineString", coordinates }, legs } };
};

// Recommendations and partial map specifications (items 112-113, 119): small, and the same for the same data.

/** A data set with coordinates is shown as points, any other as a list beside the map. */
const layersOf = (rows: readonly unknown[]): { id: string; type: string; source: string }[] => {
  const names = Object.keys(rows.find(isObject) ?? {}).map((name) => name.toLowerCase());
  const placed = names.includes("lat") || names.includes("latitude") || names.includes("geometry");
  return [{ id: "data", type: placed ? "circle" : "list", source: "dataset" }];
};

/** The style that the specification names. */
const STYLE = "svc-morning";

const answerAnalyze = ({ dataset: { sample_rows: rows } }: { dataset: { sample_rows: unknown[] } }): object => {
  const layers = layersOf(rows);
  const rationale = `${rows.length} sample rows, shown as ${layers[0]?.type}`;
  return { recommendation: { style_id: STYLE, layers, rationale } };
};

const answerApply = ({ dataset }: { dataset?: { sample_rows?: unknown } | null }): object => {
  const rows = Array.isArray(dataset?.sample_rows) ? dataset.sample_rows : [];
  return { map_spec: { style_id: STYLE, layers: layersOf(rows) } };
};

const NO_STORE = ["Cache-Control", "no-store"] as const;

/** Item 178: no proxy may buffer the events. */
const STREAM_HEADERS = ["Content-Type", "text/event-stream", ...NO_STORE, "X-Accel-Buffering", "no"];

const bodyOf = <T>(call: IncomingCall): T => (call.call.body as { value: T }).value;

/** A 200 that reports a failure (items 97, 186); what was charged for it is undone (item 123). */
const fails = (call: IncomingCall, message: string): void => {
  call.undoCharge("work-failed");
  const body = JSON.stringify({ error: message });
  call.answer(200, jsonHeaders(body), body, "200 error");
};

const succeeds = (call: IncomingCall, body: string, headers: readonly string[] = jsonHeaders(body)): void => {
  const failure = call.context.failures.take(call.route.name);
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
  // The body may be collected, because a stream may live for minutes.
  call.call.body = undefined;
  const failure = context.failures.take(route.name);
  call.beginStream(streamRun(call, frames, failure), STREAM_HEADERS);
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

/** Zoom `z` has 2^z tiles in each direction. */
const tile: Work = (call) => {
  const { z, x, y } = bodyOf<{ z: number; x: number; y: number }>(call);
  if (x < 2 ** z && y < 2 ** z) succeeds(call, JSON.stringify({ z, x, y }));
  else call.refuse({ refuse: "not_found" });
};

/** One of the three catalogs of the design surface (items 114-116, 120), rendered once. */
const catalog = (name: string, items: Readonly<Record<string, string>>): Work => {
  const body = JSON.stringify({ [name]: Object.entries(items).map(([id, title]) => ({ id, name: title })) });
  const headers = jsonHeaders(body);
  return (call) => succeeds(call, body, headers);
};

/** The key service has made the change (items 124-142). */
const showKey =
  (status: 200 | 201): Work =>
  (call) => {
    const { key, secret } = call.call.changed as ChangedKey;
    const body = JSON.stringify({ ...key, key: secret });
    call.answer(status, jsonHeaders(body), body, `${status}`);
  };

export const WORK: Readonly<Record<RouteName, Work>> = {
  "sdk.sessions": exchange,
  "chat.control": stream,
  "chat.summary": stream,
  "chat.button": stream,
  "chat.route": route,
  "poi.enrich": enrich,
  "design.analyze": (call) => call.infer(() => succeeds(call, JSON.stringify(answerAnalyze(bodyOf(call))))),
  "design.apply": (call) => succeeds(call, JSON.stringify(answerApply(bodyOf(call)))),
  "design.styles": catalog("styles", {
    ...{ [STYLE]: "Morning", "svc-dusk": "Dusk", "svc-night": "Night", "svc-paper": "Paper" },
  }),
  "design.samples": catalog("samples", {
    "bike-counts": "Bicycle counts by street",
    "tree-register": "Trees by species",
    "rents-by-district": "Rents by district",
  }),
  "design.themes": catalog("themes", { transit: "Transit", "real-estate": "Real estate", outdoors: "Outdoors" }),
  "maps.loads": recordLoad,
  "maps.tiles": tile,
  "keys.create": showKey(201),
  "keys.update": showKey(200),
  "keys.delete": (call) => call.answer(204, [], "", "204"),
};
