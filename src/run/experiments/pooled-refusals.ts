/**
 * How fast calls are refused while a dependency is broken, pooled over all faults of it in a run, because one experiment has
 * too few calls for a 99th percentile: within the dependency's budget and 50 ms. Time is the machine's as well, so it is a
 * *should*; that nobody hangs is the `must` of `refuses-in-time`.
 */
import { REFUSAL_OF } from "../../chaos/experiments/experiment-entry.ts";
import type { CallLine, Line } from "../../history/line.ts";
import type { Claim } from "../../history/run-document.ts";
import type { Limits } from "../../history/stage-facts.ts";
import { quantile, quantileInterval } from "../../history/statistics/statistics.ts";
import { FaultWindows } from "../../invariants/evidence/fault-windows.ts";

const LINKS = ["limiter", "keys"] as const;
type Link = (typeof LINKS)[number];

const BESIDE_MS = 50;
const SHARE = 0.99;
/** Fewer show nothing about one in a hundred. */
const ENOUGH = 368;
/** Of a run with fewer experiments on a dependency nobody expects a figure. */
const EXPERIMENTS = 5;

type PooledRefusals = {
  /** Lines of one stage, in time order; of them the refusals are kept. */
  see(lines: Iterable<Line>): void;
  /** One claim for each dependency that was broken in several stages and whose budget is stated. */
  claims(limits: Limits | undefined, replay: string): Claim[];
};

export const createPooledRefusals = (): PooledRefusals => {
  const tookMs: Record<Link, number[]> = { limiter: [], keys: [] };
  const broken: Record<string, number> = {};
  return {
    see: (lines) => {
      const windows = new FaultWindows();
      const refusals: [Link, CallLine][] = [];
      for (const line of lines) {
        if (line.type === "fault") windows.see(line);
        if (line.type !== "call") continue;
        for (const link of LINKS) if (line.outcome === REFUSAL_OF[link]) refusals.push([link, line]);
      }
      for (const link of new Set(windows.all.map((window) => window.link))) broken[link] = (broken[link] ?? 0) + 1;
      for (const [link, call] of refusals) {
        if (!windows.around(call, link).some(({ tookEffect }) => tookEffect)) continue;
        tookMs[link].push(((call.first_us ?? call.done_us) - call.sent_us) / 1000);
      }
    },
    claims: (limits = {}, replay) =>
      LINKS.filter((link) => (broken[link] ?? 0) >= EXPERIMENTS).flatMap((link) => {
        const budgetMs = link === "limiter" ? limits.limiter_budget_ms : limits.key_service_budget_ms;
        if (budgetMs === undefined) return [];
        const allowedMs = budgetMs + BESIDE_MS;
        const sorted = tookMs[link].sort((one, other) => one - other);
        const p99 = quantile(sorted, SHARE);
        const within = quantileInterval(sorted, SHARE);
        const isOpen = sorted.length < ENOUGH || p99 === null || within === null;
        const isSlow = !isOpen && within.low > allowedMs;
        const isFast = !isOpen && within.high <= allowedMs;
        const enough = sorted.length < ENOUGH ? `${sorted.length} refusals; ${ENOUGH} are needed` : "it is not certain";
        return [
          {
            id: `refusals-in-budget/${link}`,
            stage: "run",
            level: "should",
            verdict: isSlow ? "fail" : isFast ? "pass" : "inconclusive",
            reason: isSlow
              ? "refusals took longer than the budget"
              : isFast
                ? `${sorted.length} refusals over all faults of the ${link} came in time`
                : enough,
            expected: `99 of 100 refusals within ${allowedMs} ms while the ${link} is broken`,
            got: p99 === null ? "none" : `p99 of ${Math.round(p99)} ms`,
            spec: [153, 213, 216],
            evidence: [],
            replay,
          } satisfies Claim,
        ];
      }),
  };
};
