/**
 * For tests: a run of some stages only, with nothing else different. Run as `node smoke-part.fixture.ts FOLDER STAGE…`; says
 * `stage NAME` when it begins one, and ends with the run's exit code.
 */
import { runProfile } from "./run.ts";
import { PROFILES, SMOKE, type StagePlan } from "./suites/smoke.ts";

const [out, ...names] = process.argv.slice(2) as [string, ...string[]];
(PROFILES as Record<string, readonly StagePlan[]>).part = SMOKE.filter(({ name }) => names.includes(name));

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const { document } = await runProfile({
  ...{ profile: "part", seed: 1, reports: out, out },
  events: {
    folder: (path) => say(`folder ${path}`),
    step: (text) => say(text),
    progress: () => undefined,
    stage: ({ summary }) => say(`ended ${summary.name}`),
    signalled: (signal, times) => say(`${signal} ${times}`),
  },
});
process.exitCode = document.exit_code;
