/**
 * Every fault that a proxied link can have (design.md section 3, experiments). Add, do not shrink. Faults of a process
 * (killed, stopped) and of the store (Redis errors) are not faults of a link and are put in by the run.
 */
import type { Fault, FaultMaker, FaultSizes } from "./fault.ts";
import { acceptedThenClosed } from "./faults/accepted-then-closed.ts";
import { flapping } from "./faults/flapping.ts";
import { refused } from "./faults/refused.ts";
import { replyLost } from "./faults/reply-lost.ts";
import { requestLost } from "./faults/request-lost.ts";
import { reset } from "./faults/reset.ts";
import { slowBeyondBudget } from "./faults/slow-beyond-budget.ts";
import { slowWithinBudget } from "./faults/slow-within-budget.ts";
import { trickle } from "./faults/trickle.ts";
import { truncatedReply } from "./faults/truncated-reply.ts";

export const FAULTS: readonly FaultMaker[] = [
  refused,
  acceptedThenClosed,
  requestLost,
  replyLost,
  reset,
  slowWithinBudget,
  slowBeyondBudget,
  truncatedReply,
  trickle,
  flapping,
];

export const FAULT_NAMES: readonly string[] = FAULTS.map(({ name }) => name);

/** Throws a sentence that lists the names. */
export const makeFault = (name: string, sizes: FaultSizes): Fault => {
  const maker = FAULTS.find((one) => one.name === name);
  if (maker === undefined)
    throw new Error(`there is no fault "${name}"; there are ${FAULTS.map((one) => one.name).join(", ")}`);
  return maker.make(sizes);
};
