/** Charges a second into SQLite: through the limiter's store, or the same rows by plain inserts. One file each. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { shiftableClock } from "../../platform/clock.ts";
import { openLimiterStore } from "../../platform/limiter/store.ts";
import type { Take } from "../../platform/limiter.ts";
import { serveParent } from "./child.ts";

/** `batch`: charges of one transaction. Answers with charges per second. */
export type LedgerQuestion = { durationMs: number; batch: number };

const ORGANIZATIONS = 50;

const takeOf = (n: number): Take => ({
  charge_id: `0123456789abcdef0123456789abcdef-${n.toString(36)}`,
  request_id: `bench.${n}`,
  org: `org_${n % ORGANIZATIONS}`,
  key: `key_${n % ORGANIZATIONS}`,
  rate: null,
  meter: { name: "map_loads", amount: 1, cap: 1_000_000_000 },
});

const storeWriter = (path: string): ((takes: Take[]) => void) => {
  const store = openLimiterStore(path);
  const clock = shiftableClock();
  return (takes) => {
    const answers = store.take(takes, clock.instant()) as { verdict: string }[];
    if (answers.some(({ verdict }) => verdict !== "taken")) throw new Error("a charge was refused");
  };
};

const bareWriter = (path: string): ((takes: Take[]) => void) => {
  const db = new DatabaseSync(path);
  db.exec(`
    PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
    CREATE TABLE used (org TEXT, meter TEXT, month TEXT, used INTEGER, PRIMARY KEY (month, org, meter)) WITHOUT ROWID;
    CREATE TABLE charge (id TEXT PRIMARY KEY, org TEXT, key TEXT, meter TEXT, amount INTEGER, month TEXT, used INTEGER,
      refunded INTEGER) WITHOUT ROWID;
    CREATE TABLE line (n INTEGER PRIMARY KEY AUTOINCREMENT, charge TEXT, request TEXT, org TEXT, key TEXT, meter TEXT,
      kind TEXT, amount INTEGER, month TEXT, at INTEGER);
  `);
  const begin = db.prepare("BEGIN IMMEDIATE");
  const commit = db.prepare("COMMIT");
  const count = db.prepare("INSERT INTO used VALUES (?, ?, ?, 1) ON CONFLICT DO UPDATE SET used = used + 1");
  const charge = db.prepare("INSERT INTO charge VALUES (?, ?, ?, ?, ?, ?, ?, 0)");
  const line = db.prepare("INSERT INTO line VALUES (NULL, ?, ?, ?, ?, ?, 'charge', ?, ?, ?)");
  const month = "2026-01";
  return (takes) => {
    begin.run();
    for (const { charge_id, request_id, org, key } of takes) {
      count.run(org, "map_loads", month);
      charge.run(charge_id, org, key, "map_loads", 1, month, 1);
      line.run(charge_id, request_id, org, key, "map_loads", 1, month, Date.now());
    }
    commit.run();
  };
};

serveParent<"store" | "bare">((kind) => {
  const folder = mkdtempSync(join(tmpdir(), "floodgate-bench-"));
  const write = (kind === "store" ? storeWriter : bareWriter)(join(folder, "ledger.db"));
  let n = 0;
  return {
    made: null,
    answer: ({ durationMs, batch }: LedgerQuestion) => {
      const from = n;
      const beganMs = performance.now();
      while (performance.now() - beganMs < durationMs) {
        const takes: Take[] = [];
        for (let i = 0; i < batch; i += 1) {
          n += 1;
          takes.push(takeOf(n));
        }
        write(takes);
      }
      return ((n - from) / (performance.now() - beganMs)) * 1_000;
    },
    close: async () => rmSync(folder, { recursive: true, force: true }),
  };
});
