/** One case of the smoke story: a wish, and how to find out whether the target has what it needs. */

import type { StepWish } from "../step.ts";
import type { SessionWanted } from "../story.ts";
import type { CallerName } from "../target-view.ts";

/** `writes`: on a broken target it would create a key, so it needs the owner's permit (item 129-134). */
export type SmokeCase = { readonly wish: StepWish; readonly needs?: "writes" };

export const role = (name: string): CallerName => `role:${name}`;

export const rolesOf = (wish: StepWish): string[] =>
  "of" in wish.credential ? [wish.credential.of.slice("role:".length)] : [];

export const sessionsIn = (cases: readonly SmokeCase[]): SessionWanted[] => {
  const wanted = new Map<string, SessionWanted>();
  for (const { wish } of cases) {
    const { credential } = wish;
    if (credential.as === "session") {
      wanted.set(`${credential.of} ${credential.product}`, { of: credential.of, product: credential.product });
    }
  }
  return [...wanted.values()];
};
