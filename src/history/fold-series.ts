/**
 * Folds the lines of a run into its series, in any order. Memory is bounded: bins begin with an eighth of a second and double
 * whenever there are too many; bins of a second suffice for 20 minutes.
 */
import { SHED_OUTCOMES } from "../contract/refusals.ts";
import { type CallLine, classOf, type FoldLine, type Line } from "./line.ts";
import type { Sample, Series, SeriesEvent, StageSeries } from "./series.ts";
import { bucketOf, COUNTED, listsOf, sparseOf, TIMED } from "./series.ts";
import type { Limits } from "./stage-facts.ts";
import { add, known } from "./statistics/counts.ts";
import { type DurationName, eachDuration } from "./tally.ts";

const FINEST_US = 125_000;
/** The most bins of a stage while they are shorter than a second, and from a second on. */
const FINE_MOST = 300;
const BINS_MOST = 1_200;
const SECOND_LEVEL = 3;
const ORGANIZATIONS_MOST = 64;
const OTHERS = "(others)";
const EVENTS_MOST = 500;

const IN_BINS: ReadonlySet<DurationName> = new Set(TIMED);

const BY_ORGANIZATION = ["offered", "answered", "shed"] as const;
type Section = "calls" | "outcome" | (typeof BY_ORGANIZATION)[number] | "gauges" | "generator" | DurationName;
type Bin = Map<Section, Map<string | number, number>>;

/** Of samples the largest is kept. */
const put = (bin: Bin, section: Section, key: string | number, n: number): void => {
  const values = known(bin, section, () => new Map());
  if (section === "gauges" || section === "generator") values.set(key, Math.max(n, values.get(key) ?? n));
  else add(values, key, n);
};

const eventOf = (line: Exclude<Line, CallLine | FoldLine>): SeriesEvent => {
  const at_ms = line.at_us / 1000;
  if (line.type === "mark") return { at_ms, name: line.name };
  const { phase, experiment, link, fault, took_effect } = line;
  return { at_ms, name: phase, fault: { experiment, link, fault, took_effect } };
};

const stageFold = (stage: string) => {
  let bins = new Map<number, Bin>();
  /** Bins last 2^level times the finest. */
  let level = 0;
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  let eventsLeftOut = 0;
  let inFlightCap: number | null = null;
  const organizations = new Set<string>();
  const fromSent = new Map<number, number>();
  const events: SeriesEvent[] = [];
  const widthUs = (): number => FINEST_US * 2 ** level;

  const coarsen = (): void => {
    const fine = bins;
    bins = new Map();
    level += 1;
    first = Math.floor(first / 2);
    last = Math.floor(last / 2);
    for (const [index, sections] of fine) {
      const bin = known(bins, Math.floor(index / 2), () => new Map());
      for (const [section, values] of sections) for (const [key, n] of values) put(bin, section, key, n);
    }
  };

  const at = (us: number): Bin => {
    let index = Math.floor(us / widthUs());
    first = Math.min(first, index);
    last = Math.max(last, index);
    while (last - first + 1 > (level < SECOND_LEVEL ? FINE_MOST : BINS_MOST)) {
      coarsen();
      index = Math.floor(us / widthUs());
    }
    return known(bins, index, () => new Map());
  };

  const rowOf = (org: string): string => {
    if (!organizations.has(org) && organizations.size >= ORGANIZATIONS_MOST) return OTHERS;
    organizations.add(org);
    return org;
  };

  const count = (line: CallLine | FoldLine): void => {
    const isCall = line.type === "call";
    // Folded calls are counted by the second, so no bin is shorter from then on.
    while (!isCall && level < SECOND_LEVEL) coarsen();
    const dueUs = isCall ? line.intended_us : line.at_us;
    const [offered, started, ended] = isCall ? [1, 1, 1] : [line.offered, line.started, line.ended];
    put(at(isCall ? line.started_us : dueUs), "calls", "started", started);
    put(at(isCall ? line.done_us : dueUs), "calls", "ended", ended);
    if (offered > 0) {
      const [bin, org, { outcome }] = [at(dueUs), rowOf(line.org), line];
      put(bin, "calls", "offered", offered);
      put(bin, "outcome", outcome, offered);
      put(bin, "offered", org, offered);
      put(bin, "answered", org, classOf(outcome) === "answered" ? offered : 0);
      put(bin, "shed", org, SHED_OUTCOMES.has(outcome) ? offered : 0);
    }
    eachDuration(line, (name, us, atUs, n) => {
      if (name === "latency_from_sent") add(fromSent, bucketOf(us), n);
      else if (IN_BINS.has(name)) put(at(atUs), name, bucketOf(us), n);
    });
  };

  return {
    see: (line: Line | Sample): void => {
      if (line.type === "call" || line.type === "fold") count(line);
      else if (line.type === "sample") {
        const bin = at(line.at_us);
        for (const [name, value] of Object.entries(line.values)) {
          put(bin, /^(?:generator|host)_/.test(name) ? "generator" : "gauges", name, value);
        }
      } else if (events.length < EVENTS_MOST) events.push(eventOf(line));
      else eventsLeftOut += 1;
    },
    limits: ({ replicas, global_in_flight: cap }: Limits): void => {
      if (cap !== undefined) inFlightCap = cap * (replicas ?? 1);
    },
    end: (): StageSeries => {
      const length = bins.size === 0 ? 0 : last - first + 1;
      const all = Array.from({ length }, (_, i): Bin => bins.get(first + i) ?? new Map());
      const list = <N>(section: Section, key: string, none: N) => all.map((bin) => bin.get(section)?.get(key) ?? none);
      const counts = (section: Section, key: string): number[] => list(section, key, 0);
      const each = <T>(section: Section, of: (key: string) => T): Record<string, T> => {
        const keys = new Set(all.flatMap((bin) => [...(bin.get(section)?.keys() ?? [])].map(String)));
        return Object.fromEntries([...keys].sort().map((key) => [key, of(key)]));
      };
      const samples = (section: Section) => each(section, (name) => list(section, name, null));
      return {
        stage,
        from_ms: length === 0 ? 0 : (first * widthUs()) / 1000,
        bin_ms: widthUs() / 1000,
        ...listsOf(COUNTED, (name) => counts("calls", name)),
        by_outcome: each("outcome", (outcome) => counts("outcome", outcome)),
        by_organization: each("offered", (org) => listsOf(BY_ORGANIZATION, (name) => counts(name, org))),
        ...listsOf(TIMED, (name) => all.map((bin) => sparseOf((bin.get(name) as typeof fromSent) ?? []))),
        latency_from_sent: sparseOf(fromSent),
        gauges: samples("gauges"),
        generator: samples("generator"),
        events: events.toSorted((a, b) => a.at_ms - b.at_ms),
        events_left_out: eventsLeftOut,
        in_flight_cap: inFlightCap,
      };
    },
  };
};

/** A fold: `see` every line and sample, `limits` once for each stage whose limits are known; `end` may be read at any time. */
export const seriesFold = () => {
  const stages = new Map<string, ReturnType<typeof stageFold>>();
  const of = (stage: string) => known(stages, stage, () => stageFold(stage));
  return {
    see: (line: Line | Sample): void => of(line.stage).see(line),
    limits: (stage: string, limits: Limits): void => of(stage).limits(limits),
    end: (): Series => {
      const all = [...stages.values()].map((stage) => stage.end());
      return { schema: "floodgate/series@1", stages: all.filter(({ offered }) => offered.length > 0) };
    },
  };
};
