/** Rules that are a table: calls, and for each the outcomes that fit. */
import { type Accepts, Checks } from "./checks.ts";
import type { Context } from "./context.ts";
import type { Probe } from "./probe.ts";
import type { Rule } from "./rule.ts";

export type Cell = Accepts & { readonly probe: Probe };

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
    await context.each(await cells(context), async (cell) => {
      checks.expect(await context.send({ ...cell.probe, ...open }), cell);
    });
    return checks.result(nothing);
  },
});
