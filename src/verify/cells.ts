/** Rules that are a table: calls, and for each the outcomes that fit. */
import { BudgetSpentError } from "../target/budget.ts";
import { CannotJudge } from "./cannot-judge.ts";
import { type Accepts, Checks } from "./checks.ts";
import type { Context } from "./context.ts";
import type { Rule } from "./rule.ts";
import type { TestCall } from "./sending/test-call.ts";

export type Cell = Accepts & { readonly testCall: TestCall };

type Table = Omit<Rule, "run"> & {
  cells(context: Context): readonly Cell[] | Promise<readonly Cell[]>;
  /** Why there may be no cells, beyond what `needs` says. */
  nothing?: string;
};

export const tableRule = ({ cells, nothing, ...rule }: Table): Rule => ({
  ...rule,
  run: async (context) => {
    const checks = new Checks(rule.title);
    const open = rule.level === "must" ? {} : { open: true as const };
    let stuck: CannotJudge | BudgetSpentError | undefined;
    await context.each(await cells(context), async (cell) => {
      try {
        checks.expect(await context.send({ ...cell.testCall, ...open }), cell);
      } catch (error) {
        if (!(error instanceof CannotJudge || error instanceof BudgetSpentError)) throw error;
        stuck ??= error;
      }
    });
    // One cell that cannot be tried does not hide a breach that another has shown.
    if (stuck !== undefined && !checks.failed) throw stuck;
    return checks.result(nothing);
  },
});
