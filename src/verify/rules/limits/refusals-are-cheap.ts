/** Whether a call that is shed takes less time than one that is served (item 220). */
import { median } from "../../../history/statistics/statistics.ts";
import { Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import { overload, SHED } from "../../limits/load-burst.ts";
import { type Answer, isAdmitted } from "../../sending/answer.ts";
import type { TestCall } from "../../sending/test-call.ts";
import { loadRule, wavesCost } from "./load-rule.ts";
import { capNotMet } from "./overload.ts";

const firstByteMs = ({ received }: Answer): number => ((received.firstUs ?? received.doneUs) - received.sentUs) / 1000;

const wholeMs = ({ received }: Answer): number => (received.doneUs - received.sentUs) / 1000;

/** What a burst from one host does to both kinds alike. */
const BURST_MS = 150;
const QUICK_CALLS = 9;

/** How long an answer takes that needs no work at all: the way there and back, and what is in between for all of them. */
const wayMs = async (context: Context): Promise<number> => {
  const testCall: TestCall = { route: "design.styles", credential: { as: "none" }, origin: "none", once: true };
  const took: number[] = [];
  await context.each(Array(QUICK_CALLS).fill(testCall), async (one: TestCall) => {
    took.push(firstByteMs(await context.send(one)));
  });
  return median(took) ?? 0;
};

export const refusalsAreCheap = loadRule({
  id: "refusals-are-cheap",
  level: "info",
  spec: [220],
  title: "whether a call that is shed costs far less time than one that is served",
  cost: wavesCost,
  run: async (context) => {
    const checks = new Checks("the median refusal takes at most half the time of a served call");
    const found = await overload(context);
    const { reached, answers } = found;
    if (!reached) return checks.result(capNotMet(context, found));
    const shed = answers.filter(({ outcome }) => SHED.test(outcome));
    const served = answers.filter(isAdmitted);
    const last = shed.at(-1);
    if (last === undefined || served.length === 0) return checks.result("nothing to compare");
    const quickMs = await wayMs(context);
    const tookMs = median(shed.map(firstByteMs)) as number;
    const mayMs = quickMs + Math.max(BURST_MS, ((median(served.map(wholeMs)) as number) - quickMs) / 2);
    checks.require(
      tookMs <= mayMs,
      last,
      `at most about ${mayMs.toFixed(0)} ms`,
      `the median was ${tookMs.toFixed(0)} ms`,
    );
    return checks.result();
  },
});
