/**
 * Loads played beside a fault, by many organizations in turn; tenants with a small allowance are left to quota stages.
 *
 *   broken-dependency  reads and, if permitted, map loads. None holds an inference slot, so answers depend on key
 *                      service and limiter alone, and a charge for a call without an answer shows in the ledger. Where
 *                      there is a ledger and no such route, every eighth call mints a tile session instead.
 *   broken-edge        streams, map loads and reads in turn, so that a connection breaks in the middle of each.
 *   last-units         every fourth call mints for an organization with one map load left, each organization in turn,
 *                      so that every fault meets some mints. Then all mint again, which takes units given back.
 */
import { type Caller, callAs, publishableCallers, runtimeCallers } from "../callers/callers.ts";
import { inTurn, partOf, readsPerS, turnsOf } from "../callers/rates.ts";
import { oncePerView, type TargetView } from "../callers/target-view.ts";
import { exchangeStep } from "../step.ts";
import { profileAt, storyOf } from "../story.ts";
import { leftAtMost } from "./tile-quota.ts";

const PLENTY = 10_000;
/** Map loads of the longest stage that plays these stories; with a smaller budget they make none. */
const ENOUGH = 2_000;

/** One call in so many is a mint; 39 experiments make some 900 mints. */
const MINT_EVERY = 8;

const hasPlenty = ({ allowance }: Caller): boolean => allowance === undefined || allowance >= PLENTY;

const castOf = oncePerView((view: TargetView) => {
  const all = runtimeCallers(view);
  const plenty = all.filter(hasPlenty);
  const callers = plenty.length > 0 ? plenty : all;
  const isEnough = (view.budget?.mapLoads ?? ENOUGH) >= ENOUGH && view.permits.quotaBurn;
  const mayCharge = isEnough && view.mapLoads === true;
  const minters = isEnough && !mayCharge && view.ledger === true ? publishableCallers(view).filter(hasPlenty) : [];
  return {
    at: turnsOf(callers),
    mayCharge,
    minterAt: minters.length === 0 ? null : turnsOf(minters),
    // Only server keys load maps, because minting a tile session is charged too.
    isCharged: mayCharge && callers.every(({ kind }) => kind === "server"),
  };
});

const profileUpTo = (mostPerS: number) =>
  profileAt((view) => Math.min(mostPerS, partOf(readsPerS(view, runtimeCallers(view)), 0.6) ?? mostPerS), 15);

export const brokenDependency = storyOf({
  name: "broken-dependency",
  purpose: "reads and metered calls of many organizations, beside a broken link",
  profile: profileUpTo(30),
  plan: (_seed, i, view) => {
    const { at, isCharged, minterAt } = castOf(view);
    if (minterAt !== null && i % MINT_EVERY === 1)
      return [exchangeStep(view, i, minterAt(Math.floor(i / MINT_EVERY)).name, "tile")];
    const route = i % 2 === 0 ? "design.styles" : isCharged ? "maps.loads" : "design.themes";
    return [callAs(view, i, at(Math.floor(i / 2)), { route })];
  },
  routes: ["design.styles"],
});

export const brokenEdge = storyOf({
  name: "broken-edge",
  purpose: "streams, reads and metered calls, beside a broken way from callers to the API",
  profile: profileUpTo(20),
  plan: (_seed, i, view) => {
    const { at, mayCharge } = castOf(view);
    const caller = at(Math.floor(i / 3));
    const metered = mayCharge && caller.kind === "server" ? "maps.loads" : "design.themes";
    return [callAs(view, i, caller, { route: inTurn(["chat.control", metered, "design.styles"] as const, i) })];
  },
  routes: ["chat.control", "design.styles"],
});

const EVERY = 4;
/** Mints of an organization in a row: the second finds nothing left. */
const MINTS_EACH = 2;
/** The first turn with a mint. No fault begins earlier, because faults wait until calls are steady. */
const FIRST = 8;
const MINTERS_ENOUGH = 8;

const withOneLeft = oncePerView((view: TargetView): readonly Caller[] =>
  publishableCallers(view).filter((caller) => caller.allowance === 1 && leftAtMost(caller) >= 1),
);
const again = oncePerView((view: TargetView) => turnsOf(withOneLeft(view)));

export const lastUnits = storyOf({
  name: "last-units",
  purpose: "reads and metered calls, and mints that take the last map load of many organizations, beside a broken link",
  missing: (view) => {
    const lacking = view.permits.quotaBurn ? [] : ["`permits.quota_burn`: true, because allowances are used up"];
    const few = withOneLeft(view).length < MINTERS_ENOUGH;
    const tenants = `${MINTERS_ENOUGH} tenants with a publishable key, \`limit\` 1 and one map load left`;
    return [...brokenDependency.missing(view), ...lacking, ...(few ? [tenants] : [])];
  },
  profile: brokenDependency.profile,
  sessions: brokenDependency.sessions,
  plan: (seed, i, view) => {
    const turn = Math.floor(i / EVERY);
    const minters = withOneLeft(view);
    const isMint = i % EVERY === EVERY - 1 && turn >= FIRST && minters.length > 0;
    if (!isMint) return brokenDependency.plan(seed, i - turn, view);
    const first = minters[Math.floor((turn - FIRST) / MINTS_EACH)];
    return [exchangeStep(view, i, (first ?? again(view)(turn)).name, "tile")];
  },
});
