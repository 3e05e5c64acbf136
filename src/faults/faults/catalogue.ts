/**
 * Every fault that a proxied link can have (design.md section 3, experiments). Add, do not shrink. Faults of a process
 * (killed, stopped) and of the store (Redis errors) are not faults of a link and are put in by the run.
 */
import type { Fault, FaultMaker, FaultSizes } from "../fault.ts";
import { acceptedThenClosed } from "./accepted-then-closed.ts";
import { flapping } from "./flapping.ts";
import { refused } from "./refused.ts";
import { replyLost } from "./reply-lost.ts";
import { requestLost } from "./request-lost.ts";
import { reset } from "./reset.ts";
import { slowBeyondBudget } from "./slow-beyond-budget.ts";
import { slowWithinBudget } from "./slow-within-budget.ts";
import { trickle } from "./trickle.ts";
import { truncatedReply } from "./truncated-reply.ts";

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
