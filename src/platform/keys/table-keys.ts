/**
 * What may happen to keys, over any tables. Management is decided by the core (`core/management.ts`) inside the transaction
 * that stores its outcome, so a key limit holds however many ask at once; the control plane may store any record.
 */
import { decideCreation, decideRevocation, decideUpdate } from "../../core/management.ts";
import { type KeyRecord, type KeySnapshot, type Organization, TIER_DEFAULTS, type Tier } from "../../core/records.ts";
import { type KeyInput, KeyInputError, type OrganizationInput } from "../keys.ts";
import type { KeyTables } from "./key-tables.ts";
import { base62, hashSecret, makeKeyId, makeSecret } from "./secret.ts";
import type { KeyStore } from "./store.ts";

/** The pure decisions that a store is made of. */
export type KeyDecisions = {
  decideCreation: typeof decideCreation;
  decideUpdate: typeof decideUpdate;
  decideRevocation: typeof decideRevocation;
};
export const KEY_DECISIONS: KeyDecisions = { decideCreation, decideUpdate, decideRevocation };

const defaultsOf = (tier: Tier | null): { map_load_allowance: number; key_limit: number } =>
  tier === null ? { map_load_allowance: 0, key_limit: 0 } : TIER_DEFAULTS[tier];

const unknownOrganization = (id: string): Organization => ({
  id,
  tier: null,
  ...defaultsOf(null),
  basemap_style_id: null,
  in_flight_cap: null,
});

/** Values that stood at the old tier's default follow the tier; those set on purpose stay. */
const changeOrganization = (before: Organization, input: OrganizationInput): Organization => {
  const after = { ...before, ...input, id: before.id };
  const [old, next] = [defaultsOf(before.tier), defaultsOf(after.tier)];
  for (const field of ["map_load_allowance", "key_limit"] as const) {
    if (input[field] === undefined) after[field] = before[field] === old[field] ? next[field] : before[field];
  }
  return after;
};

const newOrganization = (input: OrganizationInput): Organization => {
  const { tier } = input;
  if (tier === undefined) throw new KeyInputError('expected a tier for a new organization: "Free", "Pro" or null');
  return { ...unknownOrganization(`org_${base62(12)}`), tier, ...defaultsOf(tier), ...input };
};

const newKey = ({ secret: _secret, ...input }: KeyInput, secret: string, nowMs: number): KeyRecord => ({
  id: makeKeyId(),
  env: "live",
  name: "",
  scopes: [],
  products: [],
  allowed_origins: [],
  allowed_ips: [],
  vendor_acknowledged: false,
  status: "valid",
  created_at: nowMs,
  expires_at: null,
  ...input,
  last4: secret.slice(-4),
});

export const tableKeys = (tables: KeyTables, decisions: KeyDecisions = KEY_DECISIONS): KeyStore => {
  const snapshot = (key: KeyRecord | undefined): KeySnapshot | null =>
    key === undefined ? null : { key, org: tables.organization(key.org_id) ?? unknownOrganization(key.org_id) };
  const organization = (id: string): Organization => tables.organization(id) ?? unknownOrganization(id);

  return {
    byHash: (hash) => snapshot(tables.keyByHash(hash)),
    byId: (id) => snapshot(tables.key(id)),
    create: (org, request, nowMs) =>
      tables.transaction(() => {
        const decided = decisions.decideCreation(organization(org), tables.liveKeys(org, nowMs), request);
        if ("refuse" in decided) return decided;
        const secret = makeSecret(decided);
        const key: KeyRecord = { ...decided, id: makeKeyId(), created_at: nowMs, last4: secret.slice(-4) };
        tables.addKey(key, hashSecret(secret));
        return { key, secret };
      }),
    update: (org, id, request, nowMs) =>
      tables.transaction(() => {
        const before = tables.key(id) ?? null;
        // Expired is terminal (item 63): a change must not bring a key back.
        const expired = before !== null && before.expires_at !== null && before.expires_at <= nowMs;
        const decided = decisions.decideUpdate(organization(org), expired ? null : before, request);
        if ("refuse" in decided) return decided;
        tables.putKey(decided);
        return { key: decided };
      }),
    revoke: (org, id) =>
      tables.transaction(() => {
        const decided = decisions.decideRevocation(organization(org), tables.key(id) ?? null);
        if ("refuse" in decided) return decided;
        tables.putKey(decided);
        return { revoked: true };
      }),
    putOrganization: (input) =>
      tables.transaction(() => {
        const before = input.id === undefined ? undefined : tables.organization(input.id);
        const after = before === undefined ? newOrganization(input) : changeOrganization(before, input);
        tables.putOrganization(after);
        return after;
      }),
    organization: (id) => tables.organization(id) ?? null,
    putKey: (input, nowMs) =>
      tables.transaction(() => {
        if (tables.organization(input.org_id) === undefined) {
          throw new KeyInputError(`expected an organization that exists, got ${input.org_id}: make it first`);
        }
        const secret = input.secret ?? makeSecret({ kind: input.kind, env: input.env ?? "live" });
        const key = newKey(input, secret, nowMs);
        const other = tables.keyByHash(hashSecret(secret));
        if (other !== undefined && other.id !== key.id) {
          throw new KeyInputError("there is another key with this secret already");
        }
        tables.addKey(key, hashSecret(secret));
        return { key, secret };
      }),
    patchKey: (id, patch) =>
      tables.transaction(() => {
        const before = tables.key(id);
        if (before === undefined) return null;
        const { org_id, last4 } = before;
        const after = { ...before, ...patch, id, org_id, last4 };
        tables.putKey(after);
        return after;
      }),
    close: () => tables.close(),
  };
};
