/** Malformed and extreme input. Most sizes and types are not specified, so only a server error is a breach. */
import { counted, someOf } from "../../contract/lists.ts";
import type { RouteName } from "../../contract/routes.ts";
import { type Context, callerOf, scopeOf } from "../context.ts";
import { rulesOf } from "../rule.ts";
import { type Answer, inWords, isAdmitted, isStray } from "../sending/answer.ts";
import { answerTo, isSilent } from "../sending/settling.ts";
import { asNobody, asServer, body, inSession, mint, type TestCall } from "../sending/test-call.ts";
import { foreignLetters } from "./credentials.ts";

type Body = NonNullable<TestCall["body"]>;
type Odd = Partial<TestCall> & { readonly what: string };
type OddOn = Odd & { readonly route: TestCall["route"] };
const on = (route: TestCall["route"], odds: readonly Odd[]): OddOn[] => odds.map((odd) => ({ route, ...odd }));

const DEPTH = 3_000;
/** Below the 8 KiB that HTTP servers commonly accept for one header. */
const LONG_HEADER = 7_500;
/** An API may send the id back, and nginx passes on 4 KiB of an answer's head by default. */
const LONG_ID = 3_000;
/** Below what HTTP servers commonly accept for a request line. */
const LONG_LINE = 3_000;
/** A common limit for bodies, exceeded only slightly, so that the answer is not lost while the body is sent. */
const MIB = 1 << 20;
const LONG_TEXT = 20_000;
const MANY_MESSAGES = 200;
const MANY_PLACES = 1_000;
const SHOWN_MAX = 300;
const SHOWN_CALLS = 3;

const deep = "[".repeat(DEPTH) + "]".repeat(DEPTH);
const malformed = (text: string): Body => body(text, "malformed");
const valueIn = (route: RouteName, what: string, value: unknown): OddOn & { readonly route: RouteName } => {
  const text = JSON.stringify(value);
  const shown = text.length > 10 * SHOWN_MAX ? { shown: `${text.slice(0, SHOWN_MAX)}...` } : {};
  return { route, what: `${route} with ${what}`, body: { ...body(text), ...shown } };
};

// biome-ignore format: a table
const BODIES: readonly Odd[] = [
  { what: "a body that is null", body: malformed("null") }, { what: "a body that is a number", body: malformed("7") },
  { what: "a body that is a text", body: malformed('"chat"') }, { what: "an empty body", body: malformed("") },
  { what: "a body of nothing but nested lists", body: malformed(deep) },
];

type Frame = (value: string, extra?: string) => string;
const inExchange: Frame = (value, extra = "") => `{"product": "chat", "floodgate": ${value}${extra}}`;
const inControl: Frame = (value, extra = "") => {
  const isText = value.startsWith('"');
  const content = isText ? value : '"Where is the harbour?"';
  return `{"messages": [{"role": "user", "content": ${content}}]${isText ? "" : `, "floodgate": ${value}`}${extra}}`;
};

const oddBodies = (frame: Frame): readonly Odd[] => {
  const long = (n: number): Body => ({ ...body(frame(`"${"a".repeat(n)}"`)), shown: frame(`"<${n} letters>"`) });
  // Sent as Latin-1 this is byte 255, which never occurs in UTF-8.
  const latin = frame('"caf\u00ff"');
  const bytes = { bytes: Buffer.from(latin, "latin1"), shown: frame('"<the byte 255>"') };
  return [
    // `once`, because servers often cut off so large an upload every time.
    { what: "a body over 1 MiB", body: long(MIB), once: true },
    { what: `a text of ${LONG_TEXT} characters`, body: long(LONG_TEXT) },
    { what: "the number 1e400", body: body(frame("1e400")) },
    { what: "the number 99999999999999999999", body: body(frame("99999999999999999999")) },
    { what: "a text with a byte that is no UTF-8", body: { ...body(latin), ...bytes } },
    { what: "a text with half a surrogate pair", body: body(frame('"\\ud800"')) },
    { what: "a text with a null character", body: body(frame('"\\u0000"')) },
    { what: "a member named __proto__", body: body(frame("7", ', "__proto__": {"floodgate": 7}')) },
  ];
};

// biome-ignore format: a table
const HEADS: readonly Odd[] = [
  { what: "a very long Origin", originValue: `https://${"a".repeat(LONG_HEADER)}.example`, origin: "foreign" },
  { what: "an Origin that is no URL", originValue: "not a url", origin: "foreign" },
  { what: "a very long X-Request-Id", headers: { "x-request-id": "r".repeat(LONG_ID) } },
  { what: "a good body sent as text/plain", headers: { "content-type": "text/plain" } },
  { what: "a good body without a content type", headers: { "content-type": "" } },
  { what: "a good body said to be in another charset", headers: { "content-type": "application/json; charset=iso-8859-7" } },
  { what: "a content type that is not valid", headers: { "content-type": "nonsense;;=" } },
  { what: "an Accept that is not valid", headers: { accept: "nonsense" } },
];

const longKey = (prefix: string): Odd => ({
  ...{ what: `a key of ${LONG_HEADER} characters`, credential: { as: "unknown" } },
  secret: { value: prefix + "a".repeat(LONG_HEADER), variable: "$LONG_KEY" },
});

const ANYBODY: readonly OddOn[] = [
  { route: "-", what: "HEAD /design/styles", path: "/design/styles", method: "HEAD" },
  { route: "-", what: "HEAD /sdk/sessions", path: "/sdk/sessions", method: "HEAD" },
  { route: "-", what: "a path that is no UTF-8", path: "/design/styles%ff%fe" },
  { route: "-", what: "a path with half an escape", path: "/design/%zz" },
  { route: "-", what: "a path with a null character", path: "/design/%00" },
  { route: "-", what: "a tile whose number is no UTF-8", path: "/maps/tiles/1/%ff/1" },
];

const GOOD = "lat=52.5&lon=13.4&name=Cafe&category=cafe";
const QUERIES: readonly (readonly [what: string, query: string])[] = [
  ["a latitude that is no number", GOOD.replace("52.5", "north")],
  ["a latitude off the earth", GOOD.replace("52.5", "1e999")],
  ["a latitude of 95", GOOD.replace("52.5", "95")],
  ["a longitude of 500", GOOD.replace("13.4", "500")],
  ["a latitude of NaN", GOOD.replace("52.5", "NaN")],
  ["a name that is no UTF-8", GOOD.replace("Cafe", "%ff%fe")],
  ["a name with a null character", GOOD.replace("Cafe", "%00")],
  ["a name with half an escape", GOOD.replace("Cafe", "%zz")],
  ["a very long name", GOOD.replace("Cafe", "n".repeat(LONG_LINE))],
  ["a latitude that comes twice", GOOD.replace("52.5", "52.5&lat=1")],
  ["a latitude that is a list", GOOD.replace("lat=52.5", "lat[]=52.5&lat[x]=1")],
  ["a language that nobody knows", `${GOOD}&lang=xx`],
  ["a language that comes twice", `${GOOD}&lang=en&lang=de`],
  ["a source that nobody knows", `${GOOD}&source=floodgate`],
  ["an id that nobody knows", `${GOOD}&id=floodgate`],
  ["a context that is no word", `${GOOD}&poi_context=%7B%5B`],
  ["optional parameters that are empty", `${GOOD}&lang=&source=&id=&poi_context=`],
];

const MESSAGES = [{ role: "user", content: "Where is the harbour?" }];
const message = (role: unknown, ...content: unknown[]) => ["messages", [{ role, content: content[0] }]] as const;
/** One odd value at a time: a deployment that refuses the first would not read a second. */
// biome-ignore format: a table
const IN_CONTROL: readonly (readonly [name: string, value: unknown])[] = [
  ["location", 5], ["map_zoom", {}], ["lang", []], ["session_id", 7], ["app_snapshot", []], ["auto_actions", "yes"],
  ["messages", {}], ["messages", [null]], ["messages", []],
  message("tool", "Hello"), message("", "Hello"), message(7, "Hello"), message("user", ""), message("user", " \n"), message("user"),
  message("user", [{ type: "text", text: "Hello" }]),
  ["session_id", "s".repeat(5_000)], ["session_id", "../\u202e'\"<\u00e9\n*:"],
];

const ROUTE = { places: [{ name: "Station" }, { name: "Market" }], profile: "walking", raw_query: "there" };
const place = (name: string, lat: number, lon: number) => ({ name, lat, lon });
// biome-ignore format: a table
const IN_ROUTE: readonly (readonly [name: string, value: unknown])[] = [
  ["places", {}], ["places", [null, 7]], ["profile", []], ["raw_query", {}], ["places", []], ["places", [{}, {}]],
  ["places", [place("", 95, 500), place("Market", -91, -181)]],
  ["places", [place("Here", 52.5, 13.4), place("Here", 52.5, 13.4)]],
  ["profile", ""], ["raw_query", ""], ["raw_query", "\ud800"],
];

/** A server may take long for so much input, so a missing answer is no finding. */
const manyPlaces = Array.from({ length: MANY_PLACES }, (_, i) => place(`P${i}`, 52.5 + (i % 2) / 10, 13.4));
const MUCH: readonly OddOn[] = [
  valueIn("chat.control", `${MANY_MESSAGES} messages`, { messages: Array(MANY_MESSAGES).fill(MESSAGES[0]) }),
  valueIn("chat.route", `${MANY_PLACES} places`, { ...ROUTE, places: manyPlaces }),
];
const isMuch = ({ what }: TestCall): boolean => MUCH.some((much) => much.what === what);

const named = (name: string, value: unknown): string => `${name} ${JSON.stringify(value).slice(0, 80)}`;
const PLACES_TEXT = JSON.stringify(ROUTE).replaceAll(":", ": ").replaceAll(",", ", ");

const HARBOUR = inControl('"Where is the harbour?"');

// biome-ignore format: a table
const VALUES: readonly OddOn[] = [
  ...IN_CONTROL.map(([name, value]) => valueIn("chat.control", named(name, value), { messages: MESSAGES, [name]: value })),
  ...IN_ROUTE.map(([name, value]) => valueIn("chat.route", named(name, value), { ...ROUTE, [name]: value })),
  ...MUCH,
  valueIn("chat.summary", "type 7", { type: 7, name: [] }),
  valueIn("chat.summary", "a type that nobody knows", { type: "floodgate-no-such-type", name: "Harbour" }),
  valueIn("chat.button", "lists for texts", { poi: 7, question: [] }),
  valueIn("chat.button", "empty texts", { poi: "", question: "" }),
  valueIn("design.apply", "a dataset that is a list", { dataset: [], roles: 7 }),
  valueIn("design.apply", "nothing in the dataset", { dataset: {}, roles: [] }),
  { route: "sdk.sessions", what: "the same member twice", body: body('{"product": "chat", "product": "chat"}') },
  // Types that cannot be hash keys, and a name that every JavaScript object has.
  { route: "sdk.sessions", what: "a product that is a list", body: body('{"product": ["chat"]}') },
  { route: "sdk.sessions", what: "a product that is an object", body: body('{"product": {"chat": 1}}') },
  { route: "sdk.sessions", what: "a product named constructor", body: body('{"product": "constructor"}') },
  { route: "sdk.sessions", what: "a member that is NaN", body: malformed(inExchange("NaN")) },
  { route: "chat.control", what: "letters behind the body", body: malformed(`${HARBOUR}}] more`) },
  { route: "chat.route", what: "a byte order mark before the body", body: body(`\ufeff${PLACES_TEXT}`) },
  { route: "design.apply", what: "a dataset that is -Infinity", body: malformed('{"dataset": {"n": -Infinity}}') },
];

/** The last caller of the route, a server key if there is one, sends these: its address may matter. */
// biome-ignore format: a table
const ODD_HEADS: readonly OddOn[] = [
  // Proxies write an unknown client like this (RFC 7239 section 6).
  { route: "design.styles", what: "a caller whose address the proxy does not know",
    headers: { "x-forwarded-for": "unknown", forwarded: "for=unknown" } },
  { route: "design.samples", what: "odd conditions and an odd cookie",
    headers: { cookie: "=;;session", range: "bytes=9-1", "if-none-match": "W/none", "if-modified-since": "yesterday" } },
  { route: "design.themes", what: "the same Authorization twice", form: "twice" },
  { route: "design.styles", what: "a query that nobody asked for", path: "/design/styles?x=%ff&x[]=1&x[y]=2&=&&limit=many" },
  { route: "-", what: "a path with a letter as an escape", path: "/design/%73tyles" },
  { route: "-", what: "a path with slashes as escapes", path: "/design/styles%2f..%2fstyles" },
  { route: "-", what: "a path with a line end", path: "/design/styles%0d%0ax:1" },
  { route: "-", what: "a path with two slashes", path: "//design/styles" },
  { route: "-", what: "a very long path", path: `/design/${"a".repeat(LONG_LINE)}` },
  { route: "poi.enrich", what: "encodings and languages that are none",
    headers: { "accept-encoding": "nonsense;q=high, *;q=-1", "accept-language": "-;q=x, en-" } },
  { route: "chat.route", what: "a body with an encoding that does not exist", headers: { "content-encoding": "nonsense" } },
  { route: "chat.route", what: "a plain body that is called compressed", headers: { "content-encoding": "gzip" } },
  { route: "chat.route", what: "a query behind the path of a POST", path: "/chat/control/route?x=%ff&x[]=1&=&&" },
];

// biome-ignore format: a table
const AT_EXCHANGE: readonly Odd[] = [
  ...BODIES, ...oddBodies(inExchange), ...HEADS, longKey("svc_pk_live_"),
  { what: "a known product beside a deeply nested field", body: malformed(`{"product": "chat", "floodgate": ${deep}}`) },
  { what: "addresses of a caller that are not valid", headers: { "x-forwarded-for": "unknown, 999.1.1.1, [::1", "x-forwarded-host": "-" } },
];

const FIRST: readonly OddOn[] = [
  ...[...on("chat.control", oddBodies(inControl)), ...on("chat.control", BODIES), ...on("design.apply", BODIES)],
  { route: "design.styles", what: "an Accept that is not valid", headers: { accept: "nonsense" } },
  ...QUERIES.map(([what, query]): OddOn => ({ route: "poi.enrich", what, path: `/retrieval/poi/enrich?${query}` })),
  ...[...on("poi.enrich", [longKey("svc_sk_live_"), longKey("svc_sess_live_")]), ...VALUES],
];

const callsOf = (context: Context): TestCall[] => {
  const by = (odd: OddOn, at: 0 | -1): TestCall[] => {
    if (odd.route === "sdk.sessions")
      return context.has("publishable") ? [{ ...mint("publishable", "chat"), ...odd }] : [];
    return [{ ...callerOf(context, odd.route === "-" ? "design" : scopeOf(odd.route), at), ...odd }];
  };
  return [
    ...on("sdk.sessions", AT_EXCHANGE).flatMap((odd) => by(odd, 0)),
    ...ANYBODY.flatMap((odd) => [asNobody(odd.route, odd), ...by(odd, 0)]),
    ...FIRST.flatMap((odd) => by(odd, 0)),
    ...ODD_HEADS.flatMap((odd) => by(odd, -1)),
  ];
};

const TILES: readonly (readonly [what: string, path: string])[] = [
  ["a tile whose zoom is no number", "/maps/tiles/north/1/1"],
  ["a tile whose column is negative", "/maps/tiles/1/-1/0"],
  ["a tile whose row no integer holds", "/maps/tiles/1/0/99999999999999999999"],
];

const oddTiles = async (context: Context): Promise<TestCall[]> => {
  if (context.target.tile_url === undefined) return [];
  const mayMint = context.has("publishable") && context.budget.left("map_loads") >= 1;
  // Without a tile session, the server key asks for the tiles.
  const bySession = mayMint && isAdmitted(await context.mint("publishable", "tile"));
  if (!bySession && !context.has("server")) return [];
  const call = bySession ? inSession("tile", "maps.tiles") : asServer("maps.tiles");
  return TILES.map(([what, path]) => ({ ...call, path, what }));
};

const DATASET = { columns: ["city", "people"], sample_rows: [{ city: "Berlin", people: 3_700_000 }] };

/** Each call may be admitted and metered, so one call carries two of the values. */
// biome-ignore format: a row is a line
const ODD_ANALYSES = ([
  ["a dataset that is a list", { dataset: [] }],
  ["rows that are a text, and options that are a list", { dataset: { columns: [], sample_rows: "text" }, options: [] }],
  ["options that are a text", { dataset: DATASET, options: "x" }],
  ["rows that are none", { dataset: { columns: 7, sample_rows: [1, null] } }],
] as const).map(([what, value]) => valueIn("design.analyze", what, value));

export const HOSTILE_INPUT = rulesOf("bodies").must("hostile-input", [58, 202, 223, 232], {
  title: "odd bodies, heads and queries are refused or served, never answered with a server error",
  needs: { anyOf: ["publishable", "server"] },
  cost: ({ tile_url }) => ({ calls: 154, analyses: 1, map_loads: tile_url === undefined ? 0 : 1 }),
  step: async (context, checks) => {
    const closed: string[] = [];
    const away: string[] = [];
    const look = (answer: Answer): void => {
      const { status, testCall } = answer;
      const said = `${testCall.what}: ${inWords(answer)}`;
      if (answer.transient && isMuch(testCall)) checks.note(said);
      // A closed connection counts as a refusal; only silence is unclear.
      else if (status === null && isSilent(answer)) checks.unclear(said);
      else if (status === null) closed.push(`${testCall.what}`);
      // 502 to 504 may come from a balancer or the key service.
      else if (answer.transient && status >= 502 && status <= 504) checks.unclear(inWords(answer), answer);
      else if (status === 503) away.push(`${testCall.what}`);
      else checks.require(status < 500, answer, "no server error", `it was ${status}`);
    };
    const judge = async (call: TestCall): Promise<void> => {
      const asked: TestCall = { ...call, open: true };
      const { once, ...patient } = asked;
      const isOnce = once === true || isMuch(call);
      const answer = isMuch(call) ? await context.send({ ...patient, once: true }) : await answerTo(context, asked);
      look(isOnce && isStray(answer) ? await context.send(patient) : answer);
    };
    await context.each([...callsOf(context), ...(await oddTiles(context))], judge);
    for (const answer of await foreignLetters(context)) look(answer);
    // Each of these may be charged, so they are sent one after the other while the budget lasts.
    for (const odd of ODD_ANALYSES) {
      if (context.budget.left("analyses") >= 1) await judge({ ...callerOf(context, "design"), ...odd });
      else checks.note(`${odd.what}: not tried, budget.analyses is used up`);
    }
    const tell = (calls: readonly string[], became: string): void => {
      if (calls.length > 0) checks.note(`${counted(calls.length, "call")} ${became}: ${someOf(calls, SHOWN_CALLS)}`);
    };
    tell(closed, "got no whole answer, as a firewall closes a connection");
    tell(away, "got 503");
  },
});
