/** `floodgate gate` on recorded runs: `--before … --after …`, `--baseline … --run …`, `--save-baseline …`. */

import type { RecordedComparison } from "../gate/recorded/recorded-comparison.ts";
import { EXIT } from "../run/exit-codes.ts";
import { compareRuns, compareWithBaseline, saveBaseline } from "../run/gate/gate-recorded.ts";
import { CommandError } from "./command-error.ts";
import { printJson, printNote } from "./printing/output.ts";

export type RecordedOptions = {
  before?: string[];
  after?: string[];
  baseline?: string;
  run?: string[];
  saveBaseline?: string;
  reason?: string;
  json?: boolean;
};

export const isRecorded = ({ before, after, baseline, run, saveBaseline: save }: RecordedOptions): boolean =>
  [before, after, baseline, run, save].some((option) => option !== undefined);

const EXIT_OF: Record<RecordedComparison["verdict"], number> = {
  regression: EXIT.fail,
  "no-regression": EXIT.pass,
  inconclusive: EXIT.inconclusive,
};

const WORDS: Record<RecordedComparison["verdict"], string> = {
  regression: "WORSE",
  "no-regression": "ok",
  inconclusive: "open",
};

const figure = (value: number): string => (Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3));

const show = (found: RecordedComparison, json: boolean): void => {
  const rows = found.rows.map(({ measurement, before, after, worseBy, margin, verdict }) =>
    [
      measurement.slice(0, 40).padEnd(40),
      figure(before).padStart(8),
      figure(after).padStart(8),
      worseBy.toFixed(3).padStart(7),
      margin.toFixed(2).padStart(7),
      WORDS[verdict],
    ].join(" "),
  );
  const header = `${"measurement".padEnd(40)} ${"before".padStart(8)} ${"after".padStart(8)}   ratio allowed`;
  printNote([...(rows.length === 0 ? [] : [header, ...rows]), ...found.reasons].join("\n"));
  printNote(`${WORDS[found.verdict] === "ok" ? "PASS" : found.verdict === "regression" ? "FAIL" : "INCONCLUSIVE"}\n`);
  if (json) printJson(found);
  process.exitCode = EXIT_OF[found.verdict];
};

const usage = (sentence: string): never => {
  throw new CommandError(EXIT.usage, sentence);
};

export const gateRecorded = async (options: RecordedOptions): Promise<void> => {
  const { before, after, baseline, run, saveBaseline: save, reason } = options;
  if (save !== undefined) {
    if (run === undefined || reason === undefined || reason.trim() === "") {
      return usage(
        "--save-baseline FILE needs --run DIR… and --reason TEXT: what is compared with has to be explained",
      );
    }
    const saved = await saveBaseline(save, run, reason);
    printNote(`baseline of ${saved.runs.length} run${saved.runs.length === 1 ? "" : "s"} written to ${save}\n`);
    return;
  }
  if (baseline !== undefined || run !== undefined) {
    if (baseline === undefined || run === undefined) return usage("--baseline FILE and --run DIR… belong together");
    return show(compareWithBaseline(baseline, run), options.json === true);
  }
  if (before === undefined || after === undefined) return usage("--before RUN… and --after RUN… belong together");
  show(compareRuns(before, after), options.json === true);
};
