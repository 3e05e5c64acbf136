/** The embedded deployment as a run sees it, with the tenants that the suites are made for. */

import { REFERENCE_STREAM_ENDS } from "../contract/streams.ts";
import { EMBEDDED_LIMITS } from "../platform/embedded-limits.ts";
import { planSeed } from "../platform/seed.ts";
import { redactor } from "../supervision/redaction.ts";
import { createSecrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { findRedis } from "../tools/find-redis.ts";
import { STAND_IN_PROXY } from "../tools/toxiproxy-server.ts";
import { guardBudget } from "../workload/budget.ts";
import type { Deployment } from "./deployment.ts";
import { startEmbedded } from "./embedded.ts";
import { loadTenants, quotaTenants } from "./embedded-tenants.ts";
import type { RunContext } from "./run-context.ts";

const LOAD_TENANTS = 12;

const embeddedTenants = () => [...loadTenants(LOAD_TENANTS), ...quotaTenants()];

/** What is known of it before it is started: enough for a plan. */
export const plannedEmbedded = (): Target => ({
  schema: "floodgate/target@1",
  name: "embedded",
  base_url: "http://127.0.0.1/v1",
  shedding: "fixed",
  stream_end: REFERENCE_STREAM_ENDS,
  limits: EMBEDDED_LIMITS,
  control: { api: ["http://127.0.0.1"] },
  permits: { writes: true, quota_burn: true, chaos: true },
  ...(planSeed(embeddedTenants(), { makeSecret: () => "planned", adminToken: () => "planned", nowMs: 0 })
    .target as Pick<Target, "tenants" | "credentials">),
});

/** What a user may say of the embedded deployment. */
export type EmbeddedWish = {
  limiter: "sqlite" | "redis";
  /** The words of the command that serves a role, for one that is spoilt; `serve` where absent. */
  serve?: readonly string[];
};

export const openEmbedded = async (context: RunContext, { limiter, serve }: EmbeddedWish): Promise<Deployment> => {
  const { supervisor, folder, seed, events } = context;
  const redis = limiter === "redis" ? await findRedis() : null;
  events.step("looking for toxiproxy");
  const toxiproxyPath = await context.toolOrStandIn("toxiproxy", "a TCP proxy of Floodgate's own");
  const counts = redis === null ? "limiter" : `Redis ${redis.version}`;
  events.step(`starting the embedded deployment: key service, ${counts}, toxiproxy, API`);
  const tenants = embeddedTenants();
  const { target, toxiproxy, links, own } = await startEmbedded({
    supervisor,
    redactor,
    folder,
    toxiproxyCommand: toxiproxyPath === null ? STAND_IN_PROXY : [toxiproxyPath],
    tenants,
    seed,
    ...(redis === null ? {} : { redisPath: redis.path }),
    ...(serve === undefined ? {} : { serve }),
  });
  return {
    target,
    secrets: createSecrets(folder.path),
    folder: folder.path,
    budget: guardBudget({}),
    embedded: true,
    reference: true,
    exclusive: true,
    found: {},
    faults: {
      toxiproxy: toxiproxy.toxiproxy,
      links: {
        limiter: { proxy: "limiter", listen: links.limiter },
        keys: { proxy: "keys", listen: links.keys },
        edge: { proxy: "edge", listen: links.edge },
      },
      mayReset: true,
      restart: () => toxiproxy.restart(),
    },
    faultsMissing: "",
    own,
  };
};
