import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { configDefaults, defineConfig } from "vitest/config";
import { BaseSequencer, type Reporter, type TestSpecification } from "vitest/node";

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

/** Tests that start programs: Floodgate itself, k6, toxiproxy, Redis, a browser. `.vitest.no-processes.ts` keeps all others from it. */
const STARTS_PROCESSES = [
  "properties/{ci-scripts,compose-run,compose,mutant-laws,page-in-browser,platform-exactness,platform-kills,readmes,replay}.test.ts",
  "properties/{faults,stream-readers}.property.test.ts",
  "src/bench/server-process.test.ts",
  "src/cli/{completion,demo,dev,doctor,end-with-launcher,exit-codes,explain,floodgate,gate,install-first,serve,trends}.test.ts",
  "src/cli/access-log.test.ts",
  "src/cli/printing.test.ts",
  "src/client/transport.test.ts",
  "src/drivers/{failed-processes,foreign-answers,host-notes,one-meaning,one-word,stream-results}.test.ts",
  "src/drivers/k6/{alone,k6-budget,k6,script-account,user-script}.test.ts",
  "src/drivers/open-loop/open-loop.test.ts",
  "src/faults/{experiment,link-faults,replicas,shared-server,watchdog}.test.ts",
  "src/faults/injectors/{injectors,process,redis,sqlite,link}.test.ts",
  "src/tools/{take-toxic-away,find-redis,find-tool,stand-in-proxy,toxiproxy}.test.ts",
  "src/platform/api/tls.test.ts",
  "src/platform/limiter/{http-limiter,redis-limiter}.test.ts",
  "src/run/calibration/calibrate.test.ts",
  "src/run/capacity/capacity.test.ts",
  "src/run/merge-parts.test.ts",
  "src/run/{exit-codes,hostile-server,look-first,memory-watch,own-script,protocol,run,run-reports,target-run}.test.ts",
  "src/run/experiments/{chaos,heal-left-open,left-open,own-chaos}.test.ts",
  "src/run/experiments/explore.test.ts",
  "src/run/gate/{gate-recorded,play-block}.test.ts",
  "src/run/operator/write-operator.test.ts",
  "src/stages/{closed-loop,machine-use,observers,verify-stage}.test.ts",
  "src/supervision/{journal,quick-imports,stop-signals,supervisor,user-file,watchdog}.test.ts",
  "src/target/{lock,secrets}.test.ts",
  "src/trials/laws.test.ts",
  "src/verify/doctor/{tls-look,tools-here}.test.ts",
];

/**
 * Tests that wait most of their time, for answers that come late by rule, and use a third of a core each; and those that compute
 * for too long to be quick.
 */
const WAITS = [
  "src/verify/**/{body-defects,defects,gateway,key-defects,key-variants,load-defects,load-variants,reference,run-verify,variants}.test.ts",
  "src/drivers/autocannon/*.test.ts",
  "src/simulation/virtual-player.test.ts",
  "src/stages/witnesses.test.ts",
  "properties/{invariants-honest,mutants,mutants-in-virtual-time}.test.ts",
];

/** Tests of the pure rooms (src/README.md). */
const PURE = ["src/{contract,workload,core,history,invariants,gate,capacity,shedding,trends,report}/**/*.test.ts"];

/** Tests of rooms that are not pure, with a module of their own in the place of another. */
const MOCKS = [
  "src/stages/prepare-target.test.ts",
  "src/run/run-folder.test.ts",
  "properties/words-decide-nothing.test.ts",
];

/** Tests that were tried again, by name and with what they failed by: what passed at a later try is worth a look. */
const retriedTests: Reporter = {
  onTestRunEnd(modules) {
    const retried = modules.flatMap((module) =>
      [...module.children.allTests()].filter((test) => (test.diagnostic()?.retryCount ?? 0) > 0),
    );
    for (const test of retried) {
      process.stdout.write(`tried again: ${test.module.moduleId} > ${test.fullName}\n`);
      for (const { message } of test.result().errors ?? []) process.stdout.write(`  before: ${message}\n`);
    }
  },
};

/** The longest files, twenty seconds and more. Begun late, they would leave other workers idle at the end. */
const LONGEST = `
  properties/mutants-in-virtual-time src/verify/gateway src/stages/verify-stage src/cli/doctor
  src/run/capacity/capacity src/verify/load-defects src/drivers/k6/alone properties/mutants src/shedding/curve-claims
  src/run/target-run src/run/run src/run/hostile-server src/verify/defects src/run/experiments/chaos src/drivers/k6/k6
  src/run/experiments/explore src/cli/serve src/verify/variants src/drivers/one-meaning src/verify/run-verify
  properties/platform-kills src/verify/load-variants src/cli/exit-codes src/simulation/virtual-player
  src/verify/reference src/run/calibration/calibrate src/drivers/k6/k6-budget properties/ci-scripts src/cli/floodgate
  src/drivers/open-loop/open-loop properties/invariants-honest src/cli/dev properties/compose-run src/shedding/settling
  src/run/experiments/own-chaos src/cli/end-with-launcher src/run/protocol properties/shedding-curve.property
`
  .trim()
  .split(/\s+/);

/** Quick files come last: they fill what the long ones leave. */
const rankOf = ({ moduleId, project }: TestSpecification): number => {
  const rank = LONGEST.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
  return rank === -1 ? LONGEST.length + Number(["pure", "quick", "mocks"].includes(project.name)) : rank;
};

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.toSorted((a, b) => rankOf(a) - rankOf(b));
  }
}

/** Node loads the modules of a file that shares none, as it loads those of a command. Vite transforms and evaluates each anew. */
const BY_NODE = { viteModuleRunner: false };

const isCi = process.env.CI !== undefined;

export default defineConfig({
  test: {
    // What hangs ends here; no test depends on the time that a shared machine takes.
    testTimeout: 240_000,
    hookTimeout: 240_000,
    reporters: ["default", retriedTests],
    sequence: { sequencer: LongestFirst },
    execArgv: ["--import", `${import.meta.dirname}/src/supervision/quick-imports.mjs`],
    // More than two cores can compute at once, because a test that starts programs waits for two thirds of its time.
    maxWorkers: 6,
    projects: [
      // Most of what a quick file takes is loading the program, so the files of a worker share what the first of them has loaded.
      { extends: true, test: { name: "pure", include: PURE, isolate: false, setupFiles: [".vitest.no-processes.ts"] } },
      {
        extends: true,
        test: {
          name: "quick",
          isolate: false,
          include: ["src/**/*.test.ts", "properties/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...PURE, ...STARTS_PROCESSES, ...WAITS, ...MOCKS],
          setupFiles: [".vitest.no-processes.ts"],
        },
      },
      { extends: true, test: { name: "mocks", include: MOCKS, setupFiles: [".vitest.no-processes.ts"] } },
      // A machine from which half of its time is stolen stalls for seconds, and what is about time or processes is tried again in CI.
      { extends: true, test: { name: "waiting", include: WAITS, experimental: BY_NODE, retry: isCi ? 2 : 0 } },
      {
        extends: true,
        test: { name: "processes", include: STARTS_PROCESSES, experimental: BY_NODE, retry: isCi ? 2 : 0 },
      },
    ],
  },
});
