/**
 * A cut stream leaves half an answer. Balancers cut some, so the share is judged (`evidence/stray-share.ts`). Cut: the message
 * broke off, or ended without the stated last event. Doubtful: it outlasted our timeout, or ended without the event that ends
 * others of its kind. Skipped if no last event is known (item 173). Leaves out streams that our faults overlap, that the reader
 * left or read slowly, and those without an event (`streams-end-once`).
 */
import { routeOf, type Stream } from "../contract/routes.ts";
import { lastEventOf, streamResult } from "../contract/streams.ts";
import type { CallLine } from "../history/line.ts";
import { OwnFaults } from "./evidence/fault-windows.ts";
import { isAdmitted, MARK_MARGIN_US, Settling } from "./evidence/moments.ts";
import { judgeStrays, percent, shareWords } from "./evidence/stray-share.ts";
import { Evidence, type Found, failed, type Invariant, inconclusive, passed, skipped, unseen } from "./invariant.ts";

/** Unless `limits.streams_cut_share` is stated. */
const MUST_SHARE = 0.01;
const SHOULD_SHARE = 0.001;

/** Kept to report where they happened. */
const CUTS_KEPT = 1_000;

const NOT_KNOWN =
  "which event ends a stream is not known here, so nobody can tell whether those that ended in order were whole: state stream_end (npx floodgate doctor finds it out)";

const counted = (n: number, what: string): string[] => (n === 0 ? [] : [`${n} ${what}`]);

class Kind {
  readonly cuts: CallLine[] = [];
  cut = 0;
  /** By the last event or an error. */
  byEvent = 0;
  /** By the end of the body, not by a known last event. */
  inOrder = 0;
  knowsLastEvent: boolean;
  /** Numbers of events of whole streams, at most two. */
  readonly #lengths = new Set<number>();

  constructor(isStated: boolean) {
    this.knowsLastEvent = isStated;
  }

  ended({ ended, events }: CallLine, alike: number): void {
    if (ended === "eof") this.inOrder += alike;
    else this.byEvent += alike;
    if (ended !== "done") return;
    this.knowsLastEvent = true;
    if (events !== undefined && this.#lengths.size < 2) this.#lengths.add(events);
  }

  broke(call: CallLine, alike: number): void {
    this.cut += alike;
    if (this.cuts.length < CUTS_KEPT) this.cuts.push(call);
  }

  /** The place of a cut; one just before the last event shows only if all whole streams are equally long. */
  placeOf({ events = 0 }: CallLine): number {
    const [length = 0] = this.#lengths.size === 1 ? this.#lengths : [];
    if (events === 0) return 0;
    return events === length - 1 ? 2 : 1;
  }
}

const whereWords = (kinds: readonly Kind[]): string => {
  const places: [number, number, number] = [0, 0, 0];
  const cuts = kinds.flatMap((kind) => kind.cuts.map((call) => ({ call, place: kind.placeOf(call) })));
  for (const { place } of cuts) places[place as 0 | 1 | 2] += 1;
  const fresh = cuts.filter(({ call }) => call.connect_us > 0).length;
  return [
    ...counted(places[0], "before the first event"),
    ...counted(places[1], "in the middle"),
    ...counted(places[2], "behind the last content event"),
    ...counted(fresh, "on a fresh connection"),
    ...counted(cuts.length - fresh, "on a reused connection"),
  ].join(", ");
};

const streamOf = ({ route }: CallLine): Stream | undefined => (route === "-" ? undefined : routeOf(route).stream);

const EXPECTED = "streams are not cut, outside our own faults";

export const streamsCut: Invariant = {
  id: "streams-cut",
  level: "must",
  folded: true,
  spec: [8, 168, 173],
  statement: EXPECTED,
  judge(facts) {
    const tolerated = facts.limits.streams_cut_share;
    const most = tolerated ?? MUST_SHARE;
    const bound =
      tolerated === undefined ? `, and should be below ${percent(SHOULD_SHARE)}` : " as the target file states";
    const expected = `${EXPECTED}: the share must be below ${percent(most)}${bound}`;
    const faults = new OwnFaults(MARK_MARGIN_US, MARK_MARGIN_US);
    const kinds = new Map<Stream, Kind>();
    const evidence = new Evidence();
    let excused = 0;
    let outlasted = 0;

    const judge = (call: CallLine, alike: number): void => {
      if (faults.overlaps(call)) {
        excused += alike;
        return;
      }
      const stream = streamOf(call) as Stream;
      const { isStated } = lastEventOf(stream, facts.stream_end);
      const kind = kinds.get(stream) ?? new Kind(isStated);
      kinds.set(stream, kind);
      if (call.ended === "timeout") outlasted += alike;
      else if (streamResult(call) === "cut" || (isStated && call.ended === "eof")) {
        kind.broke(call, alike);
        const why = call.error === undefined ? "" : ` (${call.error})`;
        evidence.breach(call.id, `${call.route} ended in "${call.ended}"${why} after ${call.events ?? "some"} events`);
      } else kind.ended(call, alike);
    };
    // A fault injected during a stream is reported after its start.
    const settling = new Settling((call) => judge(call, 1));

    return {
      see(line, alike = 1) {
        if (facts.faults) settling.reach(line);
        // The operator's changes (link "service") break nothing.
        if (line.type === "fault" && line.link !== "service" && facts.faults) faults.see(line);
        if (line.type !== "call" || line.ended === undefined || streamOf(line) === undefined) return;
        if (!isAdmitted(line) || line.slow_reader === true) return;
        const result = streamResult(line);
        if (result === "left" || result === "empty") return;
        // Only whole streams are folded.
        if (facts.faults && alike === 1) settling.add(line);
        else judge(line, alike);
      },
      end: () => ({ ...found(), expected }),
    };

    function found(): Found {
      settling.finish();
      const all = [...kinds.values()];
      const sum = (of: (kind: Kind) => number): number => all.reduce((total, kind) => total + of(kind), 0);
      const cut = sum((kind) => kind.cut);
      const n = cut + sum((kind) => kind.byEvent + kind.inOrder);
      if (n + outlasted === 0) {
        if (excused === 0) return unseen("no admitted stream was seen to its end");
        return skipped(`a stream outside our own faults (they overlapped all ${excused})`);
      }
      const strays = judgeStrays(cut, n, most);
      const words = [
        cut === 0 ? `none of ${n} streams was cut` : `${cut} of ${n} streams were cut (${shareWords(strays)})`,
        ...(cut === 0 ? [] : [whereWords(all)]),
        ...counted(excused, "more overlapped our own faults"),
      ].join("; ");
      if (strays.verdict === "broken") return { ...failed(words, evidence), reason: words };
      if (strays.verdict === "open") {
        const few = `${words}: too few streams to tell whether ${percent(most)} or more are`;
        return { ...inconclusive(few, evidence.first), evidence: evidence.ids };
      }
      // Perhaps incomplete, because others of their kind end by an event.
      const parts = sum((kind) => (kind.knowsLastEvent ? kind.inOrder : 0));
      if (judgeStrays(cut + parts + outlasted, n + outlasted, most).verdict !== "kept") {
        const doubts = [
          ...counted(parts, "ended in order without the event by which others of their kind end"),
          ...counted(outlasted, "had not ended when our own time for them was over"),
        ].join(", ");
        return inconclusive(`${doubts}, so whether they were whole is not known; ${words}`, doubts);
      }
      const unknown = sum((kind) => (kind.knowsLastEvent ? 0 : kind.inOrder));
      if (unknown > 0 && all.every((kind) => !kind.knowsLastEvent)) {
        return { ...skipped(NOT_KNOWN), got: `${unknown} ended in order; ${words}` };
      }
      if (tolerated === undefined && judgeStrays(cut, n, SHOULD_SHARE).verdict === "broken") {
        return { ...failed(words, evidence), reason: words, level: "should" };
      }
      return passed([words, ...counted(unknown, `ended in order: ${NOT_KNOWN}`)].join("; "));
    }
  },
};
