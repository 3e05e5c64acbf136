/** The port to the key service: look-ups, and key management, decided where the records are. */
import type { KeyCreation, KeyUpdate, ManagementRefusal } from "../core/management.ts";
import type { KeyRecord, KeySnapshot } from "../core/records.ts";

/** No valid answer within the budget: neither "valid" nor "unknown"; the call is refused with 503 (B4). */
export class KeyServiceUnavailable extends Error {
  override name = "KeyServiceUnavailable";
}

export type Revoked = { revoked: true };
/** A new key with its secret, which is shown once. */
export type CreatedKey = { key: KeyRecord; secret: string };
export type UpdatedKey = Pick<CreatedKey, "key">;

/** Look-ups and management reject with `KeyServiceUnavailable`. */
export type KeyLookup = {
  /** By the SHA-256 of the secret, hex: a secret itself is neither stored nor sent. `null`: unknown. */
  bySecretHash(hash: string, budgetMs: number): Promise<KeySnapshot | null>;
  /** By id: a session token names the key that it was minted from. */
  byId(id: string, budgetMs: number): Promise<KeySnapshot | null>;
};

type KeyManagement = {
  create(org: string, request: KeyCreation, budgetMs: number): Promise<CreatedKey | ManagementRefusal>;
  update(org: string, id: string, request: KeyUpdate, budgetMs: number): Promise<UpdatedKey | ManagementRefusal>;
  /** Revokes for good. `not_found` for a key that is foreign, unknown or revoked already (items 127, 141). */
  revoke(org: string, id: string, budgetMs: number): Promise<Revoked | ManagementRefusal>;
};

export type Keys = KeyLookup & KeyManagement & { close(): Promise<void> };
