/**
 * An ordinary day: many organizations of unequal size, mostly reads, some chat, a few maps opened. The base load of a
 * comparison and of a soak; nobody is meant to be refused.
 */

import type { RouteName } from "../../contract/routes.ts";
import { constant } from "../load-profiles.ts";
import { saltOf, uniform } from "../random.ts";
import { exchangeStep, type Step, type StepWish, stepOf } from "../step.ts";
import { capacityPerS, storyOf, tenantsMissing } from "../story.ts";
import { oncePerView, type TargetView, tenantsWith } from "../target-view.ts";
import { chooserOf, zipf } from "../tenants.ts";

const WHO = saltOf("steady-mix who");
const WHAT = saltOf("steady-mix what");

type Deed = RouteName | "exchange";

const deedFor = chooserOf<Deed>([
  { item: "design.styles", weight: 22 },
  { item: "design.themes", weight: 12 },
  { item: "design.samples", weight: 6 },
  { item: "poi.enrich", weight: 20 },
  { item: "chat.control", weight: 14 },
  { item: "chat.summary", weight: 5 },
  { item: "chat.button", weight: 5 },
  { item: "chat.route", weight: 6 },
  { item: "maps.tiles", weight: 5 },
  { item: "exchange", weight: 5 },
]);

const serversBySize = oncePerView((view: TargetView) => chooserOf(zipf(tenantsWith(view, "server"), 0.5)));
// A Free organization is admitted to `tile` alone, and tiles are charged.
const paid = oncePerView((view: TargetView) => tenantsWith(view, "publishable").filter(({ tier }) => tier !== "Free"));
const paidBySize = oncePerView((view: TargetView) => chooserOf(zipf(paid(view), 0.5)));

/** Shared with the stories that run the same mix under another profile or fault. */
export const planMix = (seed: number, i: number, view: TargetView): Step[] => {
  const deed = deedFor(uniform(seed, i, WHAT));
  const who = uniform(seed, i, WHO);
  if (deed === "exchange" && paid(view).length > 0) {
    return [exchangeStep(view, i, `tenant:${paidBySize(view)(who).org}`, "chat")];
  }
  const route: RouteName = deed === "exchange" ? "design.styles" : deed;
  const wish: StepWish = {
    route,
    credential: { as: "server", of: `tenant:${serversBySize(view)(who).org}` },
  };
  return [stepOf(view, i, wish)];
};

/** Calls per second that leave half of the streams' capacity free: one call in four is a stream. */
export const mixRatePerS = (view: TargetView): number => {
  const capacity = capacityPerS(view.limits);
  return capacity === null ? 40 : Math.min(200, Math.max(10, Math.round(0.5 * capacity)));
};

export const steadyMix = storyOf({
  name: "steady-mix",
  purpose: "an ordinary day of many organizations, with nobody refused",
  missing: (view) => tenantsMissing(view, "server", 4),
  profile: (view, { ratePerS, durationS = 15 } = {}) => constant(ratePerS ?? mixRatePerS(view), durationS),
  plan: planMix,
});
