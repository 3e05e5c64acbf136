/** Starts the embedded deployment (key service, limiter and API as processes, toxiproxy on both links of the API), or opens that of a target file. */
import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { controlSend } from "../client/control-planes.ts";
import { isLoopbackHost } from "../contract/address.ts";
import { createSecrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { reachableListener } from "../tools/link-probe.ts";
import { findRedis } from "../tools/tool-recipe.ts";
import { openToxiproxy } from "../tools/toxiproxy.ts";
import { STAND_IN_PROXY, startToxiproxy } from "../tools/toxiproxy-server.ts";
import { guardBudget } from "../workload/budget.ts";
import {
  type Deployment,
  type FaultProxies,
  type LinkName,
  type OwnParts,
  type RunContext,
  roleStarter,
  type ServePart,
  startRedisPart,
} from "./deployment.ts";
import { openRemoteWatch, type RemoteWatch } from "./remote-watch.ts";
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

// The deployment that a target file names.

const CALL_MS = 3_000;

const HOW_TO_WATCH =
  "has to be healed also when this machine is cut off: run `floodgate chaos --watchdog --target FILE` beside it and name it in the target file as `watchdog`; or run floodgate on that host, with everything on loopback";

/** Says why no fault may be injected from here; `null` if one may. Commands are taken to act on the target's host. */
export const remoteProxy = ({ toxiproxy, faults = {}, base_url, watchdog }: Target): string | null => {
  if (watchdog !== undefined) return null;
  const host = toxiproxy === undefined ? "127.0.0.1" : new URL(toxiproxy.api_url).hostname;
  if (!isLoopbackHost(host)) return `toxiproxy.api_url is on ${host}: a fault there ${HOW_TO_WATCH}`;
  const { hostname } = new URL(base_url);
  const isByCommands = Object.keys(faults).length > 0;
  return isByCommands && !isLoopbackHost(hostname)
    ? `the deployment is on ${hostname}: what a command of its faults breaks there ${HOW_TO_WATCH}`
    : null;
};

/** Says why no proxy can be used; `null` if one can, as far as the target file shows. */
export const proxiesMissing = (target: Target): string | null => {
  if (target.toxiproxy === undefined) return "`toxiproxy` is not in the target file";
  return target.permits?.chaos === true ? remoteProxy(target) : "permits.chaos of the target file is not true";
};

type Prepared = Pick<Deployment, "target" | "secrets" | "budget"> & { file: string };

/** Prepares the lease with the watchdog; the first fault takes it. */
const openWatch = async (context: RunContext, { target, secrets }: Prepared): Promise<RemoteWatch | undefined> => {
  const { watchdog, permits } = target;
  if (watchdog === undefined || permits?.chaos !== true) return undefined;
  const token = watchdog.token === undefined ? null : await secrets.read(watchdog.token, "watchdog.token");
  const watch = openRemoteWatch({ url: watchdog.url, token, holder: `run ${context.run}` });
  context.supervisor.registerUndo("end the lease with the watchdog beside the proxy", () => watch.close());
  return watch;
};

const openProxies = async (context: RunContext, target: Target) => {
  const missing = proxiesMissing(target);
  if (missing !== null) return { faults: null, faultsMissing: missing };
  const { api_url, proxies } = target.toxiproxy as NonNullable<Target["toxiproxy"]>;
  const toxiproxy = openToxiproxy(api_url, { signal: context.signal, callMs: CALL_MS });
  const links: FaultProxies["links"] = {};
  try {
    for (const [link, name] of Object.entries(proxies ?? {}) as [LinkName, string | undefined][]) {
      if (name === undefined) continue;
      const { listen } = await toxiproxy.proxy(name).read();
      links[link] = { proxy: name, listen: reachableListener(listen, api_url) };
    }
  } catch (error) {
    await toxiproxy.close();
    const faultsMissing = `the toxiproxy of the target file cannot be used: ${(error as Error).message}`;
    return { faults: null, faultsMissing };
  }
  context.supervisor.registerUndo("close the connection to toxiproxy", () => toxiproxy.close());
  // The toxiproxy is not ours, so only the named proxies are healed and the server is never reset.
  const faults: FaultProxies = { toxiproxy, links, mayReset: false };
  return { faults, faultsMissing: "" };
};

export const fromTarget = async (context: RunContext, prepared: Prepared): Promise<Deployment> => {
  const { target, secrets, budget } = prepared;
  const file = resolve(prepared.file);
  const faults = await openProxies(context, target);
  return {
    ...{ target, secrets, budget, file, folder: dirname(file) },
    ...{ embedded: false, reference: false, exclusive: target.exclusive === true, found: {} },
    ...faults,
    remoteWatch: await openWatch(context, prepared),
  };
};
