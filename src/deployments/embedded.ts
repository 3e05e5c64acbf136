/**
 * The embedded deployment: key service, limiter service and API as three processes over real TCP, toxiproxy between API
 * and limiter and between API and key service. It is what a run works on when no target is given, so it is reached only
 * in the ways in which any other deployment is: base URL, control planes, the API of toxiproxy.
 */

import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { controlSend } from "../client/control-planes.ts";
import { REFERENCE_STREAM_ENDS } from "../contract/streams.ts";
import { EMBEDDED_LIMITS as LIMITS } from "../platform/embedded-limits.ts";
import { makeSecret, mintAdminToken } from "../platform/keys/secret.ts";
import { planSeed, type SeedTenant } from "../platform/seed.ts";
import type { Redactor } from "../supervision/redaction.ts";
import type { Supervisor } from "../supervision/supervisor.ts";
import type { Target } from "../target/target.ts";
import { startToxiproxy, type ToxiproxyServer } from "../tools/toxiproxy-server.ts";
import type { OwnParts } from "./own-parts.ts";
import { type RedisPart, startRedisPart } from "./redis-part.ts";
import type { RunFolder } from "./run-context.ts";
import { type RoleStarter, roleStarter } from "./serve-part.ts";

type Embedded = {
  target: Target;
  toxiproxy: ToxiproxyServer;
  /** `host:port` of the callers' side of each link, for a probe. */
  links: { limiter: string; keys: string; edge: string };
  /** Its processes, to be disturbed. */
  own: OwnParts;
  /** Files that the children's output went to. */
  logs: string[];
};

type Options = {
  supervisor: Supervisor;
  redactor: Redactor;
  folder: RunFolder;
  /** As `startToxiproxy` takes it. */
  toxiproxyCommand: readonly string[];
  /** Keeps the counts in a Redis of its own; absent: in the limiter service, in SQLite. */
  redisPath?: string;
  tenants: SeedTenant[];
  seed: number;
  /** The words of the command that serves a role; `serve` where absent. */
  serve?: readonly string[];
};

type LimiterStarted = { part: RedisPart["part"]; url: string; control?: string; store: OwnParts["store"] };

const startLimiter = async (
  { supervisor, redisPath }: Options,
  startRole: RoleStarter,
  data: string,
  logOf: (name: string) => string,
): Promise<LimiterStarted> => {
  if (redisPath !== undefined) {
    const redis = await startRedisPart({
      supervisor,
      path: redisPath,
      folder: join(data, "redis"),
      log: logOf("limiter"),
    });
    return { part: redis.part, url: redis.url, store: { kind: "redis", redis } };
  }
  const path = join(data, "limiter.db");
  const service = await startRole("limiter", "limiter", ["--limiter", `sqlite:${path}`]);
  return { ...service, store: { kind: "sqlite", path } };
};

export const startEmbedded = async (options: Options): Promise<Embedded> => {
  const { supervisor, redactor, folder, seed } = options;
  const data = folder.pathOf("platform");
  mkdirSync(data, { recursive: true, mode: 0o700 });
  supervisor.ownFolder("the embedded platform's stores", data);
  const secrets = {
    FLOODGATE_SESSION_SECRET: randomBytes(32).toString("hex"),
    FLOODGATE_ADMIN_SECRET: randomBytes(32).toString("hex"),
  };
  const logs: string[] = [];
  const logOf = (name: string): string => {
    const log = folder.pathOf(`logs/${name}.log`);
    logs.push(log);
    return log;
  };
  const { serve } = options;
  const startRole = roleStarter({ supervisor, secrets, logOf, ...(serve === undefined ? {} : { serve }) });

  // The API's upstreams have to be known before it starts, so it comes last.
  const limiter = await startLimiter(options, startRole, data, logOf);
  const [keys, toxiproxy] = await Promise.all([
    startRole("keys", "keys", ["--keys", `sqlite:${join(data, "keys.db")}`, "--limiter", limiter.url]),
    startToxiproxy({
      command: options.toxiproxyCommand,
      folder: data,
      start: ({ name, command, args, env, endLast }) =>
        supervisor.start({ name, command, args, env, endLast, ends: "by-signal" }),
    }),
  ]);
  const link = async (name: string, url: string): Promise<string> =>
    (await toxiproxy.toxiproxy.createProxy({ name, listen: "127.0.0.1:0", upstream: new URL(url).host })).listen;
  const toLimiter = await link("limiter", limiter.url);
  const toKeys = await link("keys", keys.url);

  const startApi = (name: string) =>
    startRole(name, "api", [
      ...["--keys", `http://${toKeys}`, "--limiter", `${new URL(limiter.url).protocol}//${toLimiter}`],
      ...["--slots", `${LIMITS.slots}`, "--service-ms", `${LIMITS.service_ms}`],
      ...["--global-in-flight", `${LIMITS.global_in_flight}`, "--org-in-flight", `${LIMITS.org_in_flight}`],
      ...["--rate-limit", `${LIMITS.rate_per_s}:${LIMITS.burst}`, "--seed", `${seed}`],
    ]);
  const api = await startApi("api");
  const edge = await link("edge", api.url);
  // Of a limiter in Redis the API shows the ledger.
  const control = { keys: keys.control, limiter: limiter.control ?? api.control, api: [api.control] };
  const seeded = await seedEmbedded(control.keys, options.tenants, secrets.FLOODGATE_ADMIN_SECRET, redactor);
  return {
    toxiproxy,
    links: { limiter: toLimiter, keys: toKeys, edge },
    own: { limiter: limiter.part, keys: keys.part, apis: [api.part], store: limiter.store, startApi, startRole },
    logs,
    target: {
      schema: "floodgate/target@1",
      name: "embedded",
      base_url: api.url,
      key_management_url: api.url,
      tile_url: `${api.url}/maps/tiles/{z}/{x}/{y}`,
      control,
      toxiproxy: { api_url: toxiproxy.apiUrl, proxies: { limiter: "limiter", keys: "keys" } },
      shedding: "fixed",
      stream_end: REFERENCE_STREAM_ENDS,
      exclusive: true,
      limits: LIMITS,
      permits: { writes: true, quota_burn: true, chaos: true },
      ...seeded,
    },
  };
};

/** Stores the demo data through the key service's control plane, as an operator would. */
const seedEmbedded = async (
  control: string,
  tenants: readonly SeedTenant[],
  adminSecret: string,
  redactor: Redactor,
): Promise<Pick<Target, "tenants" | "credentials">> => {
  const nowMs = Date.now();
  const seed = planSeed(tenants, {
    makeSecret,
    adminToken: (org) => mintAdminToken({ secret: adminSecret, org, nowMs }),
    nowMs,
  });
  for (const { secret } of seed.keys) redactor.register(secret);
  for (const organization of seed.organizations) await controlSend("POST", `${control}/orgs`, organization);
  for (const key of seed.keys) await controlSend("POST", `${control}/keys`, key);
  return seed.target as Pick<Target, "tenants" | "credentials">;
};
