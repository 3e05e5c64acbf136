/** An operator who changes the deployment under load, through its control planes. */
import { pause } from "../../supervision/waiting.ts";
import { controlSend } from "../../target/control-planes.ts";
import type { DisturbanceContext, Disturbed, OperatorChanges } from "./disturbance.ts";

export const changeDeployment = async (
  { changes }: OperatorChanges,
  { signal, deployment, context, stage, onLine }: DisturbanceContext,
): Promise<Disturbed> => {
  const apis = deployment.target.control?.api ?? [];
  const mark = (name: string, detail: string): void =>
    onLine({ type: "mark", stage, name, at_us: context.nowUs(), detail });
  try {
    for (const { patch, holdMs } of changes) {
      // Before it, so that every call which meets it comes later.
      mark("operator-changed", Object.keys(patch).join(", "));
      for (const api of apis) await controlSend("PATCH", `${api}/deployment`, patch);
      await pause(holdMs, signal);
    }
  } finally {
    mark("operator-restored", "");
  }
  return { problems: [], notes: [] };
};
