/** Every benchmark, in the order in which they run. */
import type { Bench } from "./bench.ts";
import { GENERATOR_BENCHES } from "./generator-benches.ts";
import { ROUTE_BENCHES } from "./routes-benches.ts";
import { soak } from "./soak-bench.ts";
import { STORE_BENCHES } from "./store-benches.ts";
import { STREAM_BENCHES } from "./stream-benches.ts";

export const BENCHES: readonly Bench[] = [
  ...ROUTE_BENCHES,
  ...STREAM_BENCHES,
  ...STORE_BENCHES,
  ...GENERATOR_BENCHES,
  soak,
];
