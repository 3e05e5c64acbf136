/**
 * What a search found, and what follows from it: the limit that is met first, whether a stated demand is carried, advice,
 * the claims `capacity/<objective>`, the measurement of a report, and the probes as a table of 80 columns.
 */
import { outcomeOf, type RefusalName } from "../contract/refusals.ts";
import { BROKEN, HELD, type OpenCode, openBy, type Ruling } from "../history/reason-codes.ts";
import { type Claim, claimOf, type Measurement } from "../history/run-document.ts";
import { add } from "../history/statistics/statistics.ts";
import { generatorDoubt } from "./generator-limit.ts";
import { judgeTallies, type ProbeResult, perS } from "./probe.ts";

export type Answer = {
  /** `at-least`: met at `low`, and nothing higher could be tried. `never`: broken at the lowest rate that was tried. */
  kind: "found" | "at-least" | "never" | "unknown";
  ratePerS: number;
  /** 95 % interval, calls per second; the upper end is null where nothing bounds it. */
  low: number;
  high: number | null;
  /** Index of the objective that breaks first; `null` if none did. */
  binding: number | null;
  reason: string;
  /** Why nothing was found, if that was not for want of calls. */
  open_by?: OpenCode;
  /** Says whether the generator, and not the deployment, set the limit, and by which figures. */
  generator: string;
};

const MAP_LOADS = "an organization's allowance of map loads, which is no capacity";
const OWNERS = {
  b2b_overloaded: ["deployment", "the deployment's own slots"],
  org_overloaded: ["organization", "an organization's cap on calls in flight, not the deployment's slots"],
  rate_limited: ["key", "a key's rate limit, not the deployment's slots"],
  map_load_quota_exceeded: ["allowance", MAP_LOADS],
  map_load_hard_stop: ["allowance", MAP_LOADS],
  tile_access_restricted: ["allowance", "an organization's access to tiles, which is no capacity"],
  limiter_unavailable: ["limiter", "the limiter: it did not answer in time"],
  key_service_unavailable: ["key-service", "the key service: it did not answer in time"],
} as const satisfies Partial<Record<RefusalName, readonly string[]>>;

const ownerOf = (outcome: string) => {
  const found = Object.entries(OWNERS).find(([name]) => outcomeOf(name as RefusalName) === outcome);
  if (found !== undefined) return found[1];
  if (outcome.startsWith("edge"))
    return ["edge", "answers outside the API's envelopes, by something before it or in its framework's words"] as const;
  if (outcome === "indeterminate") return ["no-answer", "calls without an answer"] as const;
  return ["other", `answers ${outcome}`] as const;
};

/** Probes up to this many times the answer are just above it; further up other limits join. */
const JUST_ABOVE = 1.7;

const isServed = (outcome: string): boolean => /^2\d\d$/.test(outcome);

export type FirstLimit = ReturnType<typeof firstLimit>;

/** Reads the limit met first from the refusals just above the answer: each subcode has one owner. */
export const firstLimit = (results: readonly ProbeResult[], answerPerS: number, bindsOnTime: boolean) => {
  const above = results.filter(({ plan }) => plan.ratePerS > answerPerS);
  const near = above.filter(({ plan }) => plan.ratePerS <= answerPerS * JUST_ABOVE);
  const isLimited = ({ outcomes }: ProbeResult): boolean => Object.keys(outcomes).some((outcome) => !isServed(outcome));
  // A key that has saved tokens serves calls just above its rate for a while.
  const chosen = near.some(isLimited) ? near : above;
  const calls = chosen.reduce((sum, probe) => sum + probe.calls, 0);
  const sums = new Map<string, number>();
  for (const [outcome, n] of chosen.flatMap(({ outcomes }) => Object.entries(outcomes))) {
    if (!isServed(outcome)) add(sums, outcome, n);
  }
  const [outcome, n] = [...sums].sort((a, b) => b[1] - a[1])[0] ?? [null, 0];
  const unmet = { outcome, share: 0 };
  const beside = outcome === null ? "nothing was refused" : `${outcome} stayed within its objective`;
  const late = `calls take too long before that is refused; ${beside}`;
  if (bindsOnTime) return { ...unmet, owner: "time" as const, sentence: late };
  if (outcome === null) return { ...unmet, owner: "none" as const, sentence: `${beside} above the answer` };
  const [owner, what] = ownerOf(outcome);
  const refused = sums.values().reduce((sum, one) => sum + one, 0);
  const part = n === refused ? "" : `, ${((100 * n) / refused).toFixed(0)} % of what was not answered`;
  const sentence = `${what} (${outcome}, ${n} of ${calls} calls ${chosen === near ? "just above" : "above"} the answer${part})`;
  return { owner, outcome, share: n / Math.max(1, calls), sentence };
};

/** Today's peak in calls per second, the factor by which it may grow, and headroom as a share of the grown peak. */
export type Demand = Readonly<Record<"peakPerS" | "growth" | "headroom", number>>;

const SHAPE = 'a demand is JSON like { "peak_rps": 120, "growth": 1.3, "headroom": 0.3 }';

/** Reads parsed JSON. Throws an `Error` that says what was expected. */
export const demandOf = (value: unknown): Demand => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error(SHAPE);
  const { peak_rps, growth = 1, headroom = 0, ...others } = value as Record<string, unknown>;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw new Error(`${unknown} is not known; ${SHAPE}`);
  const figure = (name: string, found: unknown, expected: string, isFit: (of: number) => boolean): number => {
    if (typeof found === "number" && Number.isFinite(found) && isFit(found)) return found;
    throw new Error(`${name} is ${JSON.stringify(found)}; expected a number ${expected}. ${SHAPE}`);
  };
  return {
    peakPerS: figure("peak_rps", peak_rps, "above 0", (of) => of > 0),
    growth: figure("growth", growth, "from 0.01", (of) => of >= 0.01),
    headroom: figure("headroom", headroom, "from 0", (of) => of >= 0),
  };
};

export const neededPerS = ({ peakPerS, growth, headroom }: Demand): number => peakPerS * growth * (1 + headroom);

const ORGANIZATION_BOUND = new Set(["organization", "key", "allowance"]);

/**
 * Passes if the low end of the interval carries the demand, fails if the high end does not, unless a limit of those who sent
 * was met first: the deployment may carry more from others.
 */
export const demandVerdict = ({ answer, limit }: Pick<Found, "answer" | "limit">, demand: Demand): Ruling => {
  const needed = neededPerS(demand);
  if (answer.kind !== "unknown" && answer.low >= needed) return HELD;
  if (ORGANIZATION_BOUND.has(limit.owner)) return openBy("refused-for-load");
  if ((answer.kind === "found" || answer.kind === "never") && answer.high !== null && answer.high < needed)
    return BROKEN;
  return openBy(answer.open_by ?? "too-few-calls");
};

/**
 * What to do with the answer, in sentences, most important first. `replicas`: `limits.replicas` of the target file, or
 * `measured` if several numbers are, so that nothing is extrapolated; `organizations`: those that the load came from.
 */
export const advise = (
  answer: Answer,
  { owner }: FirstLimit,
  { replicas, organizations }: { replicas: number | "measured" | null; organizations: number },
  demand: Demand | null,
): string[] => {
  const needed = demand === null ? null : neededPerS(demand);
  const lines: string[] = [];
  if (demand !== null) {
    const times = `${demand.growth} growth x ${(1 + demand.headroom).toFixed(2)} with headroom`;
    lines.push(`Needed: ${perS(demand.peakPerS)} x ${times} = ${perS(neededPerS(demand))}.`);
  }
  // Even a wide interval shows whose limit it is.
  if (answer.kind === "never" || answer.low === 0 || owner === "none") return lines;
  if (ORGANIZATION_BOUND.has(owner)) {
    const each = answer.low / organizations;
    const whose = organizations === 1 ? "the one organization" : `these ${organizations} organizations`;
    return [
      ...lines,
      `This is the capacity of ${whose} that sent, not of the deployment: it can carry more from others.`,
      needed === null
        ? `Add tenants to the target file to find the deployment's; each organization carried ${perS(each)}.`
        : `At ${perS(each)} an organization, ${Math.ceil(needed / each)} organizations can send ${perS(needed)}; put as many under tenants to try it.`,
    ];
  }
  if (owner === "limiter" || owner === "key-service") {
    return [...lines, "More replicas of the API do not help: what they depend on is the limit."];
  }
  if (answer.kind === "at-least" || replicas === "measured") return lines;
  if (replicas === null) {
    lines.push("limits.replicas is not in the target file: with it, the capacity of one replica stands here.");
    if (needed !== null && needed > answer.low) {
      lines.push(`${(needed / answer.low).toFixed(2)} times the deployment as it is would be needed.`);
    }
    return lines;
  }
  const each = answer.low / replicas;
  return [
    ...lines,
    `One replica carries ${perS(each)} for certain (${perS(answer.ratePerS / replicas)} most likely).`,
    needed === null
      ? `Keep a third free and offer no more than ${perS(answer.low * 0.7)}; --demand FILE counts replicas.`
      : `Replicas needed: ${Math.ceil(needed / each - 1e-9)} (${replicas} now), if a replica more carries as much as these do: try it once it runs.`,
  ];
};

export type Found = {
  answer: Answer;
  limit: FirstLimit;
  advice: readonly string[];
  demand: Demand | null;
  objectives: readonly string[];
  calls: number;
};

/** `44.4/s, between 42.1/s and 46.8/s`, or what else can be said. */
export const answerText = ({ kind, ratePerS, low, high }: Answer): string => {
  if (kind === "never") return `broken at ${perS(high ?? 0)} already`;
  if (kind === "at-least") return `at least ${perS(low)}`;
  if (high === null) return "not known";
  return `${perS(ratePerS)}, between ${perS(low)} and ${perS(high)} (95 %)`;
};

const rulingOfAnswer = ({ kind, open_by = "too-few-calls" }: Answer): Ruling =>
  kind === "found" ? HELD : kind === "never" ? BROKEN : openBy(open_by);

/** The limit met first, as a phrase. Where no objective is known to break first, a refusal is not known to be that limit. */
export const limitPhrase = ({ answer, limit }: Pick<Found, "answer" | "limit">): string | null => {
  if (limit.owner === "none") return null;
  const isKnown = answer.binding !== null || answer.kind === "never";
  return `${isKnown ? "the limit met first" : "some calls were refused, perhaps not by the limit that is met first"}: ${limit.sentence}`;
};

/** `isOfMany`: one of several numbers of replicas, over which `compareReplicas` judges a demand. */
export const capacityClaims = (found: Found, stage: string, replay: string, isOfMany = false): Claim[] => {
  const { answer, advice, demand, objectives } = found;
  const claims = objectives.map((objective, at): Claim => {
    const isFirst = answer.binding === null || answer.binding === at;
    const reasons = [answer.reason, ...(isFirst ? [] : ["another objective is broken first"])];
    const phrase = limitPhrase(found);
    if (isFirst && phrase !== null) reasons.push(phrase);
    return claimOf({
      ...{ id: `capacity/${objective}${isOfMany ? `/${stage}` : ""}`, stage, replay },
      // A stated demand is the question; the highest rate is then only reported.
      level: demand === null ? "must" : "info",
      ...rulingOfAnswer(answer),
      reason: [...reasons, answer.generator, ...advice].join("; "),
      expected: `the highest rate at which ${objective} holds`,
      got: isFirst ? answerText(answer) : `holds at ${perS(answer.ratePerS)}`,
    });
  });
  if (demand === null || isOfMany) return claims;
  const asked = claimOf({
    ...{ id: "capacity/demand", stage, replay, ...demandVerdict(found, demand) },
    reason: [answer.reason, ...advice].join("; "),
    expected: `${objectives.join(", ")} at ${perS(neededPerS(demand))}`,
    got: answerText(answer),
  });
  return [...claims, asked];
};

export const capacityMeasurement = ({ answer, calls: n }: Found, stage: string): Measurement[] => {
  const { kind, ratePerS: value, low, high } = answer;
  if (kind === "unknown" && high === null) return [];
  return [{ name: "capacity_rps", stage, unit: "1/s", n, value, low, high }];
};

const COLUMNS = 80;
/** Widths of probe, rate, calls and seconds; the objectives and the verdict share the rest. */
const FIXED = [8, 8, 7, 6] as const;
const VERDICT = "  left out".length;
const OBJECTIVE_LEAST = 10;

const cut = (text: string, width: number): string => (text.length <= width ? text : `${text.slice(0, width - 1)}…`);

export const probeTable = (
  results: readonly (ProbeResult & { shown: readonly string[] })[],
  objectives: readonly { text: string; limit: number }[],
): string[] => {
  const room = COLUMNS - FIXED.reduce((sum, width) => sum + width, 0) - VERDICT;
  const shownCount = Math.max(1, Math.min(objectives.length, Math.floor(room / OBJECTIVE_LEAST)));
  const width = Math.min(20, Math.floor(room / shownCount));
  const line = (cells: readonly string[], values: readonly string[], verdict: string): string => {
    const fixed = FIXED.map((wide, at) => (at === 0 ? cells[0]?.padEnd(wide) : cells[at]?.padStart(wide)));
    const shown = values.slice(0, shownCount).map((value) => ` ${cut(value, width - 1)}`.padStart(width));
    return [...fixed, ...shown, `  ${verdict}`].join("").trimEnd();
  };
  const limits = objectives.map(({ limit }) => limit);
  const rows = results.map((result) => {
    const { plan, calls, playedS, shown, tallies } = result;
    const rate = plan.ratePerS.toFixed(plan.ratePerS < 100 ? 1 : 0);
    const verdict = generatorDoubt(result) === null ? judgeTallies(tallies, limits, plan.dispersions) : "left out";
    return line([plan.purpose, rate, String(calls), playedS.toFixed(1)], shown, verdict);
  });
  const hidden = objectives.length - shownCount;
  const texts = objectives.map(({ text }) => text);
  return [
    ...[line(["probe", "calls/s", "calls", "s"], texts, "verdict"), ...rows],
    ...(hidden > 0 ? [`${hidden} more ${hidden === 1 ? "objective" : "objectives"}: see run.json`] : []),
  ];
};
