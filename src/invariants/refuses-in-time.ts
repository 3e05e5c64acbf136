/**
 * Calls must not wait for a silent dependency: waiting calls hold slots (items 213, 216). While a fault of limiter or key service
 * takes effect, each call is decided within that dependency's budget and some slack. A few late calls are strays.
 */
import type { CallLine } from "../history/line.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import { FaultWindows } from "./evidence/fault-windows.ts";
import { decidedByUs, earliestUs, isShed, MARK_MARGIN_US, Settling } from "./evidence/moments.ts";
import { Evidence, failed, type Invariant, inconclusive, passed, skipped, unseen } from "./invariant.ts";

/** Cost of a call on a very busy machine. Calls that hang take longer. */
const SLACK_US = 1_000_000;
const ENOUGH = 10;
const STRAYS = 3;
const STRAY_SHARE = 0.2;

const STALL_US = 250_000;

type Span = { fromUs: number; toUs: number };

/**
 * Times in which the load generator stood still, so that all due calls left afterwards. A machine that starves the generator
 * starves the deployment too, so these times are subtracted.
 */
class GeneratorStalls {
  /** Without overlaps. */
  #spans: Span[] = [];

  see({ intended_us: fromUs, sent_us: toUs }: CallLine): void {
    if (toUs - fromUs < STALL_US) return;
    const meets = (span: Span): boolean => span.fromUs <= toUs && span.toUs >= fromUs;
    const one = this.#spans
      .filter(meets)
      .reduce(
        (whole, span) => ({ fromUs: Math.min(whole.fromUs, span.fromUs), toUs: Math.max(whole.toUs, span.toUs) }),
        { fromUs, toUs },
      );
    this.#spans = [...this.#spans.filter((span) => !meets(span)), one];
  }

  /** Microseconds of stall within a span. */
  within(fromUs: number, toUs: number): number {
    return this.#spans.reduce(
      (sum, span) => sum + Math.max(0, Math.min(toUs, span.toUs) - Math.max(fromUs, span.fromUs)),
      0,
    );
  }
}

type Late = { id: string; got: string; sentUs: number; tookUs: number; allowedUs: number };

const budgetUs = (link: string, { limits }: StageFacts): number | undefined => {
  const ms = link === "limiter" ? limits.limiter_budget_ms : link === "keys" ? limits.key_service_budget_ms : undefined;
  return ms === undefined ? undefined : ms * 1000;
};

export const refusesInTime: Invariant = {
  id: "refuses-in-time",
  level: "must",
  spec: [153, 213, 216],
  statement: "while a dependency is broken, every call is decided within the time that the dependency is given",
  judge(facts) {
    if (!facts.faults) return skipped("a fault of the limiter or the key service");
    const { limiter_budget_ms: limiterMs, key_service_budget_ms: keysMs } = facts.limits;
    if (limiterMs === undefined && keysMs === undefined) {
      return skipped("limits.limiter_budget_ms or limits.key_service_budget_ms");
    }
    const windows = new FaultWindows();
    const stalls = new GeneratorStalls();
    /** Late calls, undecided until later calls show whether the generator stood still. */
    let undecided: Late[] = [];
    const proved = new Evidence();
    let judged = 0;

    const judge = (call: CallLine): void => {
      // A call may need both dependencies.
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
      // The heal may release a call early.
      const isLate = tookUs > allowedUs && sentUs + allowedUs <= untilUs;
      if (!isInTime && !isLate) return;
      judged += 1;
      if (isInTime) return;
      const [took, allowed] = [tookUs, allowedUs].map((us) => Math.round(us / 1000));
      const got = `${call.outcome} after ${took} ms on ${call.route} while "${fault}"; ${allowed} ms are plenty`;
      undecided.push({ id: call.id, got, sentUs, tookUs, allowedUs });
    };
    const settling = new Settling(judge);
    /** Late only if it is late without the stalls; else not judged. */
    const decide = ({ id, got, sentUs, tookUs, allowedUs }: Late): void => {
      if (tookUs - stalls.within(sentUs, sentUs + tookUs) > allowedUs) proved.breach(id, got);
      else judged -= 1;
    };
    /** Decides calls that ended before `us`, up to which every stall is known. */
    const decideBefore = (us: number): void => {
      if (undecided.length === 0) return;
      const isOver = ({ sentUs, tookUs }: Late): boolean => sentUs + tookUs < us;
      for (const one of undecided.filter(isOver)) decide(one);
      undecided = undecided.filter((one) => !isOver(one));
    };
    return {
      see(line) {
        settling.reach(line);
        if (line.type === "fault") windows.see(line);
        if (line.type === "call") {
          stalls.see(line);
          decideBefore(line.sent_us - MARK_MARGIN_US);
        }
        // Sheds are decided before any dependency is asked.
        if (line.type === "call" && line.route !== "-" && !isShed(line)) settling.add(line);
      },
      end() {
        settling.finish();
        decideBefore(Number.POSITIVE_INFINITY);
        if (!windows.all.some(({ link, tookEffect }) => tookEffect && budgetUs(link, facts) !== undefined)) {
          return inconclusive("no fault of the limiter or the key service took effect");
        }
        if (judged < ENOUGH) return unseen(`${judged} calls were sent while it was broken; 10 are needed`);
        if (proved.count >= STRAYS && proved.count > STRAY_SHARE * judged) {
          return failed("calls waited for a dependency that did not answer", proved);
        }
        const aside = proved.count === 0 ? "" : `, ${proved.count} strays aside`;
        return passed(`${judged} calls were decided in time${aside}`);
      },
    };
  },
};
