import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { configDefaults, defineConfig } from "vitest/config";

// Every process that a test starts is this program once more: what Node compiled of it is kept for the next.
process.env.NODE_COMPILE_CACHE ??= `${import.meta.dirname}/node_modules/.cache/compiled`;

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

/**
 * Whatever a test makes in the temporary folder is in one of this run's own, which goes with it, also where a test was
 * killed; what a run left that was killed itself is removed by the next.
 */
const useOwnTemporaryFolder = (): void => {
  const MARK = "floodgate-tests-";
  const shared = tmpdir();
  // Every worker and project reads this file again.
  if (shared.includes(MARK)) return;
  for (const name of readdirSync(shared)) {
    const pid = Number(name.startsWith(MARK) ? name.slice(MARK.length) : Number.NaN);
    if (!Number.isInteger(pid) || isAlive(pid)) continue;
    try {
      rmSync(join(shared, name), { recursive: true, force: true });
    } catch {
      // Another user's.
    }
  }
  const own = join(shared, `${MARK}${process.pid}`);
  mkdirSync(own, { mode: 0o700 });
  process.env.TMPDIR = own;
  process.on("exit", () => rmSync(own, { recursive: true, force: true, maxRetries: 3 }));
};
useOwnTemporaryFolder();

/** Files that wait most of their time, for answers that come late by rule: they use a third of a core each. */
const WAITING = [
  "src/verify/**/*.test.ts",
  "src/run/capacity/capacity.test.ts",
  "src/stages/verify-stage.test.ts",
  "src/{faults,supervision}/watchdog.test.ts",
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
