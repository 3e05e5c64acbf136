/**
 * What a story is: what one call does, as a pure function of its number; the profile it is meant for; what it needs of
 * a deployment, can show on it and spends on it. k6, the open-loop driver and the simulation run the same one.
 */
import type { Product } from "../contract/routes.ts";
import type { CallerName, TargetView } from "./callers/target-view.ts";
import { type Profile, profilePeakPerS, scaleProfile } from "./load-profiles.ts";
import type { Step } from "./step.ts";
import { type Costs, costsOfPlan } from "./story-costs.ts";

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
