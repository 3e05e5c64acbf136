/** `floodgate gate`: is the head worse than the base? Both are loaded in turn, or recorded runs are compared. */
import { InvalidArgumentError } from "commander";
import { PAIRS_DEFAULT, PAIRS_MOST } from "../gate/block-plan.ts";
import { shownRatio } from "../gate/gate-claims.ts";
import { EXIT } from "../run/exit-codes.ts";
import * as gates from "../run/gate/run-gate.ts";
import type { RecordedComparison } from "../trends/recorded-comparison.ts";
import { guardLines, type JudgingOptions, judgingCommand, ON_SERVED } from "./judging-command.ts";
import { type Exclusion, each, type OptionRow, positive, upTo, whole } from "./options.ts";
import { printJson, printNote, type Shown } from "./printing.ts";

type GateOptions = JudgingOptions & { scenario: string } & Partial<Record<"rate" | "pairs", number>> &
  Partial<Record<"base" | "head" | "baseline" | "saveBaseline" | "reason", string>> &
  Partial<Record<"before" | "after" | "run" | "margin", string[]>>;

// biome-ignore format: a row is a line
const EXCLUSIONS: readonly Exclusion[] = [
  ["before after baseline run save-baseline", "base head", "gate compares either --base and --head, or recorded runs, not both"],
  ["target", "target", "gate compares two deployments: --base FILE and --head FILE, not --target"],
  ["base head", "!base !head", "gate needs --base FILE and --head FILE, the target files of two deployments"],
  ["save-baseline", "!run !reason", "--save-baseline FILE needs --run DIR… and --reason TEXT: what is compared with has to be explained"],
  ["baseline", "!run", "--baseline FILE and --run DIR… belong together"],
  ["run", "!baseline|save-baseline", "--baseline FILE and --run DIR… belong together"],
  ["before after", "!before !after", "--before RUN… and --after RUN… belong together"],
];

const MARGIN_MOST = 1_000;

/** Keeps the text, by which the line that repeats the run names it. */
const margin = (text: string, before?: readonly string[]): string[] => {
  const [name = "", percent = ""] = text.split("=");
  const unknown = gates.unknownMargin(name);
  if (unknown !== null) throw new InvalidArgumentError(unknown);
  upTo(MARGIN_MOST)(percent);
  return each(text, before);
};

const marginsOf = ({ margin = [] }: GateOptions): gates.Margins =>
  Object.fromEntries(margin.map((one) => one.split("=")).map(([name, percent]) => [name, 1 + Number(percent) / 100]));

const FIRST_LOOK = `pairs of blocks before the first look (default ${PAIRS_DEFAULT}; fewer show only broken invariants); up to ${PAIRS_MOST} where that leaves something open`;
const OPTIONS: readonly OptionRow[] = [
  ["--base <file>", "target file of the deployment that is known"],
  ["--head <file>", "target file of the deployment that may be worse"],
  ["--scenario <name>", "what is played", undefined, gates.GATE_SCENARIO],
  ["--rate <n>", "the base's capacity in calls/s, where its `limits` do not state it", positive],
  ["--pairs <n>", FIRST_LOOK, whole(1, PAIRS_MOST)],
  ["--margin <name=percent...>", "how much worse a measurement may be, e.g. goodput=10", margin],
  ["--before <run...>", "run folders of what is known"],
  ["--after <run...>", "run folders of what may be worse"],
  ["--baseline <file>", "a saved baseline, compared with --run"],
  ["--run <dir...>", "run folders, for --baseline or --save-baseline"],
  ["--save-baseline <file>", "write the figures of --run as a baseline"],
  ["--reason <text>", "why this is the baseline; kept in the file"],
];

const SAME_SIDES = `${ON_SERVED.replace("no --target", "no --base and --head")}. Both sides are the same here, so nothing is worse`;

const EXPLAINED = `
Three ways to ask: --base and --head (both are loaded in turn, in pairs of short
blocks below and above the base's capacity); --before and --after; --baseline
and --run. The last two compare recorded runs and send nothing.

Exit codes: 0 no worse than allowed; 1 worse, or an invariant breaks on the head
alone, or its answers lost a subcode, Retry-After or event; 4 too few or too
noisy pairs to say.`;

const planned = async (wishes: gates.GateWishes): Promise<Shown> => {
  const plan = await gates.planGate(wishes);
  const { load, capacity_per_s: capacity } = plan;
  const minutes = (s: number | null): string => ((s ?? 0) / 60).toFixed(1);
  const lines = [
    `Nothing was sent to ${plan.base} or ${plan.head}.`,
    ...(load === null
      ? ["The base's capacity is not stated, so a few probes would find it first (--rate N states it)."]
      : [
          `Blocks at ${load.lowPerS.toFixed(1)} and ${load.overloadPerS.toFixed(1)} calls/s: the base's capacity is ${capacity?.toFixed(1)} calls/s.`,
          `${plan.pairs} pairs: about ${plan.calls_each} calls to each side in ${minutes(plan.seconds)} minutes;`,
          ...(plan.pairs < PAIRS_DEFAULT
            ? [`fewer than ${PAIRS_DEFAULT} show only broken invariants, so a pass takes ${PAIRS_DEFAULT} pairs;`]
            : []),
          `up to ${plan.pairs_at_most} pairs where that decides nothing: ${plan.calls_each_at_most} calls in ${minutes(plan.seconds_at_most)} minutes.`,
        ]),
    ...plan.lacks.map((lack) => `It could not be played: ${lack}`),
    ...guardLines(plan.refused_by_guard),
  ];
  return { document: plan, lines };
};

/** For each verdict of a recorded comparison: the word in a row, the word at the end, the exit code. */
const SAID: Readonly<Record<RecordedComparison["verdict"], readonly [row: string, whole: string, exit: number]>> = {
  regression: ["WORSE", "FAIL", EXIT.fail],
  "no-regression": ["ok", "PASS", EXIT.pass],
  inconclusive: ["open", "INCONCLUSIVE", EXIT.inconclusive],
};

const figure = (value: number): string => (Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3));

const row = (name: string, ...cells: readonly string[]): string =>
  [name.slice(0, 40).padEnd(40), ...cells.map((cell, at) => cell.padStart([8, 8, 7, 7][at] ?? 0))].join(" ").trimEnd();

const showRecorded = (found: RecordedComparison, { json }: GateOptions): void => {
  const rows = found.rows.map(({ measurement, before, after, worseBy, margin, verdict }) =>
    row(measurement, figure(before), figure(after), shownRatio(worseBy), margin.toFixed(2), SAID[verdict][0]),
  );
  const header = row("measurement", "before", "after", "ratio", "allowed", "");
  const [, word, exit] = SAID[found.verdict];
  printNote([...(rows.length === 0 ? [] : [header, ...rows]), ...found.reasons].join("\n"));
  printNote(`${word}\n`);
  if (json === true) printJson(found);
  process.exitCode = exit;
};

const isRecorded = async (options: GateOptions): Promise<boolean> => {
  const { before, after, baseline, run = [], saveBaseline: save, reason = "" } = options;
  if (save !== undefined) {
    const { runs } = await gates.saveBaseline(save, run, reason);
    printNote(`baseline of ${runs.length} run${runs.length === 1 ? "" : "s"} written to ${save}\n`);
  } else if (baseline !== undefined)
    showRecorded(gates.compareWithBaseline(baseline, run, marginsOf(options)), options);
  else if (before !== undefined && after !== undefined)
    showRecorded(gates.compareRuns(before, after, marginsOf(options)), options);
  else return false;
  return true;
};

const ABOUT = "compare two deployments: is the head worse than the base?";

export const gateCommand = () => {
  const command = judgingCommand<GateOptions>(
    "gate",
    { about: ABOUT, options: OPTIONS, exclusions: EXCLUSIONS, help: EXPLAINED },
    async (options) => {
      if (await isRecorded(options)) return null;
      const { base, head, scenario, rate: ratePerS, pairs } = options;
      const wishes = { scenario, ratePerS, pairs, margins: marginsOf(options) };
      return {
        plan: ({ owned }, baseFile, headFile) => planned({ ...wishes, owned, baseFile, headFile }),
        play: async (common, baseFile, headFile) => {
          // A stage prints a line with its calls, but not whether they are of base or head; the table below names both.
          const events = { ...common.events, stage: () => undefined };
          const result = await gates.gateTargets({ ...common, ...wishes, events, baseFile, headFile });
          if (result.table.length > 0) printNote(`\n${result.table.join("\n")}\n\n`);
          return result;
        },
        files: base === undefined || head === undefined ? [] : [base, head],
        served: { count: 2, said: SAME_SIDES },
      };
    },
  );
  // Declared so that `--target` gets a helpful error; hidden in the help.
  command.options.find(({ long }) => long === "--target")?.hideHelp();
  return command;
};
