/** Each stated requirement of the specification is defended by a test that cites it in its title. */
import { describe, expect, test } from "vitest";
import { requirements, testsByItem } from "../cli/explain.ts";

describe("the index of requirements", () => {
  const stated = [...requirements()].filter(([, text]) => text.startsWith("[R]")).map(([item]) => item);

  test("knows every requirement that the specification states", () => {
    expect(requirements().size).toBe(234);
    expect(stated.length).toBeGreaterThanOrEqual(136);
  });

  test("has a test for each of them", () => {
    const tests = testsByItem();
    expect(stated.filter((item) => !tests.has(item))).toEqual([]);
  });

  test("cites no number that is none", () => {
    const known = requirements();
    expect([...testsByItem().keys()].filter((item) => !known.has(item))).toEqual([]);
  });
});
