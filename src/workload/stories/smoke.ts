/**
 * Correct calls of every route, and one wrong call for each static refusal that the target's roles allow (requirements.md,
 * part D). Each round visits all cases once; charged cases are in the first round only, unless quota may be burnt.
 */
import { routeOf } from "../../contract/routes.ts";
import { minting, runtimeCallers } from "../callers/callers.ts";
import { type CallerName, oncePerView, type TargetView } from "../callers/target-view.ts";
import { CORRECT_CALLS, REFUSED_CALLS, REFUSED_KEYS } from "../cases.ts";
import { constant, type Profile, profileCalls } from "../load-profiles.ts";
import { saltOf, whole } from "../random.ts";
import { type Step, type StepWish, stepOf } from "../step.ts";
import { costsOfPlan, type ProfileWish, type Reach, storyOf } from "../story.ts";

const SALT = saltOf("smoke");
/** The most to spend if the target file states no budget and does not permit `quota_burn`. */
const MAP_LOADS = 20;
const ANALYSES = 3;
/** Charged calls are made in every round if the budget pays for this many rounds of them, else in the first round only. */
const ROUNDS = 10;

/** A tenant's keys may do what those of `server` and `publishable` may, so the first tenant stands in for them. */
const standIn = (view: TargetView, role: string): CallerName | undefined => {
  const callers = role === "server" ? runtimeCallers(view) : role === "publishable" ? minting(view) : [];
  return callers.find(({ kind, name }) => kind === role && name.startsWith("tenant:"))?.name;
};

/** The call with a caller of this target; empty if the target lacks the role, its origin or the route. */
const cast = (view: TargetView, wish: StepWish): StepWish[] => {
  const { route, credential, origin } = wish;
  if ((route === "maps.tiles" && view.tiles !== true) || (route === "maps.loads" && view.mapLoads !== true)) return [];
  if (!("of" in credential)) return [wish];
  const wanted = credential.of.slice("role:".length);
  const found = view.roles[wanted];
  // A browser's call needs an origin of the key's allowlist (items 71, 151).
  const needsOrigin = credential.as === "session" || origin === "listed";
  if (found !== undefined) return needsOrigin && !found.hasOrigin ? [] : [wish];
  const of = standIn(view, wanted);
  return of === undefined ? [] : [{ ...wish, credential: { ...credential, of } }];
};

/** The meter that the call would charge if admitted; minting its session is not counted. */
const chargeOf = ({ route, product }: StepWish): "map_loads" | "design_analyses" | undefined =>
  routeOf(route).meter ?? (route === "sdk.sessions" && product === "tile" ? "map_loads" : undefined);

const usesTileSession = ({ credential }: StepWish): boolean =>
  credential.as === "session" && credential.product === "tile";

const programOf = oncePerView((view: TargetView) => {
  const { quotaBurn, writes } = view.permits;
  const { mapLoads, analyses } = view.budget ?? {};
  const unstated = (few: number): number => (quotaBurn ? Number.POSITIVE_INFINITY : few);
  const room = { map_loads: mapLoads ?? unstated(MAP_LOADS), design_analyses: analyses ?? unstated(ANALYSES) };
  /** The charges of one round with the charged calls, without the one for the tile session. */
  const charged = { map_loads: 0, design_analyses: 0 };
  const mayMint = room.map_loads >= 1;
  const correct = CORRECT_CALLS.flatMap((wish) => cast(view, wish)).filter((wish) => {
    const meter = chargeOf(wish);
    if (meter === undefined) return true;
    const fits = charged[meter] + (meter === "map_loads" && mayMint ? 1 : 0) + 1 <= room[meter];
    if (fits) charged[meter] += 1;
    return fits;
  });
  const others = [...REFUSED_CALLS, ...(writes ? REFUSED_KEYS : [])].flatMap((wish) => cast(view, wish));
  const affordable = (wish: StepWish): boolean => mayMint || !usesTileSession(wish);
  const first = [...correct, ...others].filter(affordable);
  const isPlenty =
    quotaBurn &&
    room.map_loads >= ROUNDS * charged.map_loads &&
    room.design_analyses >= ROUNDS * charged.design_analyses;
  const free = correct.filter((wish) => chargeOf(wish) === undefined);
  return {
    first,
    later: isPlenty ? first : [...free, ...others].filter(affordable),
    charged,
    tileSessions: first.some(usesTileSession) ? 1 : 0,
    hasCorrect: correct.length > 0,
  };
});

/** Position `at` of a round, shuffled: an affine walk through the cases, so that no round has to be stored. */
const shuffled = (seed: number, round: number, at: number, count: number): number => {
  const coprime = (step: number): boolean => {
    let a = step;
    let b = count;
    while (b !== 0) [a, b] = [b, a % b];
    return a === 1;
  };
  let stride = 1 + whole(seed, round, SALT, count);
  while (!coprime(stride)) stride += 1;
  return (whole(seed, round, SALT + 1, count) + at * stride) % count;
};

export const smokeRound = (view: TargetView): number => programOf(view).first.length;

const hasSomebody = (view: TargetView): boolean => programOf(view).first.some(({ credential }) => "of" in credential);

const plan = (seed: number, i: number, view: TargetView): Step[] => {
  const { first, later } = programOf(view);
  const isFirst = i < first.length;
  const [cases, n] = isFirst ? [first, i] : [later, i - first.length];
  const round = isFirst ? 0 : 1 + Math.floor(n / cases.length);
  const wish = cases[shuffled(seed, round, n % cases.length, cases.length)];
  return wish === undefined ? [] : [stepOf(view, i, wish)];
};

/** Refusals that the role `publishable` provokes by the origin it sends. */
const BY_ORIGIN = ["403 origin_required", "403 session_origin_mismatch"] as const;
const NO_PAGE = "neither the role `publishable` nor a tenant has a publishable key with its `origin`";

/** The outcomes that one whole round meets, however a deployment fills the gaps of the specification. */
const reachOf = (view: TargetView, wish?: ProfileWish): Reach => {
  const { first, hasCorrect } = programOf(view);
  const calls = profileCalls(smoke.profile(view, wish) as Profile);
  if (calls < first.length) {
    const reason = `${calls.toFixed(0)} calls are no whole round of ${first.length}`;
    return { all: [], oneOf: [], beyond: ["200", "401", ...BY_ORIGIN].map((outcome) => ({ outcome, reason })) };
  }
  const hasPage = first.some(({ credential, origin }) => credential.as === "publishable" && origin === "foreign");
  return {
    all: [...(hasCorrect ? ["200"] : []), "401", ...(hasPage ? BY_ORIGIN : [])],
    oneOf: [],
    beyond: hasPage ? [] : BY_ORIGIN.map((outcome) => ({ outcome, reason: NO_PAGE })),
  };
};

export const smoke = storyOf({
  name: "smoke",
  purpose: "every route once as it should be called, and every refusal that the caller can provoke without load",
  missing: (view) =>
    hasSomebody(view) ? [] : ["at least one role under `credentials`, or a tenant that is not on Free"],
  profile: (view, { ratePerS = 25, durationS, maxPerS } = {}) => {
    const rate = Math.min(ratePerS, maxPerS ?? ratePerS);
    return constant(rate, durationS ?? Math.max(8, Math.ceil((3 * smokeRound(view)) / rate)));
  },
  reaches: reachOf,
  plan,
  // Refused calls are not charged (item 222), whatever they asked for.
  costs: (view, calls) => {
    const { first, later, charged, tileSessions } = programOf(view);
    const rounds = later === first ? calls / Math.max(1, first.length) : 1;
    const costs = costsOfPlan(plan, smoke.sessions(view).length, view, calls);
    const map_loads = charged.map_loads * rounds + tileSessions;
    return { ...costs, map_loads, analyses: charged.design_analyses * rounds };
  },
  sessions: (view) => {
    const wanted = programOf(view).first.flatMap(({ credential }) =>
      credential.as === "session" ? [{ of: credential.of, product: credential.product }] : [],
    );
    return [...new Map(wanted.map((session) => [`${session.of} ${session.product}`, session])).values()];
  },
});
