/** A story: what one call does, as a pure function of its number, and what it needs, can show and spends. */
import { isStreamed, type RouteName } from "../contract/routes.ts";
import { callersMissing, runtimeCallers, sessionsOf } from "./callers/callers.ts";
import type { TargetView } from "./callers/target-view.ts";
import { constant, type Profile, profilePeakPerS, scaleProfile } from "./load-profiles.ts";
import type { SessionWanted, Step } from "./step.ts";

const LOOKED_AT = 2000;
const SEED = 1;

/** The use of a deployment's `budget` if every call is admitted, extrapolated from the first calls of the plan. */
export const costsOfPlan = (
  plan: (seed: number, i: number, view: TargetView) => Step[],
  sessions: number,
  view: TargetView,
  calls: number,
) => {
  const looked = Math.min(LOOKED_AT, Math.ceil(calls));
  const steps = Array.from({ length: looked }, (_, i) => plan(SEED, i, view)).flat();
  const factor = looked === 0 ? 0 : calls / looked;
  const all = (of: (step: Step) => number | boolean) => steps.reduce((sum, step) => sum + Number(of(step)), 0) * factor;
  const streams = all(isStreamed);
  const { service_ms } = view.limits;
  return {
    requests: all(({ retry }) => 1 + (retry?.times ?? 0)) + sessions,
    map_loads: all(({ meter }) => meter === "map_loads"),
    analyses: all(({ meter }) => meter === "design_analyses"),
    streams,
    /** `null` if `limits.service_ms` is not stated. */
    stream_seconds: streams === 0 ? 0 : service_ms === undefined ? null : (streams * service_ms) / 1000,
  };
};

/** The share of `permits.load_max_rps` that a schedule may use: sessions are minted and refusals retried beside it. */
export const SHARE_OF_PERMIT = 0.9;
/** The highest level of a curve, as a share of that: calls that keep their distance wait 4.5 gaps there on average (M/D/1). */
export const TOP_OF_CURVE = 0.9;

export type ProfileWish = { readonly ratePerS?: number; readonly durationS?: number; readonly maxPerS?: number };

/** The outcomes (as in `by_outcome`) that a stage of the story must see on this target, or it proves nothing. */
export type Reach = {
  readonly all: readonly string[];
  /** At least one of these; none needed if empty. */
  readonly oneOf: readonly string[];
  /**
   * Outcomes that this target cannot show, why, and what to add. `staysBelow`: the load stays below the limit that the story
   * is made to exceed, or server errors come before it. Then the stage proves nothing unless a call is refused for load.
   */
  readonly beyond: readonly { readonly outcome: string; readonly reason: string; readonly staysBelow?: true }[];
};

export type Story = {
  readonly name: string;
  readonly purpose: string;
  /** The roles, tenants or permits that the story lacks here. */
  missing(view: TargetView): string[];
  /** The rate that it needs: of streams (found by `find-knee`), of reads (`find-read-knee`), or none. */
  readonly needsCapacity: "chat" | "reads" | null;
  /** Its load on this target. `null` while no rate is known: the ramp of `needsCapacity` finds one for the view. */
  profile(view: TargetView, wish?: ProfileWish): Profile | null;
  reaches(view: TargetView, wish?: ProfileWish): Reach;
  costs(view: TargetView, calls: number): ReturnType<typeof costsOfPlan>;
  /** The steps of call `i`, in order; none: the arrival makes no call. */
  plan(seed: number, i: number, view: TargetView): Step[];
  /** Sessions of its steps, minted before the first call. */
  sessions(view: TargetView): SessionWanted[];
  /** Organizations that exceed their caps on purpose. */
  noisy(view: TargetView): string[];
};

/** A profile at the wished rate, else at the one that fits; `null` if neither is known. */
export const profileAt =
  (
    fits: (view: TargetView) => number | null,
    lengthS: number,
    shape: (ratePerS: number, durationS: number) => Profile = constant,
  ): Story["profile"] =>
  (view, { ratePerS, durationS = lengthS } = {}) => {
    const rate = ratePerS ?? fits(view);
    return rate === null ? null : shape(rate, durationS);
  };

export const reaching = (...outcomes: string[]): Reach => ({ all: ["200", ...outcomes], oneOf: [], beyond: [] });
const withBeyond = (...beyond: Reach["beyond"]): Reach => ({ ...reaching(), beyond });
export const notReaching = (outcome: string, reason: string): Reach => withBeyond({ outcome, reason });
/** The load stays below what the story is made to exceed. */
export const stayingBelow = (outcome: string, reason: string) => withBeyond({ outcome, reason, staysBelow: true });

export const RAMPS = { chat: "find-knee", reads: "find-read-knee" } as const;

/** `routes`: the routes that runtime callers call, who may need sessions for them. */
type Parts = Pick<Story, "name" | "purpose" | "profile" | "plan"> & Partial<Story> & { routes?: readonly RouteName[] };

export const storyOf = ({ routes = [], ...parts }: Parts): Story => {
  const sessions = parts.sessions ?? ((view) => sessionsOf(runtimeCallers(view), routes));
  return {
    missing: callersMissing,
    noisy: () => [],
    needsCapacity: null,
    reaches: () => reaching(),
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
