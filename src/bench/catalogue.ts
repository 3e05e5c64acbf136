/** Every benchmark, in the order in which they run. */
import type { Bench } from "./bench.ts";
import { generators, k6Generators } from "./generators-bench.ts";
import { ROUTE_BENCHES } from "./routes-benches.ts";
import { soak } from "./soak-bench.ts";
import { sse } from "./sse-bench.ts";
import { STORE_BENCHES } from "./store-benches.ts";
import { STREAM_BENCHES } from "./stream-benches.ts";

export const BENCHES: readonly Bench[] = [
  ...ROUTE_BENCHES,
  ...STREAM_BENCHES,
  ...STORE_BENCHES,
  generators,
  k6Generators,
  sse,
  soak,
];
