/** Everyone reloads the page at once: nothing but exchanges, none of them charged (items 64-89). */
import { constant } from "../profiles.ts";
import { exchangeStep } from "../step.ts";
import { storyOf, tenantsMissing } from "../story.ts";
import { inTurn } from "../tenants.ts";
import { oncePerWorld, tenantsWith, type World } from "../world.ts";

// A Free organization is admitted to `tile` alone, and tiles are charged: it has no part in this.
const paid = oncePerWorld((world: World) => tenantsWith(world, "publishable").filter(({ tier }) => tier !== "Free"));

export const sessionStorm = storyOf({
  name: "session-storm",
  purpose: "exchanges by many organizations at once, as after an outage of the page",
  missing: (world) =>
    paid(world).length >= 2 ? [] : [...tenantsMissing(world, "publishable", 2), "two tenants that are not on Free"],
  profile: (world, { ratePerS, durationS = 10 } = {}) => {
    const allowed = 0.8 * paid(world).length * (world.limits.rate_per_s ?? 50);
    return constant(ratePerS ?? Math.max(1, Math.min(300, allowed)), durationS);
  },
  plan: (_seed, i, world) => {
    const { org } = inTurn(paid(world), i);
    return [exchangeStep(world, i, `tenant:${org}`, i % 2 === 0 ? "chat" : "editor")];
  },
});
