/** The page as a browser shows it: whole at any width, in both schemes, without a word on the console or a request. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { madeRun } from "../src/report/made-run.fixture.ts";
import { madeSeries } from "../src/report/made-series.fixture.ts";
import { htmlReport } from "../src/report/page/html.ts";
import { Chromium, findChromium } from "./rigs/chromium.ts";

const path = findChromium();
if (path === null) console.warn("skipped: no Chromium on the PATH, so no page was opened in one");

/** Of each chart: how many shapes have an extent, and how wide it is drawn. */
const CHARTS = `[...document.querySelectorAll("figure")].map((figure) => ({
  id: figure.id,
  marks: [...figure.querySelectorAll(".plot path:not(.grid), .plot rect, .frame circle")].filter((shape) => {
    const box = shape.getBoundingClientRect();
    return box.width + box.height > 1;
  }).length,
  width: figure.querySelector(".frame").clientWidth - Number.parseFloat(getComputedStyle(figure.querySelector(".frame")).paddingLeft),
  colour: getComputedStyle(figure.querySelector(".frame text")).fill,
}))`;

describe.skipIf(path === null)("the page in a browser", () => {
  const folder = mkdtempSync(join(tmpdir(), "floodgate-page-"));
  const file = join(folder, "report.html");
  const url = pathToFileURL(file).href;
  let chromium: Chromium;

  beforeAll(async () => {
    const series = madeSeries({}, { stage: "limiter-refused", withFault: true, calls: 900 });
    writeFileSync(file, htmlReport(madeRun(), series));
    chromium = await Chromium.start(path as string);
  });

  afterAll(async () => {
    await chromium?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const views = [360, 800, 1600].flatMap((width) => (["light", "dark"] as const).map((scheme) => ({ width, scheme })));

  test.each(views)(
    "at $width px, $scheme",
    async (view) => {
      const seen = await chromium.open(url, view);
      const charts = await chromium.evaluate<{ id: string; marks: number; width: number; colour: string }[]>(CHARTS);
      expect(charts.length).toBeGreaterThan(12);
      expect(charts.filter(({ marks }) => marks < 1)).toEqual([]);
      expect(charts.filter(({ width }) => width < 120)).toEqual([]);
      expect(await chromium.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(view.width);
      const [red = 0] = (/\d+/.exec(charts[0]?.colour ?? "") ?? []).map(Number);
      expect(red > 128).toBe(view.scheme === "dark");
      expect(seen.messages).toEqual([]);
      expect(seen.requests).toEqual([url]);
    },
    60_000,
  );

  test("one cursor goes through all charts of a stage and reads their tables out", async () => {
    const seen = await chromium.open(url, { width: 800, scheme: "light" });
    const state = `(() => {
      const course = document.querySelector(".course");
      const slider = course.querySelector("input");
      slider.value = "6";
      slider.dispatchEvent(new Event("input"));
      const timed = [...course.querySelectorAll("figure.timed")];
      return {
        read: timed.map((figure) => figure.querySelector(".read").textContent),
        at: timed.map((figure) => figure.querySelector(".cursor").getAttribute("x1")),
        said: slider.getAttribute("aria-valuetext"),
      };
    })()`;
    const moved = `(() => {
      const frame = document.querySelector("#c0-load .frame");
      const box = frame.getBoundingClientRect();
      const left = Number.parseFloat(getComputedStyle(frame).paddingLeft);
      const clientX = box.left + left + (box.width - left) / 2;
      frame.dispatchEvent(new PointerEvent("pointermove", { clientX, bubbles: true }));
      return document.querySelector("#c0-lag .cursor").getAttribute("x1");
    })()`;
    expect(Number.parseFloat(await chromium.evaluate<string>(moved))).toBeCloseTo(50, 0);
    const { read, at, said } = await chromium.evaluate<{ read: string[]; at: string[]; said: string }>(state);
    expect(read.length).toBeGreaterThan(5);
    expect(new Set(at).size).toBe(1);
    expect(read[0]).toMatch(/^At 6 s: offered \d+, answered \d+, 429 b2b_overloaded \d+/);
    expect(said).toBe(read[0]);
    expect(seen.messages).toEqual([]);
  });

  test("zoom shows a part of the time in every chart, and all of it again", async () => {
    await chromium.open(url, { width: 800, scheme: "light" });
    const boxes = `[...document.querySelectorAll("#c0 .timed .plot")].map((plot) => plot.getAttribute("viewBox").split(" ")[2])`;
    const press = (value: string) => `document.querySelector("#c0 button[value=${value}]").click()`;
    await chromium.evaluate(press("in"));
    expect(new Set(await chromium.evaluate<string[]>(boxes))).toEqual(new Set(["320"]));
    const ticks = await chromium.evaluate<string[]>(
      `[...document.querySelectorAll("#c0-load .ticks text")].map((tick) => tick.textContent)`,
    );
    expect(ticks.length).toBeGreaterThan(3);
    expect(ticks[0]).not.toBe("0");
    await chromium.evaluate(press("all"));
    expect(new Set(await chromium.evaluate<string[]>(boxes))).toEqual(new Set(["640"]));
  });

  test("the policy lets no other script run", async () => {
    await chromium.open(url, { width: 800, scheme: "light" });
    const planted = `(() => {
      const script = document.createElement("script");
      script.textContent = "window.planted = 1";
      document.body.append(script);
      return window.planted === undefined;
    })()`;
    expect(await chromium.evaluate<boolean>(planted)).toBe(true);
  });
});
