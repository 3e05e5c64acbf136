/** Judges how long calls take while a dependency is broken: each call of a stage, and the p99 over a run's experiments. */
import type { CallLine, Line } from "../history/line.ts";
import { BROKEN, HELD, openBy, type Ruling } from "../history/reason-codes.ts";
import { type Claim, claimOf, dependencyBudgetMs, type Limits, type StageHost } from "../history/run-document.ts";
import { callsForInterval, quantile, quantileInterval, sumOf } from "../history/statistics/statistics.ts";
import { standstillDoubts, timeDoubts } from "../history/time-doubts.ts";
import { meterOf } from "./evidence/charges.ts";
import { type FaultWindow, FaultWindows, letsNothingThrough, REFUSAL_OF } from "./evidence/fault-windows.ts";
import { decidedByUs, earliestUs, isAdmitted, isReference, isShed, MARK_MARGIN_US } from "./evidence/moments.ts";
import { counted, Evidence, failed, inconclusive, type Judge, passed, skipped, unseen } from "./invariant.ts";

/** Cost of a call on a very busy machine. Calls that hang take longer. */
const SLACK_US = 1_000_000;
const ENOUGH = 10;
const STRAYS = 3;
const STRAY_SHARE = 0.2;

const STALL_US = 250_000;

/** Times in which the load generator stood still; a machine that starves it starves the deployment too. */
const generatorStalls = () => {
  /** Without overlaps. */
  let spans: { fromUs: number; toUs: number }[] = [];
  return {
    see: ({ intended_us: fromUs, sent_us: toUs }: CallLine): void => {
      if (toUs - fromUs < STALL_US) return;
      const one = { fromUs, toUs };
      spans = spans.filter((span) => {
        if (span.fromUs > toUs || span.toUs < fromUs) return true;
        one.fromUs = Math.min(one.fromUs, span.fromUs);
        one.toUs = Math.max(one.toUs, span.toUs);
        return false;
      });
      spans.push(one);
    },
    within: (fromUs: number, toUs: number): number =>
      sumOf(spans.map((span) => Math.max(0, Math.min(toUs, span.toUs) - Math.max(fromUs, span.fromUs)))),
  };
};

/** Waiting calls hold slots (items 213, 216), so each is decided within the broken dependency's budget and some slack. */
export const refusesInTime: Judge = (facts, settling) => {
  if (!facts.faults) return skipped("not-seen", "a fault of the limiter or the key service");
  const { limiter_budget_ms: limiterMs, key_service_budget_ms: keysMs } = facts.limits;
  const missing = "limits.limiter_budget_ms or limits.key_service_budget_ms";
  if (limiterMs === undefined && keysMs === undefined) return skipped("not-stated", missing);
  const budgetMs: Readonly<Record<string, number | undefined>> = { limiter: limiterMs, keys: keysMs };
  const windows = new FaultWindows();
  const stalls = generatorStalls();
  /** Late calls, undecided until later calls show whether the generator stood still. */
  let undecided: { id: string; got: string; metUs: number; tookUs: number; allowedUs: number }[] = [];
  const proved = new Evidence();
  let judged = 0;
  const isBudgeted = ({ link, tookEffect }: FaultWindow): boolean => tookEffect && budgetMs[link] !== undefined;
  const isLimited = (call: CallLine): boolean => isReference(facts) || meterOf(call) === "map_loads";
  /** An admitted call may have taken its time for its work, unless it certainly needed a limiter that did not answer. */
  const didWait = (call: CallLine, around: readonly FaultWindow[]): boolean =>
    !isAdmitted(call) || (isLimited(call) && around.some((one) => one.link === "limiter" && letsNothingThrough(one)));
  /** Judges the calls that ended before `us`; every stall up to then is known. Calls that only a stall made late are left out. */
  const decideBefore = (us: number): void => {
    undecided = undecided.filter((late) => {
      const { id, got, metUs, tookUs, allowedUs } = late;
      if (metUs + tookUs >= us) return true;
      if (tookUs - stalls.within(metUs, metUs + tookUs) > allowedUs) proved.breach(id, got);
      else judged -= 1;
      return false;
    });
  };
  return {
    see(line) {
      if (line.type === "fault") windows.see(line);
      if (line.type !== "call") return;
      stalls.see(line);
      decideBefore(line.sent_us - MARK_MARGIN_US);
      // Sheds are decided before any dependency is asked.
      if (line.route !== "-" && !isShed(line)) settling.add(line);
    },
    settled(call) {
      const [sentUs, decidedUs] = [call.sent_us, decidedByUs(call)];
      // Those sent while the fault was being injected may hang and fill the cap, so that all later ones are shed.
      const isMet = ({ beganUs, fromUs, toUs }: FaultWindow): boolean =>
        earliestUs(call) >= beganUs && decidedUs > fromUs && sentUs < toUs;
      const around = windows.all.filter((window) => isBudgeted(window) && isMet(window));
      const fault = around[0]?.fault;
      if (fault === undefined) return;
      // A call may need both dependencies.
      const allowedUs = SLACK_US + sumOf(around.map(({ link }) => (budgetMs[link] ?? 0) * 1000));
      const untilUs = Math.min(...around.map(({ toUs }) => toUs));
      const metUs = Math.max(sentUs, ...around.map(({ fromUs }) => fromUs));
      const tookUs = decidedUs - metUs;
      const isInTime = tookUs <= allowedUs && decidedUs <= untilUs;
      // The heal may release a call early.
      const isLate = tookUs > allowedUs && metUs + allowedUs <= untilUs && didWait(call, around);
      if (isInTime || isLate) judged += 1;
      if (!isLate) return;
      const [took, allowed] = [tookUs, allowedUs].map((us) => Math.round(us / 1000));
      const got = `${call.outcome} after ${took} ms on ${call.route} while "${fault}"; ${allowed} ms are plenty`;
      undecided.push({ id: call.id, got, metUs, tookUs, allowedUs });
    },
    end() {
      decideBefore(Number.POSITIVE_INFINITY);
      if (!windows.all.some(isBudgeted)) {
        return inconclusive("fault-without-effect", "no fault of the limiter or the key service took effect");
      }
      if (judged < ENOUGH) return unseen(`${judged} calls were sent while it was broken; 10 are needed`);
      if (proved.count >= STRAYS && proved.count > STRAY_SHARE * judged) {
        const doubts = facts.host === undefined ? [] : standstillDoubts(facts.host, limiterMs);
        const { first, ids } = proved;
        if (doubts.length > 0)
          return inconclusive("machine-disturbed", `${first}, and ${doubts.join("; ")}`, first, ids);
        return failed("calls waited for a dependency that did not answer", proved);
      }
      const aside = proved.count === 0 ? "" : `, ${proved.count} strays aside`;
      return passed(`${judged} calls were decided in time${aside}`);
    },
  };
};

const LINKS = ["limiter", "keys"] as const;

const BESIDE_MS = 50;
const SHARE = 0.99;
/** The fewest calls for which the 99th percentile has an interval. */
const ENOUGH_REFUSALS = callsForInterval(SHARE);
/** The fewest experiments on a dependency for which a run states a figure. */
const EXPERIMENTS = 5;

const isDisturbed = (host: StageHost | undefined, limitMs: number): boolean => {
  if (host === undefined) return false;
  const { always, ifFailed } = timeDoubts(host, { tail: 1 - SHARE, limitMs });
  return always.length + ifFailed.length > 0;
};

const judgedP99 = (tookMs: readonly number[], allowedMs: number): Ruling & Pick<Claim, "got" | "reason"> => {
  const p99 = quantile(tookMs, SHARE);
  const got = p99 === null ? "none" : `p99 of ${Math.round(p99)} ms`;
  const n = tookMs.length;
  const interval = quantileInterval(tookMs, SHARE);
  const open = { ...openBy("too-few-calls"), got };
  if (interval === null) return { ...open, reason: `${n} refusals; ${ENOUGH_REFUSALS} are needed` };
  if (interval.low > allowedMs) return { ...BROKEN, got, reason: "refusals took longer than the budget" };
  if (interval.high <= allowedMs) return { ...HELD, got, reason: `${n} refusals came in time` };
  return { ...open, reason: "it is not certain whether refusals come in time" };
};

/**
 * Judges the p99 of the time of refusals while a dependency is broken, pooled over a run's experiments. A should, because it
 * depends on the machine (`refuses-in-time` is the must); disturbed experiments are left out.
 */
export const createPooledRefusals = () => {
  /** For each experiment and dependency: the times, in milliseconds, of the refusals that its fault caused. */
  const all: { link: string; tookMs: number[]; host: StageHost | undefined }[] = [];
  return {
    /** Takes the lines of one stage, in the order of time. `host`: the machine's state during the stage. */
    see: (lines: Iterable<Line>, host?: StageHost): void => {
      const windows = new FaultWindows();
      const calls: CallLine[] = [];
      for (const line of lines) {
        if (line.type === "fault") windows.see(line);
        if (line.type === "call" && LINKS.some((link) => line.outcome === REFUSAL_OF[link])) calls.push(line);
      }
      for (const link of LINKS.filter((one) => windows.all.some((window) => window.link === one))) {
        const isItsOwn = (call: CallLine): boolean => windows.around(call, link).some(({ tookEffect }) => tookEffect);
        const refused = calls.filter((call) => call.outcome === REFUSAL_OF[link] && isItsOwn(call));
        const tookMs = refused.map(({ first_us, done_us, sent_us }) => ((first_us ?? done_us) - sent_us) / 1000);
        all.push({ link, tookMs, host });
      }
    },
    /** One claim for each dependency that was broken often enough and whose budget is stated. */
    claims: (limits: Limits | undefined, replay: string): Claim[] =>
      LINKS.flatMap((link) => {
        const broken = all.filter((one) => one.link === link);
        const budgetMs = dependencyBudgetMs(link, limits ?? {});
        if (broken.length < EXPERIMENTS || budgetMs === undefined) return [];
        const allowedMs = budgetMs + BESIDE_MS;
        const seen = broken.filter(({ tookMs }) => tookMs.length > 0);
        const calm = seen.filter(({ host }) => !isDisturbed(host, allowedMs));
        const left = counted(
          seen.length - calm.length,
          `of ${seen.length} experiments are left out, because the machine disturbed them`,
        );
        const refusalsMs = calm.flatMap(({ tookMs }) => tookMs);
        const { reason, ...found } = judgedP99(refusalsMs, allowedMs);
        return claimOf({
          id: `refusals-in-budget/${link}`,
          stage: "run",
          level: "should",
          ...found,
          reason: [reason, ...left].join("; "),
          expected: `99 of 100 refusals within ${allowedMs} ms while the ${link} is broken`,
          spec: [153, 213, 216],
          replay,
        });
      }),
  };
};
