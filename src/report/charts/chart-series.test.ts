import fc from "fast-check";
import { expect, test } from "vitest";
import { areasTo, type Step, stepsTo } from "./chart-series.ts";

/** The level pieces of a path: from where to where, how high. */
const levels = (d: string): { from: number; to: number; y: number }[] => {
  const pieces: { from: number; to: number; y: number }[] = [];
  let [x, y] = [0, 0];
  for (const [, command, values] of d.matchAll(/([MhvVHz])([^MhvVHz]*)/g)) {
    const numbers = [...(values as string).matchAll(/-?(?:\d+\.?\d*|\.\d+)/g)].map(Number);
    const [first = 0, second = 0] = numbers;
    if (command === "M") [x, y] = [first, second];
    if (command === "v") y += first;
    if (command === "V") y = first;
    if (command === "H") x = first;
    if (command === "h") {
      pieces.push({ from: x, to: x + first, y });
      x += first;
    }
  }
  return pieces;
};

const heightAt = (d: string, x: number): number | null =>
  levels(d).find(({ from, to }) => x > from && x < to)?.y ?? null;

const arbitrarySteps = fc
  .array(fc.option(fc.integer({ min: -20, max: 200 }), { nil: null }), { minLength: 1, maxLength: 40 })
  .map((ys): Step[] => ys.map((y, i) => ({ x: Math.round(i * 26.67 * 10) / 10, y })));

test("a line is as high in the middle of each step as the step, and nowhere where there is none", () => {
  fc.assert(
    fc.property(arbitrarySteps, (steps) => {
      const d = stepsTo(steps, steps.length * 26.67);
      for (const { x, y } of steps) {
        const height = heightAt(d, x + 13);
        if (y === null) expect(height).toBeNull();
        else expect(height).toBeCloseTo(y, 6);
      }
    }),
  );
});

test("an area has the same top, comes back to where it began, and leaves out what is not there", () => {
  fc.assert(
    fc.property(arbitrarySteps, (steps) => {
      const d = areasTo(steps, steps.length * 26.67, 190);
      for (const { x, y } of steps) expect(heightAt(d, x + 13) === null).toBe(y === null);
      for (const stretch of d.split("z").filter((one) => one !== "")) {
        const [, x, back] = /^M(\S+?)[ -].*V190H(.+)$/.exec(stretch) as RegExpExecArray;
        expect(back).toBe(x);
      }
    }),
  );
});

test("is written short", () => {
  const steps = [10, 10, 4.3, null, 7, 7, 0].map((y, x) => ({ x: x * 1.5, y }));
  expect(stepsTo(steps, 10.5)).toBe("M0 10h3v-5.7h1.5M6 7h3v-7h1.5");
});
