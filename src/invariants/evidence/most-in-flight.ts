/**
 * An upper bound on the calls that a replica had in flight while it decided about one call, from callers' times:
 *
 *     counted     |----------------|              [sent - e, done + e], e = the clock's error
 *     counted            |------------ ~ ~ ~      no answer: it may be in flight still
 *     judged               [======]               the most that overlap at any one moment in here
 *
 * The reference platform holds a call between its sending and its end, or longer if the caller left, which it may
 * notice late; a call that it sheds holds nothing. A foreign one may release a slot a moment after the last byte,
 * notice a caller who left at any time, and count a call while it sheds it. The bound holds only where nobody else
 * calls.
 */
import { Heap } from "../../history/heap.ts";
import { type CallLine, type Line, lineTimeUs } from "../../history/line.ts";
import { isUnnamed } from "./deployment.ts";
import { earliestUs, isDefinite, latestUs } from "./moments.ts";

/** A server gives up on an unreachable client after 10 s. */
const LINGER_US = 10_000_000;
/** A foreign deployment may release a slot this late after the last byte. */
const LATE_RELEASE_US = 250_000;
/** A foreign deployment may count a shed call, which has no slot, this long. */
const LATE_AFTER_SHED_US = 50_000;
/** The largest clock error. */
const LAG_US = 1_000_000;

const GLOBAL_SHED = "429 b2b_overloaded";
const ORG_SHED = "429 org_overloaded";

/** At one moment: starts, watched spans, ends. */
const ORDER = { start: 0, open: 1, close: 2, end: 3 } as const;

/** On the reference platform, shed calls and calls without an organization hold none. */
const holdsOrgSlot = ({ outcome, org }: CallLine, ours: boolean): boolean =>
  !ours || (outcome !== ORG_SHED && !(org === "-" && outcome.startsWith("401")));

type Watch = { call: CallLine; most: number; mostOfOrg: number };
type Event = { kind: keyof typeof ORDER; call: CallLine; watch?: Watch };

/** `null`: it held nothing. */
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
  /** Calls holding a slot of an organization, by organization; `-` if unknown. */
  #holding = 0;
  #unnamed = 0;
  #doneUntilUs = Number.NEGATIVE_INFINITY;
  /** A clock error exceeded `LAG_US`: nothing can be said. */
  lost = false;

  constructor(tell: (call: CallLine, most: number, mostOfOrg: number) => void, ours: boolean) {
    this.#tell = tell;
    this.#ours = ours;
  }

  /** Takes every line. Reports `watched` calls when nothing can change their count. */
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
      // A shed call does not justify itself.
      const itself = this.#ours ? 0 : 1;
      this.#tell(call, most - itself, mostOfOrg - itself);
    }
  }

  #count(watch: Watch): void {
    watch.most = Math.max(watch.most, this.#total);
    // May be any organization's.
    const { org } = watch.call;
    const ofOrg = isUnnamed(org) ? this.#holding : (this.#byOrg.get(org) ?? 0) + this.#unnamed;
    watch.mostOfOrg = Math.max(watch.mostOfOrg, ofOrg);
  }
}
