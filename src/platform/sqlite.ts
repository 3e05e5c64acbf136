/** Opening an SQLite file and running a transaction, for meters and keys alike. */
import { DatabaseSync } from "node:sqlite";
import { reasonOf } from "./reason-of.ts";

const opened = (path: string): DatabaseSync => {
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { timeout: 2_000 });
    // The first thing that reads and writes the file.
    db.exec("PRAGMA journal_mode = WAL");
    return db;
  } catch (error) {
    db?.close();
    throw new Error(`expected ${path} to be an SQLite file, or a place to make one: ${reasonOf(error)}`);
  }
};

/** Opens or makes the file; a file of another layout is refused with a sentence. */
export const openSqlite = (path: string, schema: string, version: number): DatabaseSync => {
  const db = opened(path);
  // In WAL mode, what was answered survives a kill of the process: its pages are with the operating system by then.
  db.exec("PRAGMA synchronous = NORMAL");
  const isNew = db.prepare("SELECT 1 FROM sqlite_schema LIMIT 1").get() === undefined;
  if (isNew) {
    db.exec(`BEGIN IMMEDIATE; ${schema} COMMIT;`);
    return db;
  }
  const found = Number(db.prepare("PRAGMA user_version").get()?.user_version);
  if (found !== version) {
    db.close();
    throw new Error(`expected layout ${version} in ${path}, found ${found}: name another file, or remove this one`);
  }
  return db;
};

/** Runs `work` as one transaction of `db`: all of it is stored, or none. */
export const inTransaction = (db: DatabaseSync): (<T>(work: () => T) => T) => {
  const begin = db.prepare("BEGIN IMMEDIATE");
  const commit = db.prepare("COMMIT");
  return (work) => {
    begin.run();
    try {
      const result = work();
      commit.run();
      return result;
    } catch (error) {
      if (db.isTransaction) db.exec("ROLLBACK");
      throw error;
    }
  };
};
