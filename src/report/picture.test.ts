import { expect, test } from "vitest";
import { madeSeries } from "./made-series.fixture.ts";
import { pictureOf, THEMES } from "./picture.ts";

test.each(["light", "dark"] as const)("a %s picture has the offered load, what came of it, and the fault", (theme) => {
  const svg = pictureOf(madeSeries({ stage: "full", calls: 600, withFault: true }), THEMES[theme]);
  expect(svg).toMatch(/^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg"/);
  expect(svg).toContain(">offered</text>");
  expect(svg).toContain(THEMES[theme].kinds.answered);
  expect(svg).toMatch(/<rect x="[\d.]+" width="[\d.]+" height="220"/);
  expect(svg).not.toMatch(/NaN|class=|url\(/);
});

test("a run without a stage has none", () => {
  expect(() => pictureOf({ schema: "floodgate/series@1", stages: [] }, THEMES.light)).toThrow(RangeError);
});
