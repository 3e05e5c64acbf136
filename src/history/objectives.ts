/** Parses objectives (`slo` of the target file, `--slo`), e.g. "ttfe_p99<=800ms,refusals<=1%": all must be met. */

/** Quantiles of the time to a whole answer (`p99`) and to the first event of a stream (`ttfe_p99`), from the intended moment. */
const TIMES = {
  p50: { of: "answer", quantile: 0.5 },
  p90: { of: "answer", quantile: 0.9 },
  p99: { of: "answer", quantile: 0.99 },
  p999: { of: "answer", quantile: 0.999 },
  max: { of: "answer", quantile: 1 },
  ttfe_p50: { of: "first event", quantile: 0.5 },
  ttfe_p99: { of: "first event", quantile: 0.99 },
} as const;

/** Shares of all calls. `refusals`: of the platform. `errors`: 5xx, answers of a gateway, calls without an answer. */
const SHARES = ["refusals", "errors"] as const;

type TimeMetric = keyof typeof TIMES;
type ShareMetric = (typeof SHARES)[number];

export type Objective = {
  /** As it was stated, without spaces. */
  text: string;
  /** `<=` includes the limit, `<` does not. */
  operator: "<=" | "<";
  /** In milliseconds for a time; for a share above 0 and at most 1. */
  limit: number;
} & (
  | { kind: "share"; metric: ShareMetric }
  // The quantile is a share from 0 to 1, where 1 is the largest.
  | { kind: "time"; metric: TimeMetric; of: "answer" | "first event"; quantile: number }
);

export class ObjectiveError extends Error {
  override name = "ObjectiveError";
}

const EXAMPLE = 'such as "ttfe_p99<=800ms,refusals<=1%"';
const METRICS = [...Object.keys(TIMES), ...SHARES].join(", ");
const FORM = /^([a-z0-9_]+)(<=|<)(\d+(?:\.\d+)?|\.\d+)(ms|s|%)$/;

const isTime = (metric: string): metric is TimeMetric => Object.hasOwn(TIMES, metric);
const isShare = (metric: string): metric is ShareMetric => (SHARES as readonly string[]).includes(metric);

const parseOne = (text: string): Objective => {
  const wrong = (expected: string): ObjectiveError => new ObjectiveError(`objective "${text}": expected ${expected}`);
  const [metric = ""] = /^[a-z0-9_]+/i.exec(text) ?? [];
  if (!isTime(metric) && !isShare(metric)) throw wrong(`one of ${METRICS}, then <= or <, then a limit, ${EXAMPLE}`);
  const unit = isTime(metric) ? "a time in ms or s" : "a share in %";
  const match = FORM.exec(text);
  if (match === null) throw wrong(`${metric}, then <= or <, then ${unit}, ${EXAMPLE}`);
  const operator = match[2] as "<=" | "<";
  const figure = Number(match[3]);
  if (isTime(metric) === (match[4] === "%")) throw wrong(`${unit}; ${match[4]} came`);
  if (figure === 0)
    throw wrong("a limit above zero: that something never happens cannot be shown by any number of calls");
  if (isTime(metric)) {
    const limit = match[4] === "s" ? figure * 1000 : figure;
    return { text, operator, kind: "time", metric, ...TIMES[metric], limit };
  }
  if (figure > 100) throw wrong("a share of at most 100%");
  return { text, operator, kind: "share", metric, limit: figure / 100 };
};

/** Throws `ObjectiveError` for text that is no objective, an empty part, and a metric that is stated twice. */
export const parseObjectives = (text: string): Objective[] => {
  const stated = text.split(",").map((part) => part.replace(/\s+/g, ""));
  const seen = new Set<string>();
  return stated.map((part) => {
    if (part === "") throw new ObjectiveError(`objectives "${text}": expected one between commas, ${EXAMPLE}`);
    const objective = parseOne(part);
    if (seen.has(objective.metric)) {
      throw new ObjectiveError(`objectives "${text}": expected ${objective.metric} once; it came twice`);
    }
    seen.add(objective.metric);
    return objective;
  });
};
