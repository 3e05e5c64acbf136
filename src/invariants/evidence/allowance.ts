/**
 * What an organization may use in a month, and what its calls can have used of it: at least the admitted calls, at most
 * also those of which nobody knows (no answer, a balancer's answer, a limiter that could not be asked). Shared by the two
 * judges of the allowance, which differ only in whom they doubt.
 */
import type { CallLine, Line } from "../../history/line.ts";
import type { StageFacts } from "../../history/stage-facts.ts";
import { isReference } from "./is-reference.ts";
import { meterOf } from "./metered.ts";
import { isAdmitted, isDefinite, Settling } from "./moments.ts";
import { Months } from "./months.ts";
import { isUnnamed } from "./shared-deployment.ts";

/** Items 205, 225. */
const HARD_STOP_FACTOR = 5;

const QUOTA_REFUSALS = new Set(["429 map_load_quota_exceeded", "429 map_load_hard_stop"]);

/** Certainly a map load, perhaps one, or none. */
const isMapLoad = (call: CallLine): boolean | undefined => {
  const meter = meterOf(call);
  return meter === undefined ? undefined : meter === "map_loads";
};

/** A9: a tile session is one load to the reference platform; to others the loads may lie elsewhere. */
const isMint = (call: CallLine): boolean => call.route === "sdk.sessions";

const certainlyCharged = (call: CallLine): boolean =>
  call.outcome.startsWith("2") && isMapLoad(call) === true && call.outcome !== "200 error";

const isUnsettled = (call: CallLine): boolean => !isDefinite(call) || call.outcome === "429 limiter_unavailable";

const perhapsCharged = (call: CallLine): boolean =>
  isMapLoad(call) !== false && (isAdmitted(call) || isUnsettled(call));

/** The caps of an organization: the smallest and the largest that may be meant. `null`: not known. */
export const capsOf = (facts: StageFacts, org: string, tierMoved: boolean): { least: number; most: number } | null => {
  const tenant = facts.tenants[org];
  if (tenant?.allowance === undefined || tenant.tier === null) return null;
  const { allowance, tier } = tenant;
  // A8b: one load more or less at the hard stop is a reading of "over 5 times".
  const doubt = isReference(facts) ? 0 : 1;
  const paid = { least: allowance * HARD_STOP_FACTOR - doubt, most: allowance * HARD_STOP_FACTOR + doubt };
  if (tierMoved) return { least: Math.min(allowance, paid.least), most: paid.most };
  return tier === "Pro" ? paid : { least: allowance, most: allowance };
};

/** `certain` counts admitted loads, `mints` those of them that were tile sessions. */
type Month = { certain: number; mints: number; possible: number; refused: number };

/** One organization's use, month by month, in the order in which calls were over. */
export class Use {
  readonly months = new Map<number, Month>();
  /** Calls that may be charged whenever they please. */
  unsettled = 0;
  tierMoved = false;

  month(number: number): Month {
    const month = this.months.get(number) ?? { certain: 0, mints: 0, possible: 0, refused: 0 };
    this.months.set(number, month);
    return month;
  }
}

/** Folds calls into uses, and reports each quota refusal with the most that can have been charged by then. */
export class Allowances {
  readonly uses = new Map<string, Use>();
  /** Calls of nobody known that may have been charged to any organization. */
  #anybodys = 0;
  readonly #months: Months;
  readonly #settling: Settling;

  constructor(facts: StageFacts, tell: (refusal: CallLine, use: Use, month: number | null, possible: number) => void) {
    this.#months = new Months(facts);
    this.#settling = new Settling((call) => {
      const { first, last } = this.#months.of(call);
      if (isUnnamed(call.org) && perhapsCharged(call)) this.#anybodys += 1;
      if (call.org === "-") return;
      const use = this.use(call.org);
      if (QUOTA_REFUSALS.has(call.outcome)) {
        use.month(last).refused += 1;
        tell(call, use, first === last ? first : null, this.#possible(call, use, last));
        return;
      }
      if (isUnsettled(call)) use.unsettled += 1;
      else for (let number = first; number <= last; number += 1) use.month(number).possible += 1;
      if (first !== last || !certainlyCharged(call)) return;
      use.month(first).certain += 1;
      if (isMint(call)) use.month(first).mints += 1;
    });
  }

  use(org: string): Use {
    const use = this.uses.get(org) ?? new Use();
    this.uses.set(org, use);
    return use;
  }

  see(line: Line): void {
    this.#settling.reach(line);
    this.#months.see(line);
    if (line.type === "mark" && line.name === "tier-changed" && line.org !== undefined) {
      this.use(line.org).tierMoved = true;
    }
    if (line.type !== "call") return;
    if (QUOTA_REFUSALS.has(line.outcome) || perhapsCharged(line)) this.#settling.add(line);
  }

  finish(): void {
    this.#settling.finish();
  }

  /** Charged by the time the refusal was over: what was over before it, and what was under way. */
  #possible(refusal: CallLine, use: Use, month: number): number {
    let possible = this.#anybodys + use.unsettled + (use.months.get(month)?.possible ?? 0);
    const untilUs = refusal.done_us + refusal.clock_error_us;
    for (const call of this.#settling.waiting()) {
      const mayBeIts = call.org === refusal.org || isUnnamed(call.org);
      if (mayBeIts && perhapsCharged(call) && call.sent_us - call.clock_error_us <= untilUs) possible += 1;
    }
    return possible;
  }
}
