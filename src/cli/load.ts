/** `floodgate run` and `floodgate load`: a suite; one scenario, or a k6 script of the user's own. */
import { closeSync } from "node:fs";
import { stated } from "../contract/stated.ts";
import { plannedEmbedded } from "../deployments/tenants.ts";
import { closedLoopRefusal } from "../drivers/autocannon/autocannon.ts";
import { clip, oneLine } from "../report/escape.ts";
import { count, counted, duration, share } from "../report/figures.ts";
import { cutReplayText, replayedLogText } from "../report/replayed-log-text.ts";
import { wrapped } from "../report/terminal.ts";
import { LOG_FORMAT_NAMES, LOG_FORMATS } from "../run/access-log/log-formats.ts";
import * as reading from "../run/access-log/read-log.ts";
import { runScript, runStages } from "../run/bodies.ts";
import { writeOperator } from "../run/operator/write-operator.ts";
import * as suites from "../run/suites/suites.ts";
import { callsOfCutLog, type LoadStage, type StagePlan, type SuiteFor, shortened } from "../stages/stage-plan.ts";
import { redactor, SECRET_WORDS } from "../supervision/redaction.ts";
import { called, openUserFile, UsageError, UserFileError } from "../supervision/user-file.ts";
import type { Target } from "../target/target.ts";
import { PROFILES } from "../workload/load-profiles.ts";
import { type JudgingOptions, judgingCommand, LIMITER, type Limiter, stagesPlan } from "./judging-command.ts";
import * as checks from "./options.ts";
import { printNote, printResult, printShown } from "./printing.ts";

const SUITE_NAMES = [...suites.SUITES.keys()].join(", ");

const ABOUT_SUITES = `
Suites:
${[...suites.SUITES.values()].flatMap(({ name, purpose }) => wrapped(purpose, `  ${name.padEnd(9)}`, 11)).join("\n")}

Without --target the reference platform is started here, with toxiproxy between
its parts. What a deployment lacks for a stage is skipped by name.

Exit codes: 0 every claim that must hold and was judged holds; 1 one is broken;
4 one could not be decided, or something in \`required\` was not judged.`;

export const runCommand = () =>
  judgingCommand<JudgingOptions & { limiter: Limiter; short?: boolean }>(
    "run",
    {
      about: "play a suite: rules, load and faults, judged and reported",
      operands: [["[suite]", `one of ${SUITE_NAMES}`, "smoke"]],
      options: [LIMITER, ["--short", "stages of minutes take a fifth of their time, for a first look"]],
      exclusions: [checks.EMBEDDED_ALONE],
      help: ABOUT_SUITES,
    },
    ({ limiter, short = false }, { processedArgs: [name] }) => {
      const suite = called("suite", name, suites.SUITES.values(), `expected one of ${SUITE_NAMES}`);
      const stages = { stages: suite.stages, short };
      return {
        plan: (place) => stagesPlan({ ...place, limiter, stages }),
        play: (common) => runStages({ ...common, limiter, profile: name, stages }),
      };
    },
  );

const PROFILE_NAMES = Object.keys(PROFILES).join(", ");

export type ProfileOptions = Partial<Record<"logFormat" | "timeField" | "arrivals", string>> &
  Partial<Record<"rate" | "duration", number>> & { skipUnreadable?: true; profile?: string | readonly string[] };

/** The longest replay; a longer one is refused before anything is sent. */
const PLAYED_MAX_DAYS = 7;
const SHOWN_CHARS = 160;

/**
 * Matches a value whose name sounds secret: in text, in JSON, in JSON within JSON (with escaped quotes), and in the pairs
 * of HAR, `"name":"cookie","value":"…"`.
 */
const NAMED_SECRET = new RegExp(
  String.raw`([\w-]*(?:${SECRET_WORDS}|pwd)[\w-]*\\*["']?\s*(?:[=:]|,\s*\\*["']value\\*["']\s*:)\s*\\*["']?)(?!\[)[^\s"',;&\\]+`,
  "gi",
);

/** A log line for the terminal: cut, without addresses, queries and long tokens, which may be secret or personal. */
const shown = (line: string): string => {
  const text = redactor
    .redact(line.slice(0, 20 * SHOWN_CHARS))
    .replace(/\b(?:\d{1,3}\.){3}\d{1,3}\b/g, "[address]")
    .replace(/(?:\b[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}\b|[0-9a-f:]*::[0-9a-f:]+/gi, "[address]")
    .replace(/\/\/[^\s/@"']+@/g, "//[masked]@")
    .replace(/[\w.+-]+@[\w-]+\.[\w.-]+/g, "[address]")
    .replace(/\?[^\s"'?]+/g, "?[query]")
    .replace(/\b(?:Bearer|Basic)\s+[^\s"',]+/gi, "[masked]")
    .replace(NAMED_SECRET, "$1[masked]")
    .replace(/[\w+=~%-]{20,}/g, (token) => (/\d/.test(token) ? "[masked]" : token));
  return clip(oneLine(text), SHOWN_CHARS);
};

const OVERRIDE =
  "Name the format with --log-format, or with --time-field the field that holds the start of a call: a member of a JSON line, a key, or the number of a column";

const DAY_MS = 86_400_000;
const days = (ms: number): string => `${count(ms / DAY_MS)} days`;
const moment = (ms: number): string => new Date(ms).toISOString();

const unknownText = (line: number, text: string, lines: number, { timeField, format }: reading.LogOptions): string => {
  const asked = format === undefined ? "its format is not known" : `no line can be read as ${format}`;
  const what = timeField === undefined ? asked : `no line has a moment in the field ${oneLine(timeField)}`;
  const isDocument = /^\[\s*(?:\{.*)?$/.test(text) || text === "{" || (lines === 1 && text.startsWith("{"));
  const aboutOf = (called: string): string | undefined => LOG_FORMATS.find(({ name }) => name === called)?.of;
  const formats = LOG_FORMAT_NAMES.map((name) => `  ${name.padEnd(15)}${aboutOf(name)}`);
  const help = isDocument
    ? "Expected a line for each call; this looks like one JSON document. Turn it into lines, such as by: jq -c '.[]' or jq -c '.records[]'"
    : `Looked for, one of them in at least half of the lines:\n${formats.join("\n")}\n${OVERRIDE}.`;
  return `${what}, among the first ${counted(lines, "line")}; line ${line} is: ${shown(text)}\n${help}`;
};

const refusalText = (refusal: reading.LogRefusal, wanted: reading.LogOptions): string => {
  switch (refusal.code) {
    case "format-unknown":
      return unknownText(refusal.line, refusal.text, refusal.lines, wanted);
    case "unreadable": {
      const { unreadable, lines, format, line, text } = refusal;
      const most = `cannot be read as ${format.name}, more than ${100 * reading.UNREADABLE_SHARE_MAX} %`;
      return `${count(unreadable)} of ${counted(lines, "line")} (${share(unreadable, lines)}) ${most}. The first is line ${line}: ${shown(text)}\nExpected ${format.of}. --skip-unreadable leaves such lines out. ${OVERRIDE}.`;
    }
    case "too-few-calls":
      return refusal.lines === 0
        ? "there is no line in it; expected a line for each call"
        : `it has ${counted(refusal.calls, "call")}; expected two or more, because one alone has no course`;
    case "told-twice":
      return `it holds the same calls as ${oneLine(refusal.other)}; give one of them`;
    case "too-many-calls":
      return `it has more than ${counted(refusal.most, "call")}, which is what is kept in memory. Split it by time`;
    case "span-too-long": {
      const { line, atMs, silenceMs, spanMs, mostMs } = refusal;
      const place = `line ${line} is of ${moment(atMs)}. Take out what is out of place there`;
      return `it spans ${days(spanMs)}, more than the ${count(mostMs / DAY_MS)} that are replayed, with nothing for ${days(silenceMs)}: ${place}`;
    }
  }
};

/** Says why a replay would take too long or have too few calls at this rate or for this time; `null` if neither. */
const lengthText = ({ atMs, facts, outermost }: reading.ReadLog, { rate, duration: durationS }: ProfileOptions) => {
  const firstMs = atMs[0] as number;
  const spanS = ((atMs.at(-1) as number) - firstMs) / 1000;
  const wholeS = rate === undefined ? spanS : (atMs.length - 1) / rate;
  const playedMs = 1000 * Math.min(wholeS, durationS ?? wholeS);
  if (playedMs > PLAYED_MAX_DAYS * DAY_MS) {
    const silence = `its longest silence is ${duration(1000 * facts.longest_silence_s)}, beyond which line ${outermost.line} is of ${moment(outermost.atMs)}`;
    return `its replay would take ${days(playedMs)}, more than the ${PLAYED_MAX_DAYS} that are played; ${silence}. --rate makes it faster, --duration plays its beginning`;
  }
  if (durationS === undefined || wholeS <= durationS) return null;
  const mostMs = 1000 * durationS * (spanS / wholeS);
  if (atMs.findLastIndex((ms) => ms - firstMs < mostMs) >= 1) return null;
  return `in the first ${duration(1000 * durationS)} of its replay there is one call alone. Choose a longer --duration`;
};

const refused = (path: string, text: string): UsageError => new UsageError(`--profile ${oneLine(path)}: ${text}`);

const replayOf = async (paths: readonly string[], options: ProfileOptions): Promise<suites.ScenarioWish> => {
  const [first = ""] = paths;
  if (options.arrivals !== undefined) {
    throw refused(first, "an access log states the moment of each call, so there is no --arrivals; leave it out");
  }
  const wanted: reading.LogOptions = { ...options, format: options.logFormat };
  const log = await reading.readAccessLog(paths, wanted, (path, { message }) =>
    refused(path, `${message}. Expected one of ${PROFILE_NAMES}, or an access log`),
  );
  const why = "code" in log ? refusalText(log, wanted) : lengthText(log, options);
  if (why !== null) throw refused(("code" in log ? log.path : log.outermost.path) ?? first, why);
  const { atMs, facts } = log as reading.ReadLog;
  return { replayOfMs: atMs, replayed: facts };
};

/** A load profile by its name, or an access log to be replayed; of a log, only the moments of its calls are kept. */
export const profileOf = async (options: ProfileOptions): Promise<suites.ScenarioWish> => {
  const { logFormat, timeField, skipUnreadable } = options;
  const profiles = [options.profile ?? []].flat();
  const name = profiles.find((one) => Object.hasOwn(PROFILES, one));
  if (profiles.length > 1 && name !== undefined) {
    throw refused(name, "it is a profile of its own. Expected one profile, or the files of one access log");
  }
  if (profiles.length > 0 && name === undefined) return replayOf(profiles, options);
  const ofLog = { "log-format": logFormat, "time-field": timeField, "skip-unreadable": skipUnreadable };
  const [first] = Object.entries(ofLog).find(([, value]) => value !== undefined) ?? [];
  if (first !== undefined) throw new UsageError(`--${first} is about an access log; give its path with --profile`);
  return name === undefined ? {} : { loadProfile: name };
};

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
  ["--profile <name-or-file>", `how the rate runs over time: ${PROFILE_NAMES}; or an access log to be replayed, also in several files: --profile A --profile B`, checks.each],
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

const LISTED = suites.SCENARIOS.flatMap(({ name, purpose }) => wrapped(purpose, `  ${name.padEnd(23)}`, 25)).join("\n");

const checkLoop = (stage: LoadStage, target: Target): void => {
  const refusal = closedLoopRefusal(stage, target);
  if (refusal !== null) throw new UsageError(refusal);
};

const stageOf = async (scenario: string, options: LoadOptions): Promise<LoadStage> => {
  // Reading a log may take a minute, so an unknown name is reported first.
  called("scenario", scenario, suites.SCENARIOS, `expected one of\n${LISTED}`);
  const { driver, rate: ratePerS, duration: durationS, arrivals, segments, fold, precise } = options;
  const wish = { driver, ratePerS, durationS, arrivals, segments, fold, precise, ...(await profileOf(options)) };
  const stage = suites.scenarioStage(scenario, stated(wish) as suites.ScenarioWish) as LoadStage;
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

const ROWS: checks.CommandRows = {
  about: "play one scenario, or a k6 script of your own",
  operands: [
    ["[scenario]", "its name; all are listed where none is given"],
    ["[k6-arguments...]", "after --script FILE and --: for k6"],
  ],
  options: OPTIONS,
  exclusions: EXCLUSIONS,
};

export const loadCommand = () =>
  judgingCommand<LoadOptions>("load", ROWS, async (options, { processedArgs }) => {
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
        `load plays one scenario, ${scenario}; got ${rest.join(" ")} as well. What follows it belongs to --script FILE; each file of a log has a --profile of its own`,
      );
    }
    if (scenario === undefined) {
      printResult(`Scenarios, played by: npx floodgate load NAME\n${LISTED}`);
      return null;
    }
    const stage = await stageOf(scenario, options);
    // Printed before anything starts, so that a user can stop if the log was misread.
    if (stage.replayed !== undefined) {
      const cutTo = callsOfCutLog(options.short === true ? (shortened(stage) as LoadStage) : stage);
      const cut = cutTo === null ? [] : [cutReplayText(cutTo, stage.replayed)];
      for (const line of [...replayedLogText(stage.replayed), ...cut]) {
        printNote(`--profile ${[options.profile].flat().join(" ")}: ${line}`);
      }
    }
    if (options.operator !== undefined) {
      await writeForOperator(stage, options.operator, options);
      return null;
    }
    const stagesFor = (given: SuiteFor): StagePlan[] => {
      checkLoop(stage, given.target);
      return [...suites.withItsPair(stage), ...suites.afterScenario(stage, given)];
    };
    const stages = { stages: stagesFor, short: options.short === true };
    const canJudge = (required: string): boolean => required.replace(/^load\//, "") === scenario;
    const required = (): string[] => suites.subjectsOf(stage);
    return {
      plan: (place) => stagesPlan({ ...place, stages }),
      play: (common) => runStages({ canJudge, required, ...common, profile: `load-${scenario}`, stages }),
    };
  });
