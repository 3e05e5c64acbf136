/** Addresses that nobody well-meaning asks for (items 58, 109, 223): queries of the place search, and tiles that are none. */
import { type Context, callersOf } from "../../context.ts";
import { isAdmitted } from "../../sending/answer.ts";
import { role, type TestCall } from "../../sending/test-call.ts";

/** Below what servers commonly take for a request line. */
const LONG_QUERY = 3_000;
const GOOD = "lat=52.5&lon=13.4&name=Cafe&category=cafe";

const QUERIES: readonly (readonly [what: string, query: string])[] = [
  ["a latitude that is no number", "lat=north&lon=13.4&name=Cafe&category=cafe"],
  ["a latitude off the earth", "lat=1e999&lon=13.4&name=Cafe&category=cafe"],
  ["a latitude of 95", "lat=95&lon=13.4&name=Cafe&category=cafe"],
  ["a longitude of 500", "lat=52.5&lon=500&name=Cafe&category=cafe"],
  ["a latitude of NaN", "lat=NaN&lon=13.4&name=Cafe&category=cafe"],
  ["a name that is no UTF-8", "lat=52.5&lon=13.4&name=%ff%fe&category=cafe"],
  ["a name with a null character", "lat=52.5&lon=13.4&name=%00&category=cafe"],
  ["a name with half an escape", "lat=52.5&lon=13.4&name=%zz&category=cafe"],
  ["a very long name", `lat=52.5&lon=13.4&name=${"n".repeat(LONG_QUERY)}&category=cafe`],
  ["a latitude that comes twice", "lat=52.5&lat=1&lon=13.4&name=Cafe&category=cafe"],
  ["a latitude that is a list", "lat[]=52.5&lat[x]=1&lon=13.4&name=Cafe&category=cafe"],
  ["a language that nobody knows", `${GOOD}&lang=xx`],
  ["a language that comes twice", `${GOOD}&lang=en&lang=de`],
  ["a source that nobody knows", `${GOOD}&source=floodgate`],
  ["an id that nobody knows", `${GOOD}&id=floodgate`],
  ["a context that is no word", `${GOOD}&poi_context=%7B%5B`],
  ["optional parameters that are empty", `${GOOD}&lang=&source=&id=&poi_context=`],
];

export const oddQueries = (): { what: string; path: string }[] =>
  QUERIES.map(([what, query]) => ({ what, path: `/retrieval/poi/enrich?${query}` }));

const TILES: readonly (readonly [what: string, path: string])[] = [
  ["a tile whose zoom is no number", "/maps/tiles/north/1/1"],
  ["a tile whose column is negative", "/maps/tiles/1/-1/0"],
  ["a tile whose row no integer holds", "/maps/tiles/1/0/99999999999999999999"],
];

/** Only where the target says what its tiles are called; the session is one that other rules use too. */
export const oddTiles = async (context: Context): Promise<TestCall[]> => {
  if (context.target.tile_url === undefined) return [];
  const mayMint = context.has("publishable") && context.budget.left("map_loads") >= 1;
  // Where the allowance is used up there is still the server key.
  const bySession = mayMint && isAdmitted(await context.mint("publishable", "tile"));
  const server = callersOf(context, "ai").find(({ credential }) => credential.as === "server");
  const caller = bySession
    ? ({ credential: { as: "session", of: role("publishable"), product: "tile" }, origin: "listed" } as const)
    : server;
  return caller === undefined ? [] : TILES.map(([what, path]) => ({ route: "maps.tiles", ...caller, path, what }));
};
