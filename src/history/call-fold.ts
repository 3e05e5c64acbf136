/**
 * Folds admitted calls into seconds as they come, and passes everything else on whole: refusals, calls without an
 * answer, calls that the caller cut short, key management, and calls that look wrong, with their neighbours in time.
 */
import type { CallFacts } from "../contract/call-facts.ts";
import { streamResult } from "../contract/streams.ts";
import { type CallKind, type CallLine, type FoldLine, OWN_OF_CALL } from "./line.ts";
import { Histogram } from "./statistics/histogram.ts";
import { known } from "./statistics/statistics.ts";
import { type DurationName, durationsOfCall, FOLD_SPAN_US, joinedMoments, momentsOf } from "./tally.ts";

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

const isSame = (one: unknown, other: unknown): boolean =>
  one === other ||
  (Array.isArray(one) &&
    Array.isArray(other) &&
    one.length === other.length &&
    one.every((item, i) => item === other[i]));

const sameIn = <T extends object>(names: readonly (keyof T)[], a: T | undefined, b: T | undefined): boolean =>
  a === b || (a !== undefined && b !== undefined && names.every((name) => isSame(a[name], b[name])));

const sameKind = (a: CallLine, b: CallLine) => sameIn(OF_KIND, a, b) && sameIn<CallFacts>(OF_FACTS, a.facts, b.facts);

/** So many calls before and after one that looks wrong are kept whole. */
export const NEIGHBOURS = 100;
/** A second is emitted when a call ends this much later. Later calls of that second start another line. */
const SETTLED_AFTER_US = 1_000_000;

/** Reports whether a call is admitted and carries nothing but its times. */
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

/** The growing line of one organization and outcome. */
const newSecond = ({ stage, driver, org, outcome }: CallLine, second: number) => ({
  line: {
    ...{ type: "fold", stage, driver, org, outcome, at_us: second * FOLD_SPAN_US, offered: 0, started: 0, ended: 0 },
    ...{ moments: null, kinds: [], durations: {} },
  } as FoldLine,
  kinds: new Map<KnownKind, FoldLine["kinds"][number]>(),
  durations: new Map<DurationName, Histogram>(),
});
type Second = ReturnType<typeof newSecond>;

type CallFoldOptions = {
  /** Takes calls that are kept whole, and each fold once its second is over. */
  emit(line: CallLine | FoldLine): void;
  /** Called once for each kind of call. */
  looksWrong(call: CallLine): boolean;
};

/** `see` takes calls in the order in which they end; `end` emits the rest. */
export const callFold = ({ emit, looksWrong }: CallFoldOptions) => {
  /** By organization, then by route; each pair has few kinds. */
  const kindsOf = new Map<string, Map<string, KnownKind[]>>();
  /** By second, then by the keys of its lines. */
  const seconds = new Map<number, Map<string, Second>>();
  /** The last plain calls, oldest first, held back in case the next call looks wrong. */
  const before: { call: CallLine; kind: KnownKind }[] = [];
  let wholeLeft = 0;
  let settledS = Number.NEGATIVE_INFINITY;

  /** Returns `null` if there are too many kinds. */
  const kindOf = (call: CallLine): KnownKind | null => {
    const { stage, driver, org, route, outcome } = call;
    const ofOrg = known(kindsOf, org, () => new Map());
    const kinds = known(ofOrg, route, () => []);
    for (const kind of kinds) if (sameKind(kind.first, call)) return kind;
    if (kinds.length >= KINDS_MOST) return null;
    const isAdmitted = /^2\d\d$/.test(outcome);
    kinds.push({ first: call, isWrong: looksWrong(call), isAdmitted, whose: `${org} ${outcome} ${stage} ${driver}` });
    return kinds.at(-1) as KnownKind;
  };

  const fold = (call: CallLine, kind: KnownKind): void => {
    const at = (us: number): Second => {
      const second = secondOf(us);
      const all = known(seconds, second, () => new Map());
      return known(all, kind.whose, () => newSecond(call, second));
    };
    const due = at(call.intended_us);
    due.line.offered += 1;
    due.line.moments = joinedMoments(due.line.moments, momentsOf(call));
    known(due.kinds, kind, () => ({ call: withoutTimes(call), n: 0 })).n += 1;
    at(call.started_us).line.started += 1;
    at(call.done_us).line.ended += 1;
    durationsOfCall(call, (name, us, atUs) => {
      known((name === "gaps" ? at(atUs) : due).durations, name, () => new Histogram()).record(us);
    });
  };

  const writeBefore = (limitS: number): void => {
    for (const second of [...seconds.keys()].sort((a, b) => a - b)) {
      if (second >= limitS) return;
      for (const { line, kinds, durations } of seconds.get(second)?.values() ?? []) {
        const json = Object.fromEntries([...durations].map(([name, all]) => [name, all.toJSON()]));
        emit({ ...line, kinds: [...kinds.values()], durations: json });
      }
      seconds.delete(second);
    }
  };

  return {
    see: (call: CallLine): void => {
      const kind = kindOf(call);
      const isWrong = kind?.isWrong === true || (call.late ?? 0) > 0;
      if (isWrong) {
        for (const { call: earlier } of before.splice(0)) emit(earlier);
        wholeLeft = NEIGHBOURS;
      }
      if (kind === null || isWrong || !isPlain(call, kind)) emit(call);
      else if (wholeLeft > 0) {
        wholeLeft -= 1;
        emit(call);
      } else {
        before.push({ call, kind });
        const oldest = before.length > NEIGHBOURS ? before.shift() : undefined;
        if (oldest !== undefined) fold(oldest.call, oldest.kind);
      }
      const nowS = secondOf(call.done_us - SETTLED_AFTER_US);
      if (nowS <= settledS) return;
      settledS = nowS;
      writeBefore(nowS);
    },
    end: (): void => {
      for (const { call, kind } of before.splice(0)) fold(call, kind);
      writeBefore(Number.POSITIVE_INFINITY);
      kindsOf.clear();
    },
  };
};
