/**
 * Joins the ledger with calls by request id. On a shared deployment, ids that no call carried belong to other callers. On a
 * foreign deployment entries are counted instead of amounts, because the price of a call is unknown (A9).
 */
import { type LedgerLine, type Meter, routeOf } from "../../contract/routes.ts";
import type { CallLine } from "../../history/line.ts";
import type { StageFacts } from "../../history/run-document.ts";
import { add, known, sumOf } from "../../history/statistics/statistics.ts";
import { type Evidence, type Found, failed, inconclusive } from "../invariant.ts";
import { isAdmitted, isDefinite, isReference } from "./moments.ts";

/** `net`: charges less refunds. `owed`, `open`, `refused`: calls with this id that must be charged, may be, must not be. */
const nothingCharged = () => ({
  net: new Map<Meter, number>(),
  owed: new Map<Meter, number>(),
  open: 0,
  refused: null as CallLine | null,
  seen: 0,
});

export class Sums {
  readonly rows = new Map<string, Map<string, number>>();

  add(row: string, column: string, amount: number): void {
    const columns = known(this.rows, row, () => new Map<string, number>());
    add(columns, column, amount);
  }

  of(row: string, column: string): number {
    return this.rows.get(row)?.get(column) ?? 0;
  }

  /** The columns that this or `other` has, by row. */
  columnsWith(other: Sums): [row: string, columns: Set<string>][] {
    const rows = new Set([...this.rows.keys(), ...other.rows.keys()]);
    const columnsOf = (row: string) => [this, other].flatMap((sums) => [...(sums.rows.get(row)?.keys() ?? [])]);
    return [...rows].map((row) => [row, new Set(columnsOf(row))]);
  }
}

export const signedSize = ({ kind, amount }: LedgerLine, ours: boolean): number =>
  (kind === "charge" ? 1 : -1) * (ours ? amount : 1);

type ChargeClass = { owes: Meter | null } | "open" | "refused";

/** `settled`: refunds had time to arrive. */
export const joinCharges = (facts: StageFacts, settled: boolean) => {
  const ours = isReference(facts);
  const byRequest = new Map<string, ReturnType<typeof nothingCharged>>();
  const meters = new Set<Meter>();
  for (const entry of facts.ledger ?? []) {
    meters.add(entry.meter);
    add(known(byRequest, entry.request_id, nothingCharged).net, entry.meter, signedSize(entry, ours));
  }
  /** Classifies a call by the reference's reading. A gateway's answer hides the platform's, so that call is open. */
  const classOf = (call: CallLine): ChargeClass => {
    if (!isDefinite(call)) return "open";
    // A refund may be under way. A foreign deployment hardly ever shows that none is, so there a charge that stands is a doubt.
    const mayRefund = ours && !settled && call.outcome === "429 limiter_unavailable";
    if (!isAdmitted(call)) return mayRefund ? "open" : "refused";
    const meter = meterOf(call);
    // Item 123: a failure under 200 may be metered.
    if (meter === undefined || (call.outcome === "200 error" && meter !== null)) return "open";
    // A foreign store may keep only one of the meters.
    const isKept = ours || meter === null || (call.route !== "sdk.sessions" && meters.has(meter));
    return isKept ? { owes: meter } : "open";
  };
  return {
    byRequest,
    /** Returns the call's class, and whether its id is in the ledger. */
    see: (call: CallLine): { is: ChargeClass; isKnown: boolean } => {
      const is = classOf(call);
      const charged = byRequest.get(call.id);
      if (charged === undefined) return { is, isKnown: false };
      charged.seen += 1;
      if (is === "open") charged.open += 1;
      else if (is === "refused") charged.refused = call;
      else if (is.owes !== null) add(charged.owed, is.owes, 1);
      return { is, isKnown: true };
    },
    isOfCall: (requestId: string): boolean => (byRequest.get(requestId)?.seen ?? 0) > 0,
    /** Whether any entry has a call's id; a store may use its own ids. */
    knowsOurIds: (): boolean => [...byRequest.values()].some(({ seen }) => seen > 0),
  };
};

const GATEWAY = "a gateway that retries, mirrors or hedges would look the same";
const REPEATED = `more was charged than callers saw admitted, and the platform counted as many calls that this run did not send: ${GATEWAY}`;
const OR_OTHERS = "; without `exclusive` they may also be other callers'";
const UNCOUNTED = `${GATEWAY}, if there is one; the platform's counts (control.api) would tell`;

const UNSETTLED =
  "the ledger was read before the stage was known to be drained, so a refund may have followed: look whether these calls still stand in it";

/**
 * Counts calls that the platform saw beyond those that callers sent. A gateway that retries, mirrors or hedges sends a
 * call several times under one id, and the platform rightly charges each of them. The reference has no such gateway.
 */
export const createRepeats = (facts: StageFacts) => {
  let [sent, charges, breaches] = [0, 0, 0];
  const counted = sumOf(Object.values(facts.counts ?? {}).flatMap((byOrg) => Object.values(byOrg)));
  const explain = (extra: number): boolean => !isReference(facts) && extra > 0 && extra <= counted - sent;
  /** Fails. Where no counts are kept, a gateway may have repeated calls unseen; then the reason says so. */
  const unexplained = (why: string, evidence: Evidence, mayBeRepeats: boolean): Found => {
    const isUncounted = facts.counts === undefined && !isReference(facts) && mayBeRepeats;
    return failed(isUncounted ? `${why}; ${UNCOUNTED}` : why, evidence);
  };
  return {
    see: (calls = 1): void => {
      sent += calls;
    },
    /** Takes a breach that consists of so many charges too many. */
    tooMany: (extra: number): void => {
      charges += extra;
      breaches += 1;
    },
    /** Reports whether the platform counted at least as many repeats as there are charges too many. */
    explain,
    /** Inconclusive where `lacking` calls, which a gateway repeated unseen, explain every breach. */
    foundOf: (why: string, lacking: number, evidence: Evidence): Found => {
      const { first, ids } = evidence;
      if (explain(lacking)) {
        return inconclusive(
          "edge-answered",
          `${first}, but the platform counted more calls than this run sent: ${GATEWAY}`,
          first,
          ids,
        );
      }
      return unexplained(why, evidence, Number.isFinite(lacking));
    },
    /** Inconclusive where the ledger may have been read early, or repeats explain every breach. */
    found: (why: string, evidence: Evidence): Found => {
      const { count, first, ids } = evidence;
      if (!facts.drained && !isReference(facts)) {
        const others = count === 1 ? "" : `, and so for ${count - 1} more`;
        return inconclusive("state-unknown", `${first}${others}; ${UNSETTLED}`, first, ids);
      }
      if (count === breaches && explain(charges)) {
        return inconclusive("edge-answered", `${REPEATED}${facts.exclusive ? "" : OR_OTHERS}`, first, ids);
      }
      return unexplained(why, evidence, charges > 0);
    },
  };
};

/** The meter of an admitted call by the specification (items 10, 11, 80; A9). `null`: none; `undefined`: unknown. */
export const meterOf = (call: CallLine): Meter | null | undefined => {
  if (call.meter !== undefined) return call.meter;
  if (call.route === "-") return undefined;
  const route = routeOf(call.route);
  if (route.surface !== "exchange") return route.meter ?? null;
  const product = call.facts?.product ?? call.product;
  if (typeof product !== "string") return undefined;
  return product === "tile" ? "map_loads" : null;
};
