/**
 * The port to the key service: look-ups of a key with its organization as one snapshot, and the writes of key management,
 * which are decided where the records are, so that a key limit holds under concurrency. Implementations: memory and
 * `node:sqlite` (in the key service), and the key service over HTTP. One suite judges them (`keys.fixture.ts`).
 */
import type { KeyCreation, KeyUpdate, ManagementRefusal } from "../core/management.ts";
import type { KeyRecord, KeySnapshot, Organization } from "../core/records.ts";

export type OrganizationInput = Partial<Organization>;
export type KeyInput = Partial<KeyRecord> & { org_id: string; kind: KeyRecord["kind"]; secret?: string };

/** No valid answer within the budget: neither "valid" nor "unknown"; the call is refused with 503 (B4). */
export class KeyServiceUnavailable extends Error {
  override name = "KeyServiceUnavailable";
}

/** What the control plane was asked for cannot be stored; the message says what was expected. */
export class KeyInputError extends Error {
  override name = "KeyInputError";
}

/** Look-ups and management reject with `KeyServiceUnavailable`. */
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

/**
 * What the control plane may do: any record, also one that key management would refuse. Rejects with `KeyInputError` where
 * a record would make no sense at all.
 */
export type KeyAdministration = {
  /** Makes the organization, or changes the fields that are given. A new one needs a tier. */
  putOrganization(input: OrganizationInput & { id?: string }): Promise<Organization>;
  organization(id: string): Promise<Organization | null>;
  /**
   * Makes a key, or replaces the one with that id, its secret too. The secret is made up unless given, and is returned once.
   */
  putKey(input: KeyInput): Promise<{ key: KeyRecord; secret: string }>;
  /** Changes the fields that are given, but for id and owner. `null`: there is no such key. */
  patchKey(id: string, patch: Partial<KeyRecord>): Promise<KeyRecord | null>;
};

export type Keys = KeyLookup & KeyManagement & { close(): Promise<void> };
/** Keys in this process: what the service offers its operator on the control plane. */
export type OperableKeys = Keys & KeyAdministration;
