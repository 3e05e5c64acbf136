/**
 * The optional prompt of an analysis (item 112). What a dataset looks like is not shown, so only two calls with the same dataset
 * show something: the one without a prompt, and the one with it. An analysis is metered: the second is made only where the
 * first was refused, or the budget has one to spare.
 */
import { Checks } from "../../checks.ts";
import { type Context, callersOf } from "../../context.ts";
import { OutOfBudget } from "../../planning/shortage.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, inWords, isAdmitted } from "../../sending/answer.ts";
import { isMalformed } from "../../wording.ts";

const DATASET = {
  columns: [
    { name: "city", type: "string" },
    { name: "people", type: "number" },
  ],
  sample_rows: [{ city: "Bern", people: 137_000 }],
};

/** Other rules need some as well. */
const SPARE = 5;

/** The analysis that rules look at, whoever makes it: without a prompt, and where that is refused with one as well. */
export const analyses = (context: Context): Promise<Answer[]> =>
  context.once("analyses", async () => {
    const caller = callersOf(context, "design")[0];
    if (caller === undefined || context.budget.left("analyses") < 1) return [];
    const ask = (what: string, more: object): Promise<Answer> => {
      const text = JSON.stringify({ dataset: DATASET, ...more });
      return context.send({ route: "design.analyze", ...caller, body: { text, is: "ok" }, what });
    };
    const bare = await ask("a dataset without a prompt", {});
    if (isAdmitted(bare) ? context.budget.left("analyses") < SPARE : !isMalformed(bare)) return [bare];
    return [bare, await ask("a dataset with a prompt", { prompt: "Show where most people live" })];
  });
const promptIsOptional: Rule = {
  id: "analysis-prompt-is-optional",
  level: "must",
  spec: [112],
  title: "a dataset is analysed with and without a prompt",
  phase: "lattice",
  needs: { anyOf: ["publishable", "server"] },
  cost: { calls: 1, analyses: 1, shared: "analyses" },
  run: async (context) => {
    const checks = new Checks("2xx with a prompt and without");
    const answers = await analyses(context);
    const short = answers.length === 0 ? context.short("analyses", 1) : null;
    if (short !== null) throw new OutOfBudget(short);
    for (const answer of answers) {
      if (answer.transient) checks.unclear(inWords(answer));
      else if (isAdmitted(answer)) checks.fine();
      else if (answers.some(isAdmitted) && isMalformed(answer)) {
        checks.require(false, answer, "2xx, as the same dataset gets otherwise", "it was refused");
      }
    }
    return checks.result(`the dataset was refused: ${answers.map(inWords).join("; ")}`);
  },
};

export const ANALYSIS_RULES: readonly Rule[] = [promptIsOptional];
