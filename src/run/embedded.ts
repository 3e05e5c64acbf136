/**
 * The embedded deployment: key service, limiter service and API as three processes over real TCP, toxiproxy between API
 * and limiter and between API and key service. It is what a run works on when no target is given, so it is reached only
 * in the ways in which any other deployment is: base URL, control planes, the API of toxiproxy.
 */
import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { startToxiproxy, type ToxiproxyServer } from "../chaos/toxiproxy-server.ts";
import type { Target } from "../drivers/target.ts";
import type { Limits } from "../history/stage-facts.ts";
import { controlSend } from "./control.ts";
import type { EmbeddedTenant } from "./embedded-tenants.ts";
import { REPOSITORY } from "./environment.ts";
import type { Redactor } from "./redaction.ts";
import type { RunFolder } from "./run-folder.ts";
import type { Child, Supervisor } from "./supervision.ts";

export type EmbeddedSettings = Required<
  Pick<Limits, "slots" | "service_ms" | "global_in_flight" | "org_in_flight" | "rate_per_s" | "burst">
>;

export type Embedded = {
  target: Target;
  toxiproxy: ToxiproxyServer;
  /** `host:port` of the API's side of each link, for a probe. */
  links: { limiter: string; keys: string };
  /** Files that the children's output went to. */
  logs: string[];
};

const READY_MS = 20_000;
const ENTRY = join(REPOSITORY, "src/cli/floodgate.mjs");
const ORIGIN = "https://app.example";

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
  tenants: EmbeddedTenant[];
  seed: number;
}): Promise<Embedded> => {
  const { supervisor, redactor, folder, settings, seed } = options;
  const data = folder.pathOf("platform");
  mkdirSync(data, { recursive: true, mode: 0o700 });
  supervisor.registerUndo("remove the embedded platform's stores", () => rm(data, { recursive: true, force: true }));
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
  const seeded = await seedEmbedded(control.keys, options.tenants, redactor);
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

/** Makes the tenants and every role of the target file through the key service's control plane. */
const seedEmbedded = async (
  control: string,
  tenants: EmbeddedTenant[],
  redactor: Redactor,
): Promise<Pick<Target, "tenants" | "credentials">> => {
  const organization = (org: {
    id: string;
    tier: "Free" | "Pro" | null;
    map_load_allowance?: number;
    map_loads_used?: number;
    key_limit?: number;
    basemap_style_id?: string;
  }): Promise<unknown> => controlSend("POST", `${control}/orgs`, org);
  const key = async (org: string, kind: "publishable" | "server", more: Record<string, unknown> = {}) => {
    const made = await controlSend<{ key: string }>("POST", `${control}/keys`, {
      org_id: org,
      kind,
      env: "live",
      scopes: ["ai", "design", "maps"],
      ...(kind === "publishable" ? { allowed_origins: [ORIGIN] } : {}),
      ...more,
    });
    redactor.register(made.key);
    return made.key;
  };
  const publishable = async (org: string, more: Record<string, unknown> = {}) => ({
    key: await key(org, "publishable", more),
    origin: ORIGIN,
    org,
  });
  const server = async (org: string, more: Record<string, unknown> = {}) => ({
    key: await key(org, "server", more),
    org,
  });
  const admin = async (org: string) => {
    const { token } = await controlSend<{ token: string }>("POST", `${control}/admin-tokens`, { org });
    redactor.register(token);
    return { token, org };
  };

  const made: NonNullable<Target["tenants"]> = [];
  for (const { org, tier, allowance, used } of tenants) {
    await organization({ id: org, tier, map_load_allowance: allowance, map_loads_used: used });
    made.push({
      org,
      tier,
      limit: allowance,
      publishable: { key: await key(org, "publishable"), origin: ORIGIN },
      ...(tier === "Pro" ? { server: { key: await key(org, "server") } } : {}),
    });
  }

  await organization({ id: "org_a", tier: "Pro" });
  await organization({ id: "org_b", tier: "Pro" });
  await organization({ id: "org_d", tier: "Free" });
  await organization({ id: "org_e", tier: "Free", map_load_allowance: 5, map_loads_used: 5 });
  await organization({ id: "org_h", tier: "Pro", map_load_allowance: 5, map_loads_used: 25 });
  await organization({ id: "org_x", tier: "Free", map_load_allowance: 5 });
  await organization({ id: "org_y", tier: "Pro", map_load_allowance: 5 });
  await organization({ id: "org_s", tier: "Pro", basemap_style_id: "svc-dusk" });
  await organization({ id: "org_f", tier: "Free" });
  await organization({ id: "org_n", tier: null });
  await organization({ id: "org_l", tier: "Pro", key_limit: 1 });
  await key("org_l", "server");
  return {
    tenants: made,
    credentials: {
      publishable: await publishable("org_a"),
      server: await server("org_a"),
      publishable_other_org: await publishable("org_b"),
      publishable_no_ai: await publishable("org_a", {
        scopes: ["design", "maps", "vendor"],
        vendor_acknowledged: true,
      }),
      publishable_tile_only: await publishable("org_a", { products: ["tile"] }),
      publishable_downgraded: await publishable("org_d"),
      publishable_exhausted: { ...(await publishable("org_e")), limit: 5 },
      publishable_hard_stop: { ...(await publishable("org_h")), limit: 5 },
      publishable_expendable: { ...(await publishable("org_x")), limit: 5, tier: "Free" },
      publishable_expendable_paid: { ...(await publishable("org_y")), limit: 5, tier: "Pro" },
      publishable_basemap: { ...(await publishable("org_s")), basemap_style_id: "svc-dusk" },
      server_no_design: await server("org_a", { scopes: ["ai", "maps"] }),
      server_foreign_ip: await server("org_a", { allowed_ips: ["192.0.2.0/24"] }),
      server_downgraded: await server("org_d"),
      revoked: await publishable("org_a", { status: "revoked" }),
      expired: await publishable("org_a", { status: "expired" }),
      admin_pro: await admin("org_a"),
      admin_free: await admin("org_f"),
      admin_no_plan: await admin("org_n"),
      admin_key_limit: await admin("org_l"),
    },
  };
};
