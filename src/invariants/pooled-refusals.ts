/**
 * Time of refusals while a dependency is broken: p99 within its budget and 50 ms, pooled over a run's experiments, because one
 * has too few calls. A should, because it depends on the machine; disturbed experiments are left out. `refuses-in-time` is the
 * must.
 */
import { claimOf } from "../history/claim.ts";
import type { CallLine, Line } from "../history/line.ts";
import type { Claim } from "../history/run-document.ts";
import { dependencyBudgetMs, type Limits } from "../history/stage-facts.ts";
import type { StageHost } from "../history/stage-host.ts";
import { quantile, quantileInterval } from "../history/statistics/statistics.ts";
import { timeDoubts } from "../history/time-doubts.ts";
import { FaultWindows, REFUSAL_OF } from "./evidence/fault-windows.ts";

const LINKS = ["limiter", "keys"] as const;
type Link = (typeof LINKS)[number];

const BESIDE_MS = 50;
const SHARE = 0.99;
/** The fewest calls with a 95 % interval of the 99th percentile. */
const ENOUGH = 368;
/** The fewest experiments on a dependency for which a run states a figure. */
const EXPERIMENTS = 5;

/** The refusals of one experiment that its fault caused, in milliseconds. */
type Refused = { tookMs: Record<Link, number[]>; host: StageHost | undefined };

const isDisturbed = (host: StageHost | undefined, limitMs: number): boolean => {
  if (host === undefined) return false;
  const { always, ifFailed } = timeDoubts(host, { tail: 1 - SHARE, limitMs });
  return always.length + ifFailed.length > 0;
};

const judged = (tookMs: readonly number[], allowedMs: number): Pick<Claim, "verdict" | "got" | "reason"> => {
  const sorted = [...tookMs].sort((one, other) => one - other);
  const p99 = quantile(sorted, SHARE);
  const within = quantileInterval(sorted, SHARE);
  const got = p99 === null ? "none" : `p99 of ${Math.round(p99)} ms`;
  const n = sorted.length;
  if (n < ENOUGH) return { verdict: "inconclusive", got, reason: `${n} refusals; ${ENOUGH} are needed` };
  if (within !== null && within.low > allowedMs)
    return { verdict: "fail", got, reason: "refusals took longer than the budget" };
  if (within !== null && within.high <= allowedMs)
    return { verdict: "pass", got, reason: `${n} refusals came in time` };
  return { verdict: "inconclusive", got, reason: "it is not certain" };
};

export type PooledRefusals = ReturnType<typeof createPooledRefusals>;

export const createPooledRefusals = () => {
  const all: Refused[] = [];
  const broken: Record<string, number> = {};
  return {
    /** The lines of one stage, in the order of time. `host`: what the machine did meanwhile. */
    see: (lines: Iterable<Line>, host?: StageHost): void => {
      const windows = new FaultWindows();
      const refusals: [Link, CallLine][] = [];
      for (const line of lines) {
        if (line.type === "fault") windows.see(line);
        if (line.type !== "call") continue;
        for (const link of LINKS) if (line.outcome === REFUSAL_OF[link]) refusals.push([link, line]);
      }
      for (const link of new Set(windows.all.map((window) => window.link))) broken[link] = (broken[link] ?? 0) + 1;
      const tookMs: Refused["tookMs"] = { limiter: [], keys: [] };
      for (const [link, call] of refusals) {
        if (windows.around(call, link).some(({ tookEffect }) => tookEffect))
          tookMs[link].push(((call.first_us ?? call.done_us) - call.sent_us) / 1000);
      }
      all.push({ tookMs, host });
    },
    /** One claim for each dependency that was broken often enough and whose budget is stated. */
    claims: (limits: Limits | undefined, replay: string): Claim[] =>
      LINKS.filter((link) => (broken[link] ?? 0) >= EXPERIMENTS).flatMap((link) => {
        const budgetMs = dependencyBudgetMs(link, limits ?? {});
        if (budgetMs === undefined) return [];
        const allowedMs = budgetMs + BESIDE_MS;
        const seen = all.filter(({ tookMs }) => tookMs[link].length > 0);
        const calm = seen.filter(({ host }) => !isDisturbed(host, allowedMs));
        const { reason, ...found } = judged(
          calm.flatMap(({ tookMs }) => tookMs[link]),
          allowedMs,
        );
        const left = seen.length - calm.length;
        const without =
          left === 0 ? "" : `; ${left} of ${seen.length} experiments are left out, because the machine disturbed them`;
        return claimOf({
          id: `refusals-in-budget/${link}`,
          stage: "run",
          level: "should",
          ...found,
          reason: `${reason}${without}`,
          expected: `99 of 100 refusals within ${allowedMs} ms while the ${link} is broken`,
          spec: [153, 213, 216],
          replay,
        });
      }),
  };
};
