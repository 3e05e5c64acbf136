/** Routes between places (items 96-98, 106-108), as straight lines. A failure is a 200 with an `error` key. */
import { isObject } from "../../../contract/envelopes.ts";

type Position = [number, number];

const PROFILES: Readonly<Record<string, number>> = { driving: 12, cycling: 5, walking: 1.4 };

/** A place given as coordinates, or as anything else, which then gets coordinates by its number. */
const positionOf = (place: unknown, i: number): Position | null => {
  const fields = isObject(place) ? place : {};
  const numberIn = (...names: string[]) =>
    names.map((name) => fields[name]).find(Number.isFinite) as number | undefined;
  const [lat, lon] = [numberIn("lat", "latitude"), numberIn("lon", "lng", "longitude")];
  if (lat === undefined || lon === undefined) return [13.4 + i * 0.01, 52.5];
  return Math.abs(lat) <= 90 && Math.abs(lon) <= 180 ? [lon, lat] : null;
};

/** Metres along the great circle. */
const distanceM = ([lon1, lat1]: Position, [lon2, lat2]: Position): number => {
  const rad = Math.PI / 180;
  const a =
    Math.sin(((lat2 - lat1) * rad) / 2) ** 2 +
    Math.cos(lat1 * rad) * Math.cos(lat2 * rad) * Math.sin(((lon2 - lon1) * rad) / 2) ** 2;
  return Math.round(2 * 6_371_000 * Math.asin(Math.min(1, Math.sqrt(a))));
};

const PLACES_MAX = 1_000;

export const answerRoute = (body: { places: unknown[]; profile: unknown }): { error: string } | { route: object } => {
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
  const distance_m = legs.reduce((sum, leg) => sum + leg.distance_m, 0);
  const duration_s = legs.reduce((sum, leg) => sum + leg.duration_s, 0);
  return { route: { profile, distance_m, duration_s, geometry: { type: "LineString", coordinates }, legs } };
};

/** Recommendations and partial map specifications (items 112-113, 119): small, and the same for the same data. */

/** A data set with coordinates becomes points, any other a list beside the map. */
const layersOf = (rows: readonly unknown[]): { id: string; type: string; source: string }[] => {
  const names = Object.keys(rows.find(isObject) ?? {}).map((name) => name.toLowerCase());
  const placed = names.includes("lat") || names.includes("latitude") || names.includes("geometry");
  return [{ id: "data", type: placed ? "circle" : "list", source: "dataset" }];
};

const STYLE = "svc-morning";

export const answerAnalyze = ({ dataset }: { dataset: { sample_rows: unknown[] } }): object => {
  const rows = dataset.sample_rows;
  const layers = layersOf(rows);
  const rationale = `${rows.length} sample rows, shown as ${layers[0]?.type}`;
  return { recommendation: { style_id: STYLE, layers, rationale } };
};

export const answerApply = ({ dataset }: { dataset?: { sample_rows?: unknown } | null }): object => {
  const rows = Array.isArray(dataset?.sample_rows) ? dataset.sample_rows : [];
  return { map_spec: { style_id: STYLE, layers: layersOf(rows) } };
};

/** The three catalogs of the design surface (items 114-116, 120), rendered once. `svc-morning` is the style that the specification names. */
const named = (of: Record<string, string>) => Object.entries(of).map(([id, name]) => ({ id, name }));

const styles = named({ [STYLE]: "Morning", "svc-dusk": "Dusk", "svc-night": "Night", "svc-paper": "Paper" });
const samples = named({
  "bike-counts": "Bicycle counts by street",
  "tree-register": "Trees by species",
  "rents-by-district": "Rents by district",
});
const themes = named({ transit: "Transit", "real-estate": "Real estate", outdoors: "Outdoors" });

export const CATALOGS = {
  "design.styles": JSON.stringify({ styles }),
  "design.samples": JSON.stringify({ samples }),
  "design.themes": JSON.stringify({ themes }),
} as const;
