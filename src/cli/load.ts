/** `floodgate load`: one scenario, or a k6 script of the user's own. */

import { closeSync } from "node:fs";
import { Command, Option } from "commander";
import { noSuch } from "../contract/nearest.ts";
import { plannedEmbedded } from "../deployments/embedded-deployment.ts";
import { closedLoopRefusal } from "../drivers/autocannon/plain-story.ts";
import { replayedLogText } from "../report/replayed-log-text.ts";
import { EXIT } from "../run/exit-codes.ts";
import { writeOperator } from "../run/operator/write-operator.ts";
import { runScript } from "../run/own-script.ts";
import { runStages } from "../run/run-stages.ts";
import { SCENARIOS, type ScenarioWish, scenarioStage } from "../run/suites/scenario.ts";
import type { LoadStage } from "../stages/stage-plan.ts";
import { openUserFile, UserFileError } from "../supervision/user-file.ts";
import type { Target } from "../target/target.ts";
import { CommandError } from "./command-error.ts";
import { seconds } from "./options/durations.ts";
import { positive, whole } from "./options/numbers.ts";
import { checkPrecise } from "./options/precise-option.ts";
import { LOG_FORMAT_NAMES, PROFILE_NAMES, profileOf } from "./options/profile-option.ts";
import { commandLine, runOptions, type TargetOptions, withTargetOptions } from "./options/target-options.ts";
import { wrapped } from "./printing/findings-text.ts";
import { narrator } from "./printing/narrator.ts";
import { printJson, printNote, printResult } from "./printing/output.ts";
import { showPlan } from "./printing/show-plan.ts";
import { showRun } from "./printing/show-run.ts";

type LoadOptions = TargetOptions & {
  driver?: "k6" | "open-loop" | "autocannon";
  rate?: number;
  duration?: number;
  arrivals?: "uniform" | "poisson";
  profile?: string;
  logFormat?: string;
  timeField?: string;
  skipUnreadable?: boolean;
  segments?: number;
  fold?: boolean;
  precise?: boolean;
  script?: string;
  short?: boolean;
  operator?: string;
};

const list = (): string =>
  SCENARIOS.flatMap(({ name, purpose }) => wrapped(purpose, `  ${name.padEnd(23)}`, 25)).join("\n");

const wishOf = async (options: LoadOptions): Promise<ScenarioWish> => ({
  ...(options.driver === undefined ? {} : { driver: options.driver }),
  ...(options.rate === undefined ? {} : { ratePerS: options.rate }),
  ...(options.duration === undefined ? {} : { durationS: options.duration }),
  ...(options.arrivals === undefined ? {} : { arrivals: options.arrivals }),
  ...(await profileOf(options)),
  ...(options.segments === undefined ? {} : { segments: options.segments }),
  ...(options.fold === true ? { fold: true as const } : {}),
  ...(options.precise === true ? { precise: true as const } : {}),
});

/** The words of the command that change the load, as they may be typed again. */
const wordsOf = (name: string, options: LoadOptions): string[] => [
  "load",
  name,
  ...(options.driver === undefined ? [] : ["--driver", options.driver]),
  ...(options.rate === undefined ? [] : ["--rate", `${options.rate}`]),
  ...(options.duration === undefined ? [] : ["--duration", `${options.duration}s`]),
  ...(options.arrivals === undefined ? [] : ["--arrivals", options.arrivals]),
  ...(options.profile === undefined ? [] : ["--profile", options.profile]),
  ...(options.logFormat === undefined ? [] : ["--log-format", options.logFormat]),
  ...(options.timeField === undefined ? [] : ["--time-field", options.timeField]),
  ...(options.skipUnreadable === true ? ["--skip-unreadable"] : []),
  ...(options.segments === undefined ? [] : ["--segments", `${options.segments}`]),
  ...(options.fold === true ? ["--fold"] : []),
  ...(options.precise === true ? ["--precise"] : []),
  ...(options.short === true ? ["--short"] : []),
];

/** k6 would wait for ever for somebody to write to a pipe. */
const checkScript = (script: string): void => {
  try {
    closeSync(openUserFile(script).descriptor);
  } catch (error) {
    if (!(error instanceof UserFileError)) throw error;
    throw new CommandError(EXIT.usage, `expected a k6 script at ${script}; ${error.message}`);
  }
};

const loadScript = async (script: string, args: readonly string[], options: LoadOptions): Promise<void> => {
  checkScript(script);
  if (options.dryRun === true) {
    printResult("Nothing was sent. What your own script would send cannot be worked out without running it.\n");
    return;
  }
  const common = runOptions(options);
  const say = narrator({ quiet: options.quiet === true, title: `load --script ${script}`, seed: common.seed });
  const replay = `${commandLine(["load", "--script", script], options, common.seed)} -- ${args.join(" ")}`.replace(
    / -- $/,
    "",
  );
  const deployment = options.target === undefined ? {} : { targetFile: options.target };
  const result = await runScript({
    ...common,
    ...deployment,
    profile: "load",
    replay,
    script,
    args,
    events: say,
  }).finally(say.end);
  showRun(result, options);
};

/** What a driver cannot do, before anything is started. */
const checkDriver = (stage: LoadStage, options: LoadOptions): void => {
  if (stage.fold === true && stage.disturbance !== undefined) {
    throw new CommandError(
      EXIT.usage,
      `${stage.name} looks at each call to see when it has recovered, so there is no --fold; leave it out`,
    );
  }
  if (stage.precise === true) checkPrecise(stage.driver, stage.segments);
  if (stage.driver !== "autocannon") return;
  const { arrivals, profile, segments, fold } = options;
  const given = Object.entries({ arrivals, profile, segments, fold }).filter(([, value]) => value !== undefined);
  if (given.length > 0) {
    const names = given.map(([name]) => `--${name}`).join(", ");
    throw new CommandError(
      EXIT.usage,
      `autocannon is a closed loop without a schedule, so there is no ${names}; use --driver open-loop or --driver k6`,
    );
  }
  const refusal = closedLoopRefusal(stage, plannedEmbedded());
  if (refusal !== null) throw new CommandError(EXIT.usage, refusal);
};

/** `--operator DIR`: files for a cluster instead of a run. */
const writeForOperator = async (stage: LoadStage, folder: string, options: LoadOptions): Promise<void> => {
  const { target: targetFile, driver, arrivals, profile, short, fold, precise } = options;
  const unfit = Object.entries({
    arrivals,
    profile,
    short,
    fold,
    precise,
    driver: driver === "k6" ? undefined : driver,
  });
  const given = unfit.filter(([, value]) => value !== undefined).map(([name]) => `--${name}`);
  if (given.length > 0) {
    throw new CommandError(EXIT.usage, `a scenario that k6 runs by itself has no ${given.join(", ")}; leave it out`);
  }
  if (targetFile === undefined) {
    throw new CommandError(
      EXIT.usage,
      "--operator needs --target FILE: a cluster cannot reach the embedded deployment",
    );
  }
  const { seed, owned } = runOptions(options);
  const { segments: parallelism = 1 } = options;
  const progress = (line: string): void => void (options.quiet === true || printNote(line));
  const written = await writeOperator({ stage, targetFile, owned, seed, parallelism, folder, progress });
  for (const warning of written.warnings) printNote(`warning: ${warning}`);
  if (options.json === true) {
    printJson(written);
    return;
  }
  const lines = [
    `Nothing was sent. Written for ${parallelism} ${parallelism === 1 ? "runner" : "runners"} of the k6-operator, not run on a cluster:`,
    ...written.files.map((file) => `  ${file}`),
    `No secret is in them: fill in secret.env and make the Secret ${written.secret} from it (README.md).`,
  ];
  printResult(lines.join("\n"));
};

export const loadCommand = (): Command =>
  withTargetOptions(
    new Command("load")
      .description("play one scenario, or a k6 script of your own")
      .argument("[scenario]", "its name; all are listed where none is given")
      .argument("[k6-arguments...]", "after --script FILE and --: for k6")
      .addOption(new Option("--driver <name>", "who makes the calls").choices(["k6", "open-loop", "autocannon"]))
      .option("--rate <n>", "calls per second, in place of the scenario's own; autocannon's highest", positive)
      .option("--duration <length>", "such as 15s or 2m", seconds)
      .addOption(new Option("--arrivals <kind>", "how calls are spaced").choices(["uniform", "poisson"]))
      .option("--profile <name>", `how the rate runs over time: ${PROFILE_NAMES}; or an access log to be replayed`)
      .addOption(
        new Option("--log-format <name>", "of the access log; found out where it is not given").choices(
          LOG_FORMAT_NAMES,
        ),
      )
      .option(
        "--time-field <name>",
        "which field of the access log holds the start of a call: a member of JSON, a key, or the number of a column",
      )
      .option("--skip-unreadable", "leave out lines of the access log that cannot be read, be they more than 1 %")
      .option("--segments <n>", "how many processes share the schedule", whole(1, 16))
      .option("--fold", "for high rates: admitted calls are counted by the second, all others are kept whole")
      .option(
        "--precise",
        "the open-loop driver never sleeps while it waits, so no timer makes a call late; it takes a whole core",
      )
      .option("--operator <dir>", "write what the k6-operator needs to run it in --segments runners; nothing is sent")
      .option("--script <file>", "a k6 script of your own; it is given FLOODGATE_BASE_URL")
      .option("--short", "a fifth of the time, for a first look"),
  ).action(async (scenario: string | undefined, rest: string[], options: LoadOptions) => {
    if (options.script !== undefined) {
      return loadScript(options.script, [...(scenario === undefined ? [] : [scenario]), ...rest], options);
    }
    if (rest.length > 0) {
      throw new CommandError(
        EXIT.usage,
        `load plays one scenario, ${scenario}; got ${rest.join(" ")} as well. What follows it belongs to --script FILE`,
      );
    }
    if (scenario === undefined) {
      printResult(`Scenarios, played by: npx floodgate load NAME\n${list()}`);
      return;
    }
    const isKnown = SCENARIOS.some(({ name }) => name === scenario);
    // A log that is read for a minute and a name that is not there would be bad news too late.
    const stage = isKnown ? scenarioStage(scenario, await wishOf(options)) : null;
    if (stage === null) {
      throw new CommandError(
        EXIT.usage,
        noSuch(
          "scenario",
          scenario,
          SCENARIOS.map(({ name }) => name),
          `expected one of\n${list()}`,
        ),
      );
    }
    checkDriver(stage, options);
    // Before anything is started: whoever sees that his log was read wrongly can still stop it.
    for (const line of stage.replayed === undefined ? [] : replayedLogText(stage.replayed)) {
      printNote(`--profile ${options.profile}: ${line}`);
    }
    if (options.operator !== undefined) return writeForOperator(stage, options.operator, options);
    const common = runOptions(options);
    const deployment = options.target === undefined ? {} : { targetFile: options.target };
    const stages = {
      stages: ({ target }: { target: Target }) => {
        const refusal = closedLoopRefusal(stage, target);
        if (refusal !== null) throw new CommandError(EXIT.usage, refusal);
        return [stage];
      },
      short: options.short === true,
    };
    if (options.dryRun === true) return showPlan({ ...common, ...deployment, stages }, options.json === true);
    const words = wordsOf(scenario, options);
    const say = narrator({ quiet: options.quiet === true, title: words.join(" "), seed: common.seed });
    const replay = commandLine(words, options, common.seed);
    const canJudge = (required: string): boolean => required.replace(/^load\//, "") === scenario;
    const result = await runStages({
      canJudge,
      ...common,
      ...deployment,
      profile: `load-${scenario}`,
      replay,
      stages,
      events: say,
    }).finally(say.end);
    showRun(result, options);
  });
