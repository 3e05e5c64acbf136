/** Which limits of time the target states for a stage: those of its claims `slo/<name>/<stage>`. */
import { parseObjectives } from "../../history/objectives.ts";
import type { Claim } from "../../history/run-document.ts";

export type TimeLimit = { text: string; of: "answer" | "first event"; quantile: number; ms: number };

const objectivesOf = (text: string) => {
  try {
    return parseObjectives(text);
  } catch {
    return [];
  }
};

export const timeLimitsOf = (claims: readonly Claim[], stage: string): TimeLimit[] =>
  claims
    .filter((claim) => claim.stage === stage && claim.id.startsWith("slo/"))
    .flatMap((claim) => {
      const [, kind = ""] = claim.id.split("/");
      return objectivesOf(claim.expected).flatMap((objective) =>
        objective.kind === "time"
          ? [{ text: `${kind} ${objective.text}`, of: objective.of, quantile: objective.quantile, ms: objective.limit }]
          : [],
      );
    });
