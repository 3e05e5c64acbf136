/** k6 behind the port of all drivers. */
import { STORIES } from "../../workload/catalogue.ts";
import { profileDurationS } from "../../workload/load-profiles.ts";
import type { Driver } from "../driver.ts";
import { watchHost } from "../host-notes.ts";
import { runK6 } from "./k6.ts";

type K6Setup = {
  /** Path of the binary. */
  k6Path: string;
  /** The scenario file. */
  scenario: string;
  /** Where k6's summary is kept. */
  keepIn?: string;
  /** In place of those that the profile and the target's limits ask for. */
  vus?: number;
};

export const driveK6 =
  ({ k6Path, scenario, keepIn, vus }: K6Setup): Driver =>
  async (drive, beside) => {
    const { job, budget, signal, secrets } = drive;
    const story = STORIES.get(job.story);
    if (story === undefined) throw new Error(`there is no story called ${job.story}`);
    const pids: number[] = [];
    const host = watchHost({ own: false, pids });
    const ending = new AbortController();
    const stop = (): void => ending.abort();
    signal.addEventListener("abort", stop, { once: true });
    try {
      const { idPrefix, stage, seed, profile, arrivals, target, view, epochUs } = job;
      const running = runK6({
        binary: k6Path,
        script: scenario,
        story,
        ...(keepIn === undefined ? {} : { keepIn }),
        ...(vus === undefined ? {} : { vus }),
        secrets,
        budget,
        idPrefix,
        stage,
        seed,
        profile,
        arrivals,
        target,
        view,
        epochUs,
        onLine: drive.onLine,
        signal: ending.signal,
        ...(drive.segments === undefined ? {} : { segments: drive.segments }),
        onSpawn: (child) => {
          if (child.pid !== undefined) pids.push(child.pid);
          drive.onSpawn?.(child);
        },
        ...(drive.onFolder === undefined ? {} : { onFolder: drive.onFolder }),
      });
      if (beside !== undefined) {
        await Promise.race([beside(), running]);
        stop();
      }
      const result = await running;
      return {
        problems: result.problems,
        notes: result.warnings.map((warning) => `${stage}: k6: ${warning}`),
        host: host(),
        protocols: result.protocols,
        scheduledMs: profileDurationS(profile) * 1000,
      };
    } finally {
      signal.removeEventListener("abort", stop);
    }
  };
