/** Routes between places (items 96-98, 106-108), as straight lines. A failure is a 200 with an `error` key. */

type Position = [number, number];

const PROFILES: Readonly<Record<string, number>> = { driving: 12, cycling: 5, walking: 1.4 };

const numberIn = (place: Record<string, unknown>, names: readonly string[]): number | null => {
  for (const name of names) {
    const value = place[name];
    if (typeof value === "number" && Number.isFinite(value)) return value;
  }
  return null;
};

/** A place given as coordinates, or as anything else, which then gets coordinates by its number. */
const positionOf = (place: unknown, i: number): Position | null => {
  if (typeof place !== "object" || place === null) return [13.4 + i * 0.01, 52.5];
  const fields = place as Record<string, unknown>;
  const lat = numberIn(fields, ["lat", "latitude"]);
  const lon = numberIn(fields, ["lon", "lng", "longitude"]);
  if (lat === null || lon === null) return [13.4 + i * 0.01, 52.5];
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
  const positions: Position[] = [];
  for (const [i, place] of places.entries()) {
    const position = positionOf(place, i);
    if (position === null) return { error: `no route to place ${i + 1}` };
    positions.push(position);
  }
  const legs = positions.slice(1).map((to, i) => {
    const metres = distanceM(positions[i] as Position, to);
    return { distance_m: metres, duration_s: Math.round(metres / speed) };
  });
  return {
    route: {
      profile,
      distance_m: legs.reduce((sum, leg) => sum + leg.distance_m, 0),
      duration_s: legs.reduce((sum, leg) => sum + leg.duration_s, 0),
      geometry: { type: "LineString", coordinates: positions },
      legs,
    },
  };
};

/** Recommendations and partial map specifications (items 112-113, 119): small, and the same for the same data. */

type Layer = { id: string; type: string; source: string };

/** A data set with coordinates becomes points, any other a list beside the map. */
const layersOf = (rows: readonly unknown[]): Layer[] => {
  const first = rows.find((row) => typeof row === "object" && row !== null) as Record<string, unknown> | undefined;
  const names = first === undefined ? [] : Object.keys(first).map((name) => name.toLowerCase());
  const placed = names.includes("lat") || names.includes("latitude") || names.includes("geometry");
  return [{ id: "data", type: placed ? "circle" : "list", source: "dataset" }];
};

export const answerAnalyze = (body: { dataset: { sample_rows: unknown[] } }): object => {
  const rows = body.dataset.sample_rows;
  const layers = layersOf(rows);
  return {
    recommendation: {
      style_id: "svc-morning",
      layers,
      rationale: `${rows.length} sample rows, shown as ${layers[0]?.type}`,
    },
  };
};

export const answerApply = (body: Record<string, unknown>): object => {
  const dataset = body.dataset as { sample_rows?: unknown } | null | undefined;
  const rows = Array.isArray(dataset?.sample_rows) ? dataset.sample_rows : [];
  return { map_spec: { style_id: "svc-morning", layers: layersOf(rows) } };
};

/** The three catalogs of the design surface (items 114-116, 120), rendered once. `svc-morning` is the style that the specification names. */

type Entry = { id: string; name: string };

const STYLES: Entry[] = [
  { id: "svc-morning", name: "Morning" },
  { id: "svc-dusk", name: "Dusk" },
  { id: "svc-night", name: "Night" },
  { id: "svc-paper", name: "Paper" },
];

const SAMPLES: Entry[] = [
  { id: "bike-counts", name: "Bicycle counts by street" },
  { id: "tree-register", name: "Trees by species" },
  { id: "rents-by-district", name: "Rents by district" },
];

const THEMES: Entry[] = [
  { id: "transit", name: "Transit" },
  { id: "real-estate", name: "Real estate" },
  { id: "outdoors", name: "Outdoors" },
];

export const CATALOGS = {
  "design.styles": JSON.stringify({ styles: STYLES }),
  "design.samples": JSON.stringify({ samples: SAMPLES }),
  "design.themes": JSON.stringify({ themes: THEMES }),
} as const;
