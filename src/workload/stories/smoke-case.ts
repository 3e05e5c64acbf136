/** One case of the smoke story: a wish, and how to find out whether the target has what it needs. */
import { routeOf } from "../../contract/routes.ts";
import { minting, runtimeCallers } from "../callers/callers.ts";
import type { CallerName, TargetView } from "../callers/target-view.ts";
import type { StepWish } from "../step.ts";
import type { SessionWanted } from "../story.ts";

/** `writes`: on a broken target it would create a key, so it needs the owner's permit (item 129-134). */
export type SmokeCase = { readonly wish: StepWish; readonly needs?: "writes" };

export const role = (name: string): CallerName => `role:${name}`;

const rolesOf = (wish: StepWish): string[] =>
  "of" in wish.credential ? [wish.credential.of.slice("role:".length)] : [];

/** A tenant's keys may do what those of `server` and `publishable` may, so the first tenant stands in for them. */
const standIn = (view: TargetView, role: string): CallerName | undefined => {
  const callers = role === "server" ? runtimeCallers(view) : role === "publishable" ? minting(view) : [];
  return callers.find(({ kind, name }) => kind === role && name.startsWith("tenant:"))?.name;
};

/** A browser's call needs an origin of the key's allowlist (items 71, 151). */
const needsOrigin = ({ credential, origin }: StepWish): boolean => credential.as === "session" || origin === "listed";

/** The wish as this target can have it; `null` when it lacks the role, its origin or the route. */
export const cast = (view: TargetView, wish: StepWish): StepWish | null => {
  if (wish.route === "maps.tiles" && view.tiles !== true) return null;
  if (wish.route === "maps.loads" && view.mapLoads !== true) return null;
  const [wanted] = rolesOf(wish);
  if (wanted === undefined || !("of" in wish.credential)) return wish;
  const found = view.roles[wanted];
  if (found !== undefined) return needsOrigin(wish) && !found.hasOrigin ? null : wish;
  const of = standIn(view, wanted);
  return of === undefined ? null : { ...wish, credential: { ...wish.credential, of } };
};

/** What a call of the case is charged, were it admitted; the session that it is made with is not counted. */
export const chargeOf = ({ route, product }: StepWish): "map_loads" | "design_analyses" | undefined =>
  routeOf(route).meter ?? (route === "sdk.sessions" && product === "tile" ? "map_loads" : undefined);

export const usesTileSession = ({ credential }: StepWish): boolean =>
  credential.as === "session" && credential.product === "tile";

export const sessionsIn = (wishes: readonly StepWish[]): SessionWanted[] => {
  const wanted = new Map<string, SessionWanted>();
  for (const { credential } of wishes) {
    if (credential.as === "session") {
      wanted.set(`${credential.of} ${credential.product}`, { of: credential.of, product: credential.product });
    }
  }
  return [...wanted.values()];
};
