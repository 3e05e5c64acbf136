import type { Deployment } from "../../deployments/deployment.ts";
import { createSecrets } from "../../target/secrets.ts";
import type { Target } from "../../target/target.ts";
import { guardBudget, statedBudget } from "../../workload/budget.ts";

/** A deployment of which nothing is known but its target file. */
export const bareDeployment = (target: Target, more: Partial<Deployment> = {}): Deployment => ({
  target,
  secrets: createSecrets("."),
  budget: guardBudget(statedBudget(target)),
  found: {},
  faults: null,
  embedded: false,
  reference: false,
  exclusive: false,
  folder: ".",
  faultsMissing: "",
  ...more,
});
