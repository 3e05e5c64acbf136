import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { checkNewFile } from "../../supervision/user-file.ts";
import type { Target } from "../../target/target.ts";
import type { Climbed, LimitsFound } from "./find-limits.ts";
import { checkPermitted, copyOf, decideLimits, withLimits, writeCopy } from "./limits-into-file.ts";

const TARGET: Target = {
  schema: "floodgate/target@1",
  base_url: "http://127.0.0.1:1/v1",
  permits: { load_max_rps: 500 },
};

const climbed = (met: Climbed["met"], least: number, most: number | null): Climbed => ({
  met,
  bounds: { least, most },
  inFlight: least,
  heldBack: false,
  isChecked: true,
});

const found = (more: Partial<LimitsFound> = {}): LimitsFound => ({
  service: { value: 200.04, low: 199, high: 201 },
  bucket: { found: true, burst: { least: 100, most: 100 }, ratePerS: { value: 50, low: 49.9, high: 50.1 } },
  pressedPerS: 200,
  pressMet: null,
  alone: climbed("organization", 32, 32),
  together: climbed("global", 80, 80),
  organizations: 3,
  slots: { least: 64, most: 64 },
  calls: 900,
  cutOff: null,
  ...more,
});

const said = (of: LimitsFound, target = TARGET): string =>
  decideLimits(of, target)
    .findings.map(({ state, name, text, todo = "" }) => `${state} ${name}: ${text} ${todo}`)
    .join("\n");

describe("what is written", () => {
  test("every limit that calls leave one number for", () => {
    expect(decideLimits(found(), TARGET)).toMatchObject({
      isFixed: true,
      limits: {
        replicas: 1,
        slots: 64,
        service_ms: 200,
        global_in_flight: 80,
        org_in_flight: 32,
        rate_per_s: 50,
        burst: 100,
      },
    });
  });

  test("slots that nobody waits for are as many as the cap, and not known below it", () => {
    expect(decideLimits(found({ slots: { least: 80, most: null } }), TARGET).limits.slots).toBe(80);
    expect(decideLimits(found({ slots: { least: 40, most: null } }), TARGET).limits.slots).toBeUndefined();
  });

  test("no number that is not known, each with its reason", () => {
    const none = { slots: null, bucket: { found: false, code: "never-refused" } } as const;
    const cases: [Partial<LimitsFound>, RegExp][] = [
      [{ alone: climbed("organization", 30, 33), together: null }, /org_in_flight: not found exactly: 30 to 33/],
      [
        { alone: climbed("organization", 40, 33), together: null },
        /no single cap fits\. Admitted beside 39, shed beside 33.*state limits\.replicas/,
      ],
      [{ alone: climbed("nothing", 9, null), together: null }, /9 in flight at once.*higher permits\.load_max_rps/],
      [{ alone: climbed("key", 9, null), together: null }, /key's rate was met.*name more tenants/],
      [
        { alone: { ...climbed("edge", 9, null), outcome: "edge 503" }, together: null },
        /something in between.*edge 503/,
      ],
      [{ together: climbed("organization", 60, null) }, /own caps of 3 organizations.*more than 3 organizations/],
    ];
    for (const [more, words] of cases) {
      const decided = decideLimits(found({ ...none, ...more }), TARGET);
      expect(decided.limits.global_in_flight, String(words)).toBeUndefined();
      expect(said(found({ ...none, ...more }))).toMatch(words);
    }
  });

  test.each([
    [null, /rate_per_s: .*not refused.*permits\.load_max_rps above 500/],
    ["edge 429", /rate_per_s: not found: edge 429 came before[^.]*$/m],
  ])("a rate that was not met is told with what came before it: %j", (pressMet, words) => {
    expect(said(found({ bucket: { found: false, code: "never-refused" }, pressMet }))).toMatch(words);
  });

  test("a rate of which only a wide interval is known is no number, and a narrow one is", () => {
    const bucket = (low: number, high: number) =>
      found({
        bucket: { found: true, burst: { least: 1, most: 7 }, ratePerS: { value: (low + high) / 2, low, high } },
      });
    const wide = bucket(49.07, 2118.64);
    const { limits } = decideLimits(wide, TARGET);
    expect([limits.rate_per_s, limits.burst, limits.org_in_flight]).toEqual([undefined, undefined, 32]);
    expect(said(wide)).toMatch(/skipped rate_per_s: not found exactly: 49\.07 to 2118\.64/);
    expect(decideLimits(bucket(49.3, 55.5), TARGET).limits).toMatchObject({ rate_per_s: 55.5, burst: 7 });
  });

  test("where replicas in turn could not have shown themselves, no cap is written", () => {
    const alone = { ...climbed("organization", 32, 32), isChecked: false };
    expect(decideLimits(found({ alone, together: null }), TARGET).isFixed).toBe(false);
    expect(said(found({ alone, together: null }))).toMatch(/32, not written.*state limits\.replicas/);
  });

  test("answers that come whole bound a cap from above, where enough sheds show it", () => {
    const whole = (most: number | null) => ({ ...climbed("organization", 30, most), heldBack: true });
    expect(said(found({ alone: whole(33), together: null }))).toContain("not found: at most 33. Answers come whole");
    expect(said(found({ alone: whole(null), together: null }))).toContain(
      "org_in_flight: not found: Answers come whole",
    );
  });

  test("one cap that calls contradict makes the other doubtful", () => {
    const decided = decideLimits(found({ alone: climbed("organization", 31, 25) }), TARGET);
    expect(decided.limits).not.toHaveProperty("global_in_flight");
    expect(decided.isFixed).toBe(false);
  });

  test("replicas that the file states stay; a limit that adapts has no caps", () => {
    const two = { ...TARGET, limits: { replicas: 2 } };
    expect(decideLimits(found(), two).limits).not.toHaveProperty("replicas");
    expect(decideLimits(found(), two).limits).not.toHaveProperty("slots");
    const adaptive = decideLimits(found(), { ...TARGET, shedding: "adaptive" });
    expect([adaptive.isFixed, Object.keys(adaptive.limits)]).toEqual([false, ["service_ms", "rate_per_s", "burst"]]);
  });

  test("what the file states otherwise is said", () => {
    expect(said(found(), { ...TARGET, limits: { org_in_flight: 40 } })).toMatch(/states 40, and 32 was found/);
  });
});

describe("the copy", () => {
  const FILE = {
    "//": "a comment",
    "//two": "another",
    schema: "floodgate/target@1",
    base_url: "https://maps.example/v1",
    credentials: { server: { key: "env:KEY" } },
    shedding: "unknown",
    "//limits": { slots: 1 },
    permits: { load_max_rps: 50 },
  };
  const TEXT = JSON.stringify(FILE, null, 2).replace("//two", "//");
  const decided = decideLimits(found({ together: null }), TARGET);
  const withFound = (text: string, isExclusive: boolean) =>
    JSON.parse(withLimits(text, decided, isExclusive)) as Record<string, unknown>;

  test("has the file's members in their order, limits behind their example", () => {
    const copy = withFound(TEXT, true);
    const names = Object.keys(FILE).filter((name) => name !== "//two");
    expect(Object.keys(copy)).toEqual([...names.slice(0, 6), "limits", "permits"]);
    expect(copy).toMatchObject({ shedding: "fixed", credentials: { server: { key: "env:KEY" } } });
    expect(Object.keys(copy.limits as object)[0]).toBe("replicas");
  });

  test("keeps limits that were not found, in place", () => {
    const copy = withFound('{ "limits": { "revocation_budget_ms": 5, "burst": 1 }, "name": "x" }', true);
    expect(copy.limits).toMatchObject({ revocation_budget_ms: 5, burst: 100, org_in_flight: 32 });
    expect(Object.keys(copy)).toEqual(["limits", "name", "shedding"]);
  });

  test("has every other line of the file, also comments of one name", () => {
    const lines = withLimits(TEXT, decided, true).split("\n");
    const kept = TEXT.split("\n").filter((line) => !line.includes('"shedding"'));
    expect(kept.filter((line) => !lines.includes(line))).toEqual([]);
  });

  test("comments where others may have called", () => {
    const copy = withFound(TEXT, false);
    expect(copy.shedding).toBe("unknown");
    const names = Object.keys(copy.limits as object);
    expect(names.length).toBeGreaterThan(4);
    expect(names.every((name) => name.startsWith("//"))).toBe(true);
  });

  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "floodgate-limits-"));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  test("is the owner's alone and never replaces a file", async () => {
    const file = join(folder, "staging.json");
    writeFileSync(file, JSON.stringify(FILE));
    const copy = copyOf(file, undefined);
    expect(copy).toBe(join(folder, "staging.limits.json"));
    await checkNewFile(copy);
    await writeCopy(file, copy, decided, true);
    expect(JSON.parse(readFileSync(copy, "utf8"))).toMatchObject({ limits: { org_in_flight: 32 } });
    expect(statSync(copy).mode & 0o777).toBe(0o600);
    await expect(checkNewFile(copy)).rejects.toThrow("is not overwritten");
    await expect(writeCopy(file, copy, decided, true)).rejects.toThrow("is not overwritten");
    await expect(checkNewFile(join(folder, "none", "x.json"))).rejects.toThrow("there is no such place");
  });

  test("nothing is sent without a permitted rate, and the sentence says what to add", () => {
    expect(() => checkPermitted({ ...TARGET, permits: {} })).toThrow(/add "permits": \{ "load_max_rps": 500 \}/);
    expect(() => checkPermitted(TARGET)).not.toThrow();
  });
});
