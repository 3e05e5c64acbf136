/** Everyone reloads the page at once: nothing but exchanges, none of them charged (items 64-89). */
import { constant } from "../load-profiles.ts";
import { exchangeStep } from "../step.ts";
import { storyOf, tenantsMissing } from "../story.ts";
import { oncePerView, type TargetView, tenantsWith } from "../target-view.ts";
import { inTurn } from "../tenants.ts";

// A Free organization is admitted to `tile` alone, and tiles are charged: it has no part in this.
const paid = oncePerView((view: TargetView) => tenantsWith(view, "publishable").filter(({ tier }) => tier !== "Free"));

export const sessionStorm = storyOf({
  name: "session-storm",
  purpose: "exchanges by many organizations at once, as after an outage of the page",
  missing: (view) =>
    paid(view).length >= 2 ? [] : [...tenantsMissing(view, "publishable", 2), "two tenants that are not on Free"],
  profile: (view, { ratePerS, durationS = 10 } = {}) => {
    const allowed = 0.8 * paid(view).length * (view.limits.rate_per_s ?? 50);
    return constant(ratePerS ?? Math.max(1, Math.min(300, allowed)), durationS);
  },
  plan: (_seed, i, view) => {
    const { org } = inTurn(paid(view), i);
    return [exchangeStep(view, i, `tenant:${org}`, i % 2 === 0 ? "chat" : "editor")];
  },
});
