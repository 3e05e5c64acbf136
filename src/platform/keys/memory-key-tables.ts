/** Keys in memory: gone with the process. */
import type { KeyRecord, Organization } from "../../core/records.ts";
import type { KeyTables } from "./key-tables.ts";

export const memoryKeyTables = (): KeyTables => {
  const organizations = new Map<string, Organization>();
  const keys = new Map<string, KeyRecord>();
  const idOfHash = new Map<string, string>();
  const hashOfId = new Map<string, string>();
  return {
    // Every decision is made before the one write, so nothing can be left half done.
    transaction: (work) => work(),
    organization: (id) => organizations.get(id),
    putOrganization: (organization) => {
      organizations.set(organization.id, organization);
    },
    key: (id) => keys.get(id),
    keyByHash: (hash) => keys.get(idOfHash.get(hash) ?? ""),
    addKey: (key, hash) => {
      idOfHash.delete(hashOfId.get(key.id) ?? "");
      keys.set(key.id, key);
      idOfHash.set(hash, key.id);
      hashOfId.set(key.id, hash);
    },
    putKey: (key) => {
      keys.set(key.id, key);
    },
    liveKeys: (org, nowMs) => {
      let live = 0;
      for (const { org_id, status, expires_at } of keys.values()) {
        if (org_id === org && status === "valid" && (expires_at === null || expires_at > nowMs)) live += 1;
      }
      return live;
    },
    close: () => {},
  };
};
