/**
 * The embedded deployment: key service, limiter service and API as three processes over real TCP, toxiproxy between API
 * and limiter and between API and key service. It is what a run works on when no target is given, so it is reached only
 * in the ways in which any other deployment is: base URL, control planes, the API of toxiproxy.
 */
import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { startToxiproxy, type ToxiproxyServer } from "../../chaos/toxiproxy-server.ts";
import type { Limits } from "../../history/stage-facts.ts";
import { mintAdminToken } from "../../platform/keys/admin-tokens.ts";
import { makeSecret } from "../../platform/keys/secret.ts";
import { planSeed, type SeedTenant } from "../../platform/seed.ts";
import type { Redactor } from "../../supervision/redaction.ts";
import type { Child, Supervisor } from "../../supervision/supervisor.ts";
import { controlSend } from "../../target/control-planes.ts";
import type { Target } from "../../target/target.ts";
import { REPOSITORY } from "../environment.ts";
import type { RunFolder } from "../run-folder.ts";

export type EmbeddedSettings = Required<
  Pick<Limits, "slots" | "service_ms" | "global_in_flight" | "org_in_flight" | "rate_per_s" | "burst">
>;

type Embedded = {
  target: Target;
  toxiproxy: ToxiproxyServer;
  /** `host:port` of the API's side of each link, for a probe. */
  links: { limiter: string; keys: string };
  /** Files that the children's output went to. */
  logs: string[];
};

const READY_MS = 20_000;
const ENTRY = join(REPOSITORY, "src/cli/floodgate.mjs");

type RoleUrls = {
  api?: string;
  keys?: string;
  limiter?: string;
  control?: { api?: string; keys?: string; limiter?: string };
};

export const startEmbedded = async (options: {
  supervisor: Supervisor;
  redactor: Redactor;
  folder: RunFolder;
  toxiproxyPath: string;
  settings: EmbeddedSettings;
  tenants: SeedTenant[];
  seed: number;
}): Promise<Embedded> => {
  const { supervisor, redactor, folder, settings, seed } = options;
  const data = folder.pathOf("platform");
  mkdirSync(data, { recursive: true, mode: 0o700 });
  supervisor.ownFolder("the embedded platform's stores", data);
  const secrets = {
    FLOODGATE_SESSION_SECRET: randomBytes(32).toString("hex"),
    FLOODGATE_ADMIN_SECRET: randomBytes(32).toString("hex"),
  };
  const logs: string[] = [];

  const serve = async (name: string, args: string[]): Promise<{ urls: RoleUrls; child: Child }> => {
    const log = folder.pathOf(`logs/${name}.log`);
    logs.push(log);
    const child = await supervisor.start({
      name,
      command: process.execPath,
      args: ["--disable-warning=ExperimentalWarning", ENTRY, "serve", ...args],
      env: { ...secrets, FLOODGATE_END_WITH_STDIN: "1" },
      ends: "at-stdin-eof",
      files: { stderr: log },
    });
    const line = await child.waitForLine(/^\{.*\}$/, { deadlineMs: READY_MS });
    return { urls: JSON.parse(line) as RoleUrls, child };
  };

  // The API's upstreams have to be known before it starts, so it comes last.
  const limiter = await serve("limiter", [
    ...["--role", "limiter", "--limiter", `sqlite:${join(data, "limiter.db")}`, "--port", "0", "--control-port", "0"],
  ]);
  const limiterUrl = limiter.urls.limiter as string;
  const [keys, toxiproxy] = await Promise.all([
    serve("keys", [
      ...["--role", "keys", "--keys", `sqlite:${join(data, "keys.db")}`, "--limiter", limiterUrl],
      ...["--port", "0", "--control-port", "0"],
    ]),
    startToxiproxy({
      path: options.toxiproxyPath,
      start: ({ name, command, args, env, endLast }) =>
        supervisor.start({ name, command, args, env, endLast, ends: "by-signal" }),
    }),
  ]);
  const keysUrl = keys.urls.keys as string;
  const link = async (name: string, url: string): Promise<string> =>
    (await toxiproxy.toxiproxy.createProxy({ name, listen: "127.0.0.1:0", upstream: new URL(url).host })).listen;
  const links = { limiter: await link("limiter", limiterUrl), keys: await link("keys", keysUrl) };

  const api = await serve("api", [
    ...["--role", "api", "--port", "0", "--control-port", "0"],
    ...["--keys", `http://${links.keys}`, "--limiter", `http://${links.limiter}`],
    ...["--slots", `${settings.slots}`, "--service-ms", `${settings.service_ms}`],
    ...["--global-in-flight", `${settings.global_in_flight}`, "--org-in-flight", `${settings.org_in_flight}`],
    ...["--rate-limit", `${settings.rate_per_s}:${settings.burst}`, "--seed", `${seed}`],
  ]);
  const controlOf = (urls: RoleUrls, role: "api" | "keys" | "limiter"): string => urls.control?.[role] as string;
  const control = {
    keys: controlOf(keys.urls, "keys"),
    limiter: controlOf(limiter.urls, "limiter"),
    api: [controlOf(api.urls, "api")],
  };
  const seeded = await seedEmbedded(control.keys, options.tenants, secrets.FLOODGATE_ADMIN_SECRET, redactor);
  return {
    toxiproxy,
    links,
    logs,
    target: {
      schema: "floodgate/target@1",
      name: "embedded",
      base_url: api.urls.api as string,
      key_management_url: api.urls.api as string,
      tile_url: `${api.urls.api}/maps/tiles/{z}/{x}/{y}`,
      control,
      toxiproxy: { api_url: toxiproxy.apiUrl, proxies: { limiter: "limiter", keys: "keys" } },
      shedding: "fixed",
      exclusive: true,
      limits: {
        replicas: 1,
        ...settings,
        limiter_budget_ms: 250,
        key_service_budget_ms: 1000,
        revocation_budget_ms: 1000,
      },
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
