import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  chownSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openEffects, openJournal, readJournal } from "./journal.ts";
import { Redactor } from "./redaction.ts";

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "floodgate-journal-"));
  path = join(folder, "journal.ndjson");
});
afterEach(() => rmSync(folder, { recursive: true }));

const TARGET = { base_url: "http://127.0.0.1:1/v1", name: "staging", file: "/somewhere/staging.json" };
const UNDO = {
  how: "heal-proxy",
  api_url: "http://127.0.0.1:8474",
  proxy: "limiter",
  disables: true,
  target: TARGET,
} as const;
const { api_url: _, ...NAMED } = UNDO;

describe("the journal", () => {
  test("an effect stands in the file before `about` has returned, for its owner alone", () => {
    const journal = openJournal(path);
    const id = journal.about({ kind: "fault", name: "limiter.refused", undo: UNDO });
    expect(readJournal(path).entries).toMatchObject([{ id, kind: "fault", phase: "about", undo: NAMED }]);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    journal.close();
  });

  test("the watchdog knows an effect before the disk has it, and forgets one that could not be written", () => {
    const journal = openJournal(path);
    const written = (): number => readJournal(path).entries.length;
    const known: [about: string, written: number][] = [];
    journal.keptBy({
      keep: ({ undo }) => known.push([undo.how, written()]),
      forget: () => known.push(["forgotten", written()]),
    });
    const id = journal.about({ kind: "child", name: "k6" });
    journal.done(id, { undo: { how: "end-process", pid: 4711, pgid: 4711, start: "7", end_last: false } });
    expect(known.splice(0)).toEqual([
      ["nothing", 0],
      ["end-process", 1],
    ]);
    const cyclic: Record<string, unknown> = {};
    cyclic.detail = cyclic;
    expect(() => journal.about({ kind: "child", name: "k6", ...cyclic })).toThrow();
    expect(known.map(([about]) => about)).toEqual(["nothing", "forgotten"]);
    journal.close();
  });

  test("what was begun is open until it is undone, whether or not it was confirmed", () => {
    const journal = openJournal(path);
    const first = journal.about({ kind: "fault", name: "first", undo: UNDO });
    const second = journal.about({ kind: "proxy", name: "second", undo: UNDO });
    journal.done(second);
    const third = journal.about({ kind: "child", name: "third", undo: { how: "nothing" } });
    journal.done(third, { undo: { how: "end-process", pid: 5, pgid: 5, start: "9", end_last: false } });
    journal.undone(first);
    journal.undone(first);
    expect(openEffects(readJournal(path).entries)).toMatchObject([
      { name: "third", undo: { how: "end-process", pid: 5 } },
      { name: "second", undo: NAMED },
    ]);
    journal.undone(second, "healed");
    journal.undone(third);
    expect(openEffects(readJournal(path).entries)).toEqual([]);
    journal.close();
  });

  test("secrets are masked in it", () => {
    const redactor = new Redactor();
    redactor.register("correct horse");
    const journal = openJournal(path, redactor);
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

  test("nothing that could be executed stands in it: no command, no folder of one, no address", () => {
    const journal = openJournal(path);
    const command = {
      how: "command",
      fault: "limiter.stopped",
      commands: ["rm -rf x"],
      cwd: "/cwd",
      target: TARGET,
    } as const;
    const url = "http://127.0.0.1:2";
    const planes = [{ plane: "api", at: 0, was: { slots: 4 }, url }] as const;
    const change = { how: "deployment", planes, target: TARGET } as const;
    journal.about({ kind: "fault", name: "all", undo: { how: "all", undos: [UNDO, command, change] } });
    journal.about({ kind: "folder", name: "lock", undo: { how: "remove-lock", path: "/lock" } });
    journal.close();
    const text = readFileSync(path, "utf8");
    for (const absent of ["rm -rf", "/cwd", UNDO.api_url, url, "/lock"]) expect(text).not.toContain(absent);
    expect(openEffects(readJournal(path).entries)).toMatchObject([
      { name: "lock", undo: { how: "nothing" } },
      {
        undo: {
          how: "all",
          undos: [
            NAMED,
            { how: "command", fault: "limiter.stopped", target: TARGET },
            { how: "deployment", planes: [{ plane: "api", at: 0, was: { slots: 4 } }], target: TARGET },
          ],
        },
      },
    ]);
  });

  test("what somebody wrote into it by hand is read as data of known shapes, or not at all", () => {
    const undo = (value: unknown): string =>
      JSON.stringify({
        at: "x",
        id: `i${Math.random()}`,
        kind: "fault",
        phase: "about",
        name: "f\u001b[2J",
        undo: value,
      });
    const planes = [{ plane: "api", at: 0, was: { slots: "$(touch x)", clock_offset_ms: 5, upstreams: ["http://e"] } }];
    const lines = [
      { how: "command", commands: ["touch x"], cwd: "/" },
      { how: "heal-proxy", api_url: "http://127.0.0.1:1", proxy: "../reset" },
      { how: "deployment", target: TARGET, planes },
      { how: "end-process", pid: -1, pgid: 1, start: "1" },
      { how: "remove-folder", path: 7 },
      { how: "eval", code: "1" },
      "text",
    ];
    writeFileSync(path, `${lines.map(undo).join("\n")}\nnull\n[]\n7\n`, { mode: 0o600 });
    const { entries, torn } = readJournal(path);
    expect(torn).toBe(3);
    expect(entries.map((entry) => entry.undo)).toEqual([
      { how: "nothing" },
      { how: "nothing" },
      { how: "deployment", target: TARGET, planes: [{ plane: "api", at: 0, was: { clock_offset_ms: 5 } }] },
      ...[1, 2, 3, 4].map(() => ({ how: "nothing" })),
    ]);
    expect(entries[0]?.name).toBe("f\ufffd[2J");
  });

  describe("that somebody else could have written is not read", () => {
    beforeEach(() => openJournal(path).close());
    const reading = () => readJournal(path);

    test("writable for others, or in a folder that is", () => {
      chmodSync(path, 0o666);
      expect(reading).toThrow("may be written by others");
      chmodSync(path, 0o600);
      chmodSync(folder, 0o777);
      expect(reading).toThrow("may be written by others");
      chmodSync(folder, 0o770);
      expect(reading).toThrow("may be written by others");
    });

    test("a link, a link to its folder, a second name, a pipe, a folder", () => {
      const real = join(folder, "real");
      renameSync(path, real);
      symlinkSync(real, path);
      expect(reading).toThrow("is a link");
      rmSync(path);
      linkSync(real, path);
      expect(reading).toThrow("a second name");
      rmSync(path);
      spawnSync("mkfifo", [path]);
      expect(reading).toThrow("is no file");
      rmSync(path);
      mkdirSync(path);
      expect(reading).toThrow("is no file");
      rmSync(path, { recursive: true });
      renameSync(real, path);
      const link = `${folder}-link`;
      symlinkSync(folder, link);
      try {
        expect(() => readJournal(join(link, "journal.ndjson"))).toThrow("is a link; name the folder itself");
      } finally {
        rmSync(link);
      }
    });

    test.skipIf(process.geteuid?.() !== 0)("of another user, for root as well", () => {
      chownSync(path, 65_534, 65_534);
      expect(reading).toThrow("belongs to the user with the number 65534");
      chownSync(path, 0, 0);
      chownSync(folder, 65_534, 65_534);
      expect(reading).toThrow("belongs to the user with the number 65534");
      chownSync(folder, 0, 0);
      expect(reading().entries).toEqual([]);
    });
  });

  test("a torn last line is counted and costs no other", () => {
    const journal = openJournal(path);
    journal.about({ kind: "fault", name: "f", undo: UNDO });
    journal.close();
    appendFileSync(path, '{"at":"2026-11-21T08:00:00Z","id":"1-2","ki');
    expect(readJournal(path)).toMatchObject({ entries: [{ name: "f" }], torn: 1 });
  });

  test("after it is closed nothing can be begun, and what ends late is no error", () => {
    const journal = openJournal(path);
    const id = journal.about({ kind: "fault", name: "f", undo: UNDO });
    journal.close();
    expect(() => journal.about({ kind: "fault", name: "g", undo: UNDO })).toThrow();
    journal.undone(id);
    expect(openEffects(readJournal(path).entries)).toHaveLength(1);
  });

  test("two journals of one file do not mix up their effects", () => {
    const one = openJournal(path);
    one.about({ kind: "fault", name: "one", undo: UNDO });
    one.close();
    const other = openJournal(path);
    other.undone(other.about({ kind: "fault", name: "other", undo: UNDO }));
    other.close();
    expect(openEffects(readJournal(path).entries)).toMatchObject([{ name: "one" }]);
  });
});
