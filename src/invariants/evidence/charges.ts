/**
 * Joins the ledger with the calls: what was charged under each request id, and which calls carried it (two calls with
 * one `X-Request-Id` are two charges). Entries whose id no call carried belong to other callers, or on an exclusive
 * deployment to nobody. What one call costs on a foreign deployment is not known (nor, A9, whether a tile session
 * costs anything), so there entries are counted, not amounts.
 */
import { type Meter, routeOf } from "../../contract/routes.ts";
import type { CallLine } from "../../history/line.ts";
import type { StageFacts } from "../../history/stage-facts.ts";
import { type Evidence, type Found, inconclusive } from "../invariant.ts";
import { isReference } from "./deployment.ts";
import { isAdmitted, isDefinite } from "./moments.ts";

type Charged = {
  /** Charges less refunds, by meter. */
  net: Map<Meter, number>;
  /** Calls with this id that must be charged, by meter; that may be; and that must not be. */
  owed: Map<Meter, number>;
  open: number;
  refused: CallLine | null;
  seen: number;
};

const fresh = (): Charged => ({ net: new Map(), owed: new Map(), open: 0, refused: null, seen: 0 });

const add = (sums: Map<Meter, number>, meter: Meter, amount: number): void => {
  sums.set(meter, (sums.get(meter) ?? 0) + amount);
};

type ChargeClass = { owes: Meter | null } | "open" | "refused";

/**
 * Whether a call must, may or must not be charged, by the reference's reading. `settled`: refunds had time to arrive;
 * until then a call that the limiter failed may still be charged. A balancer's answer hides what the platform did.
 */
const chargeClassOf = (call: CallLine, settled: boolean): ChargeClass => {
  if (!isDefinite(call)) return "open";
  if (!isAdmitted(call)) return call.outcome === "429 limiter_unavailable" && !settled ? "open" : "refused";
  const meter = meterOf(call);
  // Item 123: whether a failure under 200 is metered is the deployment's choice.
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
    for (const { request_id, meter, kind, amount } of facts.ledger ?? []) {
      const charged = this.byRequest.get(request_id) ?? fresh();
      this.byRequest.set(request_id, charged);
      this.#meters.add(meter);
      const size = this.#ours ? amount : 1;
      add(charged.net, meter, kind === "charge" ? size : -size);
    }
  }

  /** Returns the class of the call, and whether the ledger knows its id. */
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

  /** Reports whether any entry has the id of a call; a store with ids of its own has none. */
  knowsOurIds(): boolean {
    for (const { seen } of this.byRequest.values()) if (seen > 0) return true;
    return false;
  }

  #classOf(call: CallLine): ChargeClass {
    const is = chargeClassOf(call, this.#settled);
    if (this.#ours || typeof is === "string" || is.owes === null) return is;
    // A foreign store may keep one meter and not the other.
    return call.route === "sdk.sessions" || !this.#meters.has(is.owes) ? "open" : is;
  }
}

/** For the ledger of a foreign store, read while refunds and late entries may still be missing. */
export const unsettled = ({ first }: Evidence): Found =>
  inconclusive(`${first}, but the ledger was read before the stage was known to be drained`, first);

/**
 * The meter of an admitted call (items 10, 11, 80; A9: one minted tile session is one map load), by the specification;
 * the platform has its own table. `null`: none; `undefined`: not known.
 */
export const meterOf = (call: CallLine): Meter | null | undefined => {
  if (call.meter !== undefined) return call.meter;
  if (call.route === "-") return undefined;
  const route = routeOf(call.route);
  if (route.surface !== "exchange") return route.meter ?? null;
  const product = call.facts?.product ?? call.product;
  if (typeof product !== "string") return undefined;
  return product === "tile" ? "map_loads" : null;
};
