/** Work that gets slower for all the more of it there is. */
import type { Mutant } from "./mutant.ts";

/** How many calls it takes until the machine crawls. */
const CRAWLS_FROM = 4;
const CRAWL_FACTOR = 40;

export const collapsesUnderLoad: Mutant = {
  name: "collapses-under-load",
  harm: "at the cap everything crawls: the machine is busy and nothing comes out",
  kills: ["sheds-above-the-cap"],
  stage: "past-capacity",
  spoil: (healthy) => ({
    ...healthy,
    serviceMs: (drawnMs, n) => healthy.serviceMs(drawnMs, n) * (n < CRAWLS_FROM ? 1 : CRAWL_FACTOR),
  }),
};
