/** What a run of stages would send and spend. Reads the target file and nothing else: no secret, no lock, no folder, no call. */
import type { EmbeddedWish } from "../deployments/embedded.ts";
import { remoteProxy } from "../deployments/from-target.ts";
import { plannedEmbedded, plannedTenants } from "../deployments/tenants.ts";
import type { FaultCapabilities } from "../faults/capabilities.ts";
import type { Target } from "../target/target.ts";
import { stageMissing } from "./load-stage.ts";
import { readTarget } from "./prepare-target.ts";
import {
  type DeploymentWish,
  intentOf,
  type PlannedStage,
  planOfStage,
  type StagesWish,
  stagesFor,
} from "./stages-for.ts";

export type PlanRequest = DeploymentWish &
  Partial<EmbeddedWish> & {
    stages: StagesWish;
    /** Why the command would refuse this target, beside the guard's own reasons. */
    refusals?(target: Target): readonly string[];
  };

/** What a plan says of the target file. */
export type PlannedTarget = { name: string; base_url: string; budget: Record<string, number> };

export const plannedTarget = ({ name, base_url, budget }: Target): PlannedTarget => ({
  name: name ?? base_url,
  base_url,
  budget: { ...budget } as Record<string, number>,
});

type StagesPlan = {
  schema: "floodgate/plan@1";
  target: PlannedTarget;
  stages: PlannedStage[];
  total: { seconds: number; calls: number };
  refused_by_guard: readonly string[];
  /** What in the target file looks like a mistake. */
  warnings: readonly string[];
};

/** Why no faults could be injected. What is seen only once the deployment is reached is taken for there. */
const faultsMissing = (target: Target): string | null => {
  if (target.toxiproxy === undefined) return "`toxiproxy` is not in the target file";
  return target.permits?.chaos === true ? remoteProxy(target) : "permits.chaos of the target file is not true";
};

export const planStages = async ({
  targetFile,
  owned,
  limiter = "sqlite",
  stages: wish,
  refusals,
}: PlanRequest): Promise<StagesPlan> => {
  const embedded = targetFile === undefined;
  const read = embedded ? null : await readTarget(targetFile, owned, intentOf(wish));
  const target = read?.target ?? plannedEmbedded();
  const without = embedded ? null : faultsMissing(target);
  const can: FaultCapabilities = {
    target,
    isProxied: (link) => without === null && (embedded || target.toxiproxy?.proxies?.[link] !== undefined),
    proxyMissing: without ?? "",
    ownStore: embedded ? limiter : null,
  };
  const stages = stagesFor({ target, embedded, limiter }, wish).map((plan) => {
    if (plan.kind === "verify") return planOfStage(plan, { target, embedded }, []);
    return planOfStage(
      plan,
      { target, embedded },
      stageMissing(plan, embedded ? { ...can, target: plannedTenants(plan.tenants, target) } : can),
    );
  });
  return {
    schema: "floodgate/plan@1",
    target: plannedTarget(target),
    stages,
    total: {
      seconds: stages.reduce((sum, { seconds }) => sum + seconds, 0),
      calls: stages.reduce((sum, { calls }) => sum + calls, 0),
    },
    refused_by_guard: read === null ? [] : [...read.refusals, ...(refusals?.(read.target) ?? [])],
    warnings: read?.warnings ?? [],
  };
};
