import type { Deployment } from "../../deployments/deployment.ts";
import { keeperOfTarget } from "../../target/lease-of-target.ts";
import { createSecrets } from "../../target/secrets.ts";
import type { Target } from "../../target/target.ts";

/** A deployment of which nothing is known but its target file. */
export const bareDeployment = (target: Target, more: Partial<Deployment> = {}): Deployment => ({
  target,
  secrets: createSecrets("."),
  lease: keeperOfTarget(target),
  found: {},
  faults: null,
  embedded: false,
  reference: false,
  exclusive: false,
  folder: ".",
  faultsMissing: "",
  ...more,
});
