import { describe, expect, test } from "vitest";
import { type DatedAnswer, skewOf } from "./connection.ts";

/** An answer of a deployment whose clock is `offsetMs` ahead, written `afterMs` into an exchange of 40 ms. */
const answered = (sentMs: number, offsetMs: number, afterMs = 20): DatedAnswer => ({
  sentMs,
  heardMs: sentMs + 40,
  date: new Date(Math.floor((sentMs + afterMs + offsetMs) / 1000) * 1000).toUTCString(),
});

const START_MS = Date.UTC(2026, 5, 1);

describe("the clock of a deployment", () => {
  test.each([0, -350, 2_750, -90_000, 3_600_000])("%d ms off lies in what is reported", (offsetMs) => {
    const skew = skewOf(Array.from({ length: 12 }, (_, k) => answered(START_MS + 137 * k, offsetMs)));
    if ("state" in skew) throw new Error("expected a figure");
    expect(Math.abs(skew.offsetMs - offsetMs)).toBeLessThanOrEqual(skew.errorMs);
    // Answers over more than a second narrow what one `Date` leaves open.
    expect(skew.errorMs).toBeLessThan(150);
  });

  test("one answer leaves half a second open on either side", () => {
    const skew = skewOf([answered(START_MS, 0)]);
    expect(skew).toMatchObject({ errorMs: 520 });
  });

  test("without a Date, and with Dates that contradict each other, there is no figure", () => {
    const undated = skewOf([{ sentMs: 0, heardMs: 1, date: undefined }]);
    expect(undated).toMatchObject({ state: "info", text: expect.stringContaining("no answer has a Date") });
    const contradicting = skewOf([answered(START_MS, 0), answered(START_MS, 60_000)]);
    expect(contradicting).toMatchObject({ state: "warn", text: expect.stringContaining("contradict each other") });
  });
});
