/**
 * `chaos` on the embedded deployment, as a user types it: a process is really killed and the books are exact afterwards, with
 * the counts in SQLite and in a Redis of the run's own. Real processes, real faults.
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runCommand } from "../../cli/command.fixture.ts";
import type { RunDocument } from "../../history/run-document.ts";
import { openEffects, readJournal } from "../../supervision/journal.ts";
import { toxiproxyOrSkip } from "../../tools/toxiproxy.fixture.ts";

const hasRedis = spawnSync("redis-server", ["--version"]).status === 0;
const stores = ["sqlite", ...(hasRedis ? ["redis"] : [])];
if (!hasRedis) console.warn("SKIPPED: chaos --limiter redis: redis-server is not installed");

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "floodgate-own-chaos-"));
});
afterAll(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }));

const chaos = (env: Record<string, string>, ...args: string[]) => runCommand(["chaos", ...args], { env });

// Each starts a deployment of its own, and most of an experiment is waiting.
const how = { timeout: 300_000, concurrent: true };
describe.skipIf(toxiproxyOrSkip() === null)("chaos on the embedded deployment", how, () => {
  test.each(stores)("a limiter in %s is killed: refused meanwhile, and the ledger is exact", async (store) => {
    const out = await mkdtemp(join(folder, `${store}-`));
    const { code, said } = await chaos({}, "limiter-killed", "--limiter", store, "--out", out);
    expect(code, said).toBe(0);
    const document = JSON.parse(readFileSync(join(out, "run.json"), "utf8")) as RunDocument;
    expect(document.faults).toMatchObject([{ link: "limiter", fault: "killed", took_effect: true }]);
    const verdicts = new Map(document.claims.map(({ id, verdict }) => [id, verdict]));
    for (const judge of ["fails-closed", "refuses-in-time", "recovers", "counts-agree", "refused-is-not-charged"]) {
      expect(verdicts.get(`${judge}/limiter-killed`), judge).toBe("pass");
    }
    expect(openEffects(readJournal(join(out, "journal.ndjson")).entries)).toEqual([]);
  });

  test("without redis-server it says how to get one, and ends as a tool that is missing does", async () => {
    const none = { FLOODGATE_REDIS: join(folder, "none") };
    const out = await mkdtemp(join(folder, "missing-"));
    const { code, said } = await chaos(none, "limiter-oom", "--limiter", "redis", "--out", out);
    // The terminal's lines end where their words meet the eightieth column.
    expect(said.replace(/\s+/g, " ")).toContain("apt-get install redis-server");
    expect(code).toBe(3);
  });
});
