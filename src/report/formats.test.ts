import { describe, expect, test } from "vitest";
import { junitXml } from "./formats.ts";
import { HOSTILE } from "./hostile-text.fixture.ts";
import { madeClaim, madeRun } from "./made-run.fixture.ts";

/** Throws unless every tag is closed in order, every attribute quoted, every text escaped, and nothing but entities starts with `&`. */
const assertWellFormed = (xml: string): void => {
  const open: string[] = [];
  const text = xml.replace(/^<\?xml [^?]*\?>/, "");
  const tag = /<(\/?)([\w]+)((?: [\w]+="[^"<]*")*)(\/?)>/g;
  for (const [, closing, name, , empty] of text.matchAll(tag)) {
    if (closing === "/") expect(open.pop()).toBe(name);
    else if (empty !== "/") open.push(name!);
  }
  expect(open).toEqual([]);
  expect(text.replace(tag, "")).not.toMatch(/[<>]/);
  expect(text).not.toMatch(/&(?!(?:amp|lt|gt|quot|#39|#10|#9);)/);
};

const CASES = /<testcase /g;

/** Attributes in the schema by which Jenkins' xUnit plugin refuses a file (jenkinsci/xunit-plugin, junit-10.xsd). */
const OF_JENKINS: Readonly<Record<string, string>> = {
  testsuites: "name time tests failures errors",
  testsuite: "name tests failures errors group time skipped timestamp hostname id package file log url version",
  properties: "",
  property: "name value",
  testcase: "name time classname group",
  skipped: "message type",
  error: "message type",
  failure: "message type",
};

describe("junit.xml", () => {
  test("has one case per claim, and its totals agree with its cases", () => {
    const run = madeRun();
    const xml = junitXml(run);
    assertWellFormed(xml);
    expect(xml.match(CASES)).toHaveLength(run.claims.length);
    expect(xml).toContain('<testsuites name="floodgate smoke" tests="14" failures="1" errors="1" time="');
    const sumOfSuites = (name: string): number =>
      [...xml.matchAll(new RegExp(`<testsuite [^>]* ${name}="(\\d+)"`, "g"))].reduce(
        (sum, [, n]) => sum + Number(n),
        0,
      );
    expect(["tests", "failures", "errors", "skipped"].map(sumOfSuites)).toEqual([14, 1, 1, 4]);
    expect(xml.match(/<failure /g)).toHaveLength(1);
    expect(xml.match(/<error /g)).toHaveLength(1);
    expect(xml.match(/<skipped /g)).toHaveLength(4);
  });

  test("has no element and no attribute that Jenkins' schema does not know", () => {
    for (const [, name = "", attributes = ""] of junitXml(madeRun()).matchAll(/<(\w+)((?: \w+="[^"]*")*)\/?>/g)) {
      const known = OF_JENKINS[name]?.split(" ");
      const used = [...attributes.matchAll(/ (\w+)="/g)].map(([, attribute]) => attribute);
      expect(known, name).toEqual(expect.arrayContaining(used));
    }
  });

  test("inconclusive is an error of that type, never a silent case", () => {
    const xml = junitXml(madeRun({ claims: [madeClaim("a/s", { verdict: "inconclusive", reason: "too few" })] }));
    expect(xml).toContain('<error message="too few" type="too-few-calls">');
  });

  test.each(["should", "info"] as const)("a %s that does not hold, or is open, is neither passed nor red", (level) => {
    const over = { level, got: "one of nine", replay: "npx floodgate verify --only x" };
    const claims = [
      madeClaim("held/s"),
      madeClaim("a/s", { ...over, verdict: "fail", reason: "slower than it should be" }),
      madeClaim("b/s", { ...over, verdict: "inconclusive", reason: "too few calls" }),
    ];
    const xml = junitXml(madeRun({ claims, verdict: "pass", exit_code: 0 }));
    assertWellFormed(xml);
    expect(xml).not.toMatch(/<(?:failure|error) |run\/verdict/);
    expect(xml).toContain('tests="3" failures="0" errors="0"');
    expect(xml).toContain(
      `<skipped message="fail (${level}; the run is not judged by it): slower than it should be (one of nine)" type="broken">`,
    );
    expect(xml).toContain(
      `"inconclusive (${level}; the run is not judged by it): too few calls" type="too-few-calls">`,
    );
    expect(
      xml.match(/got: one of nine[\s\S]*?npx floodgate explain [ab]\/s\nreplay: npx floodgate verify --only x/g),
    ).toHaveLength(2);
  });

  test("stays well-formed whatever a server said", () => {
    const hostile = { reason: HOSTILE, expected: HOSTILE, got: HOSTILE, evidence: [HOSTILE], replay: HOSTILE };
    const claims = (["fail", "inconclusive", "skipped", "pass"] as const).map((verdict) =>
      madeClaim(`${verdict}/${HOSTILE}`, { verdict, ...hostile }),
    );
    const xml = junitXml(madeRun({ claims, commit: HOSTILE }));
    assertWellFormed(xml);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what XML forbids
    expect(xml).not.toMatch(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|\p{Cs}/u);
  });

  test.each([
    ["nothing was judged", []],
    ["all was skipped", [madeClaim("a/s", { verdict: "skipped" as const })]],
    ["what was required is absent", [madeClaim("a/s")]],
    [
      "what was required is absent, beside a should that fails",
      [madeClaim("a/s", { level: "should", verdict: "fail" })],
    ],
  ])("an inconclusive run never looks green: %s", (_why, claims) => {
    const xml = junitXml(madeRun({ claims, verdict: "inconclusive", exit_code: 4 }));
    assertWellFormed(xml);
    expect(xml).toContain('name="run/verdict"');
    expect(xml.match(/<error /g)).toHaveLength(1);
  });
});

test("every case and suite has a time, and the cases of a stage add up to it", () => {
  const run = madeRun();
  const xml = junitXml(run);
  for (const [tag] of xml.matchAll(/<(?:testcase|testsuites?)\b[^>]*>/g)) expect(tag).toMatch(/ time="\d+\.\d{3}"/);
  for (const { name, duration_ms } of run.stages) {
    const suite = new RegExp(`<testsuite name="${name}"[\\s\\S]*?</testsuite>`).exec(xml)?.[0] ?? "";
    if (suite === "") continue;
    const times = [...suite.matchAll(/<testcase[^>]* time="([\d.]+)"/g)].map(([, time]) => Number(time));
    const sum = times.reduce((all, one) => all + one, 0);
    expect(Math.abs(sum - duration_ms / 1000)).toBeLessThan(0.001 * times.length + 0.001);
  }
});
