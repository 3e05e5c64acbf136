/**
 * The measurements that the gate compares: the direction of worse, the margin, and a constant added to both sides
 * before the ratio is taken, so that fractions of a millisecond, which are noise on a shared machine, decide nothing.
 */

type MeasurementFacts = {
  unit: "ms" | "1/s" | "share";
  /** One sentence for a reader of the report. */
  about: string;
  /** `share`: higher is worse, and the rest `1 - share` is compared: two shares near zero have no sensible ratio. */
  worse: "higher" | "lower" | "share";
  /** How much worse still passes, as a ratio above 1. */
  margin: number;
  /** Added to both values, in their unit. */
  added: number;
};

/**
 * In the order of the report. Margins are wider than the scatter between two equal deployments in blocks of a few
 * seconds on two busy cores (the measured figures stand beside the tests). A p99 depends on a handful of calls, a
 * refusal's time on other work of the cores.
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
