/**
 * Overload with clients that come back: every second one waits for as long as `Retry-After` says (with jitter, item 217),
 * the others ask again at once. Shedding has to stay cheap and the deployment has to recover in spite of the second kind.
 */
import { spike } from "../load-profiles.ts";
import { stepOf } from "../step.ts";
import { capacityPerS, storyOf, tenantsMissing } from "../story.ts";
import { oncePerView, type TargetView, tenantsWith } from "../target-view.ts";
import { inTurn } from "../tenants.ts";
import { chatTenantsNeeded } from "./chat-past-capacity.ts";

const servers = oncePerView((view: TargetView) => tenantsWith(view, "server"));

const RETRIES = 3;

export const retryStorm = storyOf({
  name: "retry-storm",
  purpose: "a spike of streams whose clients retry, half of them without waiting",
  missing: (view) => tenantsMissing(view, "server", chatTenantsNeeded(view)),
  profile: (view, { ratePerS, durationS = 16 } = {}) =>
    spike(ratePerS ?? Math.max(4, Math.round(0.5 * (capacityPerS(view.limits) ?? 20))), 4, durationS),
  plan: (_seed, i, view) => {
    const { org } = inTurn(servers(view), i);
    return [
      stepOf(view, i, {
        route: "chat.control",
        credential: { as: "server", of: `tenant:${org}` },
        retry: { times: RETRIES, honours: i % 2 === 0 },
      }),
    ];
  },
});
