/** What one rule says of the second deployment with defects; that it leaves nothing behind is checked on the way. */
import { expect } from "vitest";
import type { Defect, Variant } from "../../properties/second-api/names.ts";
import { RULES } from "./catalogue.ts";
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
  const tryWith = (...only: string[]) =>
    verifySecondApi({ defects, variants, streamMs }, ({ liveKeys }) => {
      live = liveKeys();
      return { only, allowWrites: true, allowQuotaBurn: true, allowLoad: true };
    });
  const claimIn = ({ claims }: Awaited<ReturnType<typeof tryWith>>) => claims.find(({ id }) => id === `verify/${rule}`);
  // A rule over every answer sends no calls. Twenty show most breaches, and only where they show none do the hundreds of a whole run.
  const isOverAll = RULES.some(({ id, phase }) => id === rule && phase === "every-answer");
  const few = isOverAll ? await tryWith(rule, "meters") : null;
  const tried = few !== null && claimIn(few)?.verdict === "fail" ? few : await tryWith(rule);
  const { claims, crashes, api } = tried;
  if (tried !== few) expect(claims).toHaveLength(1);
  const claim = claimIn(tried);
  // The rules that send the twenty calls may fail as well.
  const rules = tried === few ? expect.arrayContaining([rule]) : [rule];
  if (claim?.verdict === "fail") expect(crashes.map((crash) => crash.rule)).toEqual(rules);
  // A key that a broken deployment made against the rules is gone again as well.
  if (!defects.some((defect) => UNDELETED.includes(defect))) expect(api.liveKeys()).toBe(live);
  return `${claim?.verdict} ${claim?.verdict === "fail" ? "" : claim?.reason}`.trim();
};
