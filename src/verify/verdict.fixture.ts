/** What one rule says of the second deployment with defects; that it leaves nothing behind is checked on the way. */
import { expect } from "vitest";
import { createSecrets } from "../target/secrets.ts";
import { runVerify } from "./run-verify.ts";
import { startTwin } from "./second-api/start-second-api.ts";

export const verdictOf = async (defects: string, rule: string, variants: readonly string[] = []): Promise<string> => {
  const streamMs = rule === "stream-is-not-buffered" ? 400 : 40;
  const twin = await startTwin({ defects: defects === "" ? [] : defects.split(","), variants, streamMs });
  const live = twin.liveKeys();
  try {
    const { claims, crashes } = await runVerify({
      target: twin.target,
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
    if (defects !== "delete-does-nothing" && defects !== "server-keys-live-on") expect(twin.liveKeys()).toBe(live);
    return `${claim?.verdict} ${claim?.verdict === "fail" ? "" : claim?.reason}`.trim();
  } finally {
    await twin.close();
  }
};
