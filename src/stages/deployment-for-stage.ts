/** The deployment as one stage needs it: its replicas, its tenants, its edge proxy. */

import type { Deployment, OwnParts } from "../deployments/deployment.ts";
import { type Replicated, reachedAt, withReplicas } from "../deployments/embedded.ts";
import { stageTenants } from "../deployments/tenants.ts";
import { consequencesOf } from "../faults/disturbance.ts";
import { moveClock } from "../faults/injectors/operator.ts";
import type { LoadStage } from "./stage-plan.ts";

const isOurs = (deployment: Deployment): deployment is Deployment & { own: OwnParts } => deployment.own !== undefined;

const asNeeded = async (plan: LoadStage, deployment: Deployment & { own: OwnParts }): Promise<Replicated> => {
  const asItIs: Replicated = { deployment, close: async () => undefined };
  if (plan.replicas !== undefined && plan.replicas > 1) return withReplicas(deployment, plan.replicas);
  const edge = deployment.faults?.links.edge;
  if (edge === undefined || !consequencesOf(plan.disturbance).breaksEdge) return asItIs;
  const { target } = deployment;
  return {
    ...asItIs,
    deployment: { ...deployment, target: { ...target, ...reachedAt(`http://${edge.listen}`, target) } },
  };
};

/** Only a deployment that this run started is changed. */
export const deploymentFor = async (plan: LoadStage, deployment: Deployment): Promise<Replicated> => {
  if (!isOurs(deployment)) return { deployment, close: async () => undefined };
  const target = await stageTenants(plan.tenants, deployment.target);
  const opened = await asNeeded(plan, { ...deployment, target });
  const close = async (): Promise<void> => {
    await opened.close();
    if (consequencesOf(plan.disturbance).movesClock) await moveClock(deployment.target, 0);
  };
  return { ...opened, close };
};
