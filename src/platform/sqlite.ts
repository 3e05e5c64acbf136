/** Opens an SQLite file and runs transactions, for meters and keys alike. */
import { DatabaseSync } from "node:sqlite";
import { reasonOf } from "./links/http-service.ts";

const opened = (path: string): DatabaseSync => {
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { timeout: 2_000 });
    // The first statement that reads and writes the file, and so throws if it is not usable.
    db.exec("PRAGMA journal_mode = WAL");
    return db;
  } catch (error) {
    db?.close();
    throw new Error(`expected ${path} to be an SQLite file, or a place to make one: ${reasonOf(error)}`);
  }
};

/** The layout version of a file; a file with another version is refused. */
const VERSION = 1;

/** Opens or makes the file. `transaction`: all of its work is stored, or none. */
export const openSqlite = (path: string, schema: string) => {
  const db = opened(path);
  // In WAL mode, what was answered survives a kill of the process, because the operating system has its pages by then.
  db.exec("PRAGMA synchronous = NORMAL");
  const isNew = db.prepare("SELECT 1 FROM sqlite_schema LIMIT 1").get() === undefined;
  if (isNew) db.exec(`BEGIN IMMEDIATE; ${schema} PRAGMA user_version = ${VERSION}; COMMIT;`);
  const found = Number(db.prepare("PRAGMA user_version").get()?.user_version);
  if (found !== VERSION) {
    db.close();
    throw new Error(`expected layout ${VERSION} in ${path}, found ${found}: name another file, or remove this one`);
  }
  const [begin, commit] = [db.prepare("BEGIN IMMEDIATE"), db.prepare("COMMIT")];
  const transaction = <T>(work: () => T): T => {
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
  return { db, transaction };
};
