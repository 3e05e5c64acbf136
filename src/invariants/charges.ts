/**
 * The ledger, folded: what each call was charged in the end, and what the history says of the calls by that id. Two calls
 * under one `X-Request-Id` are two charges (design.md "Charges"), so an id stands for as many calls as carried it.
 */
import type { Meter } from "../contract/routes.ts";
import type { CallLine, LedgerLine } from "../history/line.ts";
import { meterOf } from "./metered.ts";
import { isAdmitted, isDefinite } from "./moments.ts";

export type Charged = {
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

export type ChargeClass = { owes: Meter | null } | "open" | "refused";

/**
 * Whether a call must, may or may not be charged. `settled`: refunds had the time to arrive. A refusal by an unreachable
 * limiter may be charged until its refund has arrived; a balancer's answer hides what the platform did.
 */
export const chargeClassOf = (call: CallLine, settled: boolean): ChargeClass => {
  if (!isDefinite(call)) return "open";
  if (!isAdmitted(call)) return call.outcome === "429 limiter_unavailable" && !settled ? "open" : "refused";
  const meter = meterOf(call);
  // Item 123: whether a failure told under 200 is metered is the deployment's choice.
  if (meter === undefined || (call.outcome === "200 error" && meter !== null)) return "open";
  return { owes: meter };
};

export class Charges {
  readonly byRequest = new Map<string, Charged>();
  readonly #settled: boolean;

  constructor(ledger: readonly LedgerLine[], settled: boolean) {
    this.#settled = settled;
    for (const { request_id, meter, kind, amount } of ledger) {
      const charged = this.byRequest.get(request_id) ?? fresh();
      this.byRequest.set(request_id, charged);
      add(charged.net, meter, kind === "charge" ? amount : -amount);
    }
  }

  /** Gives the class of the call, and whether the ledger knows its id. */
  see(call: CallLine): { is: ChargeClass; known: boolean } {
    const is = chargeClassOf(call, this.#settled);
    const charged = this.byRequest.get(call.id);
    if (charged === undefined) return { is, known: false };
    charged.seen += 1;
    if (is === "open") charged.open += 1;
    else if (is === "refused") charged.refused = call;
    else if (is.owes !== null) add(charged.owed, is.owes, 1);
    return { is, known: true };
  }
}
