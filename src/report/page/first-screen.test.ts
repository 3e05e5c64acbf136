import { expect, test } from "vitest";
import { madeClaim, madeRun } from "../made-run.fixture.ts";
import { madeSeries } from "../made-series.fixture.ts";
import { htmlReport } from "./html.ts";

const textOf = (page: string, id: string): string => {
  const section = new RegExp(`<section class="card" id="${id}">.*?</section>`, "s").exec(page)?.[0] ?? "";
  return section.replace(/<[^>]+>/g, " ").replace(/\s+/g, " ");
};

const stageOf = (name: string) => ({ ...madeRun().stages[0]!, name });

test("the chart that stands open first is the stage that failed, else the one that shed most", () => {
  const series = madeSeries({ stage: "calm", calls: 400 }, { stage: "full", calls: 400 });
  const [calm, full] = series.stages;
  full!.by_outcome = { "200": full!.offered.map(() => 0), "429 b2b_overloaded": [...full!.offered] };
  const stages = [stageOf("calm"), stageOf("full")];
  const pass = { verdict: "pass" as const, claims: [madeClaim("a/calm", { stage: "calm" })], stages };
  const page = htmlReport(madeRun(pass), series);
  expect(textOf(page, "headline")).toMatch(/^ full /);
  expect(page.indexOf('id="headline"')).toBeLessThan(page.indexOf('class="tiles"'));
  const failed = madeClaim("a/calm", { stage: calm!.stage, verdict: "fail" });
  expect(textOf(htmlReport(madeRun({ ...pass, claims: [failed] }), series), "headline")).toMatch(/^ calm /);
});

test("the stage of the first chart says what it plays, where it is a scenario", () => {
  const pageOf = (stage: string): string =>
    htmlReport(madeRun({ claims: [], stages: [stageOf(stage)] }), madeSeries({ stage, calls: 400 }));
  expect(textOf(pageOf("chat-past-capacity"), "headline")).toContain("three times the streams that fit");
  expect(textOf(pageOf("elsewhere"), "headline")).toMatch(/^ elsewhere Offered/);
});

test("many stages are a strip of small charts, each with its verdict and a link to its own", () => {
  const names = Array.from({ length: 13 }, (_, i) => `stage-${i}`);
  const claims = names.map((stage, i) => madeClaim(`a/${stage}`, { stage, verdict: i === 4 ? "fail" : "pass" }));
  const series = madeSeries(...names.map((stage) => ({ stage, calls: 300 })));
  const page = htmlReport(madeRun({ claims, stages: names.map(stageOf) }), series);
  expect(page.match(/<ul class="strip">.*?<\/ul>/s)?.[0].match(/<li>/g)).toHaveLength(13);
  expect(page).toContain('aria-label="stage-4: fail, ');
  expect(page).toContain('<a href="#c12">');
});

test("what changed since the run before is named, and what did not is said", () => {
  const claims = [madeClaim("a/s", { verdict: "fail" }), madeClaim("b/s"), madeClaim("c/s"), madeClaim("new/s")];
  const earlier = {
    id: "earlier",
    started_at: "2026-11-01T03:00:00.000Z",
    verdict: "pass" as const,
    claims: [madeClaim("a/s"), madeClaim("b/s", { verdict: "skipped" }), madeClaim("c/s")],
  };
  const text = textOf(htmlReport(madeRun({ claims }), madeSeries(), { earlier }), "changes");
  expect(text).toContain("1 claim now fail: a/s (was pass)");
  expect(text).toContain("1 claim now pass: b/s (was skipped)");
  expect(text).toContain("1 claim that run did not have");
  expect(text).not.toContain("c/s");
  const same = htmlReport(madeRun({ claims: [madeClaim("c/s")] }), madeSeries(), { earlier });
  expect(textOf(same, "changes")).toContain("No claim has another verdict.");
  expect(htmlReport(madeRun(), madeSeries())).not.toContain('id="changes"');
});

test("a claim that is not a pass leads to the charts of its stage; a skipped one stands once, under what is missing", () => {
  const series = madeSeries({ stage: "full", calls: 400 });
  const claims = [
    madeClaim("broken/full", { stage: "full", verdict: "fail" }),
    madeClaim("absent/full", { stage: "full", verdict: "skipped", reason: "skipped: no ledger" }),
  ];
  const page = htmlReport(madeRun({ claims, stages: [stageOf("full")] }), series);
  expect(page).toContain('<a href="#c0">Charts of full</a>');
  expect(page.split("absent/full")).toHaveLength(2);
  expect(textOf(page, "not-judged")).toContain("1 claim: no ledger");
});

test("a stage shows its ten largest outcomes, and folds the rest", () => {
  const by_outcome = Object.fromEntries(Array.from({ length: 13 }, (_, i) => [`4${10 + i} code_${i}`, i + 1]));
  const page = htmlReport(madeRun({ stages: [{ ...stageOf("full"), by_outcome }] }));
  expect(textOf(page, "stages")).toContain("3 smaller outcomes");
});

test("every link to a definition leads somewhere", () => {
  const page = htmlReport(madeRun(), madeSeries());
  const wanted = new Set([...page.matchAll(/href="#(def-[^"]+)"/g)].map(([, id]) => id));
  expect(wanted.size).toBeGreaterThan(15);
  for (const id of wanted) expect(page).toContain(`id="${id}"`);
});
