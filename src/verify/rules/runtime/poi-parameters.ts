/**
 * The optional parameters of a place are taken with and without (item 99). Their types are not shown, so a refusal alone says
 * nothing: it is compared with calls that differ in nothing else (`poi-calls.ts`), made only where something was refused.
 */
import { ANY_SUCCESS, Checks } from "../../checks.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, inWords } from "../../sending/answer.ts";
import { isMalformed } from "../../wording.ts";
import { isServed, neverTaken, OPTIONAL, poiCalls, saysUnknown } from "./poi-calls.ts";

const poiOptions: Rule = {
  id: "poi-optional-parameters",
  level: "must",
  spec: [99],
  title: "a place is enriched with and without the optional parameters of the query",
  phase: "lattice",
  needs: { anyOf: ["publishable", "server"] },
  cost: { calls: 2, shared: "optional parameters" },
  run: async (context) => {
    const checks = new Checks("the same with the optional parameters and without");
    const calls = await poiCalls(context);
    const { bare, full, tried } = calls;
    for (const answer of [bare, full]) {
      if (answer.transient) checks.unclear(inWords(answer));
      else if (isServed(answer)) checks.fine();
      else if (!isMalformed(answer)) checks.note(`${answer.testCall.what}: ${inWords(answer)}`);
    }
    if (isMalformed(bare)) {
      const served = [full, ...tried.map(({ taken }) => taken)].find((answer) => answer !== null && isServed(answer));
      if (served === undefined || served === null) {
        checks.note("refused with and without: the types of the query are not shown");
      } else {
        const got = `${inWords(bare)} for the required parameters alone, and ${served.outcome} for ${served.testCall.what}`;
        checks.breach({
          expected: "none of the optional parameters to be needed",
          got,
          steps: [served, bare],
          accepts: [ANY_SUCCESS],
        });
      }
      return checks.result("the types of the query are not shown in the specification");
    }
    for (const { taken } of tried) if (taken?.transient === true) checks.unclear(inWords(taken));
    const never = neverTaken(calls);
    const breach = (name: string, refused: Answer | undefined, more: Answer[] = []): void => {
      if (refused === undefined) return;
      const got = `${bare.outcome} for the required parameters alone, and ${inWords(refused)} with ${name}`;
      checks.breach({ expected: `${name} to be taken`, got, steps: [bare, ...more, refused], accepts: null });
    };
    if (tried.length > 0 && never.length === tried.length) {
      breach(`any of ${Object.keys(OPTIONAL).join(", ")}`, never[0]?.refused[0]);
    } else {
      for (const one of never) {
        // What a language is called is no secret; what the others hold is not shown.
        if (one.name === "lang") breach(`lang as any of ${OPTIONAL.lang?.join(", ")}`, one.refused[0]);
        else {
          const unlisted = await saysUnknown(context, one);
          if (unlisted !== null)
            breach(`${one.name}, as with a parameter that is not listed`, one.refused[0], [unlisted]);
        }
      }
      if (tried.length > 0) checks.note(`not every value of an optional parameter is taken: ${inWords(full)}`);
    }
    return checks.result("the types of the query are not shown in the specification");
  },
};

const eachPoiOption: Rule = {
  id: "poi-takes-each-parameter",
  level: "should",
  spec: [99],
  title: "each optional parameter of a place is taken with one of the values that anybody would try",
  phase: "lattice",
  needs: { anyOf: ["publishable", "server"] },
  cost: { calls: 2, shared: "optional parameters" },
  run: async (context) => {
    const checks = new Checks("each of the optional parameters to be taken with some value");
    const calls = await poiCalls(context);
    if (isServed(calls.full)) checks.fine();
    if (isServed(calls.bare)) {
      for (const { taken } of calls.tried) if (taken !== null && isServed(taken)) checks.fine();
      const never = neverTaken(calls);
      // What the other rule says is not said twice.
      const rest = never.length === calls.tried.length ? [] : never.filter(({ name }) => name !== "lang");
      for (const { name, refused } of rest) {
        const got = `${inWords(refused[0] as Answer)}, with ${(OPTIONAL[name] ?? []).join(", ")} alike`;
        checks.breach({ expected: `${name} to be taken`, got, steps: [calls.bare, ...refused], accepts: null });
      }
    }
    return checks.result("the types of the query are not shown in the specification");
  },
};

export const POI_OPTION_RULES: readonly Rule[] = [poiOptions, eachPoiOption];
