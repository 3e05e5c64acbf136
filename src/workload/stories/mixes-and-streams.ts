/** Stories of the ordinary mix and of streams. Most run beside a disturbance; some overload the deployment. */
import type { RouteName } from "../../contract/routes.ts";
import { callAs, minting, runtimeCallers } from "../callers/callers.ts";
import { lowestLevel, overloadReach, streamers, streamsPerS } from "../callers/overload.ts";
import { bySize, chatPerS, chooserOf, inFlightCaps, partOf, sharesOf } from "../callers/rates.ts";
import { oncePerView, type TargetView } from "../callers/target-view.ts";
import * as shapes from "../load-profiles.ts";
import { saltOf, uniform } from "../random.ts";
import { exchangeStep, type Step, type StepWish } from "../step.ts";
import { profileAt, type Story, storyOf, TOP_OF_CURVE } from "../story.ts";

type Shape = (ratePerS: number, durationS: number) => shapes.Profile;

const WHO = saltOf("steady-mix who");
const WHAT = saltOf("steady-mix what");

const DEEDS: readonly { item: RouteName | "exchange"; weight: number }[] = [
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
];
const deedFor = chooserOf(DEEDS);
/** The share of calls that take as long as a stream. */
const WORKING = 0.5;

const callersBySize = oncePerView((view: TargetView) => {
  const weighted = bySize(runtimeCallers(view));
  return { choose: chooserOf(weighted), shares: sharesOf(weighted) };
});
const mintingBySize = oncePerView((view: TargetView) => chooserOf(bySize(minting(view))));

const planMix = (seed: number, i: number, view: TargetView): Step[] => {
  const deed = deedFor(uniform(seed, i, WHAT));
  const who = uniform(seed, i, WHO);
  if (deed === "exchange" && minting(view).length > 0) {
    return [exchangeStep(view, i, mintingBySize(view)(who).name, "chat")];
  }
  const caller = callersBySize(view).choose(who);
  // A tile needs a URL, and with a publishable key a session that is charged.
  const hasTiles = view.tiles === true && caller.kind === "server";
  const isRead = deed === "exchange" || (deed === "maps.tiles" && !hasTiles);
  return [callAs(view, i, caller, { route: isRead ? "design.styles" : deed })];
};

/** Calls per second that leave room in the deployment, the busiest organization and the busiest key. */
const mixRatePerS = (view: TargetView): number | null => {
  const { shares } = callersBySize(view);
  const streams = chatPerS(view, shares);
  if (streams === null) return null;
  const { org } = inFlightCaps(view);
  const { service_ms: serviceMs, rate_per_s: rate } = view.limits;
  const bounds = [200, 0.5 * streams];
  if (rate !== undefined && shares.key > 0) bounds.push((0.6 * rate) / shares.key);
  if (org !== undefined && serviceMs !== undefined && shares.org > 0) {
    bounds.push((0.5 * org * 1000) / (serviceMs * WORKING * shares.org));
  }
  return Math.min(...bounds);
};

/** A row's story; the table gives its name. */
type Unnamed = (name: string) => Story;

/** An ordinary day: unequal organizations, mostly reads, nobody meant to be refused, nothing charged (A9, item 80). */
const mix =
  (purpose: string, lengthS: number, shape: Shape = shapes.constant): Unnamed =>
  (name) =>
    storyOf({
      name,
      purpose,
      needsCapacity: "chat",
      profile: profileAt(mixRatePerS, lengthS, shape),
      plan: planMix,
      routes: ["chat.control", "design.styles"],
    });

/** Streams alone, by callers in turn, at a share of capacity; `habit`: how the reader of a call behaves. */
const streams =
  (purpose: string, share: number, lengthS: number, habit?: (reader: number) => Partial<StepWish>): Unnamed =>
  (name) =>
    storyOf({
      name,
      purpose,
      needsCapacity: "chat",
      profile: profileAt((view) => partOf(streamsPerS(view), share), lengthS),
      plan: (_seed, i, view) => {
        const { callers, at } = streamers(view);
        // Each round shifts the kind of reader by one, so every caller gets every kind.
        const reader = i + Math.floor(i / callers.length);
        return [callAs(view, i, at(i), { route: "chat.control", ...habit?.(reader) })];
      },
      routes: ["chat.control"],
    });

/** Makes a story load the deployment past its capacity. Which refusals must then appear depends on its callers. */
const overloading =
  (story: Unnamed, profileOf?: (usual: Story["profile"]) => Story["profile"]): Unnamed =>
  (name) => {
    const made = story(name);
    const profile = profileOf?.(made.profile) ?? made.profile;
    return { ...made, profile, reaches: (view, wish) => overloadReach(view, profile(view, wish)) };
  };

const RETRIES = 3;
/** A storm's baseline in calls, and its top in attempts, as multiples of the capacity. */
const STORM_BASE = 0.8;
const STORM_TOP = 10;
/** Attempts for each call if nine of ten attempts are refused, as they are at ten times the capacity. */
const STORM_ATTEMPTS = STORM_TOP * (1 - (1 - 1 / STORM_TOP) ** (RETRIES + 1));
/** The share of the permitted rate to use: attempts come in bunches, which would be delayed near the permit. */
const STORM_OF_PERMIT = 0.8;

/** After the top, the deployment must serve the baseline as before. */
const stormOver =
  (baseline: Story["profile"]): Story["profile"] =>
  (view, wish = {}) => {
    const base = baseline(view, wish);
    if (base === null) return null;
    const ratePerS = shapes.profilePeakPerS(base);
    const permitted = STORM_OF_PERMIT * (wish.maxPerS ?? Number.POSITIVE_INFINITY);
    const topPerS = Math.min((STORM_TOP / STORM_BASE) * ratePerS, permitted) / STORM_ATTEMPTS;
    return shapes.storm(ratePerS, Math.max(ratePerS, topPerS), shapes.profileDurationS(base));
  };

const CURVE_S = 300;

/** Streams at levels from half of the knee to ten times it, as far as permitted, and down again. `ratePerS`: the knee. */
const levelsAroundKnee: Story["profile"] = (view, wish = {}) => {
  const { service_ms: serviceMs = Number.POSITIVE_INFINITY } = view.limits;
  const lowest = lowestLevel(view, wish.ratePerS);
  const { maxPerS = Number.POSITIVE_INFINITY } = wish;
  const levels: Shape = (kneePerS, durationS) => ({
    ...shapes.upAndDown(kneePerS, durationS, TOP_OF_CURVE * maxPerS, serviceMs / 1000, lowest),
    leastGapUs: 1e6 / maxPerS,
  });
  return profileAt(streamsPerS, CURVE_S, levels)(view, wish);
};

const named = <Name extends string>(table: Readonly<Record<Name, Unnamed>>) =>
  Object.fromEntries(Object.entries<Unnamed>(table).map(([name, story]) => [name, story(name)])) as Record<Name, Story>;

export const MIXES_AND_STREAMS = named({
  "steady-mix": mix("an ordinary day of many organizations, with nobody refused", 15),
  "spike-and-recover": mix("five times the ordinary load for a while, then calm", 20, shapes.spike),
  soak: mix("an ordinary day, for hours: leaks of slots, memory and sockets", 3600),
  "replica-lost": mix("ordinary load while a replica goes away", 20),
  "rolling-deploy": mix("ordinary load while replicas are replaced one by one", 30),
  "cold-start-under-load": mix("a start with the load already there", 15, shapes.ramp),
  brownout: streams("streams at a constant rate while each takes five times as long", 0.6, 20),
  "capacity-halved": streams("streams at a constant rate while half as many are served at once", 0.8, 30),
  "heavy-tail-streams": streams("streams of very unequal length near capacity", 0.8, 20),
  "leaving-readers": streams("streams whose readers leave before the end", 0.6, 12, (reader) =>
    reader % 3 === 0 ? { abort: { afterEvents: 1 + (reader % 4) } } : {},
  ),
  "slow-readers": streams("streams half of which are read slowly", 0.3, 15, (reader) =>
    reader % 2 === 0 ? { slowReadMs: 50 } : {},
  ),
  // Organizations take turns: with enough of them every shed is the deployment's (`b2b_overloaded`, item 210); with fewer
  // an organization's or a key's refusal comes first.
  "chat-past-capacity": overloading(
    streams(
      "three times the streams that fit, from many organizations evenly: overload of the whole deployment",
      3,
      10,
    ),
  ),
  // Every second client waits as `Retry-After` says (item 217), the others retry at once. `ratePerS`: the baseline.
  "retry-storm": overloading(
    streams(
      "streams at a baseline, then ten times what is carried with retries, half of them without waiting, then the baseline again",
      STORM_BASE,
      28,
      (reader) => ({ retry: { times: RETRIES, honours: reader % 2 === 0 } }),
    ),
    stormOver,
  ),
  "shedding-curve": overloading(
    streams(
      "streams at rates from half to ten times what is carried, up and down again: what shedding costs",
      1,
      CURVE_S,
    ),
    () => levelsAroundKnee,
  ),
});
