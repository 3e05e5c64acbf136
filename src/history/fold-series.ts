/**
 * Folds the lines of a run into its series as they come, in any order. Memory is bounded: a stage begins with bins of an
 * eighth of a second, and its bins become twice as long whenever there are too many of them. From a second on they stay
 * at a second for 20 minutes.
 */
import { outcomeOf, SHEDS } from "../contract/refusals.ts";
import { isWholeAnswer } from "../contract/streams.ts";
import { durationOf } from "./fold-line.ts";
import { type CallLine, classOf, type FoldedDuration, type FoldLine, type Line } from "./line.ts";
import type { Sample, SampleName } from "./sample.ts";
import type { OrganizationSeries, Series, SeriesEvent, StageSeries } from "./series.ts";
import { type DurationName, SeriesBin } from "./series-bin.ts";
import type { Limits } from "./stage-facts.ts";
import type { Histogram } from "./statistics/histogram.ts";
import { LogBuckets } from "./statistics/log-buckets.ts";

const FINEST_US = 125_000;
/** Bins of a stage while they are shorter than a second, and from then on. */
const FINE_MOST = 300;
const BINS_MOST = 1_200;
const SECOND_LEVEL = 3;
const ORGANIZATIONS_MOST = 64;
const OTHERS = "(others)";
const EVENTS_MOST = 500;

const SHED_OUTCOMES = new Set(SHEDS.map(outcomeOf));

const recordAll = (into: LogBuckets, line: FoldLine, name: FoldedDuration): void => {
  const all: Histogram | null = durationOf(line, name);
  for (const { us, count } of all?.values() ?? []) into.record(us, count);
};

class StageFold {
  readonly #stage: string;
  readonly #bins = new Map<number, SeriesBin>();
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

  call(line: CallLine): void {
    const kind = classOf(line.outcome);
    const { started_us: startedUs } = line;
    this.#at(startedUs).started += 1;
    this.#at(line.done_us).ended += 1;
    const bin = this.#at(line.intended_us);
    bin.offered += 1;
    bin.addOutcome(line.outcome, 1);
    bin.durations.lag.record(startedUs - line.intended_us);
    bin.addOrganization(this.#rowOf(line.org), {
      offered: 1,
      answered: kind === "answered" ? 1 : 0,
      shed: SHED_OUTCOMES.has(line.outcome) ? 1 : 0,
    });
    if (kind === "refused" && !line.outcome.startsWith("edge")) {
      bin.durations.refusals.record(line.done_us - line.intended_us);
    }
    if (kind === "answered") this.#answered(line, bin);
  }

  /** Calls that were folded are known by the second, so no bin is shorter from then on. */
  fold(line: FoldLine): void {
    while (this.#level < SECOND_LEVEL) this.#coarsen();
    const bin = this.#at(line.at_us);
    bin.started += line.started;
    bin.ended += line.ended;
    for (const name of ["lag", "latency", "first_event", "gaps"] as const) recordAll(bin.durations[name], line, name);
    recordAll(this.#fromSent, line, "latency_from_sent");
    const { offered } = line;
    if (offered === 0) return;
    bin.offered += offered;
    bin.addOutcome(line.outcome, offered);
    const answered = classOf(line.outcome) === "answered" ? offered : 0;
    bin.addOrganization(this.#rowOf(line.org), { offered, answered, shed: 0 });
  }

  #answered(line: CallLine, bin: SeriesBin): void {
    if (isWholeAnswer(line)) {
      bin.durations.latency.record(line.done_us - line.intended_us);
      this.#fromSent.record(line.done_us - line.sent_us);
    }
    if (line.first_event_us === undefined) return;
    bin.durations.first_event.record(line.first_event_us - line.intended_us);
    // A reader that rests between two reads makes the gaps itself.
    if (line.slow_reader !== undefined) return;
    let atUs = line.first_event_us;
    for (const gapUs of line.gaps_us ?? []) {
      atUs += gapUs;
      this.#at(atUs).durations.gaps.record(gapUs);
    }
  }

  #rowOf(org: string): string {
    if (this.#organizations.has(org)) return org;
    if (this.#organizations.size >= ORGANIZATIONS_MOST) return OTHERS;
    this.#organizations.add(org);
    return org;
  }

  sample({ at_us, values }: Sample): void {
    const bin = this.#at(at_us);
    for (const [name, value] of Object.entries(values)) bin.addSample(name as SampleName, value);
  }

  event(event: SeriesEvent): void {
    if (this.#events.length < EVENTS_MOST) this.#events.push(event);
    else this.#eventsLeftOut += 1;
  }

  #widthUs(): number {
    return FINEST_US * 2 ** this.#level;
  }

  #at(us: number): SeriesBin {
    let index = Math.floor(us / this.#widthUs());
    this.#first = Math.min(this.#first, index);
    this.#last = Math.max(this.#last, index);
    while (this.#last - this.#first + 1 > (this.#level < SECOND_LEVEL ? FINE_MOST : BINS_MOST)) {
      this.#coarsen();
      index = Math.floor(us / this.#widthUs());
    }
    let bin = this.#bins.get(index);
    if (bin === undefined) {
      bin = new SeriesBin();
      this.#bins.set(index, bin);
    }
    return bin;
  }

  #coarsen(): void {
    const fine = [...this.#bins];
    this.#bins.clear();
    this.#level += 1;
    this.#first = Math.floor(this.#first / 2);
    this.#last = Math.floor(this.#last / 2);
    for (const [index, bin] of fine) {
      const half = Math.floor(index / 2);
      const whole = this.#bins.get(half);
      if (whole === undefined) this.#bins.set(half, bin);
      else whole.merge(bin);
    }
  }

  end(): StageSeries {
    const length = this.#bins.size === 0 ? 0 : this.#last - this.#first + 1;
    const bins = Array.from({ length }, (_, i) => this.#bins.get(this.#first + i) ?? new SeriesBin());
    const names = <T extends string>(of: (bin: SeriesBin) => Iterable<T>): T[] =>
      [...new Set(bins.flatMap((bin) => [...of(bin)]))].sort();
    const durations = (name: DurationName) => bins.map((bin) => bin.durations[name].toSparse());
    const samples = (wanted: (name: SampleName) => boolean) =>
      Object.fromEntries(
        names((bin) => bin.samples.keys())
          .filter(wanted)
          .map((name) => [name, bins.map((bin) => bin.samples.get(name) ?? null)]),
      );
    const isOfGenerator = (name: SampleName): boolean => /^(?:generator|host)_/.test(name);
    const organization = (org: string): OrganizationSeries => ({
      offered: bins.map((bin) => bin.organizations.get(org)?.offered ?? 0),
      answered: bins.map((bin) => bin.organizations.get(org)?.answered ?? 0),
      shed: bins.map((bin) => bin.organizations.get(org)?.shed ?? 0),
    });
    return {
      stage: this.#stage,
      from_ms: length === 0 ? 0 : (this.#first * this.#widthUs()) / 1000,
      bin_ms: this.#widthUs() / 1000,
      offered: bins.map(({ offered }) => offered),
      started: bins.map(({ started }) => started),
      ended: bins.map(({ ended }) => ended),
      by_outcome: Object.fromEntries(
        names((bin) => bin.outcomes.keys()).map((outcome) => [
          outcome,
          bins.map((bin) => bin.outcomes.get(outcome) ?? 0),
        ]),
      ),
      by_organization: Object.fromEntries(
        names((bin) => bin.organizations.keys()).map((org) => [org, organization(org)]),
      ),
      latency: durations("latency"),
      refusals: durations("refusals"),
      first_event: durations("first_event"),
      gaps: durations("gaps"),
      lag: durations("lag"),
      latency_from_sent: this.#fromSent.toSparse(),
      gauges: samples((name) => !isOfGenerator(name)),
      generator: samples(isOfGenerator),
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
  return {
    at_ms,
    name: line.phase,
    fault: { experiment, link, fault, ...(took_effect === undefined ? {} : { took_effect }) },
  };
};

/** A fold: `see` every line and sample, `limits` once for each stage whose limits are known; `end` may be read at any time. */
export class SeriesFold {
  readonly #stages = new Map<string, StageFold>();

  see(line: Line | Sample): void {
    const stage = this.#of(line.stage);
    if (line.type === "call") stage.call(line);
    else if (line.type === "fold") stage.fold(line);
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
    const known = this.#stages.get(name) ?? new StageFold(name);
    this.#stages.set(name, known);
    return known;
  }
}
