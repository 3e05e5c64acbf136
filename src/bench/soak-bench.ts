/** Measures resident memory over many calls. Charges go to SQLite, so the ledger grows on disk and not in memory. */
import { join } from "node:path";
import { median } from "../history/statistics/statistics.ts";
import { playLoad } from "./closed-loop.ts";
import { type Bench, type Block, compare, plainBlock, type Row, type Settings } from "./comparison.ts";
import { callsOf, type Deployment, startDeployment } from "./deployment.ts";
import type { BenchChild } from "./processes/child.ts";

const MIB = 1024 * 1024;
/** Share of the calls that warm up compilers, bounded caches and the heap. */
const WARM_SHARE = 0.5;
/** Growth from the middle to the end that still counts as none: resident memory varies with garbage collection. */
const NO_GROWTH = 1.1;

type Sample = { calls: number; rssBytes: Record<string, number> };

/** Makes calls of every kind in turn until there are enough; samples every process after each round. */
const sampleMemory = async (
  deployment: Deployment,
  processes: Record<string, BenchChild>,
  { soakCalls, connections, blockS }: Settings,
): Promise<{ samples: Sample[]; doubts: string[] }> => {
  const { read, mintTile, load, refused } = callsOf(deployment);
  const kinds = [read, mintTile, load, refused].map(({ path, ...call }) => ({ ...call, url: deployment.url + path }));
  const samples: Sample[] = [];
  let failed = 0;
  for (let calls = 0; calls < soakCalls; ) {
    for (const { byStatus } of await playLoad({ calls: kinds, connections, durationS: blockS })) {
      for (const [status, n] of Object.entries(byStatus)) {
        calls += n;
        if (status !== "200" && status !== "401") failed += n;
      }
    }
    const rssBytes: Record<string, number> = {};
    for (const [name, child] of Object.entries(processes)) rssBytes[name] = (await child.usage()).rssBytes;
    samples.push({ calls, rssBytes });
  }
  return { samples, doubts: failed === 0 ? [] : [`${failed} calls were not answered as expected`] };
};

export const soak: Bench = {
  name: "soak",
  what: "resident memory at the end of the calls against that at their middle, half of them charged",
  isLong: true,
  run: async (settings, room) => {
    const store = `sqlite:${join(room.folder, "limiter.db")}`;
    await using deployment = await startDeployment(room.supervisor, { limiter: store });
    const { api, keys, limiter } = deployment;
    const processes = { api, keys, ...(limiter === undefined ? {} : { limiter }) };
    const { samples, doubts } = await sampleMemory(deployment, processes, settings);
    const last = samples.at(-1)?.calls ?? 0;
    const within = (from: number, to: number, name: string): Block => {
      const inside = samples.filter(({ calls }) => calls > last * from && calls <= last * to);
      return plainBlock(median(inside.map(({ rssBytes }) => (rssBytes[name] ?? 0) / MIB)) ?? Number.NaN, { doubts });
    };
    return Object.keys(processes).map((name): Row => {
      const pair = { ours: within(0.85, 1, name), against: within(WARM_SHARE - 0.15, WARM_SHARE + 0.1, name) };
      const about = { name: `soak ${name}`, what: `${soak.what}; ${last} calls`, unit: "MiB" };
      return compare({ ...about, target: { atMost: NO_GROWTH } }, [pair]);
    });
  },
};
