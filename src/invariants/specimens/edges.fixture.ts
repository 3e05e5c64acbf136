/** What edges in front of a deployment do to what callers see: none of it is the deployment's doing. */
import type { CallLine, Line } from "../../history/line.ts";

type Edge = (line: CallLine, random: () => number) => CallLine;

const isStream = ({ gaps_us, outcome }: CallLine): boolean => gaps_us !== undefined && outcome === "200";
const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** A stream whose events came at these moments. */
const readAt = (line: CallLine, events: readonly number[]): CallLine => {
  const [first = line.done_us, last = line.done_us] = [events[0], events.at(-1)];
  return {
    ...line,
    first_us: Math.min(line.first_us ?? first, first),
    first_event_us: first,
    gaps_us: events.slice(1).map((at, i) => at - (events[i] as number)),
    last_event_us: last,
    done_us: last,
  };
};

const eventsOf = ({ first_event_us: first = 0, gaps_us: gaps = [] }: CallLine): number[] =>
  [0, ...gaps].map((_, i) => first + sum(gaps.slice(0, i)));

const ofStreams =
  (change: (events: number[], line: CallLine, random: () => number) => number[]): Edge =>
  (line, random) =>
    isStream(line) ? readAt(line, change(eventsOf(line), line, random)) : line;

const HELD_US = 300_000;

/** Passes on so many bytes at a time that each event takes so long; a refusal is at least half as long as an event. */
const trickles =
  (eventUs: number): Edge =>
  (line) => {
    if (!isStream(line)) return { ...line, done_us: line.done_us + eventUs / 2 };
    let free = Number.NEGATIVE_INFINITY;
    return readAt(
      line,
      eventsOf(line).map((at) => {
        free = Math.max(free, at) + eventUs;
        return free;
      }),
    );
  };

export const EDGES: Readonly<Record<string, Edge>> = {
  "passes the last event late": ofStreams((events) =>
    events.map((at, i) => (i === events.length - 1 ? at + HELD_US : at)),
  ),
  "passes the last content and the end late": ofStreams((events) =>
    events.map((at, i) => (i >= events.length - 2 ? at + HELD_US : at)),
  ),
  "passes whole answers": ofStreams((events, { done_us }) => events.map(() => done_us)),
  "passes whole answers late": ofStreams((events, { done_us }) => events.map(() => done_us + HELD_US)),
  "passes three events together": ofStreams((events) =>
    events.map((_, i) => events[Math.min(events.length - 1, i - (i % 3) + 2)] as number),
  ),
  "passes events on every 100 ms": ofStreams((events) => events.map((at) => 100_000 * Math.ceil(at / 100_000))),
  "passes everything late": (line) => ({
    ...(isStream(line)
      ? readAt(
          line,
          eventsOf(line).map((at) => at + HELD_US),
        )
      : line),
    first_us: line.first_us === null ? null : line.first_us + HELD_US,
    done_us: line.done_us + HELD_US,
  }),
  "sends a head of its own at once": (line) => (isStream(line) ? { ...line, first_us: line.sent_us + 500 } : line),
  "holds requests back": (line, random) => {
    const heldUs = Math.floor(random() * HELD_US);
    return {
      ...line,
      intended_us: line.intended_us - heldUs,
      started_us: line.started_us - heldUs,
      sent_us: line.sent_us - heldUs,
    };
  },
  "limits the bandwidth of each connection behind its first bytes": (line, random) =>
    isStream(line) ? trickles(60_000)(line, random) : line,
  "smooths the pace of what it passes on": (line, random) => (isStream(line) ? trickles(30_000)(line, random) : line),
  "passes a few bytes at a time, and keeps up": trickles(4_000),
  "passes a few bytes at a time, and does not keep up": trickles(60_000),
  "passes a few bytes at a time, very slowly": trickles(400_000),
};

export const throughEdge = (edge: Edge, lines: readonly Line[], random: () => number): Line[] =>
  lines
    .map((line) => (line.type === "call" ? edge(line, random) : line))
    .sort((a, b) => (a.type === "call" ? a.sent_us : a.at_us) - (b.type === "call" ? b.sent_us : b.at_us));
