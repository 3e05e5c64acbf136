/** Whether the capacity that was found carries a stated demand, and what to do about it. */
import type { Answer, FirstLimit } from "./answer.ts";
import { perS } from "./probe.ts";

export type Demand = {
  /** Calls per second at today's peak. */
  readonly peakPerS: number;
  /** Times that the peak is expected to grow. */
  readonly growth: number;
  /** Share of the grown peak that is kept free. */
  readonly headroom: number;
};

const SHAPE = 'a demand is JSON like { "peak_rps": 120, "growth": 1.3, "headroom": 0.3 }';

/** From a parsed JSON file. Throws a sentence that says what was expected. */
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

/** Met when the low end of the interval carries it, not met when its high end does not. */
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
