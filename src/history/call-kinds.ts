/**
 * Which calls differ in their times alone. Asked of every call at a high rate, so fields are compared and no text is made of
 * them; those of one organization on one route are few.
 */
import type { CallFacts } from "../contract/call-facts.ts";
import type { CallLine } from "./line.ts";

/** Of one organization on one route; what a deployment varies from answer to answer is not to fill the memory. */
const KINDS_MOST = 64;

export type KnownKind = {
  readonly first: CallLine;
  /** It breaks a promise as far as it shows by itself. */
  readonly isWrong: boolean;
  readonly isAdmitted: boolean;
  /** Equal for calls of one stage, driver, organization and outcome. */
  readonly whose: string;
};

const sameList = (a: readonly string[] | undefined, b: readonly string[] | undefined): boolean => {
  if (a === b) return true;
  if (a === undefined || b === undefined || a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
};

const sameFacts = (a: CallFacts | undefined, b: CallFacts | undefined): boolean =>
  a === b ||
  (a !== undefined &&
    b !== undefined &&
    a.credential === b.credential &&
    a.state === b.state &&
    a.origin === b.origin &&
    a.ip === b.ip &&
    a.tier === b.tier &&
    a.product === b.product &&
    a.body === b.body &&
    sameList(a.scopes, b.scopes) &&
    sameList(a.products, b.products));

const sameKind = (a: CallLine, b: CallLine): boolean =>
  a.outcome === b.outcome &&
  a.stage === b.stage &&
  a.driver === b.driver &&
  a.bucket === b.bucket &&
  a.attempt === b.attempt &&
  a.unscheduled === b.unscheduled &&
  a.meter === b.meter &&
  a.ended === b.ended &&
  a.retry_after === b.retry_after &&
  a.expires_in === b.expires_in &&
  a.product === b.product &&
  a.clock_error_us === b.clock_error_us &&
  a.envelope === b.envelope &&
  a.error === b.error &&
  a.aborted === b.aborted &&
  sameList(a.event_names, b.event_names) &&
  sameFacts(a.facts, b.facts);

export class CallKinds {
  readonly #known = new Map<string, Map<string, KnownKind[]>>();
  readonly #looksWrong: (call: CallLine) => boolean;

  constructor(looksWrong: (call: CallLine) => boolean) {
    this.#looksWrong = looksWrong;
  }

  /** `null` where there are too many kinds already. */
  of(call: CallLine): KnownKind | null {
    let routes = this.#known.get(call.org);
    if (routes === undefined) {
      routes = new Map();
      this.#known.set(call.org, routes);
    }
    let kinds = routes.get(call.route);
    if (kinds === undefined) {
      kinds = [];
      routes.set(call.route, kinds);
    }
    for (const kind of kinds) if (sameKind(kind.first, call)) return kind;
    if (kinds.length >= KINDS_MOST) return null;
    const { stage, driver, org, outcome } = call;
    const kind: KnownKind = {
      first: call,
      isWrong: this.#looksWrong(call),
      isAdmitted: /^2\d\d$/.test(outcome),
      whose: `${org} ${outcome} ${stage} ${driver}`,
    };
    kinds.push(kind);
    return kind;
  }

  clear(): void {
    this.#known.clear();
  }
}
