import { describe, expect, test } from "vitest";
import { HOSTILE } from "./hostile-text.fixture.ts";
import { madeClaim, madeRun } from "./made-run.fixture.ts";
import { terminalText, wrapped } from "./terminal.ts";

const folder = `reports/runs/${"a-long-name-".repeat(8)}`;
const lines = (...args: Parameters<typeof terminalText>): string[] => terminalText(...args).split("\n");
const tooLong = (all: string[]): string[] => all.filter((line) => [...line].length > 80 && !line.includes(folder));

describe("the end of a run in a terminal", () => {
  test("begins with the verdict, has a line for each reason why a claim is not a pass, the counts and the next step", () => {
    const all = lines(madeRun(), { folder });
    expect(all[0]).toBe("FAIL  smoke on embedded, seed 42, 2 min 24 s");
    const open = all.slice(1).filter((line) => /^(?:FAIL|INCONCLUSIVE|SKIPPED) /.test(line));
    expect(open.map((line) => line.replace(/:.*/, ""))).toEqual([
      expect.stringMatching(/^FAIL +\S+\/\S+$/),
      expect.stringMatching(/^FAIL +\S+\/\S+( \(should\))?$/),
      expect.stringMatching(/^INCONCLUSIVE \S+\/\S+/),
      expect.stringMatching(/^SKIPPED +\S+ and 1 more$/),
      expect.stringMatching(/^SKIPPED +\S+\/\S+$/),
    ]);
    expect(all.join(" ")).toContain("Claims: 2 fail, 1 inconclusive, 3 skipped, 8 pass.");
    expect(all).toContain(`  ${folder}/report.html`);
  });

  test("no line is longer than 80 characters, except for a path", () => {
    const word = "x".repeat(300);
    const claims = [
      madeClaim(`${word}/s`, { verdict: "fail", reason: word, replay: `npx ${"--option value ".repeat(20)}` }),
    ];
    for (const run of [
      madeRun(),
      madeRun({ claims, profile: word }),
      madeRun({ claims: [madeClaim(HOSTILE, { verdict: "fail", replay: HOSTILE })] }),
    ]) {
      expect(tooLong(lines(run, { folder }))).toEqual([]);
    }
  });

  test("claims skipped for one reason are said once, with some of their names, and the reason can be read", () => {
    const reason = "skipped: the target file lacks a fault proxy: `toxiproxy` is not in the target file";
    const claims = Array.from({ length: 20 }, (_, at) =>
      madeClaim(`reached/fault-${at}`, { verdict: "skipped", reason }),
    );
    const text = terminalText(madeRun({ claims, verdict: "inconclusive" }), { folder });
    const said = text.replaceAll(/\n +/g, " ");
    expect(said).toContain(
      "reached/fault-0 and 19 more: the target file lacks a fault proxy: `toxiproxy` is not in the target file",
    );
    expect(text.split("\n").length).toBeLessThan(16);
  });

  test("of several reasons for one verdict, the one that most claims have is first, and is shown again", () => {
    const fail = (id: string, reason: string) => madeClaim(id, { verdict: "fail", reason, replay: `npx ${id}` });
    const claims = [fail("a/s", "one"), fail("b/s", "slots are lost"), fail("c/s", "slots are lost")];
    const all = lines(madeRun({ claims }), { folder });
    const reasons = all.filter((line) => line.startsWith("FAIL         "));
    expect(reasons.map((line) => line.slice(13))).toEqual(["b/s and 1 more: slots are lost", "a/s: one"]);
    expect(all).toContain("To see b/s again:");
  });

  test("a reason that stands alone is said to its end, where it says what to do, and still fits a screen", () => {
    const what =
      "nothing of the API is at http://127.0.0.1:8080/v1 (404 to the exchange and the style catalog, with keys)";
    const open = {
      verdict: "inconclusive",
      reason: `${what}: does base_url include the version segment (v1)?`,
    } as const;
    const run = madeRun({ claims: [madeClaim("run/completed", open), madeClaim("a/s")], verdict: "inconclusive" });
    const all = lines(run, { folder });
    expect(all.join(" ").replaceAll(/\s+/g, " ")).toContain(`run/completed: ${open.reason}`);
    const long = madeClaim("a/s", { ...open, reason: "one more word ".repeat(100), replay: "npx ".repeat(60) });
    expect(lines(madeRun({ claims: [long] }), { folder }).length).toBeLessThan(24);
    // Behind a worse one it is cut, as every other reason is.
    const two = [madeClaim("run/completed", open), madeClaim("b/s", { verdict: "fail", reason: "slots are lost" })];
    expect(lines(madeRun({ claims: two }), { folder }).join(" ")).not.toContain("version segment");
  });

  test("it fits a screen of 24 lines, however much there is to say; what is worst is said, the rest counted", () => {
    const long = "a reason that goes on and on and says ever more of the same ".repeat(6);
    const claims = (["fail", "inconclusive", "skipped"] as const).flatMap((verdict) =>
      Array.from({ length: 20 }, (_, i) =>
        madeClaim(`${verdict}-${i}/s`, { verdict, reason: `${i} ${long}`, replay: long }),
      ),
    );
    const all = lines(madeRun({ claims }), { folder });
    // The last line is the prompt's.
    expect(all.length).toBeLessThanOrEqual(23);
    expect(all.at(-1)).not.toBe("");
    expect(all.filter((line) => /^FAIL {9}/.test(line)).length).toBeGreaterThan(1);
    expect(all.join("\n")).toMatch(/and 1\d fail, 20 inconclusive, 20 skipped: see the report/);
    expect(all).toContain(`  ${folder}/report.html`);
  });

  test("of a pass nothing is repeated: no list of what was skipped, no calibration, no replay of what it leaves open", () => {
    const open = madeClaim("a/s", { verdict: "inconclusive", level: "should", reason: "noise", replay: "npx a" });
    const skipped = madeClaim("b/s", { verdict: "skipped", reason: "skipped: no key: none is stated" });
    const claims = [madeClaim("c/s"), open, skipped];
    const all = lines(madeRun({ claims, verdict: "pass", exit_code: 0 }), { folder });
    expect(all.join(" ")).toContain("1 not judged: 1 (no key)");
    expect(all.filter((line) => /^(?:INCONCLUSIVE|SKIPPED|Calibration|To see)/.test(line))).toEqual([
      "INCONCLUSIVE a/s (should): noise",
    ]);
  });

  test("wide characters count twice", () => {
    const claims = [madeClaim("a/s", { verdict: "fail", reason: "漢".repeat(100) })];
    const line = lines(madeRun({ claims }), { folder }).find((l) => l.startsWith("FAIL         a/s"))!;
    expect([...line].reduce((sum, c) => sum + (c === "漢" ? 2 : 1), 0)).toBeLessThanOrEqual(80);
  });

  test("a long command can be pasted: its lines end in a backslash", () => {
    const text = terminalText(madeRun(), { folder });
    expect(text.replaceAll(" \\\n  ", " ")).toContain("--rate 120 --duration 15s --seed 42");
  });

  test("a long command with quotes is not broken in two, but left to the report", () => {
    const replay = `npx floodgate load --header '${"a b ".repeat(30)}'`;
    expect(
      terminalText(madeRun({ claims: [madeClaim("a/s", { verdict: "fail", replay })] }), { folder }),
    ).not.toContain("--header");
  });

  test("colours are off unless asked for, and say nothing that the words do not", () => {
    const escapes = new RegExp(`${String.fromCharCode(27)}\\[[\\d;]*m`, "g");
    const plain = terminalText(madeRun(), { folder });
    const coloured = terminalText(madeRun(), { folder, colour: true });
    expect(plain).not.toMatch(escapes);
    expect(coloured).toMatch(escapes);
    expect(coloured.replace(escapes, "")).toBe(plain);
  });

  test("a pass is said in few lines, with what was not judged", () => {
    const claims = [madeClaim("a/s")];
    const text = terminalText(madeRun({ claims, verdict: "pass", exit_code: 0 }), { folder });
    expect(text).toMatch(/^PASS {2}/);
    expect(text).toContain("Outcomes seen: 9 of 30.");
  });
});

test("a wrapped text stands behind its first part, which stands alone where the text is empty; long words are kept or cut", () => {
  expect(wrapped("", "  ok  ", 6)).toEqual(["  ok"]);
  expect(wrapped("one two three", "  ok  ", 6, { columns: 12 })).toEqual(["  ok  one", "      two", "      three"]);
  expect(wrapped("a 日本日本", "", 0, { columns: 8 })).toEqual(["a", "日本日本"]);
  expect(wrapped("0123456789 x", "", 0, { columns: 4 })).toEqual(["0123456789", "x"]);
  expect(wrapped("0123456789 x", "", 0, { columns: 4, cuts: true })).toEqual(["012", "345", "6789", "x"]);
});
