/** Nothing but tile uses map loads up (items 80, 225). */
import { ANY_SUCCESS, Checks } from "../../checks.ts";
import { isStop } from "../../limits/allowance-burn.ts";
import type { Rule } from "../../rule.ts";
import { isAdmitted } from "../../sending/answer.ts";
import { exchangeCall } from "../../sending/test-call.ts";
import { HARD_STOP_TIMES, paidCap, spentNote } from "./burn-findings.ts";

const OTHERS_MAX = 60;

export const otherProducts: Rule = {
  id: "other-products-are-not-charged",
  level: "must",
  spec: [80, 225],
  title: "sessions of other products use up no map loads",
  phase: "quota-burn",
  needs: { permission: "quota-burn", roles: ["publishable_expendable_paid"], spends: { map_loads: 2 } },
  cost: (target) => ({ calls: paidCap(target) + 3, map_loads: 2 }),
  run: async (context) => {
    const of = "publishable_expendable_paid";
    const checks = new Checks("tile is served after more chat sessions than the organization has map loads");
    const cap = (context.keyRole(of)?.limit ?? OTHERS_MAX) * HARD_STOP_TIMES;
    if (cap >= OTHERS_MAX) return checks.result(`the allowance of ${of} is too large to be passed`);
    const before = await context.send(exchangeCall(of, "listed", "tile"));
    if (isStop(before)) return checks.result(spentNote(of, before));
    if (!checks.expect(before, { accepts: [ANY_SUCCESS] })) return checks.result();
    const chats = Array.from({ length: cap + 1 }, () => exchangeCall(of, "listed", "chat"));
    await context.each(chats, async (testCall) => {
      const answer = await context.send(testCall);
      if (!isAdmitted(answer)) checks.expect(answer, { accepts: [ANY_SUCCESS] });
    });
    const after = await context.send(exchangeCall(of, "listed", "tile"));
    checks.expect(after, { accepts: [ANY_SUCCESS] }, [before]);
    return checks.result();
  },
};
