/**
 * The reply comes in crumbs, each well inside the budget, the whole of it beyond: a caller whose timer starts again with
 * every read waits for ever. Crumbs of up to 8 bytes, a tenth of the budget apart, make an answer of 100 bytes last
 * longer than the budget.
 */
import { type FaultMaker, toxicFault } from "../fault.ts";

const CRUMB_BYTES = 8;

export const trickle: FaultMaker = {
  name: "trickle",
  stream: "downstream",
  make: ({ budgetMs }) => {
    const gapMs = Math.max(1, Math.round(budgetMs / 10));
    return toxicFault(
      {
        name: "trickle",
        stream: "downstream",
        what: `replies come in crumbs of up to ${CRUMB_BYTES} bytes, ${gapMs} ms apart`,
        shows: (seen) => seen.pieces >= 3 && seen.doneMs > gapMs * 2,
      },
      { type: "slicer", attributes: { average_size: CRUMB_BYTES, size_variation: 0, delay: gapMs * 1_000 } },
    );
  },
};
