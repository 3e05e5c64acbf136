/** What a run knows of a deployment: how it is reached, and of one that it started its processes and stores. */
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
  /** Where there are several replicas: what stands before them, each replica by its base URL in the order of `apis`. */
  front?: { upstreams: readonly string[]; send(upstreams: readonly string[]): Promise<unknown> };
};

/** A dependency of a deployment, by the name of its proxy in the target file. */
export type LinkName = "limiter" | "keys" | "edge";

export type FaultProxies = {
  toxiproxy: Toxiproxy;
  /** Name of the proxy, and `host:port` of its listener for a probe. */
  links: Partial<Record<LinkName, { proxy: string; listen: string }>>;
  /** False on a toxiproxy that others use too. */
  mayReset: boolean;
  restart?: () => Promise<void>;
};

export type Deployment = {
  readonly target: Target;
  readonly secrets: Secrets;
  readonly file?: string;
  /** Where commands of the target file run. */
  readonly folder: string;
  readonly embedded: boolean;
  /** It is our reference platform, which is held to our readings of what the specification leaves open. */
  readonly reference: boolean;
  readonly exclusive: boolean;
  readonly budget: BudgetGuard;
  /** Rates that ramps of this run found, where the target file states none. */
  readonly found: { chat?: RateFound; reads?: RateFound };
  /** `null` where no faults can be injected, with the reason. */
  readonly faults: FaultProxies | null;
  readonly faultsMissing: string;
  /** The watchdog beside what is broken, which heals when this machine is cut off; absent: none is needed. */
  readonly remoteWatch?: RemoteWatch;
  /** Its processes and stores, where this run started them; nobody else's are ever touched. */
  readonly own?: OwnParts;
};
