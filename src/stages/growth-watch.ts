/**
 * Judges whether a deployment grows under long load: memory, sockets, timers, open files. Read from its control plane or
 * from the observers' queries of the same names, by the slope after the warm-up.
 */
import { readHeld } from "../client/control-planes.ts";
import type { Deployment } from "../deployments/deployment.ts";
import { claimOf } from "../history/claim.ts";
import type { Claim, Measurement } from "../history/run-document.ts";
import type { Gauges } from "../history/stage-facts.ts";
import { judgeGrowth, type Reading } from "../history/statistics/growth.ts";
import { type Observed, observe } from "./witnesses.ts";

type Watched = {
  name: string;
  unit: string;
  /** Base units in one reported unit. */
  size: number;
  /** Permitted growth an hour, over all replicas. */
  perHour: number;
  of(gauges: Gauges): number | null | undefined;
};

const MB = 1_000_000;

/** Small against a leak in one of a hundred calls, large against what a busy quarter of an hour moves. */
export const WATCHED: readonly Watched[] = [
  { name: "heap", unit: "MB", size: MB, perHour: 60, of: ({ heap_bytes }) => heap_bytes },
  { name: "resident_memory", unit: "MB", size: MB, perHour: 300, of: ({ rss_bytes }) => rss_bytes },
  { name: "sockets", unit: "sockets", size: 1, perHour: 200, of: ({ sockets }) => sockets },
  { name: "timers", unit: "timers", size: 1, perHour: 200, of: ({ timers }) => timers },
  { name: "open_files", unit: "files", size: 1, perHour: 200, of: ({ open_files }) => open_files },
];

const GROWTH_EVERY_MS = 5_000;
/** Caches fill and code is compiled: at least so long, and a fifth of all. */
const WARM_UP_MS = 60_000;
const WARM_UP_SHARE = 0.2;
const STAGE = "growth";

type Readings = ReadonlyMap<string, readonly Reading[]>;

const warm = (readings: readonly Reading[]): readonly Reading[] => {
  const first = readings[0]?.atMs ?? 0;
  const last = readings.at(-1)?.atMs ?? 0;
  const fromMs = first + Math.max(WARM_UP_MS, WARM_UP_SHARE * (last - first));
  return readings.filter(({ atMs }) => atMs >= fromMs);
};

export const growthOf = (readings: Readings, replay: string): { claims: Claim[]; measurements: Measurement[] } => {
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

const sumOf = (gauges: readonly Gauges[], of: Watched["of"]): number | null => {
  const values = gauges.map(of).filter((value) => typeof value === "number");
  return values.length === gauges.length && values.length > 0 ? values.reduce((sum, one) => sum + one, 0) : null;
};

const looked = async (deployment: Pick<Deployment, "target">): Promise<Observed> => {
  const apis = deployment.target.control?.api ?? [];
  const gauges = apis.length === 0 ? [] : await readHeld(apis).catch(() => []);
  const { values } = gauges.length === 0 ? await observe(deployment) : { values: {} };
  return Object.fromEntries(
    WATCHED.flatMap(({ name, of }) => {
      const value = sumOf(gauges, of) ?? (values as Observed)[name] ?? null;
      return value === null ? [] : [[name, value]];
    }),
  );
};

export type GrowthWatch = {
  look(): void;
  rest(): Promise<void>;
  judged(replay: string): { claims: Claim[]; measurements: Measurement[] };
};

export const watchGrowth = (deployment: Pick<Deployment, "target">): GrowthWatch => {
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
    look: () => {
      clearInterval(timer);
      timer = setInterval(() => {
        looking = looking.then(once);
      }, GROWTH_EVERY_MS);
    },
    rest: async () => {
      clearInterval(timer);
      await looking;
    },
    judged: (replay) => growthOf(readings, replay),
  };
};
