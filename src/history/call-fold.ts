/**
 * Folds admitted calls into seconds as they come, and lets everything else through: refusals, calls without an answer, what
 * the caller cut short, changes of keys, and what looks wrong together with the calls that ended just before and after it.
 */
import { streamResult } from "../contract/streams.ts";
import { CallKinds, type KnownKind } from "./call-kinds.ts";
import { FOLD_SPAN_US } from "./fold-line.ts";
import {
  type CallKind,
  type CallLine,
  FOLDED_DURATIONS,
  type FoldedDuration,
  type FoldedMoments,
  type FoldLine,
} from "./line.ts";
import { Histogram } from "./statistics/histogram.ts";

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

const withoutTimes = (call: CallLine): CallKind => {
  const {
    intended_us: _intended,
    started_us: _started,
    connect_us: _connect,
    sent_us: _sent,
    first_us: _first,
    first_event_us: _firstEvent,
    last_event_us: _lastEvent,
    gaps_us: _gaps,
    done_us: _done,
    events: _events,
    ...kind
  } = call;
  return kind;
};

const secondOf = (us: number): number => Math.floor(us / FOLD_SPAN_US);

/** What one organization got in one second with one outcome. */
class Second {
  readonly #of: Pick<FoldLine, "stage" | "driver" | "org" | "outcome" | "at_us">;
  readonly #kinds = new Map<KnownKind, { call: CallKind; n: number }>();
  readonly #durations = new Map<FoldedDuration, Histogram>();
  #moments: FoldedMoments | null = null;
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
    const { intended_us: intendedUs, started_us: startedUs, sent_us: sentUs, done_us: doneUs } = call;
    const { first_event_us: firstEventUs } = call;
    const moments = this.#moments;
    if (moments === null) {
      this.#moments = {
        first_intended_us: intendedUs,
        first_started_us: startedUs,
        last_started_us: startedUs,
        first_sent_us: sentUs,
        last_done_us: doneUs,
      };
    } else {
      if (intendedUs < moments.first_intended_us) moments.first_intended_us = intendedUs;
      if (startedUs < moments.first_started_us) moments.first_started_us = startedUs;
      if (startedUs > moments.last_started_us) moments.last_started_us = startedUs;
      if (sentUs < moments.first_sent_us) moments.first_sent_us = sentUs;
      if (doneUs > moments.last_done_us) moments.last_done_us = doneUs;
    }
    this.record("lag", startedUs - intendedUs);
    this.record("latency", doneUs - intendedUs);
    this.record("latency_from_sent", doneUs - sentUs);
    if (firstEventUs === undefined) return;
    this.record("first_event", firstEventUs - intendedUs);
    this.record("first_event_from_sent", firstEventUs - sentUs);
  }

  record(name: FoldedDuration, us: number): void {
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
      moments: this.#moments,
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
  readonly #kinds: CallKinds;
  /** By second, then by whose and what. */
  readonly #seconds = new Map<number, Map<string, Second>>();
  /** Plain calls that may turn out to stand just before one that looks wrong: a ring, overwritten from `#oldest` on. */
  readonly #before: Held[] = [];
  #oldest = 0;
  #wholeLeft = 0;
  #settledS = Number.NEGATIVE_INFINITY;

  constructor({ emit, looksWrong }: CallFoldOptions) {
    this.#emit = emit;
    this.#kinds = new CallKinds(looksWrong);
  }

  see(call: CallLine): void {
    const kind = this.#kinds.of(call);
    const isWrong = kind?.isWrong === true || (call.late ?? 0) > 0;
    if (isWrong) {
      for (const before of this.#neighbours()) this.#emit(before.call);
      this.#wholeLeft = NEIGHBOURS;
    }
    if (kind === null || isWrong || !isPlain(call, kind)) this.#emit(call);
    else if (this.#wholeLeft > 0) {
      this.#wholeLeft -= 1;
      this.#emit(call);
    } else this.#hold({ call, kind });
    this.#settle(call.done_us);
  }

  end(): void {
    for (const held of this.#neighbours()) this.#fold(held);
    for (const second of [...this.#seconds.keys()].sort((a, b) => a - b)) this.#write(second);
    this.#kinds.clear();
  }

  #hold(held: Held): void {
    if (this.#before.length < NEIGHBOURS) {
      this.#before.push(held);
      return;
    }
    this.#fold(this.#before[this.#oldest] as Held);
    this.#before[this.#oldest] = held;
    this.#oldest = (this.#oldest + 1) % NEIGHBOURS;
  }

  /** Those that are held, the oldest first; none is held any more. */
  #neighbours(): Held[] {
    const held = [...this.#before.slice(this.#oldest), ...this.#before.slice(0, this.#oldest)];
    this.#before.length = 0;
    this.#oldest = 0;
    return held;
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
    if (call.first_event_us === undefined) return;
    let atUs = call.first_event_us;
    for (const gapUs of call.gaps_us ?? []) {
      atUs += gapUs;
      this.#at(call, kind, secondOf(atUs)).record("gaps", gapUs);
    }
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

  #settle(nowUs: number): void {
    const settledS = secondOf(nowUs - SETTLED_AFTER_US);
    if (settledS <= this.#settledS) return;
    this.#settledS = settledS;
    for (const second of [...this.#seconds.keys()].sort((a, b) => a - b)) if (second < settledS) this.#write(second);
  }

  #write(second: number): void {
    for (const own of this.#seconds.get(second)?.values() ?? []) this.#emit(own.line());
    this.#seconds.delete(second);
  }
}
