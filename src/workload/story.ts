/**
 * What a story is: what one call does, as a pure function of its number; the profile it is meant for; what it needs of
 * a deployment, can show on it and spends on it. k6, the open-loop driver and the simulation run the same one.
 */
import { type Product, routeOf } from "../contract/routes.ts";
import type { CallerName, TargetView } from "./callers/target-view.ts";
import { type Profile, profilePeakPerS, scaleProfile } from "./load-profiles.ts";
import type { Step } from "./step.ts";

/** Expected numbers, were every call admitted. */
export type Costs = {
  /** Calls with their retries, and the exchanges for sessions beforehand. */
  readonly requests: number;
  readonly map_loads: number;
  readonly analyses: number;
  readonly streams: number;
  /** `null` where nobody knows how long a stream lasts: `limits.service_ms` is not stated. */
  readonly stream_seconds: number | null;
};

const LOOKED_AT = 2000;
const SEED = 1;

/** By the first calls of the plan, of which the others are like. */
export const costsOfPlan = (
  plan: (seed: number, i: number, view: TargetView) => Step[],
  sessions: number,
  view: TargetView,
  calls: number,
): Costs => {
  const seen = { requests: 0, map_loads: 0, analyses: 0, streams: 0 };
  const looked = Math.min(LOOKED_AT, Math.ceil(calls));
  for (let i = 0; i < looked; i++) {
    for (const { route, meter, retry } of plan(SEED, i, view)) {
      seen.requests += 1 + (retry?.times ?? 0);
      if (meter === "map_loads") seen.map_loads += 1;
      if (meter === "design_analyses") seen.analyses += 1;
      if (route !== "-" && routeOf(route).stream !== undefined) seen.streams += 1;
    }
  }
  const factor = looked === 0 ? 0 : calls / looked;
  const streams = seen.streams * factor;
  const { service_ms } = view.limits;
  return {
    requests: seen.requests * factor + sessions,
    map_loads: seen.map_loads * factor,
    analyses: seen.analyses * factor,
    streams,
    stream_seconds: streams === 0 ? 0 : service_ms === undefined ? null : (streams * service_ms) / 1000,
  };
};

export type SessionWanted = { readonly of: CallerName; readonly product: Product };

/** What a user wishes, and the highest rate that the target's owner permits (`permits.load_max_rps`). */
export type ProfileWish = { readonly ratePerS?: number; readonly durationS?: number; readonly maxPerS?: number };

/** What a stage of the story has to see on this target, or it has proved nothing. Outcomes are as in `by_outcome`. */
export type Reach = {
  /** Each of these. */
  readonly all: readonly string[];
  /** At least one of these, where it cannot be said beforehand which; nothing when empty. */
  readonly oneOf: readonly string[];
  /** What the story could show on another target, why not on this one, and what to add. */
  readonly beyond: readonly { readonly outcome: string; readonly reason: string }[];
};

export type Story = {
  readonly name: string;
  /** One sentence for a reader of the report. */
  readonly purpose: string;
  /** What makes the story impossible here: roles, tenants or permits to add, by name; empty when it can run. */
  missing(view: TargetView): string[];
  /** Which rate it has to know: of streams (story `find-knee` finds it), of reads (`find-read-knee`), or none. */
  readonly needsCapacity: "chat" | "reads" | null;
  /**
   * The load it is meant for, on this deployment, unless the user wishes another rate or length; never above `maxPerS`.
   * `null`: no rate is known, so play the ramp of `needsCapacity` first and put what it found into the view.
   */
  profile(view: TargetView, wish?: ProfileWish): Profile | null;
  /** What is to be seen under `profile(view, wish)`. */
  reaches(view: TargetView, wish?: ProfileWish): Reach;
  /** What so many calls are expected to spend, at most. */
  costs(view: TargetView, calls: number): Costs;
  /** The steps of call number `i`, one after the other. */
  plan(seed: number, i: number, view: TargetView): Step[];
  /** Sessions that its steps use, minted before the first call. */
  sessions(view: TargetView): SessionWanted[];
  /** Organizations that reach their own caps on purpose. */
  noisy(view: TargetView): string[];
};

const ANSWERED: Reach = { all: ["200"], oneOf: [], beyond: [] };

/** The ramp that finds each capacity. */
export const RAMPS = { chat: "find-knee", reads: "find-read-knee" } as const;

type Parts = Pick<Story, "name" | "purpose" | "profile" | "plan" | "missing"> & Partial<Story>;

/** A story from the parts that it has an opinion about. */
export const storyOf = (parts: Parts): Story => {
  const sessions = parts.sessions ?? (() => []);
  return {
    noisy: () => [],
    needsCapacity: null,
    reaches: () => ANSWERED,
    costs: (view, calls) => costsOfPlan(parts.plan, sessions(view).length, view, calls),
    ...parts,
    sessions,
    profile: (view, wish = {}) => {
      const profile = parts.profile(view, wish);
      const { maxPerS } = wish;
      if (profile === null || maxPerS === undefined) return profile;
      const peak = profilePeakPerS(profile);
      return peak > maxPerS ? scaleProfile(profile, maxPerS / peak) : profile;
    },
  };
};
