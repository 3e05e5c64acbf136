/** What a run knows of a deployment: how to reach it, and its processes and stores if the run started them. */
import type { RampStep } from "../history/stage-facts.ts";
import type { Secrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import type { Toxiproxy } from "../tools/toxiproxy.ts";
import type { BudgetGuard } from "../workload/budget.ts";
import type { RateFound } from "../workload/callers/target-view.ts";
import type { Part, RedisPart, RoleStarter, ServePart } from "./part.ts";
import type { RemoteWatch } from "./remote-watch.ts";

type LimiterStore = { kind: "sqlite"; path: string } | { kind: "redis"; redis: RedisPart };

export type OwnParts = {
  limiter: Part;
  keys: Part;
  apis: readonly Part[];
  store: LimiterStore;
  startApi(name: string): Promise<ServePart>;
  startRole: RoleStarter;
  /** The load balancer before several replicas; `upstreams`: their URLs in the order of `apis`. */
  front?: { upstreams: readonly string[]; send(upstreams: readonly string[]): Promise<unknown> };
};

/** A dependency of a deployment, by the name of its proxy in the target file. */
export type LinkName = "limiter" | "keys" | "edge";

export type FaultProxies = {
  toxiproxy: Toxiproxy;
  /** The proxy's name, and `host:port` of its listener for a probe. */
  links: Partial<Record<LinkName, { proxy: string; listen: string }>>;
  /** False if others use the toxiproxy too. */
  mayReset: boolean;
  restart?: () => Promise<void>;
};

export type Deployment = {
  readonly target: Target;
  readonly secrets: Secrets;
  readonly file?: string;
  /** The working directory for commands of the target file. */
  readonly folder: string;
  readonly embedded: boolean;
  /** Our reference platform, which must also keep our readings of what the specification leaves open. */
  readonly reference: boolean;
  readonly exclusive: boolean;
  readonly budget: BudgetGuard;
  /** Rates that ramps of this run found, where the target file states none, and what the ramp of streams carried. */
  readonly found: { chat?: RateFound; reads?: RateFound; ramp?: RampStep[] };
  /** `null` if no faults can be injected; `faultsMissing` says why. */
  readonly faults: FaultProxies | null;
  readonly faultsMissing: string;
  /** The watchdog beside a remote proxy, which heals if this machine is cut off; absent if none is needed. */
  readonly remoteWatch?: RemoteWatch;
  /** Processes and stores that this run started; it touches no others. */
  readonly own?: OwnParts;
};
