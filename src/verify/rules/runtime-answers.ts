/** Correct calls at runtime are served with what the specification says (items 2-5, 89-117). */
import { foreignHeader } from "../../contract/foreign-text.ts";
import type { RouteName } from "../../contract/routes.ts";
import { callersOf, RUNTIME_ROUTES, scopeOf } from "../context.ts";
import { hintOf } from "../reach.ts";
import { type Rule, rulesOf } from "../rule.ts";
import { type Answer, inWords, isAdmitted } from "../sending/answer.ts";
import { inSession, mint } from "../sending/test-call.ts";
import { analyses, summariesOfEitherType } from "./optional-members.ts";

const { must } = rulesOf("lattice", { needs: { anyOf: ["publishable", "server"] } });

/** Routes whose body is not fully specified: 422 may mean that it takes another one. */
const BODY_NOT_SHOWN: ReadonlySet<RouteName> = new Set<RouteName>([
  ...(["chat.summary", "chat.button", "chat.route", "poi.enrich", "design.analyze", "design.apply"] as const),
]);
const CATALOGS: readonly RouteName[] = ["design.styles", "design.samples", "design.themes"];
/** A catalog may be empty, and a place unknown. */
const MAY_BE_EMPTY: ReadonlySet<string> = new Set([...CATALOGS, "poi.enrich"]);

export const RUNTIME_ANSWER_RULES: readonly Rule[] = [
  must("runtime-admits", [2, 4, 5, 90, 93, 94, 99, 100, 112, 113, 114, 115, 116, 117, 143], {
    title: "a correct call with a session or a server key of the right scope is served, on every route",
    expected: "2xx for a correct call",
    cost: { calls: 19, analyses: 1 },
    step: async (context, checks) => {
      const judge = (route: RouteName, answer: Answer): void => {
        const shown = route === "poi.enrich" ? "the types of its query are" : "its body is";
        if (BODY_NOT_SHOWN.has(route) && answer.outcome === "422 malformed_body")
          checks.note(`${route}: 422, ${shown} not shown in the specification`);
        else if (route === "poi.enrich" && answer.status === 404) checks.note("poi.enrich: 404, no such place");
        else if (!checks.expect(answer, { accepts: ["2xx"], tolerates: route === "chat.route" ? ["200 error"] : [] })) {
          const hint = answer.testCall.credential.as === "server" ? hintOf(answer, "server", context) : null;
          if (hint !== null) checks.note(hint);
        }
      };
      const calls = RUNTIME_ROUTES.filter((route) => route !== "chat.summary" && route !== "design.analyze").flatMap(
        (route) => callersOf(context, scopeOf(route)).map((caller) => ({ route, ...caller })),
      );
      await context.each(calls, async (call) => judge(call.route, await context.send(call)));
      for (const answer of await summariesOfEitherType(context)) judge("chat.summary", answer);
      // With or without a prompt: one is enough here.
      const [analysed] = (await analyses(context)).toSorted((a, b) => Number(isAdmitted(b)) - Number(isAdmitted(a)));
      if (analysed !== undefined) judge("design.analyze", analysed);
      else checks.short(context.short("analyses", 1), "design.analyze");
    },
  }),
  must("answers-are-json", [114, 115, 116, 99, 112, 113], {
    title: "the JSON routes answer JSON",
    expected: "a JSON body with a JSON content type",
    cost: { calls: 7, analyses: 1 },
    step: async (context, checks) => {
      const look = (answer: Answer): void => {
        if (checks.isUnclear(answer) || !isAdmitted(answer)) return;
        if (answer.status === 204 && MAY_BE_EMPTY.has(answer.testCall.route)) return;
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
      return "no JSON route was served";
    },
  }),
];

export const ORGANIZATIONS_ARE_SERVED_ALIKE = rulesOf("organizations").must(
  "organizations-are-served-alike",
  [46, 74],
  {
    title: "a second organization with the same plan is served the same",
    expected: "2xx",
    needs: { roles: ["publishable_other_org"] },
    cost: { calls: 2 },
    step: async (context, checks) => {
      if (!checks.admits(await context.send(mint("publishable_other_org", "chat")))) return;
      const place = await context.send(inSession("chat", "poi.enrich", {}, "publishable_other_org"));
      // The query's types are not specified, and the place may be unknown.
      if (place.status === 404 || place.status === 422) checks.note(inWords(place));
      else checks.admits(place);
    },
  },
);
