import { defineConfig } from "vitest/config";

/** What `npm run mutation` tries each mutant on: tests of the pure rooms, none of which opens a socket or starts a process. */
export default defineConfig({
  test: {
    include: [
      "src/{core,gate,history,invariants}/**/*.test.ts",
      "properties/{admission,histogram,management,meters,order,order-repair,origin,quota,rate-limit,shedding,statistics}.property.test.ts",
      "properties/invariants*.test.ts",
    ],
    testTimeout: 60_000,
  },
});
