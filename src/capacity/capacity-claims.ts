/** What a search found, as claims `capacity/<objective>` and as a measurement of a report. */
import { claimOf } from "../history/claim.ts";
import type { Claim, Measurement } from "../history/run-document.ts";
import type { Answer, FirstLimit } from "./answer.ts";
import { type Demand, demandVerdict, neededPerS } from "./demand.ts";
import { perS } from "./probe.ts";

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
      // A demand is the question, if there is one; the highest rate is then only reported.
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
