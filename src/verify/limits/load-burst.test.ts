import { expect, test } from "vitest";
import type { CallLine } from "../../history/line.ts";
import { sideBySide } from "./load-burst.ts";

test("the capacity is what was served at once: of a wave that came late, the last took the slots of the first", () => {
  const answer = (outcome: string, fromMs: number | null, toMs: number) => ({
    outcome,
    line: { first_us: fromMs === null ? null : fromMs * 1000, done_us: toMs * 1000 } as CallLine,
  });
  const first = Array.from({ length: 40 }, (_, i) => answer("200", i, 300 + i));
  const refused = Array.from({ length: 3 }, () => answer("429 b2b_overloaded", 50, 51));
  const last = Array.from({ length: 21 }, (_, i) => answer("200", 345 + i, 650 + i));
  expect(sideBySide([...first, ...refused, ...last, answer("indeterminate", null, 700)])).toBe(40);
});
