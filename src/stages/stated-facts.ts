/** What a judge may know of a stage before anything was looked at: what the deployment and its target file state. */
import type { Deployment } from "../deployments/deployment.ts";
import { bareFacts, type StageFacts } from "../history/stage-facts.ts";

type Stating = Pick<Deployment, "target" | "exclusive"> & { reference?: boolean };

export const statedFacts = (stage: string, { target, exclusive, reference }: Stating): StageFacts => ({
  ...bareFacts(stage),
  limits: target.limits ?? {},
  ...(target.stream_end === undefined ? {} : { stream_end: target.stream_end }),
  shedding: target.shedding ?? "unknown",
  ...(reference === true ? { reference } : {}),
  exclusive,
});
