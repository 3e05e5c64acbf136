/** `startsWith` in place of a comparison. */
import type { Mutant } from "./mutant.ts";
import { instead } from "./order-surgery.ts";

export const matchesOriginsByPrefix: Mutant = {
  name: "matches-origins-by-prefix",
  harm: "whoever registers app.example.evil.example may use the keys of app.example",
  kills: ["first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: instead(
      healthy.orders,
      "exchange",
      "originIsListed",
      (check) => (call) =>
        call.snapshot.key.allowed_origins.some((listed) => call.origin?.startsWith(listed)) ? null : check(call),
    ),
  }),
};
