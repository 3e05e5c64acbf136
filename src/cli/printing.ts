/**
 * The one writer to stdout and stderr, and what it says while a run goes on. Printed text may quote a server, a file or
 * a variable, so secrets are masked, escape sequences removed, and no line is a command to a CI. Only `printPainted`
 * keeps our own colours.
 */
import { clean, cleanValue } from "../contract/foreign-text.ts";
import type { RunEvents } from "../deployments/deployment.ts";
import { classOf, type Line } from "../history/line.ts";
import type { Claim } from "../history/run-document.ts";
import { redactor } from "../supervision/redaction.ts";

/** The colours of `report/terminal.ts`, and no other sequence. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: what begins a colour
const OUR_COLOUR = /\u001b\[(?:0|2|1;3[123])m/g;

/** CI commands: `::name` begins a line (GitHub, Gitea); `##[`, `##vso[` and `##teamcity[` stand anywhere in one. */
const COMMAND_AT_START = /^(\s*):(?=:)/gm;
const COMMAND_ANYWHERE = /#(?=#(?:vso|teamcity)?\[)/gi;

export const printable = (text: string): string =>
  clean(redactor.redact(text)).replace(COMMAND_AT_START, "$1: ").replace(COMMAND_ANYWHERE, "# ");

export const printableJson = (value: unknown): string =>
  JSON.stringify(cleanValue(redactor.redactValue(value)), null, 2).replace(COMMAND_ANYWHERE, "\\u0023");

const line = (text: string): string => (text.endsWith("\n") ? text : `${text}\n`);

export const printResult = (text: string): void => void process.stdout.write(line(printable(text)));

export const printJson = (value: unknown): void => void process.stdout.write(line(printableJson(value)));

/** The answer of a command, for programs (`--json`) and for people. */
export type Shown = { document: unknown; lines: readonly string[] };

export const printShown = (isJson: boolean | undefined, { document, lines }: Shown): void =>
  isJson === true ? printJson(document) : printResult(lines.join("\n"));

export const printNote = (text: string): void => void process.stderr.write(line(printable(text)));

/** Prints a note with our colours in it; the text between them is masked and cleaned. */
export const printPainted = (text: string): void => {
  const colours = [...(text.match(OUR_COLOUR) ?? []), ""];
  const parts = text.split(OUR_COLOUR).map(printable);
  process.stderr.write(line(parts.map((part, i) => part + colours[i]).join("")));
};

/** Environment variables that every CI service sets, or one of the well-known ones. */
const OF_CI =
  "CI GITHUB_ACTIONS RUNNER_TRACKING_ID GITLAB_CI JENKINS_URL JENKINS_NODE_COOKIE TF_BUILD BUILDKITE TEAMCITY_VERSION";

export const isOn = (value: string | undefined): boolean => value !== undefined && !["", "0", "false"].includes(value);

export const isCiJob = (env: NodeJS.ProcessEnv = process.env) => OF_CI.split(" ").some((name) => isOn(env[name]));

/** Reports whether stderr shows colours. A terminal that calls itself dumb shows escape sequences as they are. */
export const isTerminal = (): boolean =>
  process.stderr.isTTY === true && process.env.NO_COLOR === undefined && process.env.TERM !== "dumb";

const columns = (): number => (process.stderr.columns || 80) - 1;

/** Replaces the last `drawn` lines on a terminal by `lines`, each cut to the terminal's width. */
const drawAgain = (drawn: number, lines: readonly string[]): void => {
  const cut = lines.map((text) => `${printable(text).replaceAll("\n", " ").slice(0, columns())}\n`);
  process.stderr.write(`${drawn === 0 ? "" : `\u001b[${drawn}A\u001b[J`}${cut.join("")}`);
};

/** Rates are averaged over this window. */
const WINDOW_MS = 3_000;
const REFUSALS_SHOWN = 3;

const perS = (n: number): string => `${Math.round((n * 1000) / WINDOW_MS)}/s`;

/** The lines that are redrawn on a terminal: progress of a stage, calls a second, refusals by subcode, faults. */
export const createLiveView = () => {
  let [now, beganMs] = ["", 0];
  let ended: { atMs: number; outcome: string }[] = [];
  const faults = new Map<string, string>();
  return {
    begin: (text: string, nowMs: number): void => {
      [now, beganMs, ended] = [text, nowMs, []];
      faults.clear();
    },
    now: (): string => now,
    progress: (text: string): void => {
      now = text;
    },
    see: (line: Line, nowMs: number): void => {
      if (line.type === "call") ended.push({ atMs: nowMs, outcome: line.outcome });
      if (line.type !== "fault") return;
      if (line.phase === "injected") faults.set(line.experiment, `${line.link} ${line.fault}`);
      if (line.phase === "healed") faults.delete(line.experiment);
    },
    frame: (nowMs: number): string[] => {
      if (now === "") return [];
      ended = ended.filter(({ atMs }) => atMs > nowMs - WINDOW_MS);
      const classes = Object.groupBy(ended, ({ outcome }) => classOf(outcome));
      const { answered = [], refused = [], indeterminate: none = [] } = classes;
      const most = [...Map.groupBy(refused, ({ outcome }) => outcome)].sort((a, b) => b[1].length - a[1].length);
      const others = most.slice(REFUSALS_SHOWN).reduce((sum, [, all]) => sum + all.length, 0);
      const shown = most.slice(0, REFUSALS_SHOWN).map(([outcome, all]) => `${outcome} ${perS(all.length)}`);
      if (others > 0) shown.push(`others ${perS(others)}`);
      const without = none.length === 0 ? "" : `, ${perS(none.length)} without an answer`;
      const time = `, ${Math.round((nowMs - beganMs) / 1000)} s`;
      const rates = `${perS(ended.length)}: ${perS(answered.length)} answered, ${perS(refused.length)} refused${without}`;
      return [
        // Of a long text the end is cut, and never the time, which shows that the run goes on.
        `${`  … ${now}`.slice(0, columns() - time.length)}${time}`,
        ...(ended.length === 0 ? [] : [`    ended     ${rates}`]),
        ...(shown.length === 0 ? [] : [`    refused   ${shown.join(", ")}`]),
        ...(faults.size === 0 ? [] : [`    broken    ${[...faults.values()].join(", ")}`]),
      ];
    },
  };
};

const EVERY_MS = 30_000;
const DRAWN_EVERY_MS = 500;

/**
 * Reports what a run does, on stderr: the folder first, a line for each step and each finished stage, and progress in
 * between: on a terminal a few lines that are redrawn in place, elsewhere a line every 30 s.
 */
export const narrator = (how: { quiet: boolean; title: string; seed: number }): RunEvents & { end(): void } => {
  const { quiet, title, seed } = how;
  // A CI service may give its jobs a terminal, and keeps in its log every line that is drawn.
  const onTerminal = isTerminal() && !isCiJob() && !quiet;
  const view = createLiveView();
  let drawn = 0;
  const draw = (lines: readonly string[]): void => {
    if (drawn > 0 || lines.length > 0) drawAgain(drawn, lines);
    drawn = lines.length;
  };
  const always = (text: string): void => {
    draw([]);
    printNote(text);
  };
  const say = (text: string): void => (quiet ? draw([]) : always(text));
  const alive = (): void => {
    if (onTerminal) draw(view.frame(performance.now()));
    else if (view.now() !== "") say(`  … ${view.now()}`);
  };
  const timer = setInterval(alive, onTerminal ? DRAWN_EVERY_MS : EVERY_MS);
  timer.unref();
  return {
    folder: (path) => printNote(`floodgate ${title}, seed ${seed}\nrun folder: ${path}`),
    warning: (text) => always(`warning: ${text}`),
    result: say,
    step: (text) => {
      say(text);
      view.begin(text, performance.now());
    },
    progress: view.progress,
    line: onTerminal ? (line) => view.see(line, performance.now()) : undefined,
    stage: ({ summary, claims }) => {
      const { pass = [], skipped = [] } = Object.groupBy(claims, ({ verdict }) => verdict);
      const isBad = ({ verdict, level }: Claim): boolean => level === "must" && /^(fail|inconclusive)$/.test(verdict);
      const named = claims.filter(isBad).map(({ id, verdict }) => `${verdict}: ${id}`);
      const also = `${skipped.length === 0 ? "" : `, ${skipped.length} skipped`}${named.length === 0 ? "" : `; ${named.join(", ")}`}`;
      const [lacks] = skipped;
      // What was not played says why: a suite has some fifty such stages on a deployment without a fault proxy.
      if (lacks !== undefined && skipped.length === claims.length && summary.calls.sent === 0) {
        say(`  nothing was sent; ${lacks.reason}`);
        return;
      }
      const judged = `, ${pass.length} of ${claims.length} claims passed${also}`;
      say(`  ${summary.calls.sent} calls${claims.length === 0 ? "" : judged}`);
    },
    signalled: (signal, times, pending) =>
      always(
        times === 1
          ? `\n${signal}: stopping; faults are removed and children ended, then the report is written\n`
          : `${signal} again: not yet healed or ended: ${pending.join(", ") || "nothing"}; after kill -9 the watchdog does it\n`,
      ),
    end: () => {
      clearInterval(timer);
      draw([]);
    },
  };
};
