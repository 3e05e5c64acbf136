/** Keys in SQLite, on disk. Records are stored whole as JSON; what is searched by stands in columns beside them. */
import type { SQLOutputValue } from "node:sqlite";
import type { KeyRecord } from "../../core/records.ts";
import { inTransaction, openSqlite, type SqliteOptions } from "../sqlite.ts";
import type { KeyTables } from "./key-tables.ts";

const VERSION = 1;
const SCHEMA = `
  CREATE TABLE organizations (id TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE keys (
    id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, org TEXT NOT NULL, status TEXT NOT NULL, expires_at INTEGER,
    record TEXT NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX keys_of_organization ON keys (org);
  PRAGMA user_version = ${VERSION};
`;

const recordOf = <T>(row: Record<string, SQLOutputValue> | undefined): T | undefined =>
  row === undefined ? undefined : (JSON.parse(row.record as string) as T);

export const sqliteKeyTables = (path: string, options: SqliteOptions = {}): KeyTables => {
  const db = openSqlite(path, SCHEMA, VERSION, options);
  const organization = db.prepare("SELECT record FROM organizations WHERE id = ?");
  const putOrganization = db.prepare(
    "INSERT INTO organizations (id, record) VALUES (?, ?) ON CONFLICT DO UPDATE SET record = excluded.record",
  );
  const key = db.prepare("SELECT record FROM keys WHERE id = ?");
  const keyByHash = db.prepare("SELECT record FROM keys WHERE hash = ?");
  const addKey = db.prepare(
    "INSERT OR REPLACE INTO keys (id, hash, org, status, expires_at, record) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const putKey = db.prepare("UPDATE keys SET status = ?, expires_at = ?, record = ? WHERE id = ?");
  const liveKeys = db.prepare(
    "SELECT count(*) AS live FROM keys WHERE org = ? AND status = 'valid' AND (expires_at IS NULL OR expires_at > ?)",
  );
  return {
    transaction: inTransaction(db),
    organization: (id) => recordOf(organization.get(id)),
    putOrganization: (record) => {
      putOrganization.run(record.id, JSON.stringify(record));
    },
    key: (id) => recordOf(key.get(id)),
    keyByHash: (hash) => recordOf(keyByHash.get(hash)),
    addKey: (record: KeyRecord, hash) => {
      addKey.run(record.id, hash, record.org_id, record.status, record.expires_at, JSON.stringify(record));
    },
    putKey: (record) => {
      putKey.run(record.status, record.expires_at, JSON.stringify(record), record.id);
    },
    liveKeys: (org, nowMs) => Number(liveKeys.get(org, Math.floor(nowMs))?.live ?? 0),
    close: () => db.close(),
  };
};
