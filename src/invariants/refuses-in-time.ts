/**
 * A dependency that is silent must not make its callers wait: who waits holds a slot, and some hundred of them are an outage
 * of everything (items 213, 216; design.md "Fail closed, fail fast"). So while a fault of the limiter or the key service bites,
 * every call is decided within what that dependency is given, and a little. A few late ones on a busy machine are strays, and
 * time in which the generator itself stood still does not count.
 */
import type { CallLine } from "../history/line.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import { FaultWindows } from "./evidence/fault-windows.ts";
import { GeneratorStalls } from "./evidence/generator-stalls.ts";
import { decidedByUs, earliestUs, Settling } from "./evidence/moments.ts";
import {
  Evidence,
  failed,
  type Invariant,
  inconclusive,
  knownBeforehand,
  passed,
  skipped,
  unseen,
} from "./invariant.ts";

const EXPECTED = "while a dependency is broken, every call is decided within the time that the dependency is given";

/** Beyond the budget: what a call costs on a very busy machine beside it. Whoever hangs, hangs for longer. */
const SLACK_US = 1_000_000;
const ENOUGH = 10;
const STRAYS = 3;
const STRAY_SHARE = 0.2;
/** More than these prove nothing that these do not. */
const LATE_MOST = 1_000;
/** Decided before any dependency is asked. */
const SHED = new Set(["429 b2b_overloaded", "429 org_overloaded"]);

const budgetUs = (link: string, { limits }: StageFacts): number | undefined => {
  const ms = link === "limiter" ? limits.limiter_budget_ms : link === "keys" ? limits.key_service_budget_ms : undefined;
  return ms === undefined ? undefined : ms * 1000;
};

export const refusesInTime: Invariant = {
  id: "refuses-in-time",
  level: "must",
  spec: [153, 213, 216],
  statement: EXPECTED,
  judge(facts) {
    if (!facts.faults) return knownBeforehand(skipped("a fault of the limiter or the key service", EXPECTED));
    const { limiter_budget_ms: limiterMs, key_service_budget_ms: keysMs } = facts.limits;
    if (limiterMs === undefined && keysMs === undefined) {
      return knownBeforehand(skipped("limits.limiter_budget_ms or limits.key_service_budget_ms", EXPECTED));
    }
    const windows = new FaultWindows();
    const stalls = new GeneratorStalls();
    /** Whether the machine stood still meanwhile is known only afterwards. */
    const late: { id: string; got: string; sentUs: number; tookUs: number; allowedUs: number }[] = [];
    let judged = 0;

    const judge = (call: CallLine): void => {
      // A call may have had to ask both.
      let allowedUs = SLACK_US;
      let untilUs = Number.POSITIVE_INFINITY;
      const sentUs = call.sent_us;
      const around = windows.all.filter(
        ({ link, tookEffect, fromUs, toUs }) =>
          tookEffect && budgetUs(link, facts) !== undefined && earliestUs(call) >= fromUs && sentUs < toUs,
      );
      const fault = around[0]?.fault;
      if (fault === undefined) return;
      for (const { link, toUs } of around) {
        allowedUs += budgetUs(link, facts) ?? 0;
        untilUs = Math.min(untilUs, toUs);
      }
      const tookUs = decidedByUs(call) - sentUs;
      const isInTime = tookUs <= allowedUs && decidedByUs(call) <= untilUs;
      // What the heal came to the help of says nothing.
      const isLate = tookUs > allowedUs && sentUs + allowedUs <= untilUs;
      if (!isInTime && !isLate) return;
      judged += 1;
      if (isInTime) return;
      const [took, allowed] = [tookUs, allowedUs].map((us) => Math.round(us / 1000));
      const got = `${call.outcome} after ${took} ms on ${call.route} while "${fault}"; ${allowed} ms are plenty`;
      if (late.length < LATE_MOST) late.push({ id: call.id, got, sentUs, tookUs, allowedUs });
    };
    const settling = new Settling(judge);
    /** Late also when the time is taken off in which the generator itself stood still; of the others nothing is known. */
    const certainlyLate = (): Evidence => {
      const evidence = new Evidence();
      for (const { id, got, sentUs, tookUs, allowedUs } of late) {
        if (tookUs - stalls.within(sentUs, sentUs + tookUs) > allowedUs) evidence.breach(id, got);
        else judged -= 1;
      }
      return evidence;
    };
    return {
      see(line) {
        settling.reach(line);
        if (line.type === "fault") windows.see(line);
        if (line.type === "call") stalls.see(line);
        if (line.type === "call" && line.route !== "-" && !SHED.has(line.outcome)) settling.add(line);
      },
      end() {
        settling.finish();
        const proved = certainlyLate();
        if (!windows.all.some(({ link, tookEffect }) => tookEffect && budgetUs(link, facts) !== undefined)) {
          return inconclusive("no fault of the limiter or the key service took effect", EXPECTED);
        }
        if (judged < ENOUGH) return unseen(`${judged} calls were sent while it was broken; 10 are needed`, EXPECTED);
        if (proved.count >= STRAYS && proved.count > STRAY_SHARE * judged) {
          return failed("calls waited for a dependency that did not answer", EXPECTED, proved);
        }
        const aside = proved.count === 0 ? "" : `, ${proved.count} strays aside`;
        return passed(`${judged} calls were decided in time${aside}`, EXPECTED);
      },
    };
  },
};
