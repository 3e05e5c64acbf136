/** Slots that clients left and refused calls gave back are there again (items 180, 210, 211, 220). */

import { statedWaitMs } from "../../../contract/retry-after.ts";
import { Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import { overload, pressRate, rateAllowed, SHED, wave } from "../../limits/load-burst.ts";
import { isAdmitted } from "../../sending/answer.ts";
import { exchangeCall, type TestCall } from "../../sending/test-call.ts";
import { wait } from "../../sending/throttle.ts";
import { loadRule, wavesAroundAnEdgeCost } from "./load-rule.ts";
import { capNotMet } from "./overload.ts";

const WAIT_MAX_MS = 15_000;
const RECOVER_WITHIN_MS = 12_000;
const LOOK_EVERY_MS = 1_000;
const REFUSALS_MAX = 120;
const AT_A_TIME = 8;

/** Refusals that have been through the door: each may have taken a slot and must have given it back. */
const refuseMany = async (context: Context, count: number): Promise<void> => {
  const testCall: TestCall = context.has("publishable")
    ? exchangeCall("publishable", "foreign", "chat", { atOnce: true, once: true })
    : { route: "chat.control", credential: { as: "none" }, origin: "none", atOnce: true, once: true };
  const everyMs = (1000 / rateAllowed(context)) * AT_A_TIME;
  for (let i = 0; i < count; i += AT_A_TIME) {
    await Promise.all([
      wait(everyMs, context.signal),
      ...Array.from({ length: Math.min(AT_A_TIME, count - i) }, () => context.send(testCall)),
    ]);
  }
};

export const slotsComeBack = loadRule({
  id: "slots-come-back",
  level: "must",
  spec: [180, 210, 211, 220],
  title: "after clients have left and calls were refused, as many are served as before",
  cost: wavesAroundAnEdgeCost,
  run: async (context) => {
    const found = await overload(context);
    const { reached, capacity, caller } = found;
    const half = Math.max(1, Math.floor(capacity / 2));
    const checks = new Checks(`streams served again, ${half} at once, none shed, within ${RECOVER_WITHIN_MS / 1000} s`);
    // Where the whole wave was shed, slots may be lost already: then a single stream has to come through.
    if (!reached || caller === null) return checks.result(capNotMet(context, found));
    await wave(context, Math.min(Math.max(1, capacity), rateAllowed(context)), [caller], true);
    await refuseMany(context, Math.min(capacity + 8, REFUSALS_MAX));
    const { limited: overRate } = await pressRate(context, Math.min(capacity + 8, REFUSALS_MAX));
    const after = overRate.at(-1)?.headers["retry-after"];
    const restMs = after === undefined ? 0 : (statedWaitMs(after, Date.now()) ?? 0);
    await wait(Math.min(restMs, WAIT_MAX_MS), context.signal);
    const endMs = performance.now() + RECOVER_WITHIN_MS;
    for (;;) {
      await wait(LOOK_EVERY_MS, context.signal);
      const answers = await wave(context, half, [caller]);
      const shed = answers.find(({ outcome }) => SHED.test(outcome));
      const limited = answers.some(({ subcode }) => subcode === "rate_limited" || subcode === "limiter_unavailable");
      if (shed === undefined && !limited) {
        checks.fine();
        return checks.result();
      }
      if (performance.now() < endMs) continue;
      if (shed === undefined) {
        // Nobody can do anything about a stated limit; one that is away is another matter.
        if (answers.some(({ subcode }) => subcode === "rate_limited")) {
          return checks.result("the rate limit stood in the way of so many streams");
        }
        checks.unclear("the limiter was away");
      } else {
        const stays = `${answers.filter(isAdmitted).length} of ${half} were served`;
        checks.require(false, shed, `${half} streams, none shed`, stays);
      }
      return checks.result();
    }
  },
});
