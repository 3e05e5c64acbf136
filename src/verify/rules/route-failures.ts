/** Routes that cannot be found (A11). Doubtful answers are compared with one for a route between like places. */
import { isObject } from "../../contract/envelopes.ts";
import { shapeOf, shapeOfBody } from "../../contract/foreign-text.ts";
import { type Context, callerOf } from "../context.ts";
import { type Rule, rulesOf } from "../rule.ts";
import { type Answer, inWords, isAdmitted, wordingOf } from "../sending/answer.ts";
import { body } from "../sending/test-call.ts";

const { must, should } = rulesOf("bodies", {
  needs: { anyOf: ["publishable", "server"] },
  cost: { calls: 3, shared: "routes" },
});

const STATION = { name: "Station", lat: 52.52, lon: 13.36 };
const MARKET = { name: "Market", lat: 52.5, lon: 13.4 };
const FOUND = { places: [STATION, MARKET], profile: "walking", raw_query: "from the station to the market" };
const OCEANS = [
  { name: "Pacific", lat: -48.8767, lon: -123.3933 },
  { name: "Atlantic", lat: 0.01, lon: -30.01 },
];

const STRANGE = { ...FOUND, profile: "floodgate-no-such-profile" };

/** `known`: only the number or position of places differs from a findable route. Another body may be malformed. */
const FAILING: readonly { what: string; value: unknown; known: boolean }[] = [
  { what: "a route with one place", value: { ...FOUND, places: [STATION] }, known: true },
  { what: "a route by a profile that nobody knows", value: STRANGE, known: false },
  { what: "a route between two places in two oceans", value: { ...FOUND, places: OCEANS }, known: true },
];

const ask = (context: Context, what: string, text: string, is: "ok" | "malformed" = "ok"): Promise<Answer> =>
  context.send({ route: "chat.route", ...callerOf(context, "ai"), body: body(text, is), what, open: true });

const askedFor = (context: Context) =>
  context.once("routes that cannot be found", () =>
    context.each(FAILING, async ({ what, value, known }) => {
      return { what, known, answer: await ask(context, what, JSON.stringify(value)) };
    }),
  );

const foundBy = (context: Context): Promise<Answer | undefined> =>
  context.once("a route that is found", async () => {
    const answer = await ask(context, "a route between two places", JSON.stringify(FOUND));
    const isFound = isAdmitted(answer) && answer.body !== undefined && (answer.fields.error ?? null) === null;
    return isFound ? answer : undefined;
  });

const malformedWording = (context: Context): Promise<string | null> =>
  context.once("a route's broken body", async () => {
    const answer = await ask(context, "chat.route with broken JSON", '{"places": [', "malformed");
    return answer.transient || answer.status !== 422 ? null : wordingOf(answer);
  });

/** Whether the status reports a failed route; a 422 does so only in the flat envelope of a route failure. */
const isFailureByStatus = ({ status, envelope }: Answer): boolean =>
  status === 422 ? envelope === "flat" : status !== null && status >= 400;

const doubtAt422 = async (context: Context, known: boolean, answer: Answer) => {
  if (!known || answer.status !== 422) return null;
  const found = await foundBy(context);
  if (found === undefined) return null;
  return { found, calledMalformed: (await malformedWording(context)) === wordingOf(answer) };
};

const isHollow = (value: unknown): boolean => {
  if (value === null || value === "") return true;
  if (Array.isArray(value)) return value.every(isHollow);
  return isObject(value) && Object.values(value).every(isHollow);
};
const substanceIn = (value: unknown): number =>
  isObject(value) ? Object.values(value).filter((one) => typeof one === "object" && !isHollow(one)).length : 0;

const saysLess = (value: unknown, found: unknown): boolean => {
  if (isHollow(value)) return !isHollow(found);
  return isObject(value) && substanceIn(value) === 0 && (Array.isArray(found) || substanceIn(found) > 0);
};

const EXPECTED = "200 with an `error` text";
const FAILED = ["200", "200 error"];

export const ROUTE_FAILURE_RULES: readonly Rule[] = [
  must("route-failures-are-200", [97, 98, 186], {
    title: "a route that cannot be found is reported as 200 with an error text, not as 4xx",
    step: async (context, checks) => {
      let failures = 0;
      const breach = (got: string, ...steps: Answer[]): void => checks.breach(EXPECTED, got, steps, FAILED);
      for (const { what, known, answer } of await askedFor(context)) {
        if (checks.isUnclear(answer)) continue;
        if (answer.outcome === "200 error") {
          failures += 1;
          const { error } = answer.fields;
          const isText = typeof error === "string" && error !== "";
          if (error === null) checks.note(`${what}: error is null, which reports no failure (item 106)`);
          else checks.require(isText, answer, "a non-empty text under `error`", `it was ${shapeOf(error)}`);
        } else if (isAdmitted(answer)) {
          if (!checks.require(answer.body !== undefined, answer, "a JSON body", "it was none")) continue;
          // `detail` is the envelope of a refusal, here under the status of a success.
          const { detail, ...rest } = answer.fields;
          const found = typeof detail === "string" ? await foundBy(context) : undefined;
          if (found !== undefined && !("detail" in found.fields) && saysLess(rest, found.body))
            checks.breach(EXPECTED, `${what}: 200 with ${shapeOfBody(answer.text, answer.body)}`, [found, answer]);
        } else if (isFailureByStatus(answer)) breach(`${what}: ${inWords(answer)}`, answer);
        else {
          const doubt = await doubtAt422(context, known, answer);
          if (doubt === null || doubt.calledMalformed) checks.note(`${what}: ${inWords(answer)}`);
          else breach(`${what}: ${inWords(answer)}, where two places of that shape are served`, doubt.found, answer);
        }
      }
      if (failures === 0) checks.note("no route failed");
      return "every body was refused as malformed: the places of a route are not shown in the specification";
    },
  }),
  // Item 97 says "not 4xx"; which calls are failures and which malformed is not specified (item 108).
  should("route-failures-are-reported", [97, 98, 106, 108, 202], {
    title: "a route that cannot be found is neither called malformed nor answered with nothing",
    expected: "200 with an `error` text, or a route",
    step: async (context, checks) => {
      for (const { what, known, answer } of await askedFor(context)) {
        if (checks.isUnclear(answer)) continue;
        const doubt = await doubtAt422(context, known, answer);
        if (doubt?.calledMalformed === true) {
          const got = `${what}: ${inWords(answer)}, as for broken JSON, where two places of that shape are served`;
          checks.breach(EXPECTED, got, [doubt.found, answer], FAILED);
        }
        if (!isAdmitted(answer) || answer.body === undefined) continue;
        const isBare = answer.fields.error === undefined && answer.fields.detail === undefined;
        const isThin = isHollow(answer.body) || Object.values(answer.fields).some(isHollow);
        const found = isBare && isThin ? await foundBy(context) : undefined;
        const less = found !== undefined && saysLess(answer.body, found.body);
        checks.require(!less, answer, "an `error` text, or a route", `it was ${shapeOfBody(answer.text, answer.body)}`);
      }
      return "no route was served";
    },
  }),
];
