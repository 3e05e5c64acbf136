/** Errors of an SQLite store: what a process meets that writes, and that it is over after the heal. */

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openPart } from "../../deployments/deployment.ts";
import { openJournal } from "../../supervision/journal.ts";
import { openSupervisor } from "../../supervision/supervisor.ts";
import { httpProbe } from "../../tools/link-probe.ts";
import { diskFull, locked } from "./own-parts.ts";

const hasPrlimit = spawnSync("prlimit", ["--version"]).status === 0;
const still = AbortSignal.timeout(60_000);

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "floodgate-sqlite-errors-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("locked: nobody else can write until the heal, and it shows", async () => {
  const path = join(folder, "store.db");
  const db = new DatabaseSync(path, { timeout: 0 });
  db.exec("PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER)");
  const injector = locked(path);
  expect(await injector.shows?.()).toBe(false);
  await injector.inject(still);
  expect(await injector.shows?.()).toBe(true);
  expect(() => db.exec("INSERT INTO t VALUES (1)")).toThrow("locked");
  await injector.heal(still);
  db.exec("INSERT INTO t VALUES (1)");
  db.close();
});

/** Writes a row for each question: `ok`, or why not. */
const WRITER = `
const { DatabaseSync } = require("node:sqlite");
const db = new DatabaseSync(process.argv[1]);
db.exec("PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS t (n INTEGER)");
const said = () => { try { db.exec("INSERT INTO t VALUES (1)"); return "ok"; } catch (error) { return error.message; } };
const server = require("node:http").createServer((_, response) => response.end(said()));
server.listen(0, "127.0.0.1", () => console.log("on " + server.address().port));`;

test.skipIf(!hasPrlimit)("disk full: writes fail and the process lives, until the heal", async () => {
  const supervisor = await openSupervisor({ journal: openJournal(join(folder, "journal.ndjson")), watchdog: null });
  try {
    const { part, at } = await openPart(
      "writer",
      async () => {
        const args = ["--disable-warning=ExperimentalWarning", "-e", WRITER, join(folder, "store.db")];
        const child = await supervisor.start({ name: "writer", command: process.execPath, args, ends: "by-signal" });
        const line = await child.waitForLine(/^on \d+$/, { deadlineMs: 10_000 });
        return { child, at: Number(line.slice(3)) };
      },
      (port, giveUpMs) => httpProbe(`127.0.0.1:${port}`, "/", giveUpMs),
    );
    const write = async (): Promise<string> => (await fetch(`http://127.0.0.1:${at}/`)).text();
    expect(await write()).toBe("ok");
    const injector = diskFull(part);
    await injector.inject(still);
    expect(await write()).toMatch(/disk|full|I\/O/i);
    expect(part.isRunning()).toBe(true);
    await injector.heal(still);
    expect(await write()).toBe("ok");
  } finally {
    await supervisor.close();
  }
});
