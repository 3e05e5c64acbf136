/** Judges that streams end as they should: once, whole, and with an event. */
import { isUnanswered } from "../contract/refusals.ts";
import { routeOf, type Stream } from "../contract/routes.ts";
import { lastEventOf, streamResult } from "../contract/streams.ts";
import type { CallLine } from "../history/line.ts";
import { exactInterval, known, sumOf } from "../history/statistics/statistics.ts";
import { ownFaults } from "./evidence/fault-windows.ts";
import { isAdmitted, isReference, MARK_MARGIN_US } from "./evidence/moments.ts";
import { counted, Evidence, failed, failedBy, inconclusive, type Judge, passed, skipped, unseen } from "./invariant.ts";

/**
 * Whether a share of bad streams is more than strays. Kept: there is none, or one more would still be within the limit (at 1 %,
 * one of 200 is kept, one of 100 and nine of 900 are not). Broken: the exact 95 % interval lies above the limit, and there are at
 * least three, because a network failure of a moment spoils one or two.
 */
type StrayShare = { verdict: "kept" | "broken" | "open"; share: number; low: number; high: number };

const ENOUGH_TO_ACCUSE = 3;

const judgeStrays = (strays: number, n: number, limit: number): StrayShare => {
  const { low, high } = exactInterval(strays, n) ?? { low: 0, high: 1 };
  const isKept = strays === 0 || strays + 1 <= limit * n;
  const isBroken = strays >= ENOUGH_TO_ACCUSE && low > limit;
  return { verdict: isKept ? "kept" : isBroken ? "broken" : "open", share: n === 0 ? 0 : strays / n, low, high };
};

const percent = (share: number): string => `${Number((share * 100).toPrecision(2))} %`;

const shareWords = ({ share, low, high }: StrayShare): string =>
  `${percent(share)}, 95 % interval ${percent(low)} to ${percent(high)}`;

const streamOf = ({ route }: CallLine): Stream | undefined => (route === "-" ? undefined : routeOf(route).stream);

/** The share of empty streams that a foreign deployment may have. */
const EMPTY_SHARE = 0.01;

const CUTS = ["truncated", "reset", "eof", "timeout"];

/**
 * Section 6; items 168, 173. On the reference platform each stream is judged, outside faults. On a foreign deployment the
 * share of empty streams is judged, and `streams-cut` judges cuts. Last events other than `error` are known only if stated.
 */
export const streamsEndOnce: Judge = (facts) => {
  const ours = isReference(facts);
  const late = new Evidence();
  const cut = new Evidence();
  const empty = new Evidence();
  let judged = 0;
  let cutElsewhere = 0;
  let inOrder = 0;
  return {
    see(line, alike = 1) {
      if (line.type !== "call" || !isAdmitted(line) || line.ended === undefined) return;
      const stream = streamOf(line);
      if (stream === undefined) return;
      const { isStated } = lastEventOf(stream, facts.stream_end);
      if (!ours && streamResult(line) === "cut") {
        cutElsewhere += alike;
        return;
      }
      judged += alike;
      if (line.ended === "eof" && !isStated) inOrder += alike;
      const how = `ended in "${line.ended}" after ${line.events ?? "unknown"} events`;
      const hasEnded = ours || line.ended === "error_event" || isStated;
      if ((line.late ?? 0) > 0 && hasEnded) {
        late.breach(line.id, `${line.late} events after the end (${line.ended}) on ${line.route}`);
      } else if (facts.faults || line.aborted === true) {
        // A fault may cut a stream, but not send events after its end.
      } else if (isUnanswered(line.outcome, line) && streamResult(line) === "empty") {
        const came = line.ended === "refused" ? "was answered without an event stream" : how;
        empty.breach(line.id, `${line.route} ${came}`);
      } else if (ours && CUTS.includes(line.ended)) cut.breach(line.id, `${line.route} ${how}`);
    },
    end() {
      const strays = judgeStrays(empty.count, judged, ours ? 0 : (facts.limits.streams_cut_share ?? EMPTY_SHARE));
      const silent = `${empty.count} of ${judged} streams ended without one event (${shareWords(strays)})`;
      if (empty.count > 0 && (ours || strays.verdict === "broken")) return failedBy(silent, empty);
      const broken = [late, cut].find(({ count }) => count > 0);
      if (broken !== undefined) return failed("a stream did not end exactly once, as it should", broken);
      if (strays.verdict === "open") return inconclusive("too-few-calls", `${silent}: too few to tell`, empty.first);
      const cuts = cutElsewhere === 0 ? "" : `; ${cutElsewhere} were cut, which streams-cut judges`;
      if (judged === 0) return unseen(`no admitted stream was seen to its end${cuts}`);
      const aside = `${empty.count === 0 ? "" : `; ${silent}`}${cuts}`;
      const unknown = inOrder === 0 ? "" : `, ${inOrder} of them by no event that is known to be their last`;
      return passed(`${judged} streams ended once${unknown}${aside}`);
    },
  };
};

/** Tolerated share of cut streams, unless `limits.streams_cut_share` is stated. */
const MUST_SHARE = 0.01;
const SHOULD_SHARE = 0.001;

/** The most cut streams that are kept, to report where they were cut. */
const CUTS_KEPT = 1_000;

const NOT_KNOWN =
  "stream_end in the target file (npx floodgate doctor finds it out) to tell whether streams that ended in order were whole";

/** `byEvent`: ended by the last event or an error; `inOrder`: by the end of the body; `lengths`: events of whole streams, at most two. */
const newKind = (knowsLastEvent: boolean) => ({
  knowsLastEvent,
  cuts: [] as CallLine[],
  cut: 0,
  byEvent: 0,
  inOrder: 0,
  lengths: new Set<number>(),
});

type Kind = ReturnType<typeof newKind>;

const whereWords = (kinds: readonly Kind[]): string => {
  const places = { start: 0, middle: 0, end: 0, fresh: 0, reused: 0 };
  for (const { cuts, lengths } of kinds) {
    // A cut just before the last event shows only if all whole streams are equally long.
    const [length = 0] = lengths.size === 1 ? lengths : [];
    for (const { events = 0, connect_us } of cuts) {
      places[events === 0 ? "start" : events === length - 1 ? "end" : "middle"] += 1;
      places[connect_us > 0 ? "fresh" : "reused"] += 1;
    }
  }
  return [
    ...counted(places.start, "before the first event"),
    ...counted(places.middle, "in the middle"),
    ...counted(places.end, "behind the last content event"),
    ...counted(places.fresh, "on a fresh connection"),
    ...counted(places.reused, "on a reused connection"),
  ].join(", ");
};

/**
 * Judges the share of cut streams, because balancers cut some. Cut: the message broke off, or ended without the stated last
 * event. Doubtful: it outlasted our timeout, or ended without the event that ends others of its kind. Skipped if no last
 * event is known (item 173). Leaves out streams that our faults overlap, that the reader left or read slowly, and those
 * without an event (`streams-end-once`).
 */
export const streamsCut: Judge = (facts, settling) => {
  const tolerated = facts.limits.streams_cut_share;
  const most = tolerated ?? MUST_SHARE;
  const should =
    tolerated === undefined ? `, and should be below ${percent(SHOULD_SHARE)}` : " as the target file states";
  const bound = `the share must be below ${percent(most)}${should}`;
  const faults = ownFaults(MARK_MARGIN_US, MARK_MARGIN_US);
  const kinds = new Map<Stream, Kind>();
  const evidence = new Evidence();
  let excused = 0;
  let outlasted = 0;

  const judge = (call: CallLine, alike: number): void => {
    const stream = streamOf(call) as Stream;
    const { isStated } = lastEventOf(stream, facts.stream_end);
    if (faults.overlaps(call)) {
      excused += alike;
      return;
    }
    const kind = known(kinds, stream, () => newKind(isStated));
    const { ended, events } = call;
    if (ended === "timeout") outlasted += alike;
    else if (streamResult(call) === "cut" || (isStated && ended === "eof")) {
      kind.cut += alike;
      if (kind.cuts.length < CUTS_KEPT) kind.cuts.push(call);
      const why = call.error === undefined ? "" : ` (${call.error})`;
      evidence.breach(call.id, `${call.route} ended in "${ended}"${why} after ${events ?? "some"} events`);
    } else {
      kind[ended === "eof" ? "inOrder" : "byEvent"] += alike;
      kind.knowsLastEvent ||= ended === "done";
      if (ended === "done" && events !== undefined && kind.lengths.size < 2) kind.lengths.add(events);
    }
  };
  const found = () => {
    const all = [...kinds.values()];
    const cut = sumOf(all.map((kind) => kind.cut));
    const n = cut + sumOf(all.map(({ byEvent, inOrder }) => byEvent + inOrder));
    if (n + outlasted === 0) {
      if (excused === 0) return unseen("no admitted stream was seen to its end");
      return skipped("not-seen", `a stream outside our own faults (they overlapped all ${excused})`);
    }
    const strays = judgeStrays(cut, n, most);
    const words = [
      ...(cut === 0 ? [`none of ${n} streams was cut`] : []),
      ...(cut > 0 ? [`${cut} of ${n} streams were cut (${shareWords(strays)})`, whereWords(all)] : []),
      ...counted(excused, "more overlapped our own faults"),
    ].join("; ");
    if (strays.verdict === "broken") return failedBy(words, evidence);
    if (strays.verdict === "open") {
      const few = `${words}: too few streams to tell whether ${percent(most)} or more are`;
      return inconclusive("too-few-calls", few, evidence.first, evidence.ids);
    }
    const inOrder = (known: boolean): number =>
      sumOf(all.filter(({ knowsLastEvent }) => knowsLastEvent === known).map((kind) => kind.inOrder));
    // These may be incomplete, because others of their kind end by an event.
    const parts = inOrder(true);
    if (judgeStrays(cut + parts + outlasted, n + outlasted, most).verdict !== "kept") {
      const doubts = [
        ...counted(parts, "ended in order without the event by which others of their kind end"),
        ...counted(outlasted, "had not ended when our own time for them was over"),
      ].join(", ");
      return inconclusive("ambiguous", `${doubts}, so whether they were whole is not known; ${words}`, doubts);
    }
    const unknown = inOrder(false);
    if (unknown > 0 && all.every((kind) => !kind.knowsLastEvent)) {
      return { ...skipped("not-stated", NOT_KNOWN), got: `${unknown} ended in order; ${words}` };
    }
    if (tolerated === undefined && judgeStrays(cut, n, SHOULD_SHARE).verdict === "broken") {
      return { ...failedBy(words, evidence), level: "should" as const };
    }
    return passed([words, ...counted(unknown, `ended in order (it takes ${NOT_KNOWN})`)].join("; "));
  };
  return {
    see(line, alike = 1) {
      // The operator's changes (link "service") break nothing.
      if (line.type === "fault" && line.link !== "service" && facts.faults) faults.see(line);
      if (line.type !== "call" || line.ended === undefined || streamOf(line) === undefined) return;
      if (!isAdmitted(line) || line.slow_reader === true) return;
      const result = streamResult(line);
      if (result === "left" || result === "empty") return;
      // A fault injected during a stream is reported after its start. Only whole streams are folded.
      if (facts.faults && alike === 1) settling.add(line);
      else judge(line, alike);
    },
    settled: (call) => judge(call, 1),
    end: () => ({ ...found(), bound }),
  };
};
