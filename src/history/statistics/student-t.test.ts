import { expect, test } from "vitest";
import { studentT } from "./statistics.ts";

// NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.2 (upper critical values of Student's t).
test.each([
  [1, 12.706, 63.657],
  [2, 4.303, 9.925],
  [5, 2.571, 4.032],
  [10, 2.228, 3.169],
  [15, 2.131, 2.947],
  [30, 2.042, 2.75],
  [63, 1.998, 2.656],
  [100, 1.984, 2.626],
])("of %i degrees of freedom is that of the published table", (freedom, at95, at99) => {
  expect(studentT(freedom)).toBeCloseTo(at95, 3);
  expect(studentT(freedom, 0.99)).toBeCloseTo(at99, 3);
});

test("degrees of freedom are whole and above 0", () => {
  expect(() => studentT(0)).toThrow(RangeError);
  expect(() => studentT(2.5)).toThrow(RangeError);
});
