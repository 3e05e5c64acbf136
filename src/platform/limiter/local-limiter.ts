/** The stores by name, and the port over one of them in the same process, without a link between. */
import type { Clock } from "../clock.ts";
import { type Limiter, LimiterUnavailable } from "../limiter.ts";
import type { SqliteOptions } from "../sqlite.ts";
import { memoryTables } from "./memory-tables.ts";
import { sqliteTables } from "./sqlite-tables.ts";
import type { LimiterStore } from "./store.ts";
import { type LimiterDecisions, tableStore } from "./table-store.ts";

export const memoryLimiterStore = (decisions?: LimiterDecisions): LimiterStore => tableStore(memoryTables(), decisions);

/** Meters, charges, tombstones and ledger in the file at `path`; rate buckets in memory. */
export const sqliteLimiterStore = (
  path: string,
  options: SqliteOptions = {},
  decisions?: LimiterDecisions,
): LimiterStore => tableStore(sqliteTables(path, options), decisions);

/** Answers at once, so budgets have no meaning here. */
export const localLimiter = (store: LimiterStore, clock: Clock): Limiter => ({
  take: async (take) => {
    const answer = (await store.take([take], clock.instant()))[0];
    if (answer === undefined || answer.verdict === "refunded") {
      throw new LimiterUnavailable("the charge was refunded before it arrived");
    }
    return answer;
  },
  refund: async (refund) => store.refund([refund], clock.instant()),
  used: async (org, meter) => store.used(org, meter, clock.instant()),
  setUsed: async (org, meter, used) => store.setUsed(org, meter, used, clock.instant()),
  ledger: async function* (run) {
    yield* store.ledger(run);
  },
  setClockOffset: async (offsetMs) => clock.setOffsetMs(offsetMs),
  close: async () => store.close(),
});
