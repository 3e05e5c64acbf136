import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Journal, openEffects, readJournal } from "./journal.ts";
import { Redactor } from "./redaction.ts";

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "floodgate-journal-"));
  path = join(folder, "journal.ndjson");
});
afterEach(() => rmSync(folder, { recursive: true }));

const UNDO = { how: "heal-proxy", api_url: "http://127.0.0.1:8474", proxy: "limiter", may_reset: false } as const;

describe("the journal", () => {
  test("an effect stands in the file before `about` has returned, for its owner alone", () => {
    const journal = new Journal(path);
    const id = journal.about({ kind: "fault", name: "limiter.refused", undo: UNDO });
    expect(readJournal(path).entries).toMatchObject([{ id, kind: "fault", phase: "about", undo: UNDO }]);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    journal.close();
  });

  test("what was begun is open until it is undone, whether or not it was confirmed", () => {
    const journal = new Journal(path);
    const first = journal.about({ kind: "fault", name: "first", undo: UNDO });
    const second = journal.about({ kind: "proxy", name: "second", undo: UNDO });
    journal.done(second);
    const third = journal.about({ kind: "child", name: "third", undo: { how: "nothing" } });
    journal.done(third, { undo: { how: "end-process", pid: 5, pgid: 5, start: "9", end_last: false } });
    journal.undone(first);
    journal.undone(first);
    expect(openEffects(readJournal(path).entries)).toMatchObject([
      { name: "third", undo: { how: "end-process", pid: 5 } },
      { name: "second", undo: UNDO },
    ]);
    journal.undone(second, "healed");
    journal.undone(third);
    expect(openEffects(readJournal(path).entries)).toEqual([]);
    journal.close();
  });

  test("secrets are masked in it", () => {
    const redactor = new Redactor();
    redactor.register("correct horse");
    const journal = new Journal(path, redactor);
    journal.about({
      kind: "key",
      name: "svc_sk_live_abcdefghijklmnop",
      undo: { how: "nothing" },
      detail: "correct horse",
    });
    journal.close();
    expect(readFileSync(path, "utf8")).not.toMatch(/abcdefghijkl|horse/);
    expect(readJournal(path).entries[0]?.name).toBe("svc_sk_live_...mnop");
  });

  test("a torn last line is counted and costs no other", () => {
    const journal = new Journal(path);
    journal.about({ kind: "fault", name: "f", undo: UNDO });
    journal.close();
    appendFileSync(path, '{"at":"2026-11-21T08:00:00Z","id":"1-2","ki');
    expect(readJournal(path)).toMatchObject({ entries: [{ name: "f" }], torn: 1 });
  });

  test("after it is closed nothing can be begun, and what ends late is no error", () => {
    const journal = new Journal(path);
    const id = journal.about({ kind: "fault", name: "f", undo: UNDO });
    journal.close();
    expect(() => journal.about({ kind: "fault", name: "g", undo: UNDO })).toThrow();
    journal.undone(id);
    expect(openEffects(readJournal(path).entries)).toHaveLength(1);
  });

  test("two journals of one file do not mix up their effects", () => {
    const one = new Journal(path);
    one.about({ kind: "fault", name: "one", undo: UNDO });
    one.close();
    const other = new Journal(path);
    other.undone(other.about({ kind: "fault", name: "other", undo: UNDO }));
    other.close();
    expect(openEffects(readJournal(path).entries)).toMatchObject([{ name: "one" }]);
  });
});
