import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { takeBackProxy } from "../chaos/take-back-proxy.ts";
import { Journal, openEffects, readJournal } from "./journal.ts";
import { Supervisor } from "./supervisor.ts";
import { healAfter } from "./take-back.ts";

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "floodgate-heal-"));
  path = join(folder, "journal.ndjson");
});
afterEach(() => rmSync(folder, { recursive: true }));
const limits = () => ({ takeBackProxy, signal: AbortSignal.timeout(5_000), callMs: 500, graceMs: 200 });

describe("healing after a run", () => {
  test("takes back what an earlier run left, once, and says what it did", async () => {
    const healed = join(folder, "healed");
    const journal = new Journal(path);
    journal.about({
      kind: "fault",
      name: "limiter.refused",
      undo: { how: "command", commands: [`printf x >> '${healed}'`] },
    });
    journal.about({ kind: "key", name: "a key that was made", undo: { how: "nothing" } });
    journal.close();
    expect(await healAfter(path, limits())).toEqual([
      { kind: "fault", name: "limiter.refused", did: "ran 1 heal command(s)", trouble: null },
    ]);
    expect(await healAfter(path, limits())).toEqual([]);
    expect(readFileSync(healed, "utf8")).toBe("x");
    expect(openEffects(readJournal(path).entries)).toMatchObject([{ kind: "key" }]);
  });

  test("a fault on a toxiproxy that is gone is gone with it", async () => {
    const journal = new Journal(path);
    const undo = { how: "heal-proxy", api_url: "http://127.0.0.1:1", proxy: "limiter", may_reset: false } as const;
    journal.about({ kind: "fault", name: "limiter.refused", undo });
    journal.close();
    expect(await healAfter(path, limits())).toMatchObject([{ did: "gone with its toxiproxy" }]);
  });

  test("keeps its hands off a run that is still going", async () => {
    const journal = new Journal(path);
    const supervisor = await Supervisor.open({ journal, watchdog: null });
    await expect(healAfter(path, limits())).rejects.toThrow(`process ${process.pid}`);
    await supervisor.close();
    expect(await healAfter(path, limits())).toEqual([]);
    journal.close();
  });

  test("where there is no journal there is nothing to do", async () => {
    expect(await healAfter(join(folder, "none"), limits())).toEqual([]);
  });
});
