/** Names of the credentials in a target file. Its schema is another file, whose validator takes a tenth of a second to load. */

export const KEY_ROLES = [
  ...(["publishable", "server", "publishable_other_org", "publishable_no_ai", "publishable_tile_only"] as const),
  ...(["publishable_downgraded", "publishable_exhausted", "publishable_hard_stop", "publishable_expendable"] as const),
  ...(["publishable_expendable_paid", "publishable_basemap", "server_no_design", "server_foreign_ip"] as const),
  ...(["server_downgraded", "revoked", "expired"] as const),
] as const;
export type KeyRole = (typeof KEY_ROLES)[number];

export const ADMIN_ROLES = ["admin_pro", "admin_free", "admin_no_plan", "admin_key_limit"] as const;
export type AdminRole = (typeof ADMIN_ROLES)[number];
