/** Calls that are right are admitted, and answered with what the specification says (items 4-5, 89-117). */
import { foreignHeader } from "../../../contract/foreign-text.ts";
import type { RouteName } from "../../../contract/routes.ts";
import { Checks } from "../../checks.ts";
import { callersOf, scopeOf } from "../../context.ts";
import type { Rule } from "../../rule.ts";
import { RUNTIME_ROUTES } from "../../runtime-routes.ts";
import { type Answer, inWords, isAdmitted } from "../../sending/answer.ts";
import { hintOf } from "../../target-hints.ts";
import { analyses } from "./analysis-prompt-is-optional.ts";
import { summariesOfEitherType } from "./summary-takes-both-types.ts";

/** Routes of which the specification does not show the whole body: a 422 says that ours was another one. */
const BODY_NOT_SHOWN: ReadonlySet<RouteName> = new Set<RouteName>([
  "chat.summary",
  "chat.button",
  "chat.route",
  "poi.enrich",
  "design.analyze",
  "design.apply",
]);

/** What of a call is not shown, where it is refused as malformed. */
const shownOf = (route: RouteName): string => (route === "poi.enrich" ? "the types of its query are" : "its body is");

const CATALOGS: readonly RouteName[] = ["design.styles", "design.samples", "design.themes"];

const admits: Rule = {
  id: "runtime-admits",
  level: "must",
  spec: [2, 4, 5, 90, 93, 94, 99, 100, 112, 113, 114, 115, 116, 117, 143],
  title: "a correct call with a session or a server key of the right scope is served, on every route",
  phase: "lattice",
  needs: { anyOf: ["publishable", "server"] },
  cost: { calls: 19, analyses: 1 },
  run: async (context) => {
    const checks = new Checks("2xx for a correct call");
    const callers = RUNTIME_ROUTES.flatMap((route) => {
      if (route === "chat.summary" || route === "design.analyze") return [];
      return callersOf(context, scopeOf(route)).map((caller) => ({ route, ...caller }));
    });
    const judge = (route: RouteName, answer: Answer): void => {
      const open = BODY_NOT_SHOWN.has(route) && answer.outcome === "422 malformed_body";
      if (open) checks.note(`${route}: 422, ${shownOf(route)} not shown in the specification`);
      else if (route === "poi.enrich" && answer.status === 404) checks.note("poi.enrich: 404, no such place");
      else if (!checks.expect(answer, { accepts: ["2xx"], tolerates: route === "chat.route" ? ["200 error"] : [] })) {
        const hint = answer.testCall.credential.as === "server" ? hintOf(answer, "server", context) : null;
        if (hint !== null) checks.note(hint);
      }
    };
    await context.each(callers, async (testCall) => judge(testCall.route, await context.send(testCall)));
    for (const answer of await summariesOfEitherType(context)) judge("chat.summary", answer);
    // With or without a prompt: one of them is enough here.
    const [analysed] = (await analyses(context)).toSorted((a, b) => Number(isAdmitted(b)) - Number(isAdmitted(a)));
    if (analysed !== undefined) judge("design.analyze", analysed);
    else checks.short(context.short("analyses", 1), "design.analyze");
    return checks.result();
  },
};

const catalogsAreJson: Rule = {
  id: "answers-are-json",
  level: "must",
  spec: [114, 115, 116, 99, 112, 113],
  title: "the JSON routes answer JSON",
  phase: "lattice",
  needs: { anyOf: ["publishable", "server"] },
  cost: { calls: 7, analyses: 1 },
  run: async (context) => {
    const checks = new Checks("a JSON body with a JSON content type");
    const look = (answer: Answer): void => {
      if (answer.transient) checks.unclear(inWords(answer));
      // A catalog may have nothing in it, and nothing may be known of a place; the others answer JSON.
      const mayBeEmpty = [...CATALOGS, "poi.enrich"].some((route) => route === answer.testCall.route);
      if (!isAdmitted(answer) || (mayBeEmpty && answer.status === 204)) return;
      checks.require(answer.body !== undefined, answer, "a JSON body", "it was no JSON");
      const type = answer.headers["content-type"] ?? "none";
      checks.require(/json/i.test(type), answer, "a JSON content type", `it was ${foreignHeader(type)}`);
    };
    await context.each([...CATALOGS, "poi.enrich", "chat.route", "design.apply"] as const, async (route) => {
      const caller = callersOf(context, scopeOf(route))[0];
      if (caller !== undefined) look(await context.send({ route, ...caller }));
    });
    const analysed = await analyses(context);
    for (const answer of analysed) look(answer);
    if (analysed.length === 0) checks.short(context.short("analyses", 1), "design.analyze");
    return checks.result("no JSON route was served");
  },
};

export const RUNTIME_RULES: readonly Rule[] = [admits, catalogsAreJson];
