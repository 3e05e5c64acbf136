import { describe, expect, test } from "vitest";
import { positive, upTo } from "./options.ts";

describe("a number of an option", () => {
  test.each(["", " ", "0", "-1", "many", "Infinity", "1e999", "NaN"])("%j is no number above 0", (text) => {
    expect(() => positive(text)).toThrow(`expected a number above 0, got "${text}".`);
    expect(() => upTo(10)(text)).toThrow(`expected a number above 0, got "${text}".`);
  });

  test("a finite number above the most is refused with the most", () => {
    expect(() => upTo(10)("11")).toThrow('expected at most 10, got "11".');
    expect(upTo(10)("10")).toBe(10);
    expect(upTo(10, true)("0")).toBe(0);
  });
});
