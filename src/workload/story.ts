/**
 * What a story is: what one call does, as a pure function of its number; the profile it is meant for; what it needs of
 * a deployment. k6, the open-loop driver and the simulation run the same one (design.md section 2, "Stories").
 */
import type { Product } from "../contract/routes.ts";
import type { Profile } from "./load-profiles.ts";
import type { Step } from "./step.ts";
import { type CallerName, type LimitsInView, type TargetView, tenantsWith } from "./target-view.ts";

export type SessionWanted = { readonly of: CallerName; readonly product: Product };

export type ProfileWish = { readonly ratePerS?: number; readonly durationS?: number };

export type Story = {
  readonly name: string;
  /** One sentence for a reader of the report. */
  readonly purpose: string;
  /** What the deployment lacks, by name; empty when the story can run. */
  missing(view: TargetView): string[];
  /** The load it is meant for, on this deployment, unless the user wishes another rate or length. */
  profile(view: TargetView, wish?: ProfileWish): Profile;
  /** The steps of call number `i`, one after the other. */
  plan(seed: number, i: number, view: TargetView): Step[];
  /** Sessions that its steps use, minted before the first call. */
  sessions(view: TargetView): SessionWanted[];
  /** Organizations that reach their own caps on purpose. */
  noisy(view: TargetView): string[];
};

const DEFAULT_SERVICE_MS = 200;

/** Streams per second that the deployment can carry, by what its owner says (Little's law), or `null`. */
export const capacityPerS = (limits: LimitsInView): number | null => {
  const slots = limits.slots ?? limits.global_in_flight;
  if (slots === undefined) return null;
  return ((limits.replicas ?? 1) * slots * 1000) / (limits.service_ms ?? DEFAULT_SERVICE_MS);
};

/** How many tenants there have to be, told to the user when there are fewer. */
export const tenantsMissing = (view: TargetView, kind: "publishable" | "server", wanted: number): string[] => {
  const found = tenantsWith(view, kind).length;
  return found >= wanted ? [] : [`${wanted} tenants with a ${kind} key (the target file has ${found})`];
};

/** A story from the parts that it has an opinion about. */
export const storyOf = (
  parts: Pick<Story, "name" | "purpose" | "profile" | "plan" | "missing"> & Partial<Story>,
): Story => ({
  sessions: () => [],
  noisy: () => [],
  ...parts,
});
