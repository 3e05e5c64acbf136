import type { Night } from "./nights.ts";

/** Night number `day` of a made group: a pass of a quarter of an hour on the embedded platform. */
export const madeNight = (day: number, over: Partial<Night> = {}): Night => {
  const started_at = new Date(Date.UTC(2026, 8, 1 + day, 2)).toISOString();
  return {
    ...{
      schema: "floodgate/night@1",
      id: `${started_at.replace(/\D/g, "").slice(0, 14)}Z-nightly-${day}`,
      profile: "nightly",
    },
    ...{ seed: day, commit: `c${String(day).padStart(6, "0")}`, started_at, duration_ms: 900_000 },
    ...{ verdict: "pass", exit_code: 0, target: { name: "embedded", embedded: true }, host: { cores: 4, cpu: "EPYC" } },
    ...{ claims: { pass: 900, fail: 0, inconclusive: 0, skipped: 12 }, failed: [], left_out: 0, measurements: {} },
    ...over,
  };
};
