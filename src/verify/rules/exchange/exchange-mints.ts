/** The exchange mints what it is asked for (items 2, 9, 37, 64-65, 69, 80). */
import type { Product } from "../../../contract/routes.ts";
import { ANY_SUCCESS, Checks, callInWords } from "../../checks.ts";
import type { Context } from "../../context.ts";
import { isSpent } from "../../limits/allowance-burn.ts";
import type { Rule } from "../../rule.ts";
import type { Answer } from "../../sending/answer.ts";
import { hintOf } from "../../target-hints.ts";

/** One session of each product that a full key mints; tile only where the budget ever had a map load for it. */
export const mintedSpecimens = async (context: Context): Promise<Answer[]> => {
  const products: Product[] = ["chat", "editor"];
  if (context.short("map_loads", 1)?.verdict !== "skipped") products.push("tile");
  return Promise.all(products.map((product) => context.mint("publishable", product)));
};

/** One organization may have spent its map loads before the run; that two have, of which the target file says nothing, is no chance. */
const isSpentElsewhere = async (context: Context): Promise<boolean> =>
  context.has("publishable_other_org") && isSpent(await context.mint("publishable_other_org", "tile"));

export const mints: Rule = {
  id: "exchange-mints",
  level: "must",
  spec: [2, 9, 37, 64, 65, 69, 80],
  title: "the exchange mints chat, editor and tile for a full key of a Pro organization from its Origin",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 0, map_loads: 1 },
  run: async (context) => {
    const checks = new Checks("200 or 201");
    for (const answer of await mintedSpecimens(context)) {
      if (answer.testCall.product === "tile" && isSpent(answer) && !(await isSpentElsewhere(context))) {
        checks.unclear(`${callInWords(answer)}: the organization's map loads of this month seem to be spent`);
        continue;
      }
      const hint = checks.expect(answer, { accepts: [ANY_SUCCESS] }) ? null : hintOf(answer, "publishable", context);
      if (hint !== null) checks.note(hint);
      // 204 or 202 would be a success without a session.
      if (/^2\d\d$/.test(answer.outcome) && answer.status !== 200 && answer.status !== 201) {
        checks.require(false, answer, "200 or 201", `it was ${answer.status}`);
      }
    }
    return checks.result();
  },
};
