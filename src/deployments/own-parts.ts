/** What a run knows of a deployment because it started it: its processes and its stores, to be disturbed. */
import type { Part } from "./part.ts";
import type { RedisPart } from "./redis-part.ts";
import type { RoleStarter, ServePart } from "./serve-part.ts";

export type LimiterStore = { kind: "sqlite"; path: string } | { kind: "redis"; redis: RedisPart };

export type OwnParts = {
  limiter: Part;
  keys: Part;
  apis: readonly Part[];
  /** Where the limiter keeps its counts. */
  store: LimiterStore;
  /** One more replica beside those there are, on the same dependencies. */
  startApi(name: string): Promise<ServePart>;
  startRole: RoleStarter;
  /** Where there are several replicas: what stands before them, each replica by its base URL in the order of `apis`. */
  front?: { upstreams: readonly string[]; send(upstreams: readonly string[]): Promise<void> };
};
