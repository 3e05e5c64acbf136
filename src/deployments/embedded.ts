/** Starts the embedded deployment: key service, limiter and API as processes, toxiproxy on both links of the API. */
import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { controlSend } from "../client/control-planes.ts";
import { createSecrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { findRedis } from "../tools/tool-recipe.ts";
import { STAND_IN_PROXY, startToxiproxy } from "../tools/toxiproxy-server.ts";
import { guardBudget } from "../workload/budget.ts";
import type { Deployment, OwnParts, RunContext } from "./deployment.ts";
import { roleStarter, type ServePart, startRedisPart } from "./part.ts";
import { addressesOf, EMBEDDED_LIMITS, embeddedTenants, referenceTarget, seedNow, sendSeed } from "./tenants.ts";

export type EmbeddedOptions = {
  limiter: "sqlite" | "redis";
  /** The command words that serve a role (default: `serve`); other words start a mutant. */
  serve?: readonly string[] | undefined;
};

type Starting = Pick<RunContext, "supervisor" | "folder" | "seed" | "events" | "toolOrStandIn">;

export const openEmbedded = async (context: Starting, options: EmbeddedOptions): Promise<Deployment> => {
  const { supervisor, folder, seed, events } = context;
  const { limiter: kind, serve } = options;
  const redis = kind === "redis" ? await findRedis() : undefined;
  events.step("looking for toxiproxy");
  const toxiproxyPath = await context.toolOrStandIn("toxiproxy", "a TCP proxy of Floodgate's own");
  const counts = redis === undefined ? "limiter" : `Redis ${redis.version}`;
  events.step(`starting the embedded deployment: key service, ${counts}, toxiproxy, API`);

  const data = folder.pathOf("platform");
  mkdirSync(data, { recursive: true, mode: 0o700 });
  supervisor.ownFolder("the embedded platform's stores", data);
  const adminSecret = randomBytes(32).toString("hex");
  const secrets = { FLOODGATE_SESSION_SECRET: randomBytes(32).toString("hex"), FLOODGATE_ADMIN_SECRET: adminSecret };
  const startRole = roleStarter({ supervisor, secrets, logOf: (name) => folder.pathOf(`logs/${name}.log`), serve });

  // The API's upstreams have to be known before it starts, so it comes last.
  const path = join(data, "limiter.db");
  const log = folder.pathOf("logs/limiter.log");
  const ofRedis = redis && (await startRedisPart({ supervisor, path: redis.path, folder: join(data, "redis"), log }));
  const limiter = ofRedis ?? (await startRole("limiter", "limiter", ["--limiter", `sqlite:${path}`]));
  const [keys, server] = await Promise.all([
    startRole("keys", "keys", ["--keys", `sqlite:${join(data, "keys.db")}`, "--limiter", limiter.url]),
    startToxiproxy({
      command: toxiproxyPath === null ? STAND_IN_PROXY : [toxiproxyPath],
      folder: data,
      start: (child) => supervisor.start(child),
    }),
  ]);
  const { toxiproxy } = server;
  const link = async (name: string, url: string): Promise<{ proxy: string; listen: string }> => {
    const { listen } = await toxiproxy.createProxy({ name, listen: "127.0.0.1:0", upstream: new URL(url).host });
    return { proxy: name, listen };
  };
  const links = { limiter: await link("limiter", limiter.url), keys: await link("keys", keys.url) };
  const limits = EMBEDDED_LIMITS;
  const startApi = (name: string) =>
    startRole(name, "api", [
      ...["--keys", `http://${links.keys.listen}`],
      ...["--limiter", `${new URL(limiter.url).protocol}//${links.limiter.listen}`],
      ...["--slots", `${limits.slots}`, "--service-ms", `${limits.service_ms}`],
      ...["--global-in-flight", `${limits.global_in_flight}`, "--org-in-flight", `${limits.org_in_flight}`],
      ...["--rate-limit", `${limits.rate_per_s}:${limits.burst}`, "--seed", `${seed}`],
    ]);
  const api = await startApi("api");
  const edge = await link("edge", api.url);
  const seeded = seedNow(embeddedTenants(), adminSecret);
  await sendSeed(keys.control, seeded);
  return {
    target: referenceTarget(api.url, seeded, {
      name: "embedded",
      // Redis has no control plane of ours, so the API shows the ledger.
      control: {
        keys: keys.control,
        limiter: "control" in limiter ? limiter.control : api.control,
        api: [api.control],
      },
      toxiproxy: { api_url: server.apiUrl, proxies: { limiter: "limiter", keys: "keys" } },
      exclusive: true,
    }),
    ...{ secrets: createSecrets(folder.path), folder: folder.path, budget: guardBudget({}) },
    ...{ embedded: true, reference: true, exclusive: true, found: {} },
    faults: { toxiproxy, links: { ...links, edge }, mayReset: true, restart: () => server.restart() },
    faultsMissing: "",
    own: {
      ...{ limiter: limiter.part, keys: keys.part, apis: [api.part], startApi, startRole },
      store: ofRedis === undefined ? { kind: "sqlite", path } : { kind: "redis", redis: ofRedis },
    },
  };
};

/** Opens the one deployment that a body works on: the target file's, or the embedded one if none was given. */
export const openDeployment = async (context: RunContext, options: EmbeddedOptions = { limiter: "sqlite" }) => {
  const [ofTarget] = context.deployments;
  if (ofTarget !== undefined) return ofTarget;
  const embedded = await openEmbedded(context, options);
  context.opened(embedded);
  return embedded;
};

export const reachedAt = (url: string, { base_url }: Target) => addressesOf(`${url}${new URL(base_url).pathname}`);

/** Adds API replicas on the same dependencies and a load balancer before them; all end with `atEnd`. */
export const withReplicas = async (
  deployment: Deployment & { own: OwnParts },
  count: number,
  atEnd: AsyncDisposableStack,
): Promise<Deployment> => {
  const { target, own } = deployment;
  const keep = (started: ServePart): ServePart => {
    const { part } = started;
    atEnd.defer(async () => void (part.isRunning() && (await part.endInOrder().catch(() => part.kill()))));
    return started;
  };
  const more: ServePart[] = [];
  for (let at = 2; at <= count; at += 1) more.push(keep(await own.startApi(`api-${at}`)));
  const upstreams = [target.base_url, ...more.map(({ url }) => url)].map((url) => new URL(url).origin);
  const args = upstreams.flatMap((url) => ["--upstream", url]);
  const front = keep(await own.startRole("front", "front", args));
  const send = (to: readonly string[]) => controlSend("PATCH", `${front.control}/deployment`, { upstreams: to });
  const api = [...(target.control?.api ?? []), ...more.map(({ control }) => control)];
  const limits = { ...target.limits, replicas: count };
  return {
    ...deployment,
    target: { ...target, ...reachedAt(front.url, target), limits, control: { ...target.control, api } },
    own: { ...own, apis: [...own.apis, ...more.map(({ part }) => part)], front: { upstreams, send } },
  };
};
