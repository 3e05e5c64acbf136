/**
 * How many calls a replica can have had in flight at most while it decided about one call, as callers saw it:
 *
 *     counted     |----------------|              [sent - e, done + e], e = what the clock may be off
 *     counted            |------------ ~ ~ ~      no answer: it may be in there still
 *     judged               [======]               the most that overlap at any one moment in here
 *
 * The server has a call between its sending and its end, never before and never after, unless the caller left: then the
 * server may learn of it late. Calls that were shed themselves have held nothing. Other people's traffic is not in it.
 */
import { type CallLine, type Line, lineTimeUs } from "../history/line.ts";
import { Heap } from "./heap.ts";
import { earliestUs, isDefinite, latestUs } from "./moments.ts";

/** A server that cannot reach its client any more gives up writing after 10 s (design.md section 2). */
const LINGER_US = 10_000_000;
/** Clocks are off by less than this; starts within it may still come. */
const LAG_US = 1_000_000;

const GLOBAL_SHED = "429 b2b_overloaded";
const ORG_SHED = "429 org_overloaded";

/** At one moment what starts is counted before what is asked, and that before what ends. */
const ORDER = { start: 0, open: 1, close: 2, end: 3 } as const;

/** Shed calls never came to hold their organization's slot, nor did those that belong to no organization. */
const holdsOrgSlot = ({ outcome, org }: CallLine): boolean =>
  outcome !== ORG_SHED && !(org === "-" && outcome.startsWith("401"));

type Watch = { call: CallLine; most: number; mostOfOrg: number };
type Event = { kind: keyof typeof ORDER; call: CallLine; watch?: Watch };

/** Until when the server may have had the call; `null` when it certainly never had it. */
export const heldUntilUs = (call: CallLine): number | null => {
  if (call.error === "ECONNREFUSED") return null;
  if (!isDefinite(call)) return Number.POSITIVE_INFINITY;
  const endedCleanly = call.ended === undefined || ["done", "error_event", "eof", "refused"].includes(call.ended);
  return latestUs(call) + (endedCleanly && call.aborted !== true ? 0 : LINGER_US);
};

export class MostInFlight {
  readonly #events = new Heap<Event>();
  readonly #open = new Set<Watch>();
  readonly #byOrg = new Map<string, number>();
  readonly #tell: (call: CallLine, most: number, mostOfOrg: number) => void;
  #total = 0;
  #doneUntilUs = Number.NEGATIVE_INFINITY;
  /** Set when a clock was further off than could be waited for: nothing can be told then. */
  lost = false;

  constructor(tell: (call: CallLine, most: number, mostOfOrg: number) => void) {
    this.#tell = tell;
  }

  /** To be told of every line. `watched` calls are told of once nothing can change their count any more. */
  see(line: Line, watched = false): void {
    this.#runUntil(lineTimeUs(line) - LAG_US);
    if (line.type !== "call") return;
    if (earliestUs(line) < this.#doneUntilUs) this.lost = true;
    if (watched) {
      const watch = { call: line, most: 0, mostOfOrg: 0 };
      this.#add(earliestUs(line), { kind: "open", call: line, watch });
      this.#add(latestUs(line), { kind: "close", call: line, watch });
    }
    const untilUs = heldUntilUs(line);
    if (untilUs === null || line.outcome === GLOBAL_SHED) return;
    this.#add(earliestUs(line), { kind: "start", call: line });
    if (untilUs !== Number.POSITIVE_INFINITY) this.#add(untilUs, { kind: "end", call: line });
  }

  finish(): void {
    this.#runUntil(Number.POSITIVE_INFINITY);
  }

  #add(us: number, event: Event): void {
    this.#events.push(us, event, ORDER[event.kind]);
  }

  #runUntil(us: number): void {
    this.#doneUntilUs = Math.max(this.#doneUntilUs, us);
    while (this.#events.least < us) this.#run(this.#events.pop() as Event);
  }

  #run({ kind, call, watch }: Event): void {
    if (kind === "start" || kind === "end") {
      const by = kind === "start" ? 1 : -1;
      this.#total += by;
      if (holdsOrgSlot(call)) {
        const now = (this.#byOrg.get(call.org) ?? 0) + by;
        this.#byOrg.set(call.org, now);
      }
      if (kind === "start") for (const open of this.#open) this.#count(open);
    } else if (kind === "open") {
      this.#open.add(watch as Watch);
      this.#count(watch as Watch);
    } else {
      this.#open.delete(watch as Watch);
      const { most, mostOfOrg } = watch as Watch;
      this.#tell(call, most, mostOfOrg);
    }
  }

  #count(watch: Watch): void {
    watch.most = Math.max(watch.most, this.#total);
    // Calls without a valid credential belong to nobody known: they may be this organization's.
    const nobodys = watch.call.org === "-" ? 0 : (this.#byOrg.get("-") ?? 0);
    watch.mostOfOrg = Math.max(watch.mostOfOrg, (this.#byOrg.get(watch.call.org) ?? 0) + nobodys);
  }
}
