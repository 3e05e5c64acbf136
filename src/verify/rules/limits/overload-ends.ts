/** Last of all bursts (items 180, 210, 220): whatever the ones before and the refusals have left behind shows now. */
import { Checks } from "../../checks.ts";
import { wave } from "../../limits/load-burst.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, isAdmitted } from "../../sending/answer.ts";
import { wait } from "../../sending/throttle.ts";
import { shedBelowGlobal, shedIn } from "./overload-caps.ts";
import { bursts, isMet } from "./overload-is-no-outage.ts";

const RECOVER_WITHIN_MS = 12_000;
const REST_MS = 1_500;
const ALMOST_FULL = 0.9;
const SHED_MIN = 3;
const SHED_SHARE = 0.1;

const isMuchShed = (answers: readonly Answer[]): boolean =>
  shedIn(answers).length >= Math.max(SHED_MIN, answers.length * SHED_SHARE);
const servedIn = (answers: readonly Answer[]): number => answers.filter(isAdmitted).length;

export const overloadEnds: Rule = {
  id: "overload-ends",
  level: "must",
  spec: [180, 210, 220],
  title: "after bursts over the global cap and refusals, almost as many as the cap allows are served again",
  phase: "load",
  needs: { permission: "load", anyOf: ["server", "publishable"] },
  cost: ({ limits }) => ({ calls: Math.ceil(1.4 * (limits?.global_in_flight ?? 0)) + 8 }),
  run: async (context) => {
    const found = await bursts(context);
    const checks = new Checks(`hardly any stream shed, within ${RECOVER_WITHIN_MS / 1000} s`);
    if (typeof found === "string") return checks.result(found);
    const { callers, cap, orgCap } = found.plan;
    if (!found.above.some((answers) => isMet(answers, found.plan))) {
      return checks.result(`the global cap of ${cap} was not met with ${found.plan.above} streams at once`);
    }
    const size = Math.floor(ALMOST_FULL * Math.min(cap, callers.length * orgCap));
    const broken = { body: { text: '{"messages": [', is: "malformed" }, atOnce: true, once: true } as const;
    for (let i = 0; i < cap / 2; i += callers.length) {
      await Promise.all(callers.map((caller) => context.send({ route: "chat.control", ...caller, ...broken })));
    }
    const endMs = performance.now() + RECOVER_WITHIN_MS;
    let served = 0;
    for (;;) {
      await wait(REST_MS, context.signal);
      const answers = await wave(context, size, callers);
      served = Math.max(served, servedIn(answers));
      const shed = shedIn(answers);
      const last = shed.at(-1);
      if (last === undefined || !isMuchShed(answers)) {
        if (answers.some(isAdmitted)) checks.fine();
        else checks.unclear("nothing was served for another reason");
        return checks.result();
      }
      if (performance.now() < endMs) continue;
      const before = Math.max(...found.above.map(servedIn));
      // Nothing was lost where it was no more before; the rule about the caps says so. The best of several waves here as there:
      // in one that a busy machine draws out, slots are given back and taken again.
      if (served >= ALMOST_FULL * before && (await shedBelowGlobal(context)) !== null) {
        return checks.result(`as many are served as ever, ${served}, and that is far below the cap of ${cap}`);
      }
      checks.require(false, last, `${size} streams served at once`, `${shed.length} were shed`);
      return checks.result();
    }
  },
};
