/**
 * An analysis without the one member that item 112 requires of its body. A conforming deployment refuses it with 422 and meters
 * nothing; one that admits it may meter it, once. So it comes before the analyses that are made on purpose, while the budget
 * has that one: else what those spend would hide it.
 */
import { outcomeOf } from "../../../contract/refusals.ts";
import { type Cell, tableRule } from "../../cells.ts";
import { callersOf } from "../../context.ts";

const PROMPT_ALONE = { text: JSON.stringify({ prompt: "Show where most people live" }), is: "malformed" } as const;

export const analysisNeedsADataset = tableRule({
  id: "analysis-needs-a-dataset",
  level: "must",
  spec: [112, 202],
  title: "an analysis without a dataset is answered 422",
  phase: "lattice",
  needs: { anyOf: ["publishable", "server"], spends: { analyses: 1 } },
  cost: { calls: 1 },
  cells: (context) =>
    callersOf(context, "design")
      .slice(0, 1)
      .map(
        (caller): Cell => ({
          testCall: {
            route: "design.analyze",
            ...caller,
            body: PROMPT_ALONE,
            what: "design.analyze without a dataset",
          },
          accepts: [outcomeOf("malformed_body")],
        }),
      ),
});
