/** The stores by name, and the port over one of them in the same process, without a link between. */
import type { Clock } from "../clock.ts";
import type { Keys } from "../keys.ts";
import type { SqliteOptions } from "../sqlite.ts";
import { memoryKeyTables } from "./memory-key-tables.ts";
import { sqliteKeyTables } from "./sqlite-key-tables.ts";
import type { KeyStore } from "./store.ts";
import { type KeyDecisions, tableKeys } from "./table-keys.ts";

export const memoryKeyStore = (decisions?: KeyDecisions): KeyStore => tableKeys(memoryKeyTables(), decisions);

export const sqliteKeyStore = (path: string, options: SqliteOptions = {}, decisions?: KeyDecisions): KeyStore =>
  tableKeys(sqliteKeyTables(path, options), decisions);

/** Answers at once, so budgets have no meaning here. */
export const localKeys = (store: KeyStore, clock: Clock): Keys => ({
  bySecretHash: async (hash) => store.byHash(hash),
  byId: async (id) => store.byId(id),
  create: async (org, request) => store.create(org, request, clock.nowMs()),
  update: async (org, id, request) => store.update(org, id, request, clock.nowMs()),
  revoke: async (org, id) => store.revoke(org, id),
  putOrganization: async (input) => store.putOrganization(input),
  organization: async (id) => store.organization(id),
  putKey: async (input) => store.putKey(input, clock.nowMs()),
  patchKey: async (id, patch) => store.patchKey(id, patch),
  close: async () => store.close(),
});
