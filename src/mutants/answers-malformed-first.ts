/** The body validated by the framework, before anybody looked at who is asking. */
import type { Mutant } from "./mutant.ts";
import { movedBefore } from "./order-surgery.ts";

export const answersMalformedFirst: Mutant = {
  name: "answers-malformed-first",
  harm: "strangers without a key get a description of what the API takes, and its time to parse it",
  kills: ["first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: (["exchange", "runtime"] as const).reduce(
      (orders, order) => movedBefore(orders, order, ["askBody", "bodyIsWellFormed"], "credentialIsGiven"),
      healthy.orders,
    ),
  }),
};
