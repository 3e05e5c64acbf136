/**
 * For tests: a run of some stages only, without calibration, and with nothing else different. Run as `node smoke-part.fixture.ts FOLDER STAGE…`; says
 * `stage NAME` when it begins one, and ends with the run's exit code.
 */
import { runStages } from "./bodies.ts";
import { SUITES } from "./suites/suites.ts";

const [out, ...names] = process.argv.slice(2) as [string, ...string[]];

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const { document } = await runStages({
  profile: "part",
  seed: 1,
  reports: out,
  out,
  replay: "npx floodgate run smoke --seed 1",
  owned: [],
  uncalibrated: true,
  stages: {
    short: false,
    stages: (given) =>
      SUITES.get("smoke")
        ?.stages(given)
        .filter(({ name }) => names.includes(name)) ?? [],
  },
  events: {
    folder: (path) => say(`folder ${path}`),
    warning: say,
    step: say,
    progress: () => undefined,
    result: say,
    stage: ({ summary }) => say(`ended ${summary.name}`),
    signalled: (signal, times) => say(`${signal} ${times}`),
  },
});
process.exitCode = document.exit_code;
