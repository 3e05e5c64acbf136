/** Calls that are right are let in (items 4-5, 89-117), and the route whose failures travel under 200 (items 97-98, 106). */
import type { RouteName } from "../../contract/routes.ts";
import { type Answer, isAdmitted, told } from "../answer.ts";
import { Checks } from "../checks.ts";
import { type Context, callersOf, scopeOf } from "../context.ts";
import type { Probe } from "../probe.ts";
import { RUNTIME_ROUTES, type Rule } from "../rule.ts";

/** Routes of which the specification does not show the whole body: a 422 says that ours was another one. */
const BODY_NOT_SHOWN: ReadonlySet<RouteName> = new Set<RouteName>([
  "chat.summary",
  "chat.button",
  "chat.route",
  "poi.enrich",
  "design.analyze",
  "design.apply",
]);

const CATALOGS: readonly RouteName[] = ["design.styles", "design.samples", "design.themes"];

const admits: Rule = {
  id: "runtime-admits",
  level: "must",
  spec: [2, 4, 5, 90, 93, 94, 99, 100, 112, 113, 114, 115, 116, 117, 143],
  title: "a correct call with a session or a server key of the right scope is served, on every route",
  phase: "lattice",
  needs: { anyOf: ["publishable", "server"] },
  run: async (context) => {
    const checks = new Checks("2xx for a correct call");
    const wanted = RUNTIME_ROUTES.filter((route) => route !== "design.analyze" || context.budget.left("analyses") >= 1);
    const callers = wanted.flatMap((route) => {
      const all = callersOf(context, scopeOf(route));
      // A metered call is made once; who makes it does not matter.
      return (route === "design.analyze" ? all.slice(0, 1) : all).map((caller) => ({ route, ...caller }));
    });
    await context.each(callers, async (probe) => {
      const answer = await context.send(probe);
      const open = BODY_NOT_SHOWN.has(probe.route) && answer.outcome === "422 malformed_body";
      if (open) return checks.note(`${probe.route}: 422, its body is not shown in the specification`);
      if (probe.route === "poi.enrich" && answer.status === 404) return checks.note("poi.enrich: 404, no such place");
      checks.expect(answer, { accepts: ["2xx"], tolerates: probe.route === "chat.route" ? ["200 error"] : [] });
    });
    return checks.result();
  },
};

/** Situations in which a route cannot be found; which of them count as failures is the deployment's affair (item 108). */
const FAILING: readonly { what: string; body: unknown }[] = [
  {
    what: "a route with one place",
    body: { places: [{ name: "Station", lat: 52.52, lon: 13.36 }], profile: "walking", raw_query: "there" },
  },
  {
    what: "a route by a profile that nobody knows",
    body: {
      places: [
        { name: "Station", lat: 52.52, lon: 13.36 },
        { name: "Market", lat: 52.5, lon: 13.4 },
      ],
      profile: "floodgate-no-such-profile",
      raw_query: "from the station to the market",
    },
  },
  {
    what: "a route between two places in two oceans",
    body: {
      places: [
        { name: "Pacific", lat: -48.8767, lon: -123.3933 },
        { name: "Atlantic", lat: 0.01, lon: -30.01 },
      ],
      profile: "walking",
      raw_query: "from one sea to the other",
    },
  },
];

const routeProbe = (context: Context, what: string, body: unknown): Probe | null => {
  const caller = callersOf(context, "ai")[0];
  if (caller === undefined) return null;
  return { route: "chat.route", ...caller, body: { text: JSON.stringify(body), is: "ok" }, what, open: true };
};

/** A refusal in the words of a route failure, or one that only a handler gives: its status should have been 200. */
const isFailureByStatus = (answer: Answer): boolean =>
  answer.status === 422 ? answer.envelope === "flat" : answer.status !== null && answer.status >= 400;

const failuresAre200: Rule = {
  id: "route-failures-are-200",
  level: "must",
  spec: [97, 98, 186],
  title: "a route that cannot be found is told as 200 with an error text, not as 4xx",
  phase: "bodies",
  needs: { anyOf: ["publishable", "server"] },
  run: async (context) => {
    const checks = new Checks("200, with a non-empty text under `error` where the route failed");
    let failures = 0;
    for (const { what, body } of FAILING) {
      const probe = routeProbe(context, what, body);
      if (probe === null) continue;
      const answer = await context.send(probe);
      if (answer.transient) checks.unclear(told(answer));
      else if (answer.outcome === "200 error") {
        failures += 1;
        const { error } = answer.fields;
        if (error === null) {
          checks.note(`${what}: error is null, which tells of no failure (item 106)`);
          continue;
        }
        const fits = typeof error === "string" && error !== "";
        checks.require(fits, answer, "a non-empty text under `error`", `it was ${JSON.stringify(error)}`);
      } else if (isAdmitted(answer)) checks.fine();
      else if (isFailureByStatus(answer)) {
        checks.breach({
          expected: "200 with an `error` text",
          got: `${what}: ${told(answer)}`,
          steps: [answer],
          accepts: ["200", "200 error"],
        });
      } else checks.note(`${what}: ${told(answer)}`);
    }
    if (failures === 0) checks.note("no route failed");
    return checks.result(
      "every body was refused as malformed: the places of a route are not shown in the specification",
    );
  },
};

const catalogsAreJson: Rule = {
  id: "answers-are-json",
  level: "must",
  spec: [114, 115, 116, 99, 112, 113],
  title: "the JSON routes answer JSON",
  phase: "lattice",
  needs: { anyOf: ["publishable", "server"] },
  run: async (context) => {
    const checks = new Checks("a JSON body with a JSON content type");
    const look = (answer: Answer): void => {
      if (answer.transient) checks.unclear(told(answer));
      if (!isAdmitted(answer) || answer.status === 204) return;
      checks.require(answer.body !== undefined, answer, "a JSON body", "it was no JSON");
      const type = answer.headers["content-type"] ?? "none";
      checks.require(/json/i.test(type), answer, "a JSON content type", `it was ${type}`);
    };
    await context.each([...CATALOGS, "poi.enrich", "chat.route", "design.apply"] as const, async (route) => {
      const caller = callersOf(context, scopeOf(route))[0];
      if (caller !== undefined) look(await context.send({ route, ...caller }));
    });
    // The metered one is not called again: what came before is enough.
    const analysis = context.answers.find(
      ({ probe, outcome }) => probe.route === "design.analyze" && outcome === "200",
    );
    if (analysis !== undefined) look(analysis);
    return checks.result("no JSON route was served");
  },
};

export const RUNTIME_RULES: readonly Rule[] = [admits, catalogsAreJson, failuresAre200];
