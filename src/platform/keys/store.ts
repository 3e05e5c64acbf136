/**
 * The port behind the key service: records of keys and organizations, and the management of them, each decided and stored
 * in one transaction. Healthy stores are synchronous; a promise is allowed where a store may be wrapped from outside.
 */
import type { KeyCreation, KeyUpdate, ManagementRefusal } from "../../core/management.ts";
import type { KeyRecord, KeySnapshot, Organization } from "../../core/records.ts";
import type { KeyInput, OrganizationInput } from "../keys.ts";

type Answer<T> = T | Promise<T>;

export type KeyStore = {
  byHash(hash: string): Answer<KeySnapshot | null>;
  byId(id: string): Answer<KeySnapshot | null>;
  create(
    org: string,
    request: KeyCreation,
    nowMs: number,
  ): Answer<{ key: KeyRecord; secret: string } | ManagementRefusal>;
  update(org: string, id: string, request: KeyUpdate, nowMs: number): Answer<{ key: KeyRecord } | ManagementRefusal>;
  revoke(org: string, id: string): Answer<{ revoked: true } | ManagementRefusal>;
  putOrganization(input: OrganizationInput): Organization;
  organization(id: string): Organization | null;
  putKey(input: KeyInput, nowMs: number): { key: KeyRecord; secret: string };
  patchKey(id: string, patch: Partial<KeyRecord>): KeyRecord | null;
  close(): void;
};
