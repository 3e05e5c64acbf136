import { randomBytes } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Redactor } from "../supervision/redaction.ts";
import { makeRunFolder } from "./recorder.ts";

vi.mock("node:crypto", { spy: true });

const NOW = new Date("2026-11-21T08:38:07.123Z");
const KEY = "svc_sk_live_abcdefghijklmnop";
let reports: string;
beforeEach(() => {
  reports = mkdtempSync(join(tmpdir(), "floodgate-reports-"));
});
afterEach(() => rmSync(reports, { recursive: true }));
const make = (more: { out?: string } = {}) =>
  makeRunFolder({ profile: "smoke", now: NOW, reports, redactor: new Redactor(), ...more });

describe("the run folder", () => {
  test("is named by UTC time, profile and four hex digits, is its owner's alone, and latest leads to it", () => {
    const folder = make();
    expect(folder.id).toMatch(/^20261121T083807Z-smoke-[0-9a-f]{4}$/);
    expect(folder.path).toBe(join(reports, "runs", folder.id));
    expect(statSync(folder.path).mode & 0o777).toBe(0o700);
    expect(readlinkSync(join(reports, "latest"))).toBe(join("runs", folder.id));
    const next = make();
    expect(next.id).not.toBe(folder.id);
    expect(readlinkSync(join(reports, "latest"))).toBe(join("runs", next.id));
    expect(readdirSync(reports).sort()).toEqual(["latest", "runs"]);
  });

  test("a taken name is tried again with other digits, a bounded number of times", () => {
    const digits = vi.mocked(randomBytes);
    const taken = Buffer.from("abcd", "hex");
    digits.mockReturnValueOnce(taken as never);
    expect(make().id).toMatch(/-abcd$/);
    digits.mockReturnValueOnce(taken as never);
    expect(make().id).not.toMatch(/-abcd$/);
    let left = 1_000;
    digits.mockImplementation(() => {
      left -= 1;
      if (left === 0) throw new Error("tried without an end");
      return taken;
    });
    try {
      expect(() => make()).toThrow(/no run folder can be made in .*EEXIST.*name another place with --out/);
    } finally {
      digits.mockReset();
    }
  });

  test("a folder called latest is never replaced", () => {
    mkdirSync(join(reports, "latest"));
    writeFileSync(join(reports, "latest", "mine"), "");
    make();
    expect(existsSync(join(reports, "latest", "mine"))).toBe(true);
  });

  test("a file called latest, where links could not be made, is replaced", () => {
    writeFileSync(join(reports, "latest"), "runs/old\n");
    const folder = make();
    expect(readlinkSync(join(reports, "latest"))).toBe(join("runs", folder.id));
  });

  test("--out names the folder itself, and must not hold an earlier run", async () => {
    const out = join(reports, "elsewhere");
    const folder = make({ out });
    expect(folder.path).toBe(out);
    expect(existsSync(join(reports, "latest"))).toBe(false);
    make({});
    const later = make({ out: join(reports, "later") });
    expect(realpathSync(join(reports, "latest")), "no earlier run is taken for the newest").toBe(
      realpathSync(later.path),
    );
    await folder.writeText("summary.md", "x");
    expect(() => make({ out })).toThrow("is not an empty folder");
  });

  test("what is written is whole, masked and its owner's, and no draft is left", async () => {
    const folder = make();
    await folder.writeJson("run.json", { note: `used ${KEY}` });
    await folder.writeText("k6/summary.txt", KEY);
    expect(JSON.parse(readFileSync(join(folder.path, "run.json"), "utf8"))).toEqual({
      note: "used svc_sk_live_...mnop",
    });
    expect(readFileSync(folder.pathOf("k6/summary.txt"), "utf8")).toBe("svc_sk_live_...mnop");
    expect(statSync(join(folder.path, "run.json")).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder.path).sort()).toEqual(["k6", "run.json"]);
  });

  test("a file that grows takes as many lines as come, masked", async () => {
    const folder = make();
    const lines = folder.openLines("history.ndjson");
    for (let i = 0; i < 5_000; i++) await lines.write(JSON.stringify({ i, key: KEY }));
    await lines.close();
    const text = readFileSync(folder.pathOf("history.ndjson"), "utf8");
    expect(text.split("\n")).toHaveLength(5_001);
    expect(text).not.toContain(KEY);
  });

  test("a name that leads out of it is refused", () => {
    expect(() => make().pathOf("../elsewhere")).toThrow("named inside it");
    expect(() => make().pathOf("k6/../../elsewhere")).toThrow("named inside it");
  });
});
