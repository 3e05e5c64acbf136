/** Predicts the refusal that overload meets first: of the deployment, an organization or a key. Required if certain. */
import { RATE_LIMITED } from "../../contract/refusals.ts";
import { CURVE_LEVELS, LOWEST_IF_GUESSED, type Profile, profilePeakPerS } from "../load-profiles.ts";
import { notReaching, type Reach, reaching, stayingBelow } from "../story.ts";
import { runtimeCallers } from "./callers.ts";
import { capacityPerS, chatPerS, evenly, inFlightCaps, sharesOf, turnsOf } from "./rates.ts";
import { oncePerView, type TargetView } from "./target-view.ts";

export const GLOBAL = "429 b2b_overloaded";
export const ORGANIZATION = "429 org_overloaded";
export const KEY = RATE_LIMITED;
const SERVER_ERROR = /^(?:edge )?5\d\d\b/;
const OVERLOADS: readonly string[] = [GLOBAL, ORGANIZATION, KEY];

/** Offered calls per admitted one from which refusals are certain, not a matter of chance. */
const SURELY = 1.5;

/** The callers that open streams in turn, with the largest shares of one organization and of one key. */
export const streamers = oncePerView((view: TargetView) => {
  const callers = runtimeCallers(view);
  return { callers, at: turnsOf(callers), shares: sharesOf(evenly(callers)) };
});

export const streamsPerS = (view: TargetView): number | null => chatPerS(view, streamers(view).shares);

/** The lowest level of the curve, in multiples of the knee. `ratePerS`: the knee, where the caller states it. */
export const lowestLevel = ({ capacity, limits }: TargetView, ratePerS?: number): number =>
  (ratePerS ?? capacity?.chat ?? limits.replicas) === undefined ? LOWEST_IF_GUESSED : CURVE_LEVELS[0];

/** How many organizations overload the deployment while each stays within half its cap and two thirds of its rate. */
const organizationsNeeded = (view: TargetView): number | null => {
  const capacity = capacityPerS(view.limits);
  const { all, org } = inFlightCaps(view);
  const { rate_per_s: rate } = view.limits;
  if (capacity === null || all === undefined || org === undefined || rate === undefined) return null;
  return Math.max(1, Math.ceil((2 * all) / org), Math.ceil((1.5 * capacity) / rate));
};

const NOT_STATED = "`limits` of the target file do not say which cap comes first";

/** The assumed burst of a key, in seconds of its rate, if the target file states none. */
const BURST_S = 4;

/** Says why the profile ends before its load meets this refusal; `null` if it is long enough. */
const tooShort = (view: TargetView, profile: Profile, fits: number, outcome: string): string | null => {
  const { service_ms: serviceMs, burst } = view.limits;
  if (outcome === KEY) {
    const saved = burst === undefined ? BURST_S * fits : burst / streamers(view).shares.key;
    const above = profile.pieces.reduce((sum, { from, to, durationS }) => {
      return sum + Math.max(0, (from + to) / 2 - fits) * durationS;
    }, 0);
    const few = `${above.toFixed(0)} calls above the rate may be less than what the keys have saved up`;
    return above >= saved ? null : few;
  }
  const peak = profilePeakPerS(profile);
  const peakS = profile.pieces.reduce((sum, { to, durationS }) => sum + (to === peak ? durationS : 0), 0);
  if (serviceMs === undefined || peakS * 1000 >= serviceMs) return null;
  return `${peakS.toFixed(1)} s at the highest rate are over before a stream of ${serviceMs} ms is`;
};

/** The outcomes that streams under this profile, spread over these callers, must meet. */
export const overloadReach = (view: TargetView, profile: Profile | null): Reach => {
  const { shares, callers } = streamers(view);
  const found = view.capacity?.chat;
  const fits = chatPerS(view, shares);
  const nothing = (reason: string): Reach => notReaching(GLOBAL, reason);
  const below = (reason: string, outcome = GLOBAL): Reach => stayingBelow(outcome, reason);
  if (fits === null || profile === null) return below("no capacity is known");
  const ratePerS = profilePeakPerS(profile);
  if (found?.by === null) return below(`no limit was met up to ${fits.toFixed(1)} streams/s`);
  if (ratePerS < SURELY * fits) {
    const asked = `${ratePerS.toFixed(1)} streams/s do not overload what carries ${fits.toFixed(1)}/s`;
    return below(`${asked}: a higher \`permits.load_max_rps\` or rate would`);
  }
  if (found !== undefined) {
    // The ramp had the same callers, so they meet the same refusal.
    if (!OVERLOADS.includes(found.by)) {
      const met = `above ${fits.toFixed(1)} streams/s the ramp met ${found.by}`;
      // A deployment that breaks down where it should refuse shows nothing of its shedding.
      return SERVER_ERROR.test(found.by) ? below(met) : nothing(met);
    }
    const short = tooShort(view, profile, fits, found.by);
    if (short !== null) return below(short, found.by);
    if (found.by === GLOBAL) return reaching(GLOBAL);
    return { ...nothing(`these callers meet ${found.by} first`), all: ["200", found.by] };
  }
  const short = tooShort(view, profile, fits, GLOBAL);
  if (short !== null) return below(short);
  const needed = organizationsNeeded(view);
  if (needed === null) return { ...nothing(NOT_STATED), oneOf: OVERLOADS };
  if (Math.max(shares.org, shares.key) <= 1 / needed + 1e-9) return reaching(GLOBAL);
  const reason =
    `an organization or a key meets its own limit first: ${needed} tenants of equal weight would overload the whole ` +
    `deployment (there are ${callers.length} callers)`;
  return { ...nothing(reason), oneOf: OVERLOADS };
};
