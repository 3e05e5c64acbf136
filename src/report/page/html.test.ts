import { describe, expect, test } from "vitest";
import { HOSTILE } from "../hostile-text.fixture.ts";
import { madeClaim, madeRun } from "../made-run.fixture.ts";
import { htmlReport } from "./html.ts";

const VOID = new Set(["meta", "br", "wbr", "!doctype"]);

/** Throws unless every element is closed in order; returns the attributes of all tags. */
const attributesOf = (page: string): string[] => {
  const open: string[] = [];
  const attributes: string[] = [];
  for (const [, closing, name, rest, empty] of page.matchAll(
    /<(\/?)(!?[a-z][a-z0-9]*)((?: [a-z-]+(?:="[^"]*")?)*)( ?\/?)>/gi,
  )) {
    if (closing === "/") expect(open.pop()).toBe(name);
    else if (empty !== "/" && !VOID.has(name!)) open.push(name!);
    attributes.push(...[...rest!.matchAll(/([a-zA-Z-]+)="([^"]*)"/g)].map(([, key, value]) => `${key}=${value}`));
  }
  expect(open).toEqual([]);
  return attributes;
};

describe("report.html", () => {
  test("is one page that loads nothing and runs nothing", () => {
    const page = htmlReport(madeRun());
    const attributes = attributesOf(page);
    expect(page).not.toMatch(/<(?:script|link|img|iframe|object|embed|form)\b/i);
    expect(page).not.toMatch(/@import|@font-face/);
    expect(attributes.filter((a) => /^(?:src|srcset|action|on\w+|xlink:href)=/.test(a))).toEqual([]);
    expect(attributes.filter((a) => a.startsWith("href=") && !a.startsWith("href=#"))).toEqual([]);
    expect([...page.matchAll(/url\(([^)]*)\)/g)].every(([, target]) => target!.startsWith("#"))).toBe(true);
    expect(page).toContain("default-src 'none'");
  });

  test("every link and pattern that is pointed at is there, once", () => {
    const attributes = attributesOf(htmlReport(madeRun()));
    const ids = attributes.filter((a) => a.startsWith("id=")).map((a) => a.slice(3));
    expect(new Set(ids).size).toBe(ids.length);
    const wanted = attributes.flatMap((a) =>
      [...a.matchAll(/^href=#(.+)|^fill=url\(#(.+)\)/g)].map((m) => m[1] ?? m[2]!),
    );
    expect(wanted.filter((id) => !ids.includes(id))).toEqual([]);
  });

  test("whatever a server said stays text", () => {
    const claims = (["fail", "inconclusive", "skipped", "pass"] as const).map((verdict) =>
      madeClaim(`${verdict}/${HOSTILE}`, {
        verdict,
        reason: HOSTILE,
        expected: HOSTILE,
        got: HOSTILE,
        evidence: [HOSTILE],
        replay: HOSTILE,
      }),
    );
    const run = madeRun({
      claims,
      profile: HOSTILE,
      commit: HOSTILE,
      target: { name: HOSTILE, base_url: HOSTILE, embedded: false },
    });
    const stage = { ...run.stages[0]!, name: HOSTILE, driver: HOSTILE, by_outcome: { [HOSTILE]: 1500 } };
    const fault = { ...run.faults[0]!, experiment: HOSTILE, link: HOSTILE, fault: HOSTILE, stream: HOSTILE };
    const measurement = { ...run.measurements[0]!, name: HOSTILE, stage: HOSTILE, unit: HOSTILE };
    const environment = { ...run.environment, host_notes: [HOSTILE], cpu: HOSTILE };
    const page = htmlReport({ ...run, stages: [stage], faults: [fault], measurements: [measurement], environment });
    const attributes = attributesOf(page);
    expect(page).not.toMatch(/<(?:script|img)\b/i);
    expect(attributes.filter((a) => /^on\w+=/.test(a))).toEqual([]);
  });

  test("what stands between backticks in a sentence is code, wherever the page says it", () => {
    const over = { reason: "play it for longer (`--duration <s>`)", expected: "`slo` is stated", got: "no `slo`" };
    const run = madeRun({ claims: [madeClaim("a/s", { verdict: "fail", ...over }), madeClaim("b/s", over)] });
    const skipped = madeClaim("c/s", { verdict: "skipped", reason: "skipped: `control.api`" });
    const environment = { ...run.environment, host_notes: ["late (`load --segments`)"] };
    const body = htmlReport({ ...run, claims: [...run.claims, skipped], environment }).replace(/^[\s\S]*<body>/, "");
    expect(body).not.toContain("`");
    expect(body.split("(<code><span>--duration</span> &lt;s&gt;</code>)").length).toBeGreaterThan(3);
    for (const text of ["<code>slo</code> is stated", "no <code>slo</code>", "<code>control.api</code>"]) {
      expect(body).toContain(text);
    }
    expect(body).toContain("late (<code>load <span>--segments</span></code>)");
  });

  test("passes of one rule share a row that has each stage with what was seen there; a fail never does", () => {
    const of = (stage: string, over = {}) =>
      madeClaim(`charged-once/${stage}`, { replay: "npx floodgate chaos", reason: `seen in ${stage}`, ...over });
    const page = htmlReport(
      madeRun({
        claims: [
          of("a"),
          of("b", { got: "3 charges" }),
          of("c", { evidence: ["fg-1"] }),
          of("d", { verdict: "fail" }),
          of("d", { verdict: "fail" }),
        ],
      }),
    );
    expect(page).toMatch(/× 2<\/td>\s*<td><code class="id">charged-once<\/code>/);
    expect(page).toContain("<li><code>a</code> seen in a</li><li><code>b</code> seen in b; got: 3 charges</li>");
    expect(page).toContain('<code class="id">charged-once/c</code>');
    expect(page.split('<code class="id">charged-once/d</code>')).toHaveLength(3);
  });

  test("each name of a measurement is explained once, and a count has no unit", () => {
    const [one] = madeRun().measurements;
    const stages = ["a", "b", "c", "d", "e", "f"];
    const measurements = stages.map((stage) => ({ ...one!, name: "retries", stage, value: 322, unit: "1", n: 322 }));
    const page = htmlReport(madeRun({ measurements }));
    expect(page.split("calls made again after a refusal")).toHaveLength(2);
    expect(page).toContain("<td>322</td><td>–</td><td>322</td>");
    for (const stage of stages) expect(page).toContain(`<summary><b>${stage}</b>`);
  });

  test("notes on the host are in one line for each stage, folded where there are many", () => {
    const run = madeRun();
    const notes = ["steady-mix: one thing", "steady-mix: another", "the machine: slept"];
    const few = htmlReport({ ...run, environment: { ...run.environment, host_notes: notes } });
    expect(few).toContain("<li><b>steady-mix:</b> one thing; another</li><li>the machine: slept</li></ul>");
    const many = Array.from({ length: 13 }, (_, i) => `note ${i}`);
    const page = htmlReport({ ...run, environment: { ...run.environment, host_notes: many } });
    expect(page).toMatch(/<details><summary>Show all 13<\/summary><ul class="notes">/);
  });

  test("what a fault met is a row, what it never met a blank, and who met nothing is named", () => {
    const run = madeRun();
    const states = (times: number) => [
      { state: "streams-open" as const, must: true, times },
      { state: "shedding" as const, must: false, times: 0 },
    ];
    const withStates = (...met: (number | null)[]) =>
      htmlReport({
        ...run,
        stages: met.map((times, i) => ({
          ...run.stages[0]!,
          name: `experiment-${i}`,
          states: times === null ? [{ state: "shedding" as const, must: false, times: 0 }] : states(times),
        })),
      });
    const page = withStates(3, 0, null);
    expect(page).toContain('<tr><td>experiment-0</td><td class="number"><b>3</b></td>');
    expect(page).toContain('<td class="number"></td></tr>');
    expect(page).toContain('<tr><td>experiment-1</td><td class="number"><b class="warn">✖ never</b></td>');
    expect(page).toContain("The others met nothing but ordinary calls: experiment-2.");
    expect(withStates(null)).toContain("They met nothing but ordinary calls: experiment-0.");
  });

  test("tells the verdict first, then fails before inconclusive before skipped before passes", () => {
    const page = htmlReport(madeRun());
    const at = [
      "<h1>fail</h1>",
      'id="claims-fail"',
      'id="claims-inconclusive"',
      'id="not-judged"',
      'id="claims-skipped"',
      'id="stages"',
      'id="faults"',
      'id="claims-pass"',
      'id="definitions"',
    ].map((mark) => page.indexOf(mark));
    expect(at).not.toContain(-1);
    expect(at).toEqual([...at].sort((a, b) => a - b));
  });

  test("a fault that took no effect is said in words, not only drawn", () => {
    expect(htmlReport(madeRun())).toContain("✖ no effect");
  });

  test("segments of a bar fill it, and the rarest outcome is still drawn", () => {
    const page = htmlReport(
      madeRun({ stages: [{ ...madeRun().stages[0]!, by_outcome: { "200": 999_999, indeterminate: 1 } }] }),
    );
    const bar = /<svg class="bar".*?<\/svg>/s.exec(page)![0];
    const widths = [...bar.matchAll(/fill="\S+" x="[\d.]+%" width="([\d.]+)%"/g)].map(([, width]) => Number(width));
    expect(widths).toHaveLength(2);
    expect(widths[0]! + widths[1]!).toBeCloseTo(100, 1);
    expect(widths[1]).toBeGreaterThan(0.5);
    expect(page).toContain("&lt;0.1 %");
  });

  test("a run of nothing is told as that", () => {
    const page = htmlReport(
      madeRun({
        claims: [],
        stages: [],
        faults: [],
        measurements: [],
        calibration: [],
        verdict: "inconclusive",
        exit_code: 4,
      }),
    );
    attributesOf(page);
    expect(page).toContain("No claim was judged, so nothing is known about the target.");
  });

  test("a run held up by what it lacks does not say that it passed", () => {
    const page = htmlReport(madeRun({ claims: [madeClaim("a/s")], verdict: "inconclusive", exit_code: 4 }));
    expect(page).toContain("something that was required was not judged");
  });
});
