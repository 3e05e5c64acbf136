/** Bodies that are malformed (items 65, 90-96, 202-203; A2), always on a call that is right in everything else. */
import { outcomeOf } from "../../../contract/refusals.ts";
import { type Cell, tableRule } from "../../cells.ts";
import { type Context, callersOf, scopeOf } from "../../context.ts";
import type { RUNTIME_ROUTES } from "../../runtime-routes.ts";
import { exchangeCall, type TestCall } from "../../sending/test-call.ts";

const MALFORMED = outcomeOf("malformed_body");

const wrong = (text: string): NonNullable<TestCall["body"]> => ({ text, is: "malformed" });

export const json = (value: unknown): NonNullable<TestCall["body"]> => wrong(JSON.stringify(value));

/** Neither closed nor anything else that a lenient reader could take for JSON. */
const NO_JSON = '{"product": "chat", ';

export const exchangeMalformed = tableRule({
  id: "malformed-exchange-body",
  level: "must",
  spec: [64, 65, 202],
  title: "the exchange answers a body that is no JSON with 422",
  phase: "bodies",
  needs: { roles: ["publishable"] },
  cost: { calls: 2 },
  cells: () => [
    {
      testCall: exchangeCall("publishable", "listed", "chat", { body: wrong(NO_JSON), what: "broken JSON" }),
      accepts: [MALFORMED],
    },
    {
      testCall: exchangeCall("publishable", "listed", "chat", { body: wrong("product=chat"), what: "a form" }),
      accepts: [MALFORMED],
    },
  ],
});

/** Only what the specification states about a body; where it shows nothing, nothing can be wrong but the JSON. */
const runtimeCells = (context: Context): Cell[] => {
  const cells: Cell[] = [];
  const add = (
    route: TestCall["route"] & (typeof RUNTIME_ROUTES)[number],
    what: string,
    body: TestCall["body"],
  ): void => {
    const callers = callersOf(context, scopeOf(route));
    const caller = callers[cells.length % Math.max(1, callers.length)];
    if (caller === undefined || body === undefined) return;
    cells.push({ testCall: { route, ...caller, body, what: `${route} with ${what}` }, accepts: [MALFORMED] });
  };
  const BROKEN = wrong('{"messages": [');
  for (const route of ["chat.control", "chat.summary", "chat.button", "design.apply"] as const) {
    add(route, "broken JSON", BROKEN);
  }
  add("chat.route", "broken JSON", BROKEN);
  add("chat.control", "a body without messages", json({ lang: "en" }));
  add("chat.control", "messages that are a text", json({ messages: "hello" }));
  return cells;
};

export const runtimeMalformed = tableRule({
  id: "malformed-runtime-body",
  level: "must",
  spec: [90, 91, 111, 202],
  title: "a runtime route answers a malformed body with 422, streams included",
  phase: "bodies",
  needs: { anyOf: ["publishable", "server"] },
  cost: { calls: 7 },
  cells: runtimeCells,
});

export const runtimeUnshown = tableRule({
  id: "incomplete-requests",
  level: "should",
  spec: [91, 93, 96, 99, 104, 109],
  title: "a request that lacks a stated field, or has it of another type, is answered 422",
  phase: "bodies",
  needs: { anyOf: ["publishable", "server"] },
  cost: { calls: 5 },
  cells: (context) => {
    const cell = (
      route: "chat.control" | "chat.summary" | "chat.route" | "poi.enrich",
      more: Partial<TestCall>,
    ): Cell[] => {
      const caller = callersOf(context, scopeOf(route))[0];
      return caller === undefined ? [] : [{ testCall: { route, ...caller, ...more }, accepts: [MALFORMED] }];
    };
    return [
      ...cell("chat.control", { body: json({ messages: [{ role: "user" }] }), what: "a message without content" }),
      ...cell("chat.control", { body: json({ messages: [{ role: "user", content: 7 }] }), what: "content 7" }),
      ...cell("chat.summary", { body: json({ type: "floodgate-no-such-type" }) }),
      ...cell("chat.route", { body: json({ profile: "walking" }) }),
      ...cell("poi.enrich", { path: "/retrieval/poi/enrich?lat=52.5&lon=13.4", facts: { body: "malformed" } }),
    ];
  },
});
