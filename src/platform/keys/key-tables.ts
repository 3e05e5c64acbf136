/** The tables that keys live in; what may happen to them is said once, in `table-keys.ts`, for memory and SQLite alike. */
import type { KeyRecord, Organization } from "../../core/records.ts";

export type KeyTables = {
  /** All or nothing. */
  transaction<T>(work: () => T): T;
  organization(id: string): Organization | undefined;
  putOrganization(organization: Organization): void;
  key(id: string): KeyRecord | undefined;
  keyByHash(hash: string): KeyRecord | undefined;
  /** A key with the hash of its secret; one of the same id is replaced, and its old secret is unknown from then on. */
  addKey(key: KeyRecord, hash: string): void;
  putKey(key: KeyRecord): void;
  /** Keys that are valid and not expired: what the key limit counts (item 140). */
  liveKeys(org: string, nowMs: number): number;
  close(): void;
};
