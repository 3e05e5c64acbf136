/**
 * Heads and addresses of good calls that only strange clients and proxies send (items 58, 144, 223): each is legal or nearly so, and
 * a server may serve it or refuse it. They are spread over routes that cost nothing; one route meets one of them.
 */
import { type Context, callersOf } from "../../context.ts";
import { exchangeCall, type TestCall } from "../../sending/test-call.ts";

type Head = Partial<TestCall> & { readonly route: TestCall["route"]; readonly what: string };

const LONG_PATH = 3_000;

/** For whoever may use the catalogs. */
const DESIGN: readonly Head[] = [
  {
    // What proxies write where they know or say nothing of the caller (RFC 7239 section 6).
    route: "design.styles",
    what: "a caller whose address the proxy does not know",
    headers: { "x-forwarded-for": "unknown", forwarded: "for=unknown" },
  },
  {
    route: "design.samples",
    what: "odd conditions and an odd cookie",
    headers: { cookie: "=;;session", range: "bytes=9-1", "if-none-match": "W/none", "if-modified-since": "yesterday" },
  },
  { route: "design.themes", what: "the same Authorization twice", form: "twice" },
  {
    route: "design.styles",
    what: "a query that nobody asked for",
    path: "/design/styles?x=%ff&x[]=1&x[y]=2&=&&limit=many",
  },
  { route: "-", what: "a path with a letter as an escape", path: "/design/%73tyles" },
  { route: "-", what: "a path with slashes as escapes", path: "/design/styles%2f..%2fstyles" },
  { route: "-", what: "a path with a line end", path: "/design/styles%0d%0ax:1" },
  { route: "-", what: "a path with two slashes", path: "//design/styles" },
  { route: "-", what: "a very long path", path: `/design/${"a".repeat(LONG_PATH)}` },
];

const AI: readonly Head[] = [
  {
    route: "poi.enrich",
    what: "encodings and languages that are none",
    headers: { "accept-encoding": "nonsense;q=high, *;q=-1", "accept-language": "-;q=x, en-" },
  },
  {
    route: "chat.route",
    what: "a body with an encoding that is none",
    headers: { "content-encoding": "nonsense" },
  },
  {
    route: "chat.route",
    what: "a plain body that is called compressed",
    headers: { "content-encoding": "gzip" },
  },
  { route: "chat.route", what: "a query behind the path of a POST", path: "/chat/control/route?x=%ff&x[]=1&=&&" },
];

const EXCHANGE: Partial<TestCall> = {
  what: "a caller whose addresses are none",
  headers: { "x-forwarded-for": "unknown, 999.1.1.1, [::1", "x-forwarded-host": "-" },
};

export const oddHeads = (context: Context): TestCall[] => {
  // A server key is the one whose address may matter.
  const design = callersOf(context, "design").at(-1);
  const ai = callersOf(context, "ai").at(-1);
  return [
    ...(design === undefined ? [] : DESIGN.map((head) => ({ ...design, ...head }))),
    ...(ai === undefined ? [] : AI.map((head) => ({ ...ai, ...head }))),
    ...(context.has("publishable") ? [{ ...exchangeCall("publishable", "listed", "chat"), ...EXCHANGE }] : []),
  ];
};
