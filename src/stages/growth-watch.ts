/**
 * Judges whether a deployment's memory, sockets, timers and files grow under long load: by the slope after the warm-up
 * of its control plane's gauges, or of the observers' queries with the same names.
 */
import { readHeld } from "../client/control-planes.ts";
import type { Deployment } from "../deployments/deployment.ts";
import { claimOf } from "../history/claim.ts";
import type { Claim, Measurement } from "../history/run-document.ts";
import { judgeGrowth, type Reading } from "../history/statistics/growth.ts";
import { type Observed, observe } from "./witnesses.ts";

const MB = 1_000_000;

/**
 * `size`: base units in one reported unit. `perHour`: permitted growth over all replicas, well below a leak in one of a
 * hundred calls and well above the fluctuation of a busy quarter of an hour.
 */
// biome-ignore format: a row is a line
export const WATCHED = [
  { name: "heap", unit: "MB", size: MB, perHour: 60, gauge: "heap_bytes" },
  { name: "resident_memory", unit: "MB", size: MB, perHour: 300, gauge: "rss_bytes" },
  { name: "sockets", unit: "sockets", size: 1, perHour: 200, gauge: "sockets" },
  { name: "timers", unit: "timers", size: 1, perHour: 200, gauge: "timers" },
  { name: "open_files", unit: "files", size: 1, perHour: 200, gauge: "open_files" },
] as const;

const GROWTH_EVERY_MS = 5_000;
/** The warm-up, in which caches fill and code is compiled: the longer of this time and a share of all time. */
const WARM_UP_MS = 60_000;
const WARM_UP_SHARE = 0.2;
const STAGE = "growth";

const warm = (readings: readonly Reading[]): readonly Reading[] => {
  const first = readings[0]?.atMs ?? 0;
  const last = readings.at(-1)?.atMs ?? 0;
  const fromMs = first + Math.max(WARM_UP_MS, WARM_UP_SHARE * (last - first));
  return readings.filter(({ atMs }) => atMs >= fromMs);
};

export const growthOf = (readings: ReadonlyMap<string, readonly Reading[]>, replay: string) => {
  const claims: Claim[] = [];
  const measurements: Measurement[] = [];
  for (const { name, unit, size, perHour } of WATCHED) {
    const all = readings.get(name) ?? [];
    const expected = `${name} grows by at most ${perHour} ${unit} an hour`;
    const claim = (verdict: Claim["verdict"], reason: string, got = reason): void =>
      void claims.push(claimOf({ id: `growth/${name}`, stage: STAGE, verdict, reason, expected, got, replay }));
    if (all.length === 0) {
      const lacking = `\`${name}\` among the gauges of control.api, or among observers.prometheus.queries`;
      claim("skipped", `skipped: ${lacking}`, "not judged");
      continue;
    }
    const scaled = warm(all).map(({ atMs, value }) => ({ atMs, value: value / size }));
    const { verdict, reason, slope } = judgeGrowth(scaled, perHour, unit);
    claim(verdict, reason);
    if (slope === null) continue;
    const { slope: value, low, high, n } = slope;
    measurements.push({ name: `growth_${name}_per_hour`, stage: STAGE, value, unit, low, high, n });
  }
  return { claims, measurements };
};

const looked = async (deployment: Pick<Deployment, "target">): Promise<Observed> => {
  const apis = deployment.target.control?.api ?? [];
  const gauges = apis.length === 0 ? [] : await readHeld(apis).catch(() => []);
  const { values } = gauges.length === 0 ? await observe(deployment) : { values: {} as Observed };
  return Object.fromEntries(
    WATCHED.flatMap(({ name, gauge }) => {
      const shown = gauges.map((one) => one[gauge]).filter((value) => typeof value === "number");
      const isWhole = shown.length === gauges.length && shown.length > 0;
      const value = isWhole ? shown.reduce((sum, one) => sum + one, 0) : values[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
};

export const watchGrowth = (deployment: Pick<Deployment, "target">) => {
  const readings = new Map<string, Reading[]>();
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> = Promise.resolve();
  const once = async (): Promise<void> => {
    const atMs = performance.now();
    for (const [name, value] of Object.entries(await looked(deployment))) {
      readings.set(name, [...(readings.get(name) ?? []), { atMs, value }]);
    }
  };
  return {
    look: (): void => {
      clearInterval(timer);
      timer = setInterval(() => {
        looking = looking.then(once);
      }, GROWTH_EVERY_MS);
    },
    rest: async (): Promise<void> => {
      clearInterval(timer);
      await looking;
    },
    judged: (replay: string) => growthOf(readings, replay),
  };
};
