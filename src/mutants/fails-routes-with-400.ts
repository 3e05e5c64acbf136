/** A route that cannot be planned reported by the status, as everywhere else. */
import type { Mutant } from "./mutant.ts";

export const failsRoutesWith400: Mutant = {
  name: "fails-routes-with-400",
  harm: "clients read the body of a 200; here they show their own error page instead of the message",
  kills: ["first-failing-check-decides", "envelope-fits-subcode"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    writeAnswer: (response, status, headers, body) =>
      healthy.writeAnswer(response, status === 200 && body.startsWith('{"error"') ? 400 : status, headers, body),
  }),
};
