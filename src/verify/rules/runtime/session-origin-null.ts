/**
 * Where two gaps meet (items 53, 152): whether `null` counts as an Origin or as none, and whether a session needs one. Each is
 * open, but where a session needs an Origin both readings refuse `null`: as one it is in no allowlist, as none it is missing.
 */
import { outcomeOf } from "../../../contract/refusals.ts";
import { Checks } from "../../checks.ts";
import type { Rule } from "../../rule.ts";
import type { RuleResult } from "../../rule-result.ts";
import { inWords, isAdmitted } from "../../sending/answer.ts";
import { sessionWithNull, sessionWithoutOrigin } from "./gaps.ts";

const NO_ORIGIN = outcomeOf("origin_required");
const OPEN = "a session works without an Origin (152), so null may count as none (53)";

export const nullOrigin: Rule = {
  id: "session-origin-null",
  level: "must",
  spec: [53, 151, 152],
  title: "where a session needs an Origin, null is neither an allowlisted one nor enough",
  phase: "gaps",
  needs: { roles: ["publishable"] },
  cost: { calls: 0 },
  run: async (context): Promise<RuleResult> => {
    const checks = new Checks("a refusal, where a session without an Origin is refused as well");
    const [without, withNull] = [await sessionWithoutOrigin(context), await sessionWithNull(context)];
    // A key may list the text `null` itself, for pages without an origin.
    const isListed = context.keyRole("publishable")?.origin === "null";
    if (without.outcome !== NO_ORIGIN || isListed) return { ...checks.result(OPEN), idle: true };
    if (withNull.transient) checks.unclear(inWords(withNull));
    else checks.require(!isAdmitted(withNull), withNull, "a refusal, as without an Origin", inWords(withNull));
    return checks.result();
  },
};
