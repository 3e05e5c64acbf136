/** What one rule says of the second deployment with defects; that it leaves nothing behind is checked on the way. */
import { expect } from "vitest";
import { createSecrets } from "../target/secrets.ts";
import { runVerify } from "./run-verify.ts";
import type { Defect } from "./second-api/defects.ts";
import { startSecondApi } from "./second-api/start-second-api.ts";
import type { Variant } from "./second-api/variants.ts";

/** Keys stay there whatever we do. */
const UNDELETED: readonly Defect[] = ["delete-does-nothing", "server-keys-live-on"];

export const verdictOf = async (
  names: Defect | readonly Defect[],
  rule: string,
  variants: readonly Variant[] = [],
): Promise<string> => {
  const defects = typeof names === "string" ? [names] : names;
  const streamMs = rule === "stream-is-not-buffered" ? 400 : 40;
  const api = await startSecondApi({ defects, variants, streamMs });
  const live = api.liveKeys();
  try {
    const { claims, crashes } = await runVerify({
      target: api.target,
      secrets: createSecrets("."),
      seed: 7,
      ratePerS: 400,
      only: [rule],
      allowWrites: true,
      allowQuotaBurn: true,
      allowLoad: true,
    });
    expect(claims).toHaveLength(1);
    const claim = claims[0];
    if (claim?.verdict === "fail") expect(crashes.map((crash) => crash.rule)).toEqual([rule]);
    // A key that a broken deployment made against the rules is gone again as well.
    if (!defects.some((defect) => UNDELETED.includes(defect))) expect(api.liveKeys()).toBe(live);
    return `${claim?.verdict} ${claim?.verdict === "fail" ? "" : claim?.reason}`.trim();
  } finally {
    await api.close();
  }
};
