/**
 * Routes between places (items 96-98, 106-108). Its own failures are reported under status 200 with an `error` key; success
 * never has one. The geometry is a straight line: what is loaded here is the service, not the roads.
 */

type Position = [number, number];

/** Metres a second by profile. */
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
