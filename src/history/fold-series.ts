/**
 * Folds the lines of a run into its series as they come, in any order. Memory is bounded: a stage begins with bins of an
 * eighth of a second, and its bins double whenever there are too many; bins of a second suffice for 20 minutes.
 */
import { SHED_OUTCOMES } from "../contract/refusals.ts";
import { type CallLine, classOf, type FoldLine, type Line } from "./line.ts";
import type { Sample, SampleName } from "./sample.ts";
import type { Series, SeriesEvent, StageSeries } from "./series.ts";
import type { Limits } from "./stage-facts.ts";
import { add, known } from "./statistics/counts.ts";
import { LogBuckets } from "./statistics/log-buckets.ts";
import { byDuration, type DurationName, eachDuration } from "./tally.ts";

const FINEST_US = 125_000;
/** Bins of a stage while they are shorter than a second, and from then on. */
const FINE_MOST = 300;
const BINS_MOST = 1_200;
const SECOND_LEVEL = 3;
const ORGANIZATIONS_MOST = 64;
const OTHERS = "(others)";
const EVENTS_MOST = 500;

/** Durations that a bin has. */
const DRAWN: ReadonlySet<DurationName> = new Set(["latency", "refusal", "first_event", "gaps", "lag"]);

/** Calls by what is counted of them: as a whole, by outcome, and three times by organization. */
const COUNTED = ["calls", "outcome", "offered", "answered", "shed"] as const;
type Counted = (typeof COUNTED)[number];

class Bin {
  readonly counts = Object.fromEntries(COUNTED.map((what) => [what, new Map()])) as Record<
    Counted,
    Map<string, number>
  >;
  readonly durations = byDuration(() => new LogBuckets());
  readonly samples = new Map<SampleName, number>();

  count(what: Counted, key: string, n: number): void {
    add(this.counts[what], key, n);
  }

  sample(name: SampleName, value: number): void {
    this.samples.set(name, Math.max(value, this.samples.get(name) ?? Number.NEGATIVE_INFINITY));
  }

  merge(other: Bin): void {
    for (const what of COUNTED) for (const [key, n] of other.counts[what]) this.count(what, key, n);
    for (const [name, all] of Object.entries(other.durations))
      this.durations[name as DurationName].merge(all.toSparse());
    for (const [name, value] of other.samples) this.sample(name, value);
  }
}

class StageFold {
  readonly #stage: string;
  readonly #bins = new Map<number, Bin>();
  readonly #organizations = new Set<string>();
  readonly #fromSent = new LogBuckets();
  readonly #events: SeriesEvent[] = [];
  #eventsLeftOut = 0;
  #level = 0;
  #first = Number.POSITIVE_INFINITY;
  #last = Number.NEGATIVE_INFINITY;
  inFlightCap: number | null = null;

  constructor(stage: string) {
    this.#stage = stage;
  }

  see(line: CallLine | FoldLine): void {
    const { outcome } = line;
    const isCall = line.type === "call";
    // Calls that were folded are known by the second, so no bin is shorter from then on.
    while (!isCall && this.#level < SECOND_LEVEL) this.#coarsen();
    const dueUs = isCall ? line.intended_us : line.at_us;
    const [offered, started, ended] = isCall ? [1, 1, 1] : [line.offered, line.started, line.ended];
    this.#at(isCall ? line.started_us : dueUs).count("calls", "started", started);
    this.#at(isCall ? line.done_us : dueUs).count("calls", "ended", ended);
    if (offered > 0) {
      const bin = this.#at(dueUs);
      const org = this.#rowOf(line.org);
      bin.count("calls", "offered", offered);
      bin.count("outcome", outcome, offered);
      bin.count("offered", org, offered);
      bin.count("answered", org, classOf(outcome) === "answered" ? offered : 0);
      bin.count("shed", org, SHED_OUTCOMES.has(outcome) ? offered : 0);
    }
    eachDuration(line, (name, us, atUs, n) => {
      if (name === "latency_from_sent") this.#fromSent.record(us, n);
      else if (DRAWN.has(name)) this.#at(atUs).durations[name].record(us, n);
    });
  }

  #rowOf(org: string): string {
    if (this.#organizations.has(org)) return org;
    if (this.#organizations.size >= ORGANIZATIONS_MOST) return OTHERS;
    this.#organizations.add(org);
    return org;
  }

  sample({ at_us, values }: Sample): void {
    const bin = this.#at(at_us);
    for (const [name, value] of Object.entries(values)) bin.sample(name as SampleName, value);
  }

  event(event: SeriesEvent): void {
    if (this.#events.length < EVENTS_MOST) this.#events.push(event);
    else this.#eventsLeftOut += 1;
  }

  get #widthUs(): number {
    return FINEST_US * 2 ** this.#level;
  }

  #at(us: number): Bin {
    let index = Math.floor(us / this.#widthUs);
    this.#first = Math.min(this.#first, index);
    this.#last = Math.max(this.#last, index);
    while (this.#last - this.#first + 1 > (this.#level < SECOND_LEVEL ? FINE_MOST : BINS_MOST)) {
      this.#coarsen();
      index = Math.floor(us / this.#widthUs);
    }
    return known(this.#bins, index, () => new Bin());
  }

  #coarsen(): void {
    const fine = [...this.#bins];
    this.#bins.clear();
    this.#level += 1;
    this.#first = Math.floor(this.#first / 2);
    this.#last = Math.floor(this.#last / 2);
    for (const [index, bin] of fine) known(this.#bins, Math.floor(index / 2), () => new Bin()).merge(bin);
  }

  end(): StageSeries {
    const length = this.#bins.size === 0 ? 0 : this.#last - this.#first + 1;
    const bins = Array.from({ length }, (_, i) => this.#bins.get(this.#first + i) ?? new Bin());
    const names = (of: (bin: Bin) => Iterable<string>): string[] =>
      [...new Set(bins.flatMap((bin) => [...of(bin)]))].sort();
    const counts = (what: Counted, key: string): number[] => bins.map((bin) => bin.counts[what].get(key) ?? 0);
    const each = <T>(what: Counted, of: (key: string) => T): Record<string, T> =>
      Object.fromEntries(names((bin) => bin.counts[what].keys()).map((key) => [key, of(key)]));
    const durations = (name: DurationName) => bins.map((bin) => bin.durations[name].toSparse());
    const samples = (isOfGenerator: boolean) =>
      Object.fromEntries(
        names((bin) => bin.samples.keys())
          .filter((name) => /^(?:generator|host)_/.test(name) === isOfGenerator)
          .map((name) => [name, bins.map((bin) => bin.samples.get(name as SampleName) ?? null)]),
      );
    return {
      stage: this.#stage,
      from_ms: length === 0 ? 0 : (this.#first * this.#widthUs) / 1000,
      bin_ms: this.#widthUs / 1000,
      offered: counts("calls", "offered"),
      started: counts("calls", "started"),
      ended: counts("calls", "ended"),
      by_outcome: each("outcome", (outcome) => counts("outcome", outcome)),
      by_organization: each("offered", (org) => {
        return { offered: counts("offered", org), answered: counts("answered", org), shed: counts("shed", org) };
      }),
      latency: durations("latency"),
      refusals: durations("refusal"),
      first_event: durations("first_event"),
      gaps: durations("gaps"),
      lag: durations("lag"),
      latency_from_sent: this.#fromSent.toSparse(),
      gauges: samples(false),
      generator: samples(true),
      events: [...this.#events].sort((a, b) => a.at_ms - b.at_ms),
      events_left_out: this.#eventsLeftOut,
      in_flight_cap: this.inFlightCap,
    };
  }
}

const eventOf = (line: Exclude<Line, CallLine | FoldLine>): SeriesEvent => {
  const at_ms = line.at_us / 1000;
  if (line.type === "mark") return { at_ms, name: line.name };
  const { experiment, link, fault, took_effect } = line;
  const effect = took_effect === undefined ? {} : { took_effect };
  return { at_ms, name: line.phase, fault: { experiment, link, fault, ...effect } };
};

/** A fold: `see` every line and sample, `limits` once for each stage whose limits are known; `end` may be read at any time. */
export class SeriesFold {
  readonly #stages = new Map<string, StageFold>();

  see(line: Line | Sample): void {
    const stage = this.#of(line.stage);
    if (line.type === "call" || line.type === "fold") stage.see(line);
    else if (line.type === "sample") stage.sample(line);
    else stage.event(eventOf(line));
  }

  limits(stage: string, { replicas, global_in_flight: cap }: Limits): void {
    if (cap !== undefined) this.#of(stage).inFlightCap = cap * (replicas ?? 1);
  }

  end(): Series {
    const stages = [...this.#stages.values()].map((stage) => stage.end());
    return { schema: "floodgate/series@1", stages: stages.filter(({ offered }) => offered.length > 0) };
  }

  #of(name: string): StageFold {
    return known(this.#stages, name, () => new StageFold(name));
  }
}
