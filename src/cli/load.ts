/** `floodgate run` and `floodgate load`: a suite; one scenario, or a k6 script of the user's own. */
import { closeSync } from "node:fs";
import { Command } from "commander";
import { plannedEmbedded } from "../deployments/tenants.ts";
import { closedLoopRefusal } from "../drivers/autocannon/autocannon.ts";
import { replayedLogText } from "../report/replayed-log-text.ts";
import { wrapped } from "../report/terminal.ts";
import { runScript, runStages } from "../run/bodies.ts";
import { UsageError } from "../run/exit-codes.ts";
import { writeOperator } from "../run/operator/write-operator.ts";
import { SCENARIOS, type ScenarioWish, SUITES, scenarioStage, withItsPair } from "../run/suites/suites.ts";
import type { LoadStage } from "../stages/stage-plan.ts";
import { openUserFile, UserFileError } from "../supervision/user-file.ts";
import type { Target } from "../target/target.ts";
import { type JudgingOptions, judgingCommand, LIMITER, type Limiter, stagesPlan } from "./judging-command.ts";
import { LOG_FORMAT_NAMES, PROFILE_NAMES, type ProfileOptions, profileOf } from "./options/access-log.ts";
import * as checks from "./options/checks.ts";
import { printNote, printResult, printShown } from "./printing/output.ts";

const SUITE_NAMES = [...SUITES.keys()].join(", ");

const ABOUT_SUITES = `
Suites:
${[...SUITES.values()].flatMap(({ name, purpose }) => wrapped(purpose, `  ${name.padEnd(9)}`, 11)).join("\n")}

Without --target the reference platform is started here, with toxiproxy between
its parts. What a deployment lacks for a stage is skipped by name.

Exit codes: 0 every claim that must hold and was judged holds; 1 one is broken;
4 one could not be decided, or something in \`required\` was not judged.`;

export const runCommand = (): Command =>
  judgingCommand<JudgingOptions & { limiter: Limiter; short?: boolean }>(
    checks
      .withOptions(checks.excluding(new Command("run"), [checks.EMBEDDED_ALONE]), [
        LIMITER,
        ["--short", "stages of minutes take a fifth of their time, for a first look"],
      ])
      .description("play a suite: rules, load and faults, judged and reported")
      .argument("[suite]", `one of ${SUITE_NAMES}`, "smoke")
      .addHelpText("after", ABOUT_SUITES),
    ({ limiter, short = false }, { processedArgs: [name] }) => {
      const suite = checks.called("suite", name, SUITES.values(), `expected one of ${SUITE_NAMES}`);
      const stages = { stages: suite.stages, short };
      return {
        plan: (place) => stagesPlan({ ...place, limiter, stages }),
        play: (common) => runStages({ ...common, limiter, profile: name, stages }),
      };
    },
  );

type LoadOptions = JudgingOptions &
  ProfileOptions &
  Pick<LoadStage, "arrivals" | "segments"> & {
    driver?: LoadStage["driver"];
    fold?: true;
    precise?: true;
    script?: string;
    short?: boolean;
    operator?: string;
  };

// biome-ignore format: a row is a line
const EXCLUSIONS: readonly checks.Exclusion[] = [
  ["driver rate duration arrivals profile log-format time-field skip-unreadable segments fold precise operator short", "script", "a script of your own decides its load by itself, so there is no $given; leave it out"],
  ["arrivals profile segments fold", "driver=autocannon", "autocannon is a closed loop without a schedule, so there is no $given; use --driver open-loop or --driver k6"],
  ["arrivals profile short fold precise driver=open-loop driver=autocannon", "operator", "a scenario that k6 runs by itself has no $given; leave it out"],
  ["operator", "!target", "--operator needs --target FILE: a cluster cannot reach the embedded deployment"],
];

// biome-ignore format: a row is a line
const OPTIONS: readonly checks.OptionRow[] = [
  ["--driver <name>", "who makes the calls", ["k6", "open-loop", "autocannon"]],
  ["--rate <n>", "calls per second, in place of the scenario's own; autocannon's highest", checks.positive],
  ["--duration <length>", "such as 15s or 2m", checks.seconds],
  ["--arrivals <kind>", "how calls are spaced", ["uniform", "poisson"]],
  ["--profile <name>", `how the rate runs over time: ${PROFILE_NAMES}; or an access log to be replayed`],
  ["--log-format <name>", "of the access log; found out where it is not given", LOG_FORMAT_NAMES],
  ["--time-field <name>", "which field of the access log holds the start of a call: a member of JSON, a key, or the number of a column"],
  ["--skip-unreadable", "leave out lines of the access log that cannot be read, be they more than 1 %"],
  ["--segments <n>", "how many processes share the schedule", checks.whole(1, 16)],
  ["--fold", "for high rates: admitted calls are counted by the second, all others are kept whole"],
  ["--precise", "the open-loop driver never sleeps while it waits, so no timer makes a call late; it takes a whole core"],
  ["--operator <dir>", "write what the k6-operator needs to run it in --segments runners; nothing is sent"],
  ["--script <file>", "a k6 script of your own; it is given FLOODGATE_BASE_URL"],
  ["--short", "a fifth of the time, for a first look"],
];

const LISTED = SCENARIOS.flatMap(({ name, purpose }) => wrapped(purpose, `  ${name.padEnd(23)}`, 25)).join("\n");

const checkLoop = (stage: LoadStage, target: Target): void => {
  const refusal = closedLoopRefusal(stage, target);
  if (refusal !== null) throw new UsageError(refusal);
};

const stageOf = async (scenario: string, options: LoadOptions): Promise<LoadStage> => {
  // Reading a log may take a minute, so an unknown name is reported first.
  checks.called("scenario", scenario, SCENARIOS, `expected one of\n${LISTED}`);
  const { driver, rate: ratePerS, duration: durationS, arrivals, segments, fold, precise } = options;
  const wish = { driver, ratePerS, durationS, arrivals, segments, fold, precise, ...(await profileOf(options)) };
  const stated = Object.entries(wish).filter(([, value]) => value !== undefined);
  const stage = scenarioStage(scenario, Object.fromEntries(stated) as ScenarioWish) as LoadStage;
  if (fold === true && (stage.disturbance !== undefined || stage.curve === true)) {
    throw new UsageError(`${stage.name} is judged by each call, so there is no --fold; leave it out`);
  }
  if (precise === true) checks.checkPrecise(stage.driver, segments);
  checkLoop(stage, plannedEmbedded());
  return stage;
};

const UNKNOWN = "Nothing was sent. What your own script would send cannot be worked out without running it.";

const checkScript = (file: string): void => {
  try {
    // Fails for a pipe, on which k6 would wait for ever.
    closeSync(openUserFile(file).descriptor);
  } catch (error) {
    if (!(error instanceof UserFileError)) throw error;
    throw new UsageError(`expected a k6 script at ${file}; ${error.message}`);
  }
};

/** `--operator DIR`: writes files for a cluster in place of a run. */
const writeForOperator = async (stage: LoadStage, folder: string, options: LoadOptions): Promise<void> => {
  const { target: targetFile = "", iOwn: owned = [], segments: parallelism = 1, json, quiet } = options;
  const { seed = Math.floor(Math.random() * 2 ** 31) } = options;
  const progress = (line: string): void => void (quiet === true || printNote(line));
  const written = await writeOperator({ stage, targetFile, owned, seed, parallelism, folder, progress });
  for (const warning of written.warnings) printNote(`warning: ${warning}`);
  const lines = [
    `Nothing was sent. Written for ${parallelism} ${parallelism === 1 ? "runner" : "runners"} of the k6-operator, not run on a cluster:`,
    ...written.files.map((file) => `  ${file}`),
    `No secret is in them: fill in secret.env and make the Secret ${written.secret} from it (README.md).`,
  ];
  printShown(json, { document: written, lines });
};

export const loadCommand = (): Command =>
  judgingCommand<LoadOptions>(
    checks
      .withOptions(checks.excluding(new Command("load"), EXCLUSIONS), OPTIONS)
      .description("play one scenario, or a k6 script of your own")
      .argument("[scenario]", "its name; all are listed where none is given")
      .argument("[k6-arguments...]", "after --script FILE and --: for k6"),
    async (options, { processedArgs }) => {
      const [scenario, rest] = processedArgs as [string | undefined, string[]];
      const { script } = options;
      if (script !== undefined) {
        checkScript(script);
        const args = scenario === undefined ? [] : [scenario, ...rest];
        return {
          plan: async () => ({ document: { would_send: null, reason: UNKNOWN }, lines: [UNKNOWN] }),
          play: (common) => runScript({ ...common, profile: "load", script, args }),
        };
      }
      if (rest.length > 0) {
        throw new UsageError(
          `load plays one scenario, ${scenario}; got ${rest.join(" ")} as well. What follows it belongs to --script FILE`,
        );
      }
      if (scenario === undefined) {
        printResult(`Scenarios, played by: npx floodgate load NAME\n${LISTED}`);
        return null;
      }
      const stage = await stageOf(scenario, options);
      // Printed before anything starts, so that a user can stop if the log was misread.
      for (const line of stage.replayed === undefined ? [] : replayedLogText(stage.replayed)) {
        printNote(`--profile ${options.profile}: ${line}`);
      }
      if (options.operator !== undefined) {
        await writeForOperator(stage, options.operator, options);
        return null;
      }
      const stagesFor = ({ target }: { target: Target }): ReturnType<typeof withItsPair> => {
        checkLoop(stage, target);
        return withItsPair(stage);
      };
      const stages = { stages: stagesFor, short: options.short === true };
      const canJudge = (required: string): boolean => required.replace(/^load\//, "") === scenario;
      return {
        plan: (place) => stagesPlan({ ...place, stages }),
        play: (common) => runStages({ canJudge, ...common, profile: `load-${scenario}`, stages }),
      };
    },
  );
