/** Whether the capacity that was found carries a stated demand, and what to do about it. */
import { type Answer, type FirstLimit, perS } from "./answer.ts";

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
  const known = new Set(["peak_rps", "growth", "headroom"]);
  for (const name of Object.keys(value)) if (!known.has(name)) throw new Error(`${name} is not known; ${SHAPE}`);
  const figure = (name: string, otherwise: number | null, least: number): number => {
    const found = (value as Record<string, unknown>)[name] ?? otherwise;
    if (typeof found !== "number" || !Number.isFinite(found) || found < least || (name === "peak_rps" && found === 0)) {
      const expected = `expected a number${least > 0 ? ` from ${least}` : ""}`;
      throw new Error(`${name} is ${JSON.stringify(found)}; ${expected}. ${SHAPE}`);
    }
    return found;
  };
  return {
    peakPerS: figure("peak_rps", null, 0),
    growth: figure("growth", 1, 0.01),
    headroom: figure("headroom", 0, 0),
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

type Setting = {
  /** `limits.replicas` of the target file. */
  readonly replicas: number | null;
  /** Organizations that the load came from. */
  readonly organizations: number;
};

const ORGANIZATION_BOUND = new Set(["organization", "key", "allowance"]);

/** What to do with the answer, in sentences, most important first. */
export const advise = (answer: Answer, limit: FirstLimit, setting: Setting, demand: Demand | null): string[] => {
  const needed = demand === null ? null : neededPerS(demand);
  const lines: string[] = [];
  if (demand !== null && needed !== null) {
    const { peakPerS, growth, headroom } = demand;
    const times = `${growth} growth x ${(1 + headroom).toFixed(2)} with headroom`;
    lines.push(`Needed: ${perS(peakPerS)} x ${times} = ${perS(needed)}.`);
  }
  // Even a wide interval shows whose limit it is.
  if (answer.kind === "never" || answer.low === 0 || limit.owner === "none") return lines;
  if (ORGANIZATION_BOUND.has(limit.owner)) {
    const each = answer.low / Math.max(1, setting.organizations);
    const whose = setting.organizations === 1 ? "the one organization" : `these ${setting.organizations} organizations`;
    lines.push(`This is the capacity of ${whose} that sent, not of the deployment: it can carry more from others.`);
    const sent = `At ${perS(each)} an organization, ${Math.ceil((needed ?? 0) / each)} organizations`;
    lines.push(
      needed === null
        ? `Add tenants to the target file to find the deployment's; each organization carried ${perS(each)}.`
        : `${sent} can send ${perS(needed)}; put as many under tenants to try it.`,
    );
    return lines;
  }
  if (limit.owner === "limiter" || limit.owner === "key-service") {
    lines.push("More replicas of the API do not help: what they depend on is the limit.");
    return lines;
  }
  if (answer.kind === "at-least") return lines;
  if (setting.replicas === null) {
    lines.push("limits.replicas is not in the target file: with it, the capacity of one replica stands here.");
    if (needed !== null && needed > answer.low) {
      lines.push(`${(needed / answer.low).toFixed(2)} times the deployment as it is would be needed.`);
    }
    return lines;
  }
  const each = answer.low / setting.replicas;
  const likely = perS(answer.ratePerS / setting.replicas);
  const wanted = Math.ceil((needed ?? 0) / each - 1e-9);
  const isTried = "if a replica more carries as much as these do: try it once it runs.";
  lines.push(
    `One replica carries ${perS(each)} for certain (${likely} most likely).`,
    needed === null
      ? `Keep a third free and offer no more than ${perS(answer.low * 0.7)}; --demand FILE counts replicas.`
      : `Replicas needed: ${wanted} (${setting.replicas} now), ${isTried}`,
  );
  return lines;
};
