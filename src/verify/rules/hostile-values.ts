/**
 * Well-formed bodies of which one value has a type that nobody would send (items 102, 109, 118-119, 223): the types of most
 * fields are not shown, so such a body may be taken or refused. One at a time, for what refuses the first never meets the second.
 */
import type { RouteName } from "../../contract/routes.ts";
import type { Probe } from "../probe.ts";

export type OddValue = {
  readonly route: RouteName;
  readonly what: string;
  readonly body: NonNullable<Probe["body"]>;
};

const odd = (route: RouteName, what: string, value: unknown): OddValue => ({
  route,
  what: `${route} with ${what}`,
  body: { text: JSON.stringify(value), is: "ok" },
});

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
];

const ROUTE = { places: [{ name: "Station" }, { name: "Market" }], profile: "walking", raw_query: "there" };
const ROUTES: readonly (readonly [name: string, value: unknown])[] = [
  ["places", {}],
  ["places", [null, 7]],
  ["profile", []],
  ["raw_query", {}],
];

const shown = (name: string, value: unknown): string => `${name} ${JSON.stringify(value)}`;

export const oddValues = (): OddValue[] => [
  ...CONTROL.map(([name, value]) => odd("chat.control", shown(name, value), { messages: MESSAGES, [name]: value })),
  ...ROUTES.map(([name, value]) => odd("chat.route", shown(name, value), { ...ROUTE, [name]: value })),
  odd("chat.summary", "type 7", { type: 7, name: [] }),
  odd("chat.button", "lists for texts", { poi: 7, question: [] }),
  odd("design.apply", "a dataset that is a list", { dataset: [], roles: 7 }),
];

/** Each may be let in, and then it is metered. */
export const ODD_ANALYSES: readonly OddValue[] = [
  odd("design.analyze", "a dataset that is a list", { dataset: [] }),
  odd("design.analyze", "rows that are a text", { dataset: { columns: [], sample_rows: "text" } }),
  odd("design.analyze", "rows that are none", { dataset: { columns: 7, sample_rows: [1, null] } }),
];
