/**
 * Folds admitted calls into seconds as they come, and lets everything else through: refusals, calls without an answer, calls that
 * the caller cut short, changes of keys, and calls that look wrong, with those that ended just before and after them.
 */
import type { CallFacts } from "../contract/call-facts.ts";
import { streamResult } from "../contract/streams.ts";
import { type CallKind, type CallLine, FOLDED_DURATIONS, type FoldLine, OWN_OF_CALL } from "./line.ts";
import { Histogram } from "./statistics/histogram.ts";
import { durationsOfCall, FOLD_SPAN_US, momentsOf, noMoments, widen } from "./tally.ts";

/** Of one organization on one route; what a deployment varies from answer to answer is not to fill the memory. */
const KINDS_MOST = 64;

type KnownKind = {
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

/** So many calls on either side of one that looks wrong stay whole. */
export const NEIGHBOURS = 100;
/** A second is written when the newest call ended so much later; what comes later still makes a second line of it. */
const SETTLED_AFTER_US = 1_000_000;

/** An admitted call with nothing about it but its times. */
const isPlain = (call: CallLine, { isAdmitted }: KnownKind): boolean =>
  isAdmitted &&
  streamResult(call) === "whole" &&
  call.late === undefined &&
  call.slow_reader === undefined &&
  call.envelope === undefined &&
  call.quota === undefined &&
  call.error === undefined &&
  !call.route.startsWith("keys.");

const OWN: ReadonlySet<string> = new Set(OWN_OF_CALL);

const withoutTimes = (call: CallLine): CallKind =>
  Object.fromEntries(Object.entries(call).filter(([name]) => !OWN.has(name))) as CallKind;

const secondOf = (us: number): number => Math.floor(us / FOLD_SPAN_US);

/** What one organization got in one second with one outcome. */
class Second {
  readonly #of: Pick<FoldLine, "stage" | "driver" | "org" | "outcome" | "at_us">;
  readonly #kinds = new Map<KnownKind, { call: CallKind; n: number }>();
  readonly #durations = new Map<string, Histogram>();
  readonly #moments = noMoments();
  #offered = 0;
  started = 0;
  ended = 0;

  constructor({ stage, driver, org, outcome }: CallLine, atUs: number) {
    this.#of = { stage, driver, org, outcome, at_us: atUs };
  }

  offer(call: CallLine, kind: KnownKind): void {
    this.#offered += 1;
    const same = this.#kinds.get(kind);
    if (same === undefined) this.#kinds.set(kind, { call: withoutTimes(call), n: 1 });
    else same.n += 1;
    widen(this.#moments, momentsOf(call));
  }

  record(name: string, us: number): void {
    let histogram = this.#durations.get(name);
    if (histogram === undefined) {
      histogram = new Histogram();
      this.#durations.set(name, histogram);
    }
    histogram.record(us);
  }

  line(): FoldLine {
    const durations: FoldLine["durations"] = {};
    for (const name of FOLDED_DURATIONS) {
      const histogram = this.#durations.get(name);
      if (histogram !== undefined) durations[name] = histogram.toJSON();
    }
    return {
      type: "fold",
      ...this.#of,
      offered: this.#offered,
      started: this.started,
      ended: this.ended,
      moments: this.#offered === 0 ? null : this.#moments,
      kinds: [...this.#kinds.values()],
      durations,
    };
  }
}

export type CallFoldOptions = {
  /** Calls that stay whole, and folds, each once its second is over. */
  emit(line: CallLine | FoldLine): void;
  /** Whether a call breaks a promise as far as it shows by itself; asked once for each kind. */
  looksWrong(call: CallLine): boolean;
};

type Held = { call: CallLine; kind: KnownKind };

/** `see` calls in the order in which they end; `end` gives what is left. */
export class CallFold {
  readonly #emit: CallFoldOptions["emit"];
  readonly #looksWrong: CallFoldOptions["looksWrong"];
  /** By organization and route, which have few kinds each. */
  readonly #kinds = new Map<string, Map<string, KnownKind[]>>();
  /** By second, then by whose and what. */
  readonly #seconds = new Map<number, Map<string, Second>>();
  /** Plain calls that may turn out to stand just before one that looks wrong, the oldest first. */
  readonly #before: Held[] = [];
  #wholeLeft = 0;
  #settledS = Number.NEGATIVE_INFINITY;

  constructor({ emit, looksWrong }: CallFoldOptions) {
    this.#emit = emit;
    this.#looksWrong = looksWrong;
  }

  see(call: CallLine): void {
    const kind = this.#kindOf(call);
    const isWrong = kind?.isWrong === true || (call.late ?? 0) > 0;
    if (isWrong) {
      for (const before of this.#before.splice(0)) this.#emit(before.call);
      this.#wholeLeft = NEIGHBOURS;
    }
    if (kind === null || isWrong || !isPlain(call, kind)) this.#emit(call);
    else if (this.#wholeLeft > 0) {
      this.#wholeLeft -= 1;
      this.#emit(call);
    } else {
      this.#before.push({ call, kind });
      if (this.#before.length > NEIGHBOURS) this.#fold(this.#before.shift() as Held);
    }
    const settledS = secondOf(call.done_us - SETTLED_AFTER_US);
    if (settledS <= this.#settledS) return;
    this.#settledS = settledS;
    this.#writeBefore(settledS);
  }

  end(): void {
    for (const held of this.#before.splice(0)) this.#fold(held);
    this.#writeBefore(Number.POSITIVE_INFINITY);
    this.#kinds.clear();
  }

  /** `null` where there are too many kinds already. */
  #kindOf(call: CallLine): KnownKind | null {
    let routes = this.#kinds.get(call.org);
    if (routes === undefined) {
      routes = new Map();
      this.#kinds.set(call.org, routes);
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

  #fold({ call, kind }: Held): void {
    const dueS = secondOf(call.intended_us);
    const due = this.#at(call, kind, dueS);
    due.offer(call, kind);
    // Nearly every call begins and ends in the second in which it was due.
    const startedS = secondOf(call.started_us);
    const doneS = secondOf(call.done_us);
    (startedS === dueS ? due : this.#at(call, kind, startedS)).started += 1;
    (doneS === dueS ? due : this.#at(call, kind, doneS)).ended += 1;
    durationsOfCall(call, (name, us, atUs) => {
      (name === "gaps" ? this.#at(call, kind, secondOf(atUs)) : due).record(name, us);
    });
  }

  #at(call: CallLine, { whose }: KnownKind, second: number): Second {
    let all = this.#seconds.get(second);
    if (all === undefined) {
      all = new Map();
      this.#seconds.set(second, all);
    }
    let own = all.get(whose);
    if (own === undefined) {
      own = new Second(call, second * FOLD_SPAN_US);
      all.set(whose, own);
    }
    return own;
  }

  #writeBefore(limitS: number): void {
    for (const second of [...this.#seconds.keys()].sort((a, b) => a - b)) {
      if (second >= limitS) return;
      for (const own of this.#seconds.get(second)?.values() ?? []) this.#emit(own.line());
      this.#seconds.delete(second);
    }
  }
}
