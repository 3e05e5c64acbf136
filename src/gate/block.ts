/** Reduces a short block of calls to the numbers that the gate compares. */
import { ERROR_IN_BODY } from "../contract/refusals.ts";
import { streamResult } from "../contract/streams.ts";
import { type CallLine, classOf, dueWithin, type Span, stayMs } from "../history/line.ts";
import { median, quantile } from "../history/statistics/statistics.ts";

type MeasurementFacts = {
  unit: "ms" | "1/s" | "share";
  about: string;
  /** `share`: higher is worse, and the rest `1 - share` is compared: two shares near zero have no sensible ratio. */
  worse: "higher" | "lower" | "share";
  /** How much worse still passes, as a ratio above 1. */
  margin: number;
  /** Added to both values before the ratio is taken: fractions of a millisecond are noise on a shared machine. */
  added: number;
};

/**
 * In the order of the report. Margins are wider than the scatter between two equal deployments in blocks of a few
 * seconds on two busy cores: a p99 depends on a handful of calls, a refusal's time on other work of the cores.
 */
// biome-ignore format: a row is a line
export const MEASUREMENT_FACTS = {
  latency_ms_p50: { unit: "ms", worse: "higher", margin: 1.05, added: 1, about: "median time of an admitted call of a quiet organization, from the moment it should have left, below capacity" },
  latency_ms_p99: { unit: "ms", worse: "higher", margin: 1.2, added: 5, about: "the same for the slowest call in a hundred" },
  ttfe_ms_p50: { unit: "ms", worse: "higher", margin: 1.15, added: 5, about: "median time to the first event of a stream, from the moment the call should have left, below capacity" },
  event_gap_ms_p50: { unit: "ms", worse: "higher", margin: 1.05, added: 0.5, about: "median over streams of the mean time between two events, below capacity" },
  shed_share: { unit: "share", worse: "share", margin: 1.02, added: 0, about: "part of the quiet organizations' calls that is shed or limited below capacity" },
  error_share: { unit: "share", worse: "share", margin: 1.005, added: 0, about: "part of all calls that is neither served whole nor refused for a limit: errors, no answer, streams that end badly" },
  refusal_ms_p50: { unit: "ms", worse: "higher", margin: 1.3, added: 5, about: "median time to a refusal for a limit at overload, from the moment the call should have left" },
  goodput: { unit: "1/s", worse: "lower", margin: 1.05, added: 0, about: "calls a second at overload that are served whole and in time" },
} satisfies Readonly<Record<string, MeasurementFacts>>;
export type GateMeasurement = keyof typeof MEASUREMENT_FACTS;
export const GATE_MEASUREMENTS = Object.keys(MEASUREMENT_FACTS) as GateMeasurement[];

/** The largest ratio, also for a value that fell to zero, so that means stay finite; ranks need no more. */
const RATIO_MAX = 1_000;

/** ln of how many times worse `is` is than `was`; 0 when they are equal, negative when it is better. */
export const logWorse = (measurement: GateMeasurement, was: number, is: number): number => {
  if (was === is) return 0;
  const { worse, added }: MeasurementFacts = MEASUREMENT_FACTS[measurement];
  const [more, less] =
    worse === "higher" ? [is + added, was + added] : worse === "lower" ? [was + added, is + added] : [1 - was, 1 - is];
  return Math.log(Math.min(RATIO_MAX, Math.max(1 / RATIO_MAX, more / less)));
};

/** Milliseconds, calls a second, or shares from 0 to 1; `null` if the block has too few calls for the measurement. */
export type BlockValues = Record<GateMeasurement, number | null>;

export type BlockPlan = {
  /** Part below the capacity, in which latency is measured. */
  steady: Span;
  /** Part above the capacity, in which goodput is measured. */
  past: Span;
  /** The longest time of a good answer. */
  sloMs: number;
  /** Organizations that reach their own caps on purpose: below the capacity, latency and sheds leave them out. */
  noisy?: ReadonlySet<string>;
  /** The deployment names its last event otherwise (`knowsLastEvent`), so a clean end is a whole answer. */
  foreignLastEvent?: boolean;
};

const ENOUGH_FOR_P99 = 40;
const ENOUGH_EVENTS = 3;
const FOR_A_LIMIT = /^429 (?:b2b_overloaded|org_overloaded|rate_limited)/;

export const isRefusedForALimit = ({ outcome }: CallLine): boolean => FOR_A_LIMIT.test(outcome);

/** A stream that ends cleanly without its last event is an answer too: not every deployment promises one (item 173). */
export const isWhole = (call: CallLine): boolean =>
  classOf(call.outcome) === "answered" && call.outcome !== ERROR_IN_BODY && streamResult(call) === "whole";

/** If no stream of either side ended with the known last event, the deployment uses another name (item 173). */
export const knowsLastEvent = (lines: readonly CallLine[]): boolean => lines.some(({ ended }) => ended === "done");

const share = (some: number, all: number): number | null => (all === 0 ? null : some / all);

/** The mean gap between two events of a stream. */
const gapMs = ({ events = 0, first_event_us: first, last_event_us: last }: CallLine): number[] =>
  first === undefined || last === undefined || events < ENOUGH_EVENTS ? [] : [(last - first) / 1000 / (events - 1)];

export const measureBlock = (lines: readonly CallLine[], plan: BlockPlan): BlockValues => {
  const { steady, past, sloMs, noisy, foreignLastEvent = false } = plan;
  const below = dueWithin(lines, steady);
  const above = dueWithin(lines, past);
  const quiet = below.filter(({ org }) => noisy?.has(org) !== true);
  const served = quiet.filter(isWhole);
  const latencies = served.map(stayMs);
  const firsts = served
    .filter(({ ended, events }) => ended !== undefined || events !== undefined)
    .flatMap(({ first_event_us: first, intended_us: at }) => (first === undefined ? [] : [(first - at) / 1000]));
  const measured = [...below, ...above].filter(({ aborted }) => aborted !== true);
  const lacksItsEnd = ({ ended }: CallLine): boolean => ended === "eof" && !foreignLastEvent;
  const wrong = measured.filter((line) => (!isWhole(line) || lacksItsEnd(line)) && !isRefusedForALimit(line));
  const pastSeconds = (past.toUs - past.fromUs) / 1e6;
  return {
    latency_ms_p50: median(latencies),
    latency_ms_p99: latencies.length < ENOUGH_FOR_P99 ? null : quantile(latencies, 0.99),
    ttfe_ms_p50: median(firsts),
    event_gap_ms_p50: median(served.flatMap(gapMs)),
    shed_share: share(quiet.filter(isRefusedForALimit).length, quiet.length),
    error_share: share(wrong.length, measured.length),
    refusal_ms_p50: median(above.filter(isRefusedForALimit).map(stayMs)),
    goodput:
      pastSeconds > 0 ? above.filter((line) => isWhole(line) && stayMs(line) <= sloMs).length / pastSeconds : null,
  };
};
