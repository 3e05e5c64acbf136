/**
 * Which refusal a rising load meets first on a target: that of the whole deployment, of an organization or of a key. Only
 * where what is stated leaves no doubt is one of them required of a stage.
 */
import { type Caller, runtimeCallers } from "./callers.ts";
import { capacityPerS, chatPerS, inFlightCaps, type Shares, sharesOf } from "./rates.ts";
import type { Reach } from "./story.ts";
import { oncePerView, type TargetView } from "./target-view.ts";
import { evenly, turnsOf } from "./tenants.ts";

export const GLOBAL = "429 b2b_overloaded";
export const ORGANIZATION = "429 org_overloaded";
export const KEY = "429 rate_limited";
export const OVERLOADS: readonly string[] = [GLOBAL, ORGANIZATION, KEY];

/** Offered calls per admitted one from which refusals are certain, not a matter of chance. */
const SURELY = 1.5;

/** Those who open streams in turn, with the shares of the largest among them. */
export const streamers = oncePerView(
  (view: TargetView): { callers: readonly Caller[]; at: (i: number) => Caller; shares: Shares } => {
    const callers = runtimeCallers(view);
    return { callers, at: turnsOf(callers), shares: sharesOf(evenly(callers)) };
  },
);

/** Streams per second that those who take turns can have admitted. */
export const streamsPerS = (view: TargetView): number | null => chatPerS(view, streamers(view).shares);

/**
 * Organizations needed for an overload of the whole: admitted calls may fill the deployment without any organization holding
 * more than half of its own cap, and without any key being asked more often than two thirds of its rate. `null` when the
 * target file does not state what that takes.
 */
export const organizationsNeeded = (view: TargetView): number | null => {
  const capacity = capacityPerS(view.limits);
  const { all, org } = inFlightCaps(view);
  const { rate_per_s: rate } = view.limits;
  if (capacity === null || all === undefined || org === undefined || rate === undefined) return null;
  return Math.max(1, Math.ceil((2 * all) / org), Math.ceil((1.5 * capacity) / rate));
};

const NOT_STATED = "`limits` of the target file do not say which cap comes first";

/** What streams at `ratePerS`, spread over those who take turns, have to meet. */
export const overloadReach = (view: TargetView, ratePerS: number): Reach => {
  const { shares, callers } = streamers(view);
  const found = view.capacity?.chat;
  const fits = chatPerS(view, shares);
  const nothing = (reason: string): Reach => ({ all: ["200"], oneOf: [], beyond: [{ outcome: GLOBAL, reason }] });
  if (fits === null) return { all: ["200"], oneOf: [], beyond: [{ outcome: GLOBAL, reason: "no capacity is known" }] };
  if (found?.by === null) return nothing(`no limit was met up to ${fits.toFixed(1)} streams/s`);
  if (ratePerS < SURELY * fits) {
    const asked = `${ratePerS.toFixed(1)} streams/s do not overload what carries ${fits.toFixed(1)}/s`;
    return nothing(`${asked}: a higher \`permits.load_max_rps\` or rate would`);
  }
  if (found !== undefined) {
    // The same callers met it in the ramp.
    if (!OVERLOADS.includes(found.by)) return nothing(`above ${fits.toFixed(1)} streams/s the ramp met ${found.by}`);
    const beyond = found.by === GLOBAL ? [] : [{ outcome: GLOBAL, reason: `these callers meet ${found.by} first` }];
    return { all: ["200", found.by], oneOf: [], beyond };
  }
  const needed = organizationsNeeded(view);
  if (needed === null) return { all: ["200"], oneOf: OVERLOADS, beyond: [{ outcome: GLOBAL, reason: NOT_STATED }] };
  if (Math.max(shares.org, shares.key) <= 1 / needed + 1e-9) return { all: ["200", GLOBAL], oneOf: [], beyond: [] };
  const reason =
    `an organization or a key meets its own limit first: ${needed} tenants of equal weight would overload the whole ` +
    `deployment (there are ${callers.length} callers)`;
  return { all: ["200"], oneOf: OVERLOADS, beyond: [{ outcome: GLOBAL, reason }] };
};
