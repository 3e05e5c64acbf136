/** Errors of the store that the limiter keeps its counts in, while its process and its link are well. */

import type { OwnParts } from "../../deployments/own-parts.ts";
import type { StoreErrorName } from "../experiments/experiment-entry.ts";
import { type Breaker, NoWayError } from "./breaker.ts";
import type { StoreError } from "./disturbance.ts";
import { redisLoading, redisNoScript, redisPaused, redisSetting } from "./redis-errors.ts";
import { diskFull, locked } from "./sqlite-errors.ts";

/** Throws where the store is another one. */
export const storeBreaker = ({ fault }: StoreError, { store, limiter }: OwnParts): Breaker => {
  const other = (): NoWayError => new NoWayError(`a limiter in ${store.kind} has no error "${fault}"`);
  if (store.kind === "redis") {
    const makers: Partial<Record<StoreErrorName, () => Breaker>> = {
      oom: () => redisSetting(store.redis.url, "OOM"),
      readonly: () => redisSetting(store.redis.url, "READONLY"),
      "aof-slow": () => redisPaused(store.redis.url),
      noscript: () => redisNoScript(store.redis.url),
      loading: () => redisLoading(store.redis, limiter),
    };
    const make = makers[fault];
    if (make === undefined) throw other();
    return make();
  }
  if (fault === "locked") return locked(store.path);
  if (fault === "disk-full") return diskFull(limiter);
  throw other();
};
