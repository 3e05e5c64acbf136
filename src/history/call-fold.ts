/**
 * Folds admitted calls into seconds as they come, and lets everything else through: refusals, calls without an answer, calls that
 * the caller cut short, changes of keys, and calls that look wrong, with those that ended just before and after them.
 */
import type { CallFacts } from "../contract/call-facts.ts";
import { streamResult } from "../contract/streams.ts";
import { type CallKind, type CallLine, type FoldLine, OWN_OF_CALL } from "./line.ts";
import { known } from "./statistics/counts.ts";
import { Histogram } from "./statistics/histogram.ts";
import { type DurationName, durationsOfCall, FOLD_SPAN_US, momentsOf, noMoments, widen } from "./tally.ts";

/** The most kinds of one organization on one route. It bounds the memory when a deployment varies its answers. */
const KINDS_MOST = 64;

type KnownKind = {
  readonly first: CallLine;
  /** This call alone violates an invariant. */
  readonly isWrong: boolean;
  readonly isAdmitted: boolean;
  /** A key that is equal for calls of one stage, driver, organization and outcome. */
  readonly whose: string;
};

/** The fields by which two kinds of calls of one organization and route differ. */
const OF_KIND = [
  ...(["outcome", "stage", "driver", "bucket", "attempt", "unscheduled", "meter", "ended", "retry_after"] as const),
  ...(["expires_in", "product", "clock_error_us", "envelope", "error", "aborted", "event_names"] as const),
];
const OF_FACTS = ["credential", "state", "origin", "ip", "tier", "product", "body", "scopes", "products"] as const;

/** Reports whether the named fields are equal; lists are compared by their items. */
const sameIn = <T extends object>(names: readonly (keyof T)[], a: T | undefined, b: T | undefined): boolean => {
  if (a === b) return true;
  if (a === undefined || b === undefined) return false;
  for (const name of names) {
    const one: unknown = a[name];
    const other: unknown = b[name];
    if (one === other) continue;
    if (!Array.isArray(one) || !Array.isArray(other) || one.length !== other.length) return false;
    for (let i = 0; i < one.length; i++) if (one[i] !== other[i]) return false;
  }
  return true;
};

const sameKind = (a: CallLine, b: CallLine): boolean =>
  sameIn(OF_KIND, a, b) && sameIn<CallFacts>(OF_FACTS, a.facts, b.facts);

/** How many calls before and after one that looks wrong are kept whole. */
export const NEIGHBOURS = 100;
/** A second is written when a call ends this much later. Calls that come after that start another line of the same second. */
const SETTLED_AFTER_US = 1_000_000;

/** Reports whether a call is admitted and has nothing to tell but its times. */
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

/** The growing line of one organization, second and outcome. */
type Second = { line: FoldLine; kinds: Map<KnownKind, { n: number }>; durations: Map<DurationName, Histogram> };

const newSecond = ({ stage, driver, org, outcome }: CallLine, second: number): Second => {
  const counts = { offered: 0, started: 0, ended: 0, moments: null, kinds: [], durations: {} };
  const line: FoldLine = { type: "fold", stage, driver, org, outcome, at_us: second * FOLD_SPAN_US, ...counts };
  return { line, kinds: new Map(), durations: new Map() };
};

type CallFoldOptions = {
  /** Takes the calls that are kept whole, and each fold once its second is over. */
  emit(line: CallLine | FoldLine): void;
  /** Reports whether a call alone violates an invariant; called once for each kind. */
  looksWrong(call: CallLine): boolean;
};

type Held = { call: CallLine; kind: KnownKind };

/** `see` takes calls in the order in which they end; `end` emits the rest. */
export class CallFold {
  readonly #options: CallFoldOptions;
  /** By organization and route, which have few kinds each. */
  readonly #kinds = new Map<string, Map<string, KnownKind[]>>();
  /** By second, then by the keys of its lines. */
  readonly #seconds = new Map<number, Map<string, Second>>();
  /** The last plain calls, oldest first, held back in case the next call looks wrong. */
  readonly #before: Held[] = [];
  #wholeLeft = 0;
  #settledS = Number.NEGATIVE_INFINITY;

  constructor(options: CallFoldOptions) {
    this.#options = options;
  }

  see(call: CallLine): void {
    const kind = this.#kindOf(call);
    const isWrong = kind?.isWrong === true || (call.late ?? 0) > 0;
    if (isWrong) {
      for (const before of this.#before.splice(0)) this.#options.emit(before.call);
      this.#wholeLeft = NEIGHBOURS;
    }
    if (kind === null || isWrong || !isPlain(call, kind)) this.#options.emit(call);
    else if (this.#wholeLeft > 0) {
      this.#wholeLeft -= 1;
      this.#options.emit(call);
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

  /** Returns `null` if there are too many kinds. */
  #kindOf(call: CallLine): KnownKind | null {
    const kinds = known(
      known(this.#kinds, call.org, () => new Map()),
      call.route,
      () => [],
    );
    for (const kind of kinds) if (sameKind(kind.first, call)) return kind;
    if (kinds.length >= KINDS_MOST) return null;
    const { stage, driver, org, outcome } = call;
    const kind: KnownKind = {
      first: call,
      isWrong: this.#options.looksWrong(call),
      isAdmitted: /^2\d\d$/.test(outcome),
      whose: `${org} ${outcome} ${stage} ${driver}`,
    };
    kinds.push(kind);
    return kind;
  }

  #fold({ call, kind }: Held): void {
    const dueS = secondOf(call.intended_us);
    const due = this.#at(call, kind, dueS);
    // Nearly every call begins and ends in the second in which it was due.
    const at = (us: number): Second => (secondOf(us) === dueS ? due : this.#at(call, kind, secondOf(us)));
    const { line } = due;
    line.offered += 1;
    line.moments ??= noMoments();
    widen(line.moments, momentsOf(call));
    known(due.kinds, kind, () => {
      const own = { call: withoutTimes(call), n: 0 };
      line.kinds.push(own);
      return own;
    }).n += 1;
    at(call.started_us).line.started += 1;
    at(call.done_us).line.ended += 1;
    durationsOfCall(call, (name, us, atUs) => {
      known((name === "gaps" ? at(atUs) : due).durations, name, () => new Histogram()).record(us);
    });
  }

  #at(call: CallLine, { whose }: KnownKind, second: number): Second {
    const all = known(this.#seconds, second, () => new Map());
    return known(all, whose, () => newSecond(call, second));
  }

  #writeBefore(limitS: number): void {
    for (const second of [...this.#seconds.keys()].sort((a, b) => a - b)) {
      if (second >= limitS) return;
      for (const { line, durations } of this.#seconds.get(second)?.values() ?? []) {
        const json = Object.fromEntries([...durations].map(([name, all]) => [name, all.toJSON()]));
        this.#options.emit({ ...line, durations: json });
      }
      this.#seconds.delete(second);
    }
  }
}
