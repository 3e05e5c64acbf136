/**
 * How many calls a replica can have had in flight at most while it decided about one call, as callers saw it:
 *
 *     counted     |----------------|              [sent - e, done + e], e = what the clock may be off
 *     counted            |------------ ~ ~ ~      no answer: it may be in there still
 *     judged               [======]               the most that overlap at any one moment in here
 *
 * The reference platform has a call between its sending and its end, never before and never after, unless the caller left:
 * then it may learn of it late. Calls that it shed have held nothing. Of others neither is known: there a slot may be given
 * back a moment after the last byte, one of a caller who left whenever it is noticed, and a call that is shed may itself
 * count while it is, and hardly longer: among many sheds that would explain any cap, and slots that never come back. Other people's traffic is not in it, so it bounds anything only where nobody else calls.
 */
import { Heap } from "../../history/heap.ts";
import { type CallLine, type Line, lineTimeUs } from "../../history/line.ts";
import { earliestUs, isDefinite, latestUs } from "./moments.ts";
import { isUnnamed } from "./shared-deployment.ts";

/** A server that cannot reach its client any more gives up writing after 10 s. */
const LINGER_US = 10_000_000;
/** By how much a deployment that is not ours may give a slot back later than the last byte was read. */
const LATE_RELEASE_US = 250_000;
/** And by how much it may count a call that it shed for longer: it gave it no slot, and one step back to its store is enough. */
const LATE_AFTER_SHED_US = 50_000;
/** Clocks are off by less than this; starts within it may still come. */
const LAG_US = 1_000_000;

const GLOBAL_SHED = "429 b2b_overloaded";
const ORG_SHED = "429 org_overloaded";

/** At one moment what starts is counted before what is asked, and that before what ends. */
const ORDER = { start: 0, open: 1, close: 2, end: 3 } as const;

/** Shed calls never came to hold their organization's slot, nor did those that belong to no organization. */
const holdsOrgSlot = ({ outcome, org }: CallLine, ours: boolean): boolean =>
  !ours || (outcome !== ORG_SHED && !(org === "-" && outcome.startsWith("401")));

type Watch = { call: CallLine; most: number; mostOfOrg: number };
type Event = { kind: keyof typeof ORDER; call: CallLine; watch?: Watch };

/** Until when the server may have had the call; `null` when it certainly never had it. */
const heldUntilUs = (call: CallLine, ours: boolean): number | null => {
  if (call.error === "connection_refused") return null;
  if (ours && call.outcome === GLOBAL_SHED) return null;
  if (!isDefinite(call)) return Number.POSITIVE_INFINITY;
  if (!ours && (call.outcome === GLOBAL_SHED || call.outcome === ORG_SHED)) return latestUs(call) + LATE_AFTER_SHED_US;
  const endedCleanly = call.ended === undefined || ["done", "error_event", "eof", "refused"].includes(call.ended);
  if (endedCleanly && call.aborted !== true) return latestUs(call) + (ours ? 0 : LATE_RELEASE_US);
  return ours ? latestUs(call) + LINGER_US : Number.POSITIVE_INFINITY;
};

export class MostInFlight {
  readonly #events = new Heap<Event>();
  readonly #open = new Set<Watch>();
  readonly #byOrg = new Map<string, number>();
  readonly #tell: (call: CallLine, most: number, mostOfOrg: number) => void;
  readonly #ours: boolean;
  #total = 0;
  /** Of calls that hold a slot of an organization: all, and those of which it is not known whose. */
  #holding = 0;
  #unnamed = 0;
  #doneUntilUs = Number.NEGATIVE_INFINITY;
  /** Set when a clock was further off than could be waited for: nothing can be said then. */
  lost = false;

  constructor(tell: (call: CallLine, most: number, mostOfOrg: number) => void, ours: boolean) {
    this.#tell = tell;
    this.#ours = ours;
  }

  /** To hear of every line. `watched` calls are reported once nothing can change their count any more. */
  see(line: Line, watched = false): void {
    this.#runUntil(lineTimeUs(line) - LAG_US);
    if (line.type !== "call") return;
    if (earliestUs(line) < this.#doneUntilUs) this.lost = true;
    if (watched) {
      const watch = { call: line, most: 0, mostOfOrg: 0 };
      this.#add(earliestUs(line), { kind: "open", call: line, watch });
      this.#add(latestUs(line), { kind: "close", call: line, watch });
    }
    const untilUs = heldUntilUs(line, this.#ours);
    if (untilUs === null) return;
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
      if (holdsOrgSlot(call, this.#ours)) {
        this.#byOrg.set(call.org, (this.#byOrg.get(call.org) ?? 0) + by);
        this.#holding += by;
        if (isUnnamed(call.org)) this.#unnamed += by;
      }
      if (kind === "start") for (const open of this.#open) this.#count(open);
    } else if (kind === "open") {
      this.#open.add(watch as Watch);
      this.#count(watch as Watch);
    } else {
      this.#open.delete(watch as Watch);
      const { most, mostOfOrg } = watch as Watch;
      // A call that was shed is no reason for its own shed.
      const itself = this.#ours ? 0 : 1;
      this.#tell(call, most - itself, mostOfOrg - itself);
    }
  }

  #count(watch: Watch): void {
    watch.most = Math.max(watch.most, this.#total);
    // Calls of nobody known may be this organization's, and a shed call of nobody known may be anybody's.
    const { org } = watch.call;
    const ofOrg = isUnnamed(org) ? this.#holding : (this.#byOrg.get(org) ?? 0) + this.#unnamed;
    watch.mostOfOrg = Math.max(watch.mostOfOrg, ofOrg);
  }
}
