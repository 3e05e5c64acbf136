/** The reference platform with every role of a target file, for the tests of `verify`; reached as any deployment is. */

import { HEALTHY, type Parts } from "../platform/parts.ts";
import { type RoleOptions, startRole } from "../platform/start-role.ts";
import type { Target } from "../target/target.ts";

const ORIGIN = "https://app.example";

export type Reference = { target: Target; close(): Promise<void> };

export const startReference = async (options: RoleOptions = {}, parts: Parts = HEALTHY): Promise<Reference> => {
  const running = await startRole(
    "all",
    { logLevel: "silent" as never, controlPort: 0, inference: { serviceMs: 60, tokens: 8 }, ...options },
    parts,
  );
  const control = running.urls.control?.keys as string;
  const post = async <T>(path: string, body: unknown): Promise<T> => {
    const answer = await fetch(`${control}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  };
  const key = async (org: string, kind: "publishable" | "server", more: object = {}): Promise<string> => {
    const scopes = ["ai", "design", "maps"];
    const origins = kind === "publishable" ? { allowed_origins: [ORIGIN] } : {};
    const made = await post<{ key: string }>("/keys", { org_id: org, kind, env: "live", scopes, ...origins, ...more });
    return made.key;
  };
  const publishable = async (org: string, more: object = {}) => ({
    key: await key(org, "publishable", more),
    origin: ORIGIN,
    org,
  });
  const server = async (org: string, more: object = {}) => ({ key: await key(org, "server", more), org });
  const admin = async (org: string) => ({ ...(await post<{ token: string }>("/admin-tokens", { org })), org });
  for (const org of [
    { id: "org_a", tier: "Pro" },
    { id: "org_b", tier: "Pro" },
    { id: "org_d", tier: "Free" },
    { id: "org_e", tier: "Free", map_load_allowance: 5, map_loads_used: 5 },
    { id: "org_h", tier: "Pro", map_load_allowance: 5, map_loads_used: 25 },
    { id: "org_x", tier: "Free", map_load_allowance: 5 },
    { id: "org_y", tier: "Pro", map_load_allowance: 5 },
    { id: "org_s", tier: "Pro", basemap_style_id: "svc-dusk" },
    { id: "org_f", tier: "Free" },
    { id: "org_n", tier: null },
    { id: "org_l", tier: "Pro", key_limit: 1 },
  ]) {
    await post("/orgs", org);
  }
  await key("org_l", "server");
  const api = running.urls.api as string;
  return {
    close: () => running.close(),
    target: {
      schema: "floodgate/target@1",
      name: "reference",
      base_url: api,
      key_management_url: api,
      tile_url: `${api}/maps/tiles/{z}/{x}/{y}`,
      shedding: "fixed",
      limits: { global_in_flight: 64, org_in_flight: 32 },
      permits: { writes: true, quota_burn: true, load_max_rps: 200 },
      credentials: {
        publishable: await publishable("org_a"),
        server: await server("org_a"),
        publishable_other_org: await publishable("org_b", { allowed_origins: ["https://other.example"] }).then(
          (made) => ({
            ...made,
            origin: "https://other.example",
          }),
        ),
        publishable_no_ai: await publishable("org_a", { scopes: ["design", "maps"] }),
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
    },
  };
};
