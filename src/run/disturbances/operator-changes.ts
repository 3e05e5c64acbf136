/** An operator who changes the deployment under load, through its control planes. */
import { pause } from "../../supervision/waiting.ts";
import { controlSend } from "../../target/control-planes.ts";
import type { DisturbanceContext, Disturbed, OperatorChanges } from "./disturbance.ts";

export const changeDeployment = async (
  { changes }: OperatorChanges,
  { signal, deployment }: DisturbanceContext,
): Promise<Disturbed> => {
  const apis = deployment.target.control?.api ?? [];
  for (const { patch, holdMs } of changes) {
    for (const api of apis) await controlSend("PATCH", `${api}/deployment`, patch);
    await pause(holdMs, signal);
  }
  return { problems: [], notes: [] };
};
