/** Query, body and path of a correct call of each route (items 64-128), varied by number, so that no cache answers. */
import { type RouteName, routeOf } from "../contract/routes.ts";

const QUESTIONS = [
  "Where can I have breakfast near the harbour?",
  "Show me the quiet streets on the way to the station.",
  "Which of these buildings is the oldest?",
  "Plan an hour's walk that ends at the market.",
] as const;

/** Written out, because `JSON.stringify` took 6 % of a k6 script's time. */
const chatBody = (n: number): string =>
  `{"messages":[{"role":"user","content":"${QUESTIONS[n % QUESTIONS.length]} (${n})"}],"lang":"en","map_zoom":${12 + (n % 5)}}`;

const BODIES: { readonly [name in RouteName]?: (n: number) => object } = {
  "chat.summary": (n) => ({ type: n % 2 === 0 ? "poi" : "building", name: `Place ${n}` }),
  "chat.button": (n) => ({ poi: { name: `Place ${n}` }, question: QUESTIONS[n % QUESTIONS.length] }),
  "chat.route": (n) => ({
    places: [
      { name: "Station", lat: 52.525, lon: 13.369 },
      { name: `Place ${n}`, lat: 52.5 + (n % 10) / 100, lon: 13.4 },
    ],
    profile: "walking",
    raw_query: "from the station to there, on foot",
  }),
  "design.analyze": (n) => ({
    dataset: {
      columns: [
        { name: "city", type: "string" },
        { name: "people", type: "number" },
      ],
      sample_rows: [{ city: `City ${n}`, people: 1000 + n }],
    },
    prompt: "Show where most people live",
  }),
  "design.apply": (n) => ({
    dataset: { columns: [{ name: "city" }, { name: "people" }], sample_rows: [{ city: `City ${n}`, people: n }] },
    roles: { label: "city", size: "people" },
  }),
  "maps.loads": () => ({}),
};

export const bodyOf = (route: RouteName, n: number): string | undefined =>
  route === "chat.control" ? chatBody(n) : JSON.stringify(BODIES[route]?.(n));

export const pathOf = (route: RouteName, n: number): string => {
  if (route === "poi.enrich") {
    const lat = (52 + (n % 100) / 100).toFixed(2);
    return `/retrieval/poi/enrich?lat=${lat}&lon=13.40&name=Cafe%20${n}&category=cafe`;
  }
  if (route === "maps.tiles") return `/maps/tiles/12/${2000 + (n % 96)}/${1300 + (n % 64)}`;
  return routeOf(route).path;
};
