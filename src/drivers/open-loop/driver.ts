/** The open-loop driver behind the port of all drivers: one process, or several that share the schedule. */
import { wallUs } from "../../client/clock.ts";
import { budgetShare, endsAll, NOTHING_SPENT } from "../../workload/budget.ts";
import type { Driven, Driver } from "../driver.ts";
import type { HostNotes } from "../host-notes.ts";
import type { OpenLoopEnd } from "./job.ts";
import { type OpenLoop, type OpenLoopProgram, startOpenLoop } from "./open-loop.ts";

/** Of several generators: the worst of what each did; what the host did is the same for all. */
const worstOf = (hosts: readonly HostNotes[]): HostNotes | null => {
  const [first, ...others] = hosts;
  if (first === undefined) return null;
  const worst = { ...first };
  for (const host of others) {
    for (const name of ["event_loop_lag_ms_p99", "event_loop_lag_ms_max", "cpu_share", "descriptors_share"] as const) {
      const [a, b] = [worst[name], host[name]];
      if (b !== null && (a === null || b > a)) worst[name] = b;
    }
  }
  return worst;
};

const countsOf = (ends: readonly OpenLoopEnd[]): Driven["counts"] => {
  const sum = (name: "dropped" | "queued" | "unmade"): number => ends.reduce((total, end) => total + end[name], 0);
  const lagMsP99 = Math.max(...ends.map(({ lagMs }) => lagMs.p99));
  return { dropped: sum("dropped"), queued: sum("queued"), unmade: sum("unmade"), lagMsP99 };
};

/** From the moment at which all processes are ready to the first arrival. */
const LEAD_US = 150_000;
/** How long the others may take to end their calls once one process of several has failed. */
const FAILED_GRACE_MS = 5_000;

export const openLoopBy =
  (program?: OpenLoopProgram): Driver =>
  async (drive, beside) => {
    const { job, secrets, budget, segments = 1, signal } = drive;
    const all = budget.left();
    const done = Array.from({ length: segments }, () => ({ done: 0, offered: 0 }));
    const start = (counts: (typeof done)[number], index: number): OpenLoop =>
      startOpenLoop({
        job: {
          ...job,
          budget: budgetShare(all, index, segments),
          stated: budget.stated,
          fold: drive.onFold === undefined ? undefined : true,
          segment: segments === 1 ? undefined : { index, of: segments },
        },
        secrets,
        onLine: drive.onLine,
        onFold: drive.onFold,
        onProgress: (progress) => {
          Object.assign(counts, { done: progress.done, offered: progress.offered });
          const sum = (key: "done" | "offered") => done.reduce((total, one) => total + one[key], 0);
          drive.onProgress?.(`${sum("done")} calls done, ${sum("offered") - sum("done")} under way`);
        },
        onSpawn: drive.onSpawn,
        program,
      });
    const loops: OpenLoop[] = [];
    const stop = (graceMs?: number): void => {
      for (const loop of loops) loop.stop(graceMs);
    };
    const asked = (): void => stop();
    signal.addEventListener("abort", asked, { once: true });
    try {
      // What cannot be put in hand ends those that were started before.
      for (const [index, counts] of done.entries()) loops.push(start(counts, index));
      if (signal.aborted) asked();
      for (const { result } of loops) {
        void result.then(({ stopped, end }) => {
          if (endsAll(stopped)) stop();
          // The others would go on with a part of the schedule, which nobody can judge.
          else if (end === null) stop(FAILED_GRACE_MS);
        });
      }
      const ready = await Promise.all(loops.map((loop) => loop.ready)).then(
        () => true,
        () => false,
      );
      if (!ready) stop(FAILED_GRACE_MS);
      if (ready) {
        const startUs = Math.round(wallUs() - job.epochUs + LEAD_US);
        for (const loop of loops) loop.go(startUs);
        drive.onStart?.(startUs);
      }
      if (ready && beside !== undefined) {
        // The load may end first, by its budget or a failure.
        await Promise.race([beside(), Promise.all(loops.map((loop) => loop.result))]);
        stop();
      }
      const results = await Promise.all(loops.map((loop) => loop.result));
      for (const { spent, stopped } of results) budget.absorb(spent ?? NOTHING_SPENT, stopped);
      const ends = results.flatMap(({ end }) => (end === null ? [] : [end]));
      const startUs = Math.min(...ends.map((end) => end.startUs));
      const endUs = Math.max(...ends.map((end) => end.endUs));
      return {
        problems: results.flatMap(({ problems }) => problems),
        notes: [],
        protocols: [...new Set(ends.flatMap(({ protocols = [] }) => protocols))].sort(),
        host: worstOf(results.flatMap(({ host }) => (host === null ? [] : [host]))),
        scheduledMs: ends.length === 0 ? 0 : (endUs - startUs) / 1000,
        startUs: ends.length === 0 ? undefined : startUs,
        counts: ends.length < loops.length ? undefined : countsOf(ends),
      };
    } finally {
      signal.removeEventListener("abort", asked);
      for (const loop of loops) loop.kill();
      await Promise.all(loops.map((loop) => loop.result));
    }
  };

export const driveOpenLoop: Driver = openLoopBy();
