/**
 * The port to the key service: look-ups of a key with its organization as one snapshot, and the writes of key management,
 * which are decided where the records are, so that a key limit holds under concurrency. Implementations: memory and
 * `node:sqlite` (in the key service), and the key service over HTTP. One suite judges them (`keys.cases.ts`).
 */

import type { KeyCreation, KeyUpdate, ManagementRefusal } from "../core/management.ts";
import type { KeyRecord, KeySnapshot, Organization } from "../core/records.ts";

export type OrganizationInput = Partial<Organization>;
export type KeyInput = Partial<KeyRecord> & { org_id: string; kind: KeyRecord["kind"]; secret?: string };

export type KeyLookup = {
  /** By the SHA-256 of the secret, hex: a secret itself is neither stored nor sent. `null`: unknown. */
  bySecretHash(hash: string, budgetMs: number): Promise<KeySnapshot | null>;
  /** By id: a session token names the key that it was minted from. */
  byId(id: string, budgetMs: number): Promise<KeySnapshot | null>;
};

export type KeyManagement = {
  /** The secret is shown once. */
  create(
    org: string,
    request: KeyCreation,
    budgetMs: number,
  ): Promise<{ key: KeyRecord; secret: string } | ManagementRefusal>;
  update(
    org: string,
    id: string,
    request: KeyUpdate,
    budgetMs: number,
  ): Promise<{ key: KeyRecord } | ManagementRefusal>;
  /** Revokes for good. `not_found` for a key that is foreign, unknown or revoked already (items 127, 141). */
  revoke(org: string, id: string, budgetMs: number): Promise<{ revoked: true } | ManagementRefusal>;
};

/** What the control plane may do: any record, also one that key management would refuse. */
export type KeyAdministration = {
  putOrganization(input: OrganizationInput & { id?: string }): Promise<Organization>;
  organization(id: string): Promise<Organization | null>;
  putKey(input: KeyInput): Promise<{ key: KeyRecord; secret: string }>;
  patchKey(id: string, patch: Partial<KeyRecord>): Promise<KeyRecord | null>;
};

export type Keys = KeyLookup & KeyManagement & KeyAdministration & { close(): Promise<void> };
