/**
 * Folds admitted calls into seconds as they come, and lets everything else through: refusals, calls without an answer, what
 * the caller cut short, changes of keys, and what looks wrong together with the calls that ended just before and after it.
 */
import { FOLD_SPAN_US } from "./fold-line.ts";
import { Histogram } from "./histogram.ts";
import {
  type CallKind,
  type CallLine,
  FOLDED_DURATIONS,
  type FoldedDuration,
  type FoldedMoments,
  type FoldLine,
} from "./line.ts";

/** So many calls on either side of one that looks wrong stay whole. */
export const NEIGHBOURS = 100;
/** A second is written when the newest call ended so much later; what comes later still makes a second line of it. */
const SETTLED_AFTER_US = 1_000_000;
/** More kinds than this are asked about again. */
const KINDS_KNOWN_MOST = 10_000;

/** An admitted call with nothing about it but its times. */
const isPlain = (call: CallLine): boolean =>
  /^2\d\d$/.test(call.outcome) &&
  (call.ended === undefined || call.ended === "done") &&
  call.late === undefined &&
  call.aborted === undefined &&
  call.slow_reader === undefined &&
  call.envelope === undefined &&
  call.quota === undefined &&
  call.error === undefined &&
  !call.route.startsWith("keys.");

/** Equal for calls that differ in their times alone. */
const kindOf = (call: CallLine): string => {
  const { facts } = call;
  const own = `${call.stage} ${call.driver} ${call.org} ${call.bucket} ${call.route} ${call.outcome} ${call.attempt} ${call.unscheduled} ${call.meter} ${call.ended} ${call.event_names} ${call.retry_after} ${call.expires_in} ${call.product} ${call.clock_error_us}`;
  return facts === undefined
    ? own
    : `${own} ${facts.credential} ${facts.state} ${facts.origin} ${facts.ip} ${facts.tier} ${facts.product} ${facts.body} ${facts.scopes} ${facts.products}`;
};

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

/** What one organization got in one second with one outcome. */
class Second {
  readonly #of: Pick<FoldLine, "stage" | "driver" | "org" | "outcome" | "at_us">;
  readonly #kinds = new Map<string, { call: CallKind; n: number }>();
  readonly #durations = new Map<FoldedDuration, Histogram>();
  #moments: FoldedMoments | null = null;
  #offered = 0;
  started = 0;
  ended = 0;

  constructor({ stage, driver, org, outcome }: CallLine, atUs: number) {
    this.#of = { stage, driver, org, outcome, at_us: atUs };
  }

  offer(call: CallLine, key: string): void {
    this.#offered += 1;
    const kind = this.#kinds.get(key);
    if (kind === undefined) this.#kinds.set(key, { call: withoutTimes(call), n: 1 });
    else kind.n += 1;
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

/** `see` calls in the order in which they end; `end` gives what is left. */
export class CallFold {
  readonly #options: CallFoldOptions;
  /** By second, then by whose and what. */
  readonly #seconds = new Map<number, Map<string, Second>>();
  readonly #wrongKinds = new Map<string, boolean>();
  /** Plain calls that may turn out to stand just before one that looks wrong: a ring, overwritten from `#oldest` on. */
  readonly #before: { call: CallLine; key: string }[] = [];
  #oldest = 0;
  #wholeLeft = 0;
  #settledS = Number.NEGATIVE_INFINITY;

  constructor(options: CallFoldOptions) {
    this.#options = options;
  }

  see(call: CallLine): void {
    const key = kindOf(call);
    const isWrong = (call.late ?? 0) > 0 || this.#isWrong(call, key);
    if (isWrong) {
      for (const { call: before } of this.#neighbours()) this.#options.emit(before);
      this.#wholeLeft = NEIGHBOURS;
    }
    if (isWrong || !isPlain(call)) this.#options.emit(call);
    else if (this.#wholeLeft > 0) {
      this.#wholeLeft -= 1;
      this.#options.emit(call);
    } else this.#hold(call, key);
    this.#settle(call.done_us);
  }

  end(): void {
    for (const { call, key } of this.#neighbours()) this.#fold(call, key);
    for (const second of [...this.#seconds.keys()].sort((a, b) => a - b)) this.#write(second);
  }

  #isWrong(call: CallLine, key: string): boolean {
    const known = this.#wrongKinds.get(key);
    if (known !== undefined) return known;
    if (this.#wrongKinds.size >= KINDS_KNOWN_MOST) this.#wrongKinds.clear();
    const isWrong = this.#options.looksWrong(call);
    this.#wrongKinds.set(key, isWrong);
    return isWrong;
  }

  #hold(call: CallLine, key: string): void {
    if (this.#before.length < NEIGHBOURS) {
      this.#before.push({ call, key });
      return;
    }
    const oldest = this.#before[this.#oldest] as { call: CallLine; key: string };
    this.#fold(oldest.call, oldest.key);
    this.#before[this.#oldest] = { call, key };
    this.#oldest = (this.#oldest + 1) % NEIGHBOURS;
  }

  /** Those that are held, the oldest first; none is held any more. */
  #neighbours(): { call: CallLine; key: string }[] {
    const held = [...this.#before.slice(this.#oldest), ...this.#before.slice(0, this.#oldest)];
    this.#before.length = 0;
    this.#oldest = 0;
    return held;
  }

  #fold(call: CallLine, key: string): void {
    this.#at(call, call.intended_us).offer(call, key);
    this.#at(call, call.started_us).started += 1;
    this.#at(call, call.done_us).ended += 1;
    if (call.first_event_us === undefined) return;
    let atUs = call.first_event_us;
    for (const gapUs of call.gaps_us ?? []) {
      atUs += gapUs;
      this.#at(call, atUs).record("gaps", gapUs);
    }
  }

  #at(call: CallLine, us: number): Second {
    const second = Math.floor(us / FOLD_SPAN_US);
    let all = this.#seconds.get(second);
    if (all === undefined) {
      all = new Map();
      this.#seconds.set(second, all);
    }
    const whose = `${call.org} ${call.outcome} ${call.stage} ${call.driver}`;
    let own = all.get(whose);
    if (own === undefined) {
      own = new Second(call, second * FOLD_SPAN_US);
      all.set(whose, own);
    }
    return own;
  }

  #settle(nowUs: number): void {
    const settledS = Math.floor((nowUs - SETTLED_AFTER_US) / FOLD_SPAN_US);
    if (settledS <= this.#settledS) return;
    this.#settledS = settledS;
    for (const second of [...this.#seconds.keys()].sort((a, b) => a - b)) if (second < settledS) this.#write(second);
  }

  #write(second: number): void {
    for (const own of this.#seconds.get(second)?.values() ?? []) this.#options.emit(own.line());
    this.#seconds.delete(second);
  }
}
