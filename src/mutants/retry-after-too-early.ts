/** The wait computed from the rate alone, not from the bucket. */
import { spoiltRefusals, withHeader } from "./answer-surgery.ts";
import type { Mutant } from "./mutant.ts";

export const retryAfterTooEarly: Mutant = {
  name: "retry-after-too-early",
  harm: "the client that obeys is refused again, and learns not to obey",
  kills: ["tells-when-to-retry"],
  stage: "patient-client",
  spoil: (healthy) => ({
    ...healthy,
    ...spoiltRefusals(healthy, (answer, { retryAfterS }) =>
      retryAfterS === undefined
        ? answer
        : withHeader(answer, "Retry-After", `${Math.max(1, Math.floor(retryAfterS / 2))}`),
    ),
  }),
};
