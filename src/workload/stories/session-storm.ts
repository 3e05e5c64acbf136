/** Everyone reloads the page at once: nothing but exchanges, none of them charged (items 64-89). */
import { minting, mintingMissing } from "../callers/callers.ts";
import { readsPerS } from "../callers/rates.ts";
import { oncePerView, type TargetView } from "../callers/target-view.ts";
import { turnsOf } from "../callers/tenants.ts";
import { constant } from "../load-profiles.ts";
import { exchangeStep } from "../step.ts";
import { storyOf } from "../story.ts";

const turns = oncePerView((view: TargetView) => turnsOf(minting(view)));

export const sessionStorm = storyOf({
  name: "session-storm",
  purpose: "exchanges by many organizations at once, as after an outage of the page",
  missing: mintingMissing,
  needsCapacity: "reads",
  profile: (view, { ratePerS, durationS = 10 } = {}) => {
    const allowed = readsPerS(view, minting(view));
    if (ratePerS === undefined && allowed === null) return null;
    return constant(ratePerS ?? Math.min(300, 0.8 * (allowed as number)), durationS);
  },
  plan: (_seed, i, view) => [exchangeStep(view, i, turns(view)(i).name, i % 2 === 0 ? "chat" : "editor")],
});
