/**
 * Joins the ledger with calls by request id. Ids that no call carried belong to other callers, or on an exclusive deployment
 * to nobody. On a foreign deployment entries are counted, not amounts, because the price of a call is unknown (A9).
 */
import { type Meter, routeOf } from "../../contract/routes.ts";
import type { CallLine, LedgerLine } from "../../history/line.ts";
import type { StageFacts } from "../../history/stage-facts.ts";
import { type Evidence, type Found, inconclusive, isReference } from "../invariant.ts";
import { isAdmitted, isDefinite } from "./moments.ts";

type Charged = {
  /** Charges less refunds. */
  net: Map<Meter, number>;
  /** Calls with this id that must be charged; that may be; and that must not be. */
  owed: Map<Meter, number>;
  open: number;
  refused: CallLine | null;
  seen: number;
};

export const add = <Key>(sums: Map<Key, number>, key: Key, amount: number): Map<Key, number> =>
  sums.set(key, (sums.get(key) ?? 0) + amount);

/** Sums by two keys. */
export class Sums {
  readonly rows = new Map<string, Map<string, number>>();

  add(row: string, column: string, amount: number): void {
    this.rows.set(row, add(this.rows.get(row) ?? new Map<string, number>(), column, amount));
  }

  of(row: string, column: string): number {
    return this.rows.get(row)?.get(column) ?? 0;
  }

  /** Keys of either, by row. */
  columnsWith(other: Sums): [row: string, columns: Set<string>][] {
    const rows = new Set([...this.rows.keys(), ...other.rows.keys()]);
    const columnsOf = (row: string) => [this, other].flatMap((sums) => [...(sums.rows.get(row)?.keys() ?? [])]);
    return [...rows].map((row) => [row, new Set(columnsOf(row))]);
  }
}

export const signedSize = ({ kind, amount }: LedgerLine, ours: boolean): number =>
  (kind === "charge" ? 1 : -1) * (ours ? amount : 1);

type ChargeClass = { owes: Meter | null } | "open" | "refused";

/** By the reference's reading. `settled`: refunds had time to arrive. A balancer's answer hides the platform's. */
const chargeClassOf = (call: CallLine, settled: boolean): ChargeClass => {
  if (!isDefinite(call)) return "open";
  if (!isAdmitted(call)) return call.outcome === "429 limiter_unavailable" && !settled ? "open" : "refused";
  const meter = meterOf(call);
  // Item 123: a failure under 200 may be metered.
  if (meter === undefined || (call.outcome === "200 error" && meter !== null)) return "open";
  return { owes: meter };
};

export class Charges {
  readonly byRequest = new Map<string, Charged>();
  readonly #settled: boolean;
  readonly #ours: boolean;
  readonly #meters = new Set<Meter>();

  constructor(facts: StageFacts, settled: boolean) {
    this.#settled = settled;
    this.#ours = isReference(facts);
    for (const entry of facts.ledger ?? []) {
      const fresh: Charged = { net: new Map(), owed: new Map(), open: 0, refused: null, seen: 0 };
      const charged = this.byRequest.get(entry.request_id) ?? fresh;
      this.byRequest.set(entry.request_id, charged);
      this.#meters.add(entry.meter);
      add(charged.net, entry.meter, signedSize(entry, this.#ours));
    }
  }

  /** Returns the call's class, and whether its id is in the ledger. */
  see(call: CallLine): { is: ChargeClass; known: boolean } {
    const is = this.#classOf(call);
    const charged = this.byRequest.get(call.id);
    if (charged === undefined) return { is, known: false };
    charged.seen += 1;
    if (is === "open") charged.open += 1;
    else if (is === "refused") charged.refused = call;
    else if (is.owes !== null) add(charged.owed, is.owes, 1);
    return { is, known: true };
  }

  isOfCall(requestId: string): boolean {
    return (this.byRequest.get(requestId)?.seen ?? 0) > 0;
  }

  /** Whether any entry has a call's id; a store may use its own ids. */
  knowsOurIds(): boolean {
    return [...this.byRequest.values()].some(({ seen }) => seen > 0);
  }

  #classOf(call: CallLine): ChargeClass {
    const is = chargeClassOf(call, this.#settled);
    if (this.#ours || typeof is === "string" || is.owes === null) return is;
    // A foreign store may keep only one of the meters.
    return call.route === "sdk.sessions" || !this.#meters.has(is.owes) ? "open" : is;
  }
}

/** For a foreign store that was read before refunds and late entries are certain to be in. */
export const unsettled = ({ first }: Evidence): Found =>
  inconclusive(`${first}, but the ledger was read before the stage was known to be drained`, first);

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
