/**
 * The target file (interface.md section 2): what a user states about a deployment. Only `schema`, `base_url` and one
 * credential are required; what is absent is skipped by name, never assumed.
 */
import type { StatedStreamEnds } from "../contract/streams.ts";
import type { Limits } from "../history/stage-facts.ts";

/** A value that may be a reference: `env:NAME`, `file:PATH` or `exec:COMMAND`, read when needed (interface.md section 2). */
type SecretRef = string;

export type Transport = {
  ca?: string | null;
  cert?: string | null;
  key?: string | null;
  proxy?: string | null;
  headers?: Record<string, string>;
  protocol?: "h1" | "h2";
  connections?: number;
};

export type KeyCredential = {
  key: SecretRef;
  origin?: string;
  org?: string;
  limit?: number;
  tier?: "Free" | "Pro";
  basemap_style_id?: string;
};

export type AdminCredential = { token: SecretRef; org?: string };

export const KEY_ROLES = [
  "publishable",
  "server",
  "publishable_other_org",
  "publishable_no_ai",
  "publishable_tile_only",
  "publishable_downgraded",
  "publishable_exhausted",
  "publishable_hard_stop",
  "publishable_expendable",
  "publishable_expendable_paid",
  "publishable_basemap",
  "server_no_design",
  "server_foreign_ip",
  "server_downgraded",
  "revoked",
  "expired",
] as const;
export type KeyRole = (typeof KEY_ROLES)[number];

export const ADMIN_ROLES = ["admin_pro", "admin_free", "admin_no_plan", "admin_key_limit"] as const;
export type AdminRole = (typeof ADMIN_ROLES)[number];

type Credentials = { [role in KeyRole]?: KeyCredential } & { [role in AdminRole]?: AdminCredential };

type Tenant = {
  org: string;
  tier?: "Free" | "Pro";
  /** Monthly allowance of map loads. */
  limit?: number;
  /** How often stories draw it, beside the others (default 1). */
  weight?: number;
  publishable?: { key: SecretRef; origin?: string };
  server?: { key: SecretRef };
};

export type Target = {
  schema: "floodgate/target@1";
  name?: string;
  base_url: string;
  key_management_url?: string;
  tile_url?: string;
  transport?: Transport;
  control?: { keys?: string | null; limiter?: string | null; api?: string[] };
  toxiproxy?: { api_url: string; proxies: { limiter?: string; keys?: string; edge?: string } };
  /** `status` ends with 0 while the fault is in, with 1 while it is not. */
  faults?: Record<string, { inject: string[]; heal: string[]; status?: string }>;
  /** `chaos --watchdog` beside the proxy, or beside what the commands break. */
  watchdog?: { url: string; token?: SecretRef };
  observers?: {
    prometheus?: { url: string; queries: Record<string, string> };
    ledger?: string;
  };
  shedding?: "fixed" | "adaptive" | "unknown";
  /** Nobody else calls the deployment during a run (default false). */
  exclusive?: boolean;
  /** The event that ends a whole stream of each kind: where it is stated, an end without it is a cut. */
  stream_end?: StatedStreamEnds;
  limits?: Limits;
  slo?: Record<string, string>;
  permits?: { writes?: boolean; quota_burn?: boolean; chaos?: boolean; load_max_rps?: number };
  budget?: { requests?: number; map_loads?: number; analyses?: number; stream_seconds?: number };
  stop_when?: { error_rate?: number };
  required?: string[];
  fixtures?: { provision?: string | null; reset?: string | null };
  tenants?: Tenant[];
  credentials?: Credentials;
};
