/** Bounds on an organization's use in a month: at least its admitted calls, at most also those of unknown outcome. */
import type { CallLine, Line } from "../../history/line.ts";
import type { StageFacts } from "../../history/stage-facts.ts";
import { meterOf } from "./charges.ts";
import { isReference, isUnnamed } from "./deployment.ts";
import { earliestUs, isAdmitted, isDefinite, latestUs, MARK_MARGIN_US, Settling } from "./moments.ts";

/** Clock error of a deployment. */
const CLOCK_DOUBT_US = 5_000_000;
/** Longer than any run. */
const MONTHS_AHEAD = 3;

type Edge = { fromUs: number; toUs: number };

const calendarEdges = (startedAtMs: number): Edge[] => {
  const started = new Date(startedAtMs);
  const edges: Edge[] = [];
  for (let ahead = 1; ahead <= MONTHS_AHEAD; ahead += 1) {
    const atUs = (Date.UTC(started.getUTCFullYear(), started.getUTCMonth() + ahead, 1) - startedAtMs) * 1000;
    edges.push({ fromUs: atUs - CLOCK_DOUBT_US, toUs: atUs + CLOCK_DOUBT_US });
  }
  return edges;
};

/**
 * The months in which a call may be charged, counted from the stage's start. Edges are the calendar's (UTC, item 229) and those
 * of `new-month` marks, which report a moved clock.
 */
class Months {
  readonly #edges: Edge[];

  constructor({ started_at_ms }: StageFacts) {
    this.#edges = started_at_ms === undefined ? [] : calendarEdges(started_at_ms);
  }

  see(line: Line): void {
    if (line.type === "mark" && line.name === "new-month") {
      this.#edges.push({ fromUs: line.at_us - MARK_MARGIN_US, toUs: line.at_us });
    }
  }

  of(call: CallLine): { first: number; last: number } {
    let first = 0;
    let last = 0;
    for (const { fromUs, toUs } of this.#edges) {
      if (earliestUs(call) > toUs) first += 1;
      if (latestUs(call) >= fromUs) last += 1;
    }
    return { first, last };
  }
}

/** Items 205, 225. */
const HARD_STOP_FACTOR = 5;

const QUOTA_REFUSALS = new Set(["429 map_load_quota_exceeded", "429 map_load_hard_stop"]);

/** `undefined`: unknown. */
const isMapLoad = (call: CallLine): boolean | undefined => {
  const meter = meterOf(call);
  return meter === undefined ? undefined : meter === "map_loads";
};

/** A9: on the reference platform a tile session is one load; others may count loads elsewhere. */
const isMint = (call: CallLine): boolean => call.route === "sdk.sessions";

const certainlyCharged = (call: CallLine): boolean =>
  call.outcome.startsWith("2") && isMapLoad(call) === true && call.outcome !== "200 error";

const isUnsettled = (call: CallLine): boolean => !isDefinite(call) || call.outcome === "429 limiter_unavailable";

const perhapsCharged = (call: CallLine): boolean =>
  isMapLoad(call) !== false && (isAdmitted(call) || isUnsettled(call));

/** The smallest and largest possible cap; `null`: unknown. */
export const capsOf = (facts: StageFacts, org: string, tierMoved: boolean): { least: number; most: number } | null => {
  const tenant = facts.tenants[org];
  if (tenant?.allowance === undefined || tenant.tier === null) return null;
  const { allowance, tier } = tenant;
  // A8b: "over 5 times" may mean one load more.
  const doubt = isReference(facts) ? 0 : 1;
  const paid = { least: allowance * HARD_STOP_FACTOR - doubt, most: allowance * HARD_STOP_FACTOR + doubt };
  if (tierMoved) return { least: Math.min(allowance, paid.least), most: paid.most };
  return tier === "Pro" ? paid : { least: allowance, most: allowance };
};

/** `certain`: admitted; `mints`: those of them that are tile sessions. */
type Month = { certain: number; mints: number; possible: number; refused: number };

/** One organization's use by month. */
export class Use {
  readonly months = new Map<number, Month>();
  /** Calls that may be charged in any month. */
  unsettled = 0;
  tierMoved = false;

  month(number: number): Month {
    const month = this.months.get(number) ?? { certain: 0, mints: 0, possible: 0, refused: 0 };
    this.months.set(number, month);
    return month;
  }
}

/** Folds calls into uses. Reports each quota refusal with the most that can have been charged by then. */
export class Allowances {
  readonly uses = new Map<string, Use>();
  /** Calls that any organization may have been charged for. */
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

  /** Counts calls that ended before the refusal, and calls in flight. */
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
