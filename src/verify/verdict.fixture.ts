/** What one rule says of the second deployment with defects; that it leaves nothing behind is checked on the way. */
import { expect } from "vitest";
import type { Defect, Variant } from "../../properties/second-api/names.ts";
import { verifySecondApi } from "./verify-second-api.fixture.ts";

/** Keys stay there whatever we do. */
const UNDELETED: readonly Defect[] = ["delete-does-nothing", "server-keys-live-on"];

export const verdictOf = async (
  names: Defect | readonly Defect[],
  rule: string,
  variants: readonly Variant[] = [],
): Promise<string> => {
  const defects = typeof names === "string" ? [names] : names;
  const streamMs = rule.endsWith("stream-is-not-buffered") ? 400 : 40;
  let live = 0;
  const { claims, crashes, api } = await verifySecondApi({ defects, variants, streamMs }, ({ liveKeys }) => {
    live = liveKeys();
    return { only: [rule], allowWrites: true, allowQuotaBurn: true, allowLoad: true };
  });
  expect(claims).toHaveLength(1);
  const claim = claims[0];
  if (claim?.verdict === "fail") expect(crashes.map((crash) => crash.rule)).toEqual([rule]);
  // A key that a broken deployment made against the rules is gone again as well.
  if (!defects.some((defect) => UNDELETED.includes(defect))) expect(api.liveKeys()).toBe(live);
  return `${claim?.verdict} ${claim?.verdict === "fail" ? "" : claim?.reason}`.trim();
};
