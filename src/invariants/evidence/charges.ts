/**
 * The ledger, folded: what each call was charged in the end, and what the history says of the calls by that id. Two calls
 * under one `X-Request-Id` are two charges, so an id stands for as many calls as carried it. Entries
 * whose id no call of the history carried are another caller's, or a charge for nobody: which, only an exclusive
 * deployment can say. Of a deployment that is not ours it is not known how much one call costs (nor, A9, whether a tile
 * session costs anything), so entries are counted there and not their amounts.
 */
import type { Meter } from "../../contract/routes.ts";
import type { CallLine } from "../../history/line.ts";
import type { StageFacts } from "../../history/stage-facts.ts";
import { type Evidence, type Found, inconclusive } from "../invariant.ts";
import { isReference } from "./is-reference.ts";
import { meterOf } from "./metered.ts";
import { isAdmitted, isDefinite } from "./moments.ts";

type Charged = {
  /** Charges less refunds, by meter. */
  net: Map<Meter, number>;
  /** Calls seen under the id: charged for certain, by meter; perhaps charged; certainly not. */
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
 * Whether a call must, may or may not be charged, by the reference's reading. `settled`: refunds had the time to arrive. A refusal by an unreachable
 * limiter may be charged until its refund has arrived; a balancer's answer hides what the platform did.
 */
const chargeClassOf = (call: CallLine, settled: boolean): ChargeClass => {
  if (!isDefinite(call)) return "open";
  if (!isAdmitted(call)) return call.outcome === "429 limiter_unavailable" && !settled ? "open" : "refused";
  const meter = meterOf(call);
  // Item 123: whether a failure reported under 200 is metered is the deployment's choice.
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

  /** Gives the class of the call, and whether the ledger knows its id. */
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

  /** Whether a call of the history, as far as it was seen, carried this id. */
  isOfCall(requestId: string): boolean {
    return (this.byRequest.get(requestId)?.seen ?? 0) > 0;
  }

  /** Whether any entry carries the id of a call that was seen; a store that keeps ids of its own has none. */
  knowsOurIds(): boolean {
    for (const { seen } of this.byRequest.values()) if (seen > 0) return true;
    return false;
  }

  #classOf(call: CallLine): ChargeClass {
    const is = chargeClassOf(call, this.#settled);
    if (this.#ours || typeof is === "string" || is.owes === null) return is;
    // Somebody else's store may keep one meter and not the other.
    return call.route === "sdk.sessions" || !this.#meters.has(is.owes) ? "open" : is;
  }
}

/** The ledger of somebody else's store, read while refunds and late entries may still have been on their way to it. */
export const unsettled = ({ first }: Evidence): Found =>
  inconclusive(`${first}, but the ledger was read before the stage was known to be drained`, first);
