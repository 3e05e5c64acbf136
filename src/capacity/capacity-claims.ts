/**
 * What follows from a search: whether the capacity carries a stated demand, advice, the claims `capacity/<objective>`
 * and the measurement of a report.
 */
import { type Claim, claimOf, type Measurement } from "../history/run-document.ts";
import type { Answer, FirstLimit } from "./answer.ts";
import { perS } from "./probe.ts";

/** Today's peak in calls per second, the factor by which it may grow, and headroom as a share of the grown peak. */
export type Demand = Readonly<Record<"peakPerS" | "growth" | "headroom", number>>;

const SHAPE = 'a demand is JSON like { "peak_rps": 120, "growth": 1.3, "headroom": 0.3 }';

/** Reads a demand from parsed JSON. Throws an `Error` that says what was expected. */
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

/** Passes if the low end of the interval carries the demand, fails if the high end does not. */
export const demandVerdict = (answer: Answer, demand: Demand): "pass" | "fail" | "inconclusive" => {
  const needed = neededPerS(demand);
  if (answer.kind !== "unknown" && answer.low >= needed) return "pass";
  if ((answer.kind === "found" || answer.kind === "never") && answer.high !== null && answer.high < needed)
    return "fail";
  return "inconclusive";
};

const ORGANIZATION_BOUND = new Set(["organization", "key", "allowance"]);

/**
 * What to do with the answer, in sentences, most important first. `replicas`: `limits.replicas` of the target file;
 * `organizations`: those that the load came from.
 */
export const advise = (
  answer: Answer,
  { owner }: FirstLimit,
  { replicas, organizations }: { replicas: number | null; organizations: number },
  demand: Demand | null,
): string[] => {
  const needed = demand === null ? null : neededPerS(demand);
  const lines: string[] = [];
  if (demand !== null && needed !== null) {
    const times = `${demand.growth} growth x ${(1 + demand.headroom).toFixed(2)} with headroom`;
    lines.push(`Needed: ${perS(demand.peakPerS)} x ${times} = ${perS(needed)}.`);
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
  if (answer.kind === "at-least") return lines;
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
  /** As the user wrote them. */
  objectives: readonly string[];
  /** The number of calls that count, in all probes. */
  calls: number;
};

/** `44.4/s, between 42.1/s and 46.8/s`, or what else can be said. */
export const answerText = ({ kind, ratePerS, low, high }: Answer): string => {
  if (kind === "never") return `broken at ${perS(high ?? 0)} already`;
  if (kind === "at-least") return `at least ${perS(low)}`;
  if (high === null) return "not known";
  return `${perS(ratePerS)}, between ${perS(low)} and ${perS(high)} (95 %)`;
};

const VERDICTS = { found: "pass", "at-least": "inconclusive", never: "fail", unknown: "inconclusive" } as const;

export const capacityClaims = (found: Found, stage: string, replay: string): Claim[] => {
  const { answer, limit, advice, demand, objectives } = found;
  const claims = objectives.map((objective, at): Claim => {
    const isFirst = answer.binding === null || answer.binding === at;
    const reasons = [answer.reason, ...(isFirst ? [] : ["another objective is broken first"])];
    if (isFirst && limit.owner !== "none") reasons.push(`the limit met first: ${limit.sentence}`);
    return claimOf({
      ...{ id: `capacity/${objective}`, stage, replay },
      // A stated demand is the question; the highest rate is then only reported.
      level: demand === null ? "must" : "info",
      verdict: VERDICTS[answer.kind],
      reason: [...reasons, answer.generator, ...advice].join("; "),
      expected: `the highest rate at which ${objective} holds`,
      got: isFirst ? answerText(answer) : `holds at ${perS(answer.ratePerS)}`,
    });
  });
  if (demand === null) return claims;
  const asked = claimOf({
    ...{ id: "capacity/demand", stage, replay, verdict: demandVerdict(answer, demand) },
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
