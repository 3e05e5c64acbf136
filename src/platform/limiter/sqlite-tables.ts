/**
 * Meters in SQLite, on disk: charges, tombstones and ledger lines of the current and the previous month. A batch is one
 * transaction.
 */
import type { SQLOutputValue } from "node:sqlite";
import type { Meter } from "../../contract/routes.ts";
import type { LedgerLine } from "../../core/ledger.ts";
import { inTransaction, openSqlite, type SqliteOptions } from "../sqlite.ts";
import type { Charge, MeterTables } from "./meter-tables.ts";

const VERSION = 1;
const SCHEMA = `
  CREATE TABLE meters (org TEXT, meter TEXT, window TEXT, used INTEGER NOT NULL, PRIMARY KEY (window, org, meter))
    WITHOUT ROWID;
  CREATE TABLE charges (
    id TEXT PRIMARY KEY, org TEXT NOT NULL, key TEXT NOT NULL, meter TEXT NOT NULL, amount INTEGER NOT NULL,
    window TEXT NOT NULL, used INTEGER NOT NULL, refunded INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE TABLE ledger (
    number INTEGER PRIMARY KEY AUTOINCREMENT, charge_id TEXT NOT NULL, request_id TEXT NOT NULL, org TEXT NOT NULL,
    key TEXT NOT NULL, meter TEXT NOT NULL, kind TEXT NOT NULL, amount INTEGER NOT NULL, window TEXT NOT NULL,
    at INTEGER NOT NULL
  );
  PRAGMA user_version = ${VERSION};
`;

type Row = Record<string, SQLOutputValue>;

const lineOf = ({ number: _number, ...line }: Row): LedgerLine => line as unknown as LedgerLine;

export const sqliteTables = (path: string, options: SqliteOptions = {}): MeterTables => {
  const db = openSqlite(path, SCHEMA, VERSION, options);
  const getCharge = db.prepare("SELECT org, key, meter, amount, window, used, refunded FROM charges WHERE id = ?");
  const putCharge = db.prepare("INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
  const markRefunded = db.prepare("UPDATE charges SET refunded = 1 WHERE id = ?");
  const getUsed = db.prepare("SELECT used FROM meters WHERE window = ? AND org = ? AND meter = ?");
  const putUsed = db.prepare(
    "INSERT INTO meters (window, org, meter, used) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET used = excluded.used",
  );
  const append = db.prepare("INSERT INTO ledger VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  const lastLine = db.prepare("SELECT max(number) AS number FROM ledger");
  const lines = db.prepare("SELECT * FROM ledger WHERE number > ? AND number <= ? ORDER BY number LIMIT ?");
  const drops = ["meters", "charges", "ledger"].map((table) => db.prepare(`DELETE FROM ${table} WHERE window < ?`));
  const transaction = inTransaction(db);
  return {
    transaction,
    charge: (id) => {
      const row = getCharge.get(id);
      return row === undefined ? undefined : ({ ...row, refunded: row.refunded === 1 } as unknown as Charge);
    },
    putCharge: (id, { org, key, meter, amount, window, used, refunded }) => {
      putCharge.run(id, org, key, meter, amount, window, used, refunded ? 1 : 0);
    },
    markRefunded: (id) => {
      markRefunded.run(id);
    },
    used: (org: string, meter: Meter, window: string) => Number(getUsed.get(window, org, meter)?.used ?? 0),
    putUsed: (org, meter, window, used) => {
      putUsed.run(window, org, meter, used);
    },
    append: ({ charge_id, request_id, org, key, meter, kind, amount, window, at }) => {
      append.run(charge_id, request_id, org, key, meter, kind, amount, window, Math.round(at));
    },
    lastLine: () => Number(lastLine.get()?.number ?? 0),
    lines: (after, upTo, limit) =>
      lines.all(after, upTo, limit).map((row) => ({ number: Number(row.number), line: lineOf(row) })),
    dropBefore: (window) =>
      transaction(() => {
        for (const drop of drops) drop.run(window);
      }),
    close: () => db.close(),
  };
};
