/**
 * The model of a deployment for model-based properties: records, meters, sessions and a clock in plain maps. The core decides
 * each call with answers from these maps, so a difference from the real server is a fault of the server's wiring: its links,
 * stores, caches, tokens or clocks.
 */
import { outcomeOf } from "../../src/contract/refusals.ts";
import { type Meter, type Product, type RouteName, routeOf } from "../../src/contract/routes.ts";
import {
  type Ask,
  Call,
  type Deployment,
  type KeyRecord,
  type Organization,
  type Session,
  type TakeOutcome,
  UNAVAILABLE,
} from "../../src/core/call.ts";
import { fits, windowOf } from "../../src/core/meters.ts";
import { advance, HEALTHY_ORDERS } from "../../src/core/order.ts";
import { type Caps, fixedShedder } from "../../src/core/shedding.ts";
import type { Fault, Link } from "../rigs/real-api.ts";

export type KnownKey = { key: KeyRecord; secret: string };
type KnownToken = { token: string; session: Session };

/** `failing`: well-formed, but the work behind the checks cannot be done. */
export type BodyKind = "fine" | "failing" | "malformed";

type ModelCall = {
  route: RouteName;
  credential: string | null;
  origin: string | null;
  /** The product that an exchange asks for. */
  product?: Product;
  body?: BodyKind;
};
export type Expected = { outcome: string; quota?: { meter: string; limit: number; used: number } };

export const CAPS: Caps = { globalInFlight: 64, orgInFlight: 32 };
const LOOPBACK = "127.0.0.1";
/** Refusals before the caller's organization is known. */
const BEFORE_AUTHENTICATION = ["b2b_overloaded", "unauthenticated", "key_service_unavailable"];

export class Model {
  readonly orgs = new Map<string, Organization>();
  readonly keys: KnownKey[] = [];
  readonly tokens: KnownToken[] = [];
  readonly faults: Record<Link, Fault> = { keys: "none", limiter: "none" };
  sessions: Deployment["sessions"] = "enabled";
  caps: Caps = { ...CAPS };
  /** By how many milliseconds the deployment's clock is ahead of the real one. */
  offsetMs = 0;
  /** Metered calls that were admitted. */
  charged = 0;
  /** Calls by outcome and organization, as the platform should count them. */
  readonly #answered: Record<string, Record<string, number>> = {};
  readonly #used = new Map<string, number>();

  nowMs(): number {
    return Date.now() + this.offsetMs;
  }

  used(org: string, meter: Meter): number {
    return this.#used.get(`${org} ${meter} ${windowOf(this.nowMs())}`) ?? 0;
  }

  org(id: string): Organization {
    return this.orgs.get(id) as Organization;
  }

  isLive({ status, expires_at }: KeyRecord): boolean {
    return status === "valid" && (expires_at === null || expires_at > this.nowMs());
  }

  liveKeys(org: string): number {
    return this.keys.filter(({ key }) => key.org_id === org && this.isLive(key)).length;
  }

  answered(): Record<string, Record<string, number>> {
    return this.#answered;
  }

  #count(outcome: string, org: string): void {
    this.#answered[outcome] ??= {};
    const byOrg = this.#answered[outcome];
    byOrg[org] = (byOrg[org] ?? 0) + 1;
  }

  /** Returns what the server must answer, and charges an admitted call in the model. */
  decide({ route, credential, origin, product, body = "fine" }: ModelCall): Expected {
    const deployment: Deployment = { sessions: this.sessions, rate: null, designCap: null };
    const head = { readCaller: () => ({ credential, origin, address: LOOPBACK }), nowMs: () => this.nowMs() };
    const call = new Call(routeOf(route), head, deployment, fixedShedder(this.caps));
    for (;;) {
      const next = advance(call, HEALTHY_ORDERS);
      if (next === null) {
        // Work that cannot be done is a 200 with an `error` (item 186), and charged like any other.
        const outcome = body === "failing" ? "200 error" : "200";
        this.#count(outcome, call.snapshot.org.id);
        return { outcome };
      }
      if ("refuse" in next) {
        const outcome = outcomeOf(next.refuse);
        this.#count(outcome, BEFORE_AUTHENTICATION.includes(next.refuse) ? "-" : call.snapshot.org.id);
        return next.quota === undefined ? { outcome } : { outcome, quota: next.quota };
      }
      this.#answer(call, next, product, body);
    }
  }

  #answer(call: Call, ask: Ask, product: Product | undefined, body: BodyKind): void {
    if (ask.ask === "session") {
      const known = this.tokens.find(({ token }) => token === ask.token);
      const good = known !== undefined && known.session.expiresAtS > Math.floor(call.nowMs / 1000);
      call.session = good ? known.session : null;
    } else if (ask.ask === "key" || ask.ask === "key-by-id") {
      const known = this.keys.find(({ key, secret }) =>
        ask.ask === "key" ? secret === ask.secret : key.id === ask.id,
      );
      const snapshot = known === undefined ? null : { key: known.key, org: this.org(known.key.org_id) };
      call.lookup = this.faults.keys === "none" ? snapshot : UNAVAILABLE;
    } else if (ask.ask === "body") {
      call.body = body === "malformed" ? { ok: false, errors: [] } : { ok: true, value: { product } };
    } else if (ask.ask === "take") call.taken = this.faults.limiter === "none" ? this.#take(call, ask) : UNAVAILABLE;
  }

  #take(call: Call, { meter }: Extract<Ask, { ask: "take" }>): TakeOutcome {
    const window = windowOf(this.nowMs());
    if (meter === null) return { verdict: "taken", used: null, window };
    const { org } = call.snapshot;
    const used = this.used(org.id, meter.name);
    if (!fits(used, meter.amount, meter.cap)) return { verdict: "over_cap", used, window };
    this.#used.set(`${org.id} ${meter.name} ${window}`, used + meter.amount);
    this.charged += 1;
    return { verdict: "taken", used: used + meter.amount, window };
  }
}
