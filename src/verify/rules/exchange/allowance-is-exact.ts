/**
 * The allowance of a Free organization, used up on purpose (items 10, 79, 87, 184, 204, 227, 234; A9): mints at the edge, at
 * once, because a gap between check and charge shows only then.
 */
import { Checks } from "../../checks.ts";
import { burn, EXCEEDED, PAST, UNKNOWN_MOST } from "../../limits/allowance-burn.ts";
import { inOneWindow } from "../../limits/month-windows.ts";
import { OutOfBudget } from "../../planning/shortage.ts";
import type { Rule } from "../../rule.ts";
import { exchangeCall } from "../../sending/test-call.ts";
import {
  figuresHold,
  isGivenAgain,
  notCounted,
  noteEdge,
  ofTwoMonths,
  overCap,
  REUSED,
  spentNote,
  tellOthers,
} from "./burn-findings.ts";
import { usedIn } from "./quota-and-hard-stop.ts";

export const freeAllowance: Rule = {
  id: "allowance-is-exact",
  level: "must",
  spec: [10, 79, 87, 184, 204, 227, 234],
  title: "a Free organization is served exactly its allowance of map loads, also when all come at once",
  phase: "quota-burn",
  needs: { permission: "quota-burn", roles: ["publishable_expendable"] },
  cost: ({ credentials }) => {
    const limit = credentials?.publishable_expendable?.limit ?? UNKNOWN_MOST;
    return { calls: limit + 5, map_loads: limit };
  },
  run: async (context) => {
    const of = "publishable_expendable";
    const checks = new Checks("map loads up to the allowance and none more, then map_load_quota_exceeded");
    const stated = context.keyRole(of)?.limit;
    const most = (stated ?? UNKNOWN_MOST) + PAST;
    const short = context.short("map_loads", stated ?? UNKNOWN_MOST);
    if (short !== null) throw new OutOfBudget(short);
    const found = await burn(context, of, stated);
    const { stop, admitted, mints } = found;
    tellOthers(checks, found);
    if (stop === null) return notCounted(context, of, found, most, checks);
    if (stated !== undefined) overCap(checks, found, stated, `at most ${stated} map loads in a month`);
    if (found.reused > 0 && !checks.failed) return new Checks(REUSED).result(REUSED);
    // A mint that came first in the burst and was refused last may be the one in `stop`: look again, alone.
    const last = await context.send(exchangeCall(of, "listed", "tile"));
    if (isGivenAgain(found, last) && !checks.failed) return new Checks(REUSED).result(REUSED);
    if (!inOneWindow(mints, context.wallMs())) return ofTwoMonths(checks, stop);
    const used = usedIn(last);
    await figuresHold(context, stated === undefined ? null : admitted.length === stated);
    if (!checks.expect(last, { accepts: [EXCEEDED] }) || used === undefined) return checks.result();
    const limit = Number(last.fields.limit);
    overCap(checks, found, limit, `at most ${limit} map loads in a month`);
    // Above the limit, when it was a paid organization before, or somebody else's loads came first: then nothing is admitted.
    const fits = admitted.length === 0 ? used >= limit : used === limit;
    checks.require(fits, last, `used at the limit, ${limit}`, `used was ${used}`);
    checks.require(
      used >= admitted.length,
      last,
      `every one of the ${admitted.length} admitted mints counted`,
      `used was ${used}`,
    );
    noteEdge(checks, found);
    checks.note(`${admitted.length} of ${limit} were left and admitted`);
    if (admitted.length === 0 && !checks.failed) return new Checks(freeAllowance.title).result(spentNote(of, last));
    return checks.result();
  },
};
