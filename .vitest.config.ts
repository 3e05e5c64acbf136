import { configDefaults, defineConfig } from "vitest/config";

// Every process that a test starts is this program once more: what Node compiled of it is kept for the next.
process.env.NODE_COMPILE_CACHE ??= `${import.meta.dirname}/node_modules/.cache/compiled`;

/** Files that wait most of their time, for answers that come late by rule: they use a third of a core each. */
const WAITING = [
  "src/verify/**/*.test.ts",
  "src/run/capacity/capacity.test.ts",
  "src/run/stages/verify-stage.test.ts",
  "src/{chaos,supervision}/watchdog.test.ts",
];

export default defineConfig({
  test: {
    // What hangs ends here; no test depends on the time that a shared machine takes.
    testTimeout: 240_000,
    hookTimeout: 240_000,
    // A machine from which half of its time is stolen stalls for seconds: once more there, and vitest reports the retry.
    retry: process.env.CI === undefined ? 0 : 1,
    reporters: ["default"],
    // One project after the other. Two cores: more workers only make the sockets of one test wait for another's.
    projects: [
      { extends: true, test: { name: "waiting", include: WAITING, maxWorkers: 3, sequence: { groupOrder: 0 } } },
      {
        extends: true,
        test: {
          name: "working",
          include: ["src/**/*.test.ts", "properties/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...WAITING],
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
