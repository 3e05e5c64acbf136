/** `floodgate trends`: nights in a folder, one line each, added and compared. */
import { appendFileSync, existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { InvalidArgumentError } from "commander";
import { someOf } from "../contract/lists.ts";
import { htmlTrends } from "../report/page/html-trends.ts";
import { trendsDocument, trendsLines } from "../report/trends-text.ts";
import { shown } from "../run/run-reports.ts";
import { writePrivateFile } from "../supervision/private-file.ts";
import {
  atPlace,
  makeFolders,
  notWritten,
  readUserFile,
  readUserJson,
  UsageError,
  UserFileError,
} from "../supervision/user-file.ts";
import { type Trends, trendsOf } from "../trends/changes.ts";
import { benchmarkRows, otavaRows } from "../trends/export.ts";
import { COMMIT, isMonthFile, monthFile, type Night, readNights, whyNoNight } from "../trends/nights.ts";
import { commandOf, type OptionRow } from "./options.ts";
import { printJson, printNote, printResult, printShown } from "./printing.ts";

/** A month of nights is 130 KB; a folder that many jobs write to has more. */
const MONTH_BYTES_MOST = 64 << 20;
const PAGE = "trends.html";
const NAMED_MOST = 5;

const DIR: OptionRow = ["--dir <dir>", "the folder of nights: a file a month, a line a night"];

const folderOf = ({ dir }: { dir?: string }): string => {
  if (dir === undefined) throw new UsageError("trends needs --dir DIR, the folder of nights");
  return dir;
};

const monthText = (path: string): string => {
  try {
    return readUserFile(path, MONTH_BYTES_MOST);
  } catch (error) {
    if (!(error instanceof UserFileError)) throw error;
    throw new UsageError(`${path} cannot be read: ${error.message}; move it out of the folder`);
  }
};

/** Reads a folder of nights, and says on stderr what in it is none. */
const readFolder = (dir: string): Night[] => {
  const names = atPlace(`--dir ${dir}`, () => readdirSync(dir)).filter(
    (name) => !name.startsWith(".") && name !== PAGE,
  );
  const foreign = names.filter((name) => !isMonthFile(name));
  const files = names.filter(isMonthFile).map((name) => ({ name, text: monthText(join(dir, name)) }));
  const { nights, unread } = readNights(files);
  for (const name of foreign)
    printNote(`warning: ${name} in ${dir} is no month of nights, such as 2026-11.ndjson: not read`);
  for (const sentence of unread) printNote(`warning: not read: ${sentence}`);
  return nights;
};

const nightOf = (run: string): Night => {
  const file = run.endsWith(".json") ? run : join(run, "night.json");
  const advice = "name the folder of a run; `npx floodgate report RUN` writes night.json anew";
  try {
    const night = readUserJson(file);
    const why = whyNoNight(night);
    if (why !== null) throw new UserFileError(why);
    return night as Night;
  } catch (error) {
    if (!(error instanceof UserFileError)) throw error;
    throw new UsageError(`${file} is no night: ${error.message}; ${advice}`);
  }
};

const commit = (text: string): string => {
  if (COMMIT.test(text)) return text;
  throw new InvalidArgumentError(`expected a commit or a tag of letters, digits, "." and "-", got "${text}".`);
};

const addCommand = () =>
  commandOf("add", {
    about: "keep one night: append a line to the folder",
    operands: [["<run>", "the folder of a run"]],
    options: [DIR, ["--commit <commit>", "the commit of the deployment, if that is not the embedded platform", commit]],
    help: "\nA run that is there already changes nothing. Exit codes: 0 it is there; 2 it is\nno night, or the folder cannot be written.",
  }).action((run: string, options: { dir?: string; commit?: string }) => {
    const dir = folderOf(options);
    const night = { ...nightOf(run), ...(options.commit !== undefined && { deployed: options.commit }) };
    const file = join(dir, monthFile(night));
    if (existsSync(dir) && readFolder(dir).some(({ id }) => id === night.id)) {
      printResult(`${night.id} is in ${dir} already; nothing was changed`);
      return;
    }
    atPlace(`--dir ${dir}`, () => {
      makeFolders(dir);
      const isCut = existsSync(file) && !monthText(file).endsWith("\n");
      // One write in append mode: two jobs that add at once do not write over each other.
      appendFileSync(file, `${isCut ? "\n" : ""}${JSON.stringify(night)}\n`);
    });
    printResult(`${night.id} (${night.verdict}) was added to ${file}`);
  });

const SHOWN = `
Nights of one profile, target and kind of machine are compared: those of the
newest night that passed. A change is a level that holds for three nights or
more, found by E-divisive (window 50, p <= 0.0001 over the number of figures).

Trends decide nothing: the exit code is 0 whatever changed, because a night fails
by its own claims, and the gate between two commits proves a change; 2 where the
folder cannot be read.`;

/** The nights of a folder, compared; masked and clean, since a page and other tools show them. */
const trendsIn = (options: { dir?: string }): Trends => {
  const dir = folderOf(options);
  const trends = trendsOf(readFolder(dir));
  if (trends !== null) return shown(trends);
  throw new UsageError(`${dir} has no nights; \`npx floodgate trends add RUN --dir ${dir}\` adds one`);
};

const showCommand = () =>
  commandOf("show", {
    about: "what changed, and since which commit",
    options: [
      DIR,
      ["--out <file>", `where the page is written (default: ${PAGE} in the folder)`],
      ["--json", "print all of it as JSON on stdout"],
    ],
    help: SHOWN,
  }).action(async (options: { dir?: string; out?: string; json?: boolean }) => {
    const trends = trendsIn(options);
    const page = options.out ?? join(folderOf(options), PAGE);
    printShown(options.json, { document: trendsDocument(trends), lines: trendsLines(trends) });
    const worse = trends.figures.filter(({ changes }) => (changes.at(-1)?.worseBy ?? 0) > 1).map(({ name }) => name);
    if (worse.length > 0) printNote(`warning: worse than before: ${someOf(worse, NAMED_MOST)}`);
    await writePrivateFile(page, htmlTrends(trends)).catch((error) => {
      throw notWritten(`the page ${page}`, error);
    });
    printNote(`page: ${page}`);
  });

const EXPORTED = `
otava: JSON for Apache Otava, which finds changes as well. Its otava.yaml:
  tests:
    nights:
      type: json
      file: nights.json
benchmark-action: the newest night for github-action-benchmark, as
customSmallerIsBetter; with --bigger the figures for customBiggerIsBetter.`;

const exportCommand = () =>
  commandOf("export", {
    about: "print nights for other tools",
    options: [
      DIR,
      ["--format <format>", "for which tool", ["otava", "benchmark-action"]],
      ["--bigger", "benchmark-action: the figures of which more is better"],
    ],
    help: EXPORTED,
  }).action((options: { dir?: string; format?: string; bigger?: true }) => {
    const trends = trendsIn(options);
    if (options.format === "benchmark-action") {
      printJson(benchmarkRows(trends, options.bigger === true ? "lower" : "higher"));
    } else if (options.format === "otava") {
      const { rows, leftOut } = otavaRows(trends);
      printJson(rows);
      if (leftOut.length > 0) printNote(`left out, because a night lacks them: ${someOf(leftOut, NAMED_MOST)}`);
    } else throw new UsageError("trends export needs --format otava or --format benchmark-action");
  });

const COMMANDS = [addCommand, showCommand, exportCommand];

export const trendsCommand = () => {
  const trends = commandOf("trends", { about: "keep nights and compare them: what changed, since which commit" });
  return COMMANDS.reduce((all, make) => all.addCommand(make()), trends);
};
