/** The one deployment that a body works on: that of the target file, or the embedded one where none was given. */

import type { Deployment } from "./deployment.ts";
import { type EmbeddedWish, openEmbedded } from "./embedded-deployment.ts";
import type { RunContext } from "./run-context.ts";

export const openDeployment = async (
  context: RunContext,
  wish: EmbeddedWish = { limiter: "sqlite" },
): Promise<Deployment> => {
  const [ofTarget] = context.deployments;
  if (ofTarget !== undefined) return ofTarget;
  const embedded = await openEmbedded(context, wish);
  context.opened(embedded);
  return embedded;
};
