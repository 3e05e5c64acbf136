/** Overload reported as an outage of the key service. */
import type { Mutant } from "./mutant.ts";

export const shedsWithA503: Mutant = {
  name: "sheds-with-a-503",
  harm: "clients and dashboards look for a fault where there is only a rush",
  kills: ["counts-agree"],
  stage: "overload",
  spoil: (healthy) => ({
    ...healthy,
    writeRefusal: (refuse) =>
      healthy.writeRefusal(refuse.refuse === "b2b_overloaded" ? { refuse: "key_service_unavailable" } : refuse),
  }),
};
