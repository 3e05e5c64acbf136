/**
 * Well-formed bodies of which one value has a type that nobody would send (items 102, 109, 118-119, 223): the types of most
 * fields are not shown, so such a body may be taken or refused. One at a time, for what refuses the first never meets the second.
 */
import type { RouteName } from "../../../contract/routes.ts";
import type { TestCall } from "../../sending/test-call.ts";

type OddValue = {
  readonly route: RouteName;
  readonly what: string;
  readonly body: NonNullable<TestCall["body"]>;
};

/** Crash files and reports show the beginning. */
const SHOWN_MAX = 300;
const LONG_ID = 5_000;
const MANY_MESSAGES = 200;
const MANY_PLACES = 1_000;

const odd = (route: RouteName, what: string, value: unknown): OddValue => {
  const text = JSON.stringify(value);
  const shown = text.length > 10 * SHOWN_MAX ? { shown: `${text.slice(0, SHOWN_MAX)}...` } : {};
  return { route, what: `${route} with ${what}`, body: { text, is: "ok", ...shown } };
};

const MESSAGES = [{ role: "user", content: "Where is the harbour?" }];
const CONTROL: readonly (readonly [name: string, value: unknown])[] = [
  ["location", 5],
  ["map_zoom", {}],
  ["lang", []],
  ["session_id", 7],
  ["app_snapshot", []],
  ["auto_actions", "yes"],
  ["messages", {}],
  ["messages", [null]],
  ["messages", []],
  ["messages", [{ role: "tool", content: "Hello" }]],
  ["messages", [{ role: "", content: "Hello" }]],
  ["messages", [{ role: 7, content: "Hello" }]],
  ["messages", [{ role: "user", content: "" }]],
  ["messages", [{ role: "user", content: " \n" }]],
  ["messages", [{ role: "user" }]],
  ["messages", [{ role: "user", content: [{ type: "text", text: "Hello" }] }]],
  ["session_id", "s".repeat(LONG_ID)],
  ["session_id", "../\u202e'\"<\u00e9\n*:"],
];

const ROUTE = { places: [{ name: "Station" }, { name: "Market" }], profile: "walking", raw_query: "there" };
const ROUTES: readonly (readonly [name: string, value: unknown])[] = [
  ["places", {}],
  ["places", [null, 7]],
  ["profile", []],
  ["raw_query", {}],
  ["places", []],
  ["places", [{}, {}]],
  [
    "places",
    [
      { name: "", lat: 95, lon: 500 },
      { name: "Market", lat: -91, lon: -181 },
    ],
  ],
  [
    "places",
    [
      { name: "Here", lat: 52.5, lon: 13.4 },
      { name: "Here", lat: 52.5, lon: 13.4 },
    ],
  ],
  ["profile", ""],
  ["raw_query", ""],
  ["raw_query", "\ud800"],
];

const shown = (name: string, value: unknown): string => `${name} ${JSON.stringify(value).slice(0, 80)}`;

/** So much that a server may work on it for long: no answer is no finding. */
const MUCH: readonly OddValue[] = [
  odd("chat.control", `${MANY_MESSAGES} messages`, {
    messages: Array.from({ length: MANY_MESSAGES }, () => MESSAGES[0]),
  }),
  odd("chat.route", `${MANY_PLACES} places`, {
    ...ROUTE,
    places: Array.from({ length: MANY_PLACES }, (_, i) => ({ name: `P${i}`, lat: 52.5 + (i % 2) / 10, lon: 13.4 })),
  }),
];
const MUCH_IN_WORDS: ReadonlySet<string> = new Set(MUCH.map(({ what }) => what));
export const isMuch = (what: string | undefined): boolean => MUCH_IN_WORDS.has(what ?? "");

export const oddValues = (): OddValue[] => [
  ...CONTROL.map(([name, value]) => odd("chat.control", shown(name, value), { messages: MESSAGES, [name]: value })),
  ...ROUTES.map(([name, value]) => odd("chat.route", shown(name, value), { ...ROUTE, [name]: value })),
  ...MUCH,
  odd("chat.summary", "type 7", { type: 7, name: [] }),
  odd("chat.summary", "a type that nobody knows", { type: "floodgate-no-such-type", name: "Harbour" }),
  odd("chat.button", "lists for texts", { poi: 7, question: [] }),
  odd("chat.button", "empty texts", { poi: "", question: "" }),
  odd("design.apply", "a dataset that is a list", { dataset: [], roles: 7 }),
  odd("design.apply", "nothing in the dataset", { dataset: {}, roles: [] }),
];

const DATASET = { columns: ["city", "people"], sample_rows: [{ city: "Berlin", people: 3_700_000 }] };

/** Each may be admitted, and then it is metered; so two of the values go together. */
export const ODD_ANALYSES: readonly OddValue[] = [
  odd("design.analyze", "a dataset that is a list", { dataset: [] }),
  odd("design.analyze", "rows that are a text, and options that are a list", {
    dataset: { columns: [], sample_rows: "text" },
    options: [],
  }),
  odd("design.analyze", "options that are a text", { dataset: DATASET, options: "x" }),
  odd("design.analyze", "rows that are none", { dataset: { columns: 7, sample_rows: [1, null] } }),
];
