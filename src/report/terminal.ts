/** The end of a run for a terminal of 80 columns: verdict, reasons, counts, where to look. Only paths may be longer. */
import type { Claim, ClaimVerdict, RunDocument } from "../history/run-document.ts";
import { sumOf } from "../history/statistics/statistics.ts";
import { oneLine } from "./escape.ts";
import { count, counted, duration } from "./figures.ts";
import { spendingText } from "./run-facts.ts";
import { bareReason, claimsInOrder, comesFirst, countByVerdict, whyOf } from "./verdict.ts";

const COLUMNS = 80;

const PAINT = { fail: "1;31", inconclusive: "1;33", skipped: "2", pass: "1;32" } as const;

const WIDE =
  /^[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|^[\u{1f000}-\u{3fffd}]/u;
/** The width of a character: East Asian characters and emoji take two columns, combining marks none. */
const columnsOf = (character: string): number =>
  /^(?:\p{M}|\u200b|\u200c|\u200d)$/u.test(character) ? 0 : WIDE.test(character) ? 2 : 1;

const widthOf = (text: string): number => [...text].reduce((sum, character) => sum + columnsOf(character), 0);

const fitted = (text: string, columns: number): string => {
  if (widthOf(text) <= columns) return text;
  let kept = "";
  let used = 0;
  for (const character of text) {
    used += columnsOf(character);
    if (used > columns - 1) break;
    kept += character;
  }
  return `${kept.trimEnd()}…`;
};

/**
 * Breaks a text at spaces into lines, the first after `first`, the others indented. A word longer than a line stays
 * whole, because it is an address to be copied, unless `cuts` is set.
 */
export const wrapped = (text: string, first = "", indent = 0, { columns = COLUMNS, cuts = false } = {}): string[] => {
  const lines: string[] = [];
  let line = first;
  let isFresh = true;
  for (const word of oneLine(text).split(/ +/)) {
    let rest = word;
    if (!isFresh && widthOf(line) + 1 + widthOf(rest) > columns) {
      lines.push(line);
      line = " ".repeat(indent);
      isFresh = true;
    }
    while (cuts && widthOf(rest) > columns) {
      const piece = fitted(rest, columns).slice(0, -1);
      lines.push(piece);
      rest = rest.slice(piece.length);
    }
    line += isFresh ? rest : ` ${rest}`;
    isFresh = false;
  }
  return [...lines, line.trimEnd()];
};

/** An entry of a list: a name with what it is, and a sentence beneath. */
export const listEntry = (name: string, about: string, sentence: string): string =>
  [...wrapped(about, `${name}  `, 4), ...wrapped(sentence, "    ", 4)].join("\n");

const wrap = (text: string, columns = COLUMNS): string[] => wrapped(text, "", 0, { columns, cuts: true });

/** A command to paste: broken lines end in a backslash. `null` if a break would change it, as inside quotes. */
const command = (text: string): string[] | null => {
  const line = oneLine(text);
  if (widthOf(line) <= COLUMNS - 2) return [`  ${line}`];
  if (/["'\\]| {2}|[^ ]{70}/.test(line)) return null;
  return wrap(line, COLUMNS - 4).map((part, i, all) => `  ${part}${i < all.length - 1 ? " \\" : ""}`);
};

const againLines = ({ id, replay }: Claim): string[] => {
  const lines = replay === "" ? null : command(replay);
  return lines === null ? [] : [...wrap(`To see ${oneLine(id)} again:`), ...lines];
};

const nameOf = ({ id, level }: Claim): string => `${oneLine(id)}${level === "must" ? "" : ` (${level})`}`;

const WORD_COLUMNS = 13;
const BODY_COLUMNS = COLUMNS - WORD_COLUMNS;
/** Columns of a reason: two lines suffice to understand it, and the report has the whole sentence. */
const REASON_COLUMNS = 2 * BODY_COLUMNS - 12;
/** Columns of the first reason, which is the worst: it has room for its end, which says what to do. */
const FIRST_REASON_COLUMNS = 4 * BODY_COLUMNS - 12;

type Paint = (verdict: ClaimVerdict, text: string) => string;

/** The lines of claims that did not pass for one reason: the report names those that are only counted here. */
const groupLines = (claims: readonly Claim[], paint: Paint, columns: number): string[] => {
  const [first, ...others] = claims as [Claim, ...Claim[]];
  const who = others.length === 0 ? nameOf(first) : `${nameOf(first)} and ${others.length} more`;
  const word = first.verdict.toUpperCase().padEnd(WORD_COLUMNS);
  return wrap(fitted(`${who}: ${bareReason(first)}`, columns), BODY_COLUMNS).map(
    (line, at) => (at === 0 ? paint(first.verdict, word) : " ".repeat(WORD_COLUMNS)) + line,
  );
};

/** A screen of 24 lines has room for the verdict, this many reasons, where to look and the next prompt. */
const GROUPS_MOST = 5;
const LINES_MOST = 23;

/** Claims by their reason; of one verdict and level the most common reason is first, because it is likely the cause. */
const openGroups = (open: readonly Claim[]): Claim[][] => {
  const groups = [...Map.groupBy(open, (claim) => `${claim.verdict} ${bareReason(claim)}`).values()];
  const rankOf = (claim: Claim): string => `${comesFirst(claim)} ${claim.verdict} ${claim.level}`;
  const ranks = Map.groupBy(groups, ([one]) => rankOf(one as Claim));
  return [...ranks.values()].flatMap((some) => some.toSorted((a, b) => b.length - a.length));
};

const openLines = (groups: readonly Claim[][], shown: number, paint: Paint): string[] => {
  const left = Object.entries(countByVerdict(groups.slice(shown).flat())).filter(([, n]) => n > 0);
  const more = left.map(([verdict, n]) => `${n} ${verdict}`);
  const lines = groups
    .slice(0, shown)
    .flatMap((group, at) => groupLines(group, paint, at === 0 ? FIRST_REASON_COLUMNS : REASON_COLUMNS));
  return more.length === 0 ? lines : [...lines, `${" ".repeat(WORD_COLUMNS)}and ${more.join(", ")}: see the report`];
};

/** `folder`: as the user may type it; `colour`: adds ANSI colours to words that say the same without them. */
export const terminalText = (run: RunDocument, { folder, colour }: { folder: string; colour?: boolean }): string => {
  const paint: Paint = (verdict, text) => (colour ? `\u001b[${PAINT[verdict]}m${text}\u001b[0m` : text);
  const path = oneLine(folder).replace(/\/+$/, "");
  // The run's folder is named if the page may be missing.
  const isUnwritten = run.claims.some(({ id }) => id === "run/reported");
  const { fail, inconclusive, skipped, pass } = countByVerdict(run.claims);
  const calls = sumOf(run.stages.map((stage) => stage.calls.sent));
  // The sentence of a pass counts by reason what was not judged. Info claims decide nothing.
  const isToldAbove = ({ verdict, level }: Claim): boolean =>
    verdict === "skipped" && (run.verdict === "pass" || level === "info");
  const groups = openGroups(claimsInOrder(run.claims).filter((c) => c.verdict !== "pass" && !isToldAbove(c)));
  const open = groups.flat();
  const word = run.verdict.toUpperCase();
  const what = `  ${oneLine(run.profile)} on ${oneLine(run.target.name)}, seed ${run.seed}, ${duration(run.duration_ms)}`;
  const first = open.find((c) => c.verdict === run.verdict);
  const verdicts = `Claims: ${fail} fail, ${inconclusive} inconclusive, ${skipped} skipped, ${pass} pass.`;
  const seen = `Outcomes seen: ${run.coverage.outcomes_seen} of ${run.coverage.outcomes_of}.`;
  const spent = spendingText(run);
  const of = (shown: number): string[] => [
    paint(run.verdict, word) + fitted(what, COLUMNS - word.length),
    ...wrap(whyOf(run)),
    ...(open.length === 0 ? [] : ["", ...openLines(groups, shown, paint)]),
    "",
    ...wrap(`${verdicts} ${seen} ${counted(run.stages.length, "stage")}, ${count(calls)} calls.`),
    ...(spent === null ? [] : wrap(`Spent: ${spent}.`)),
    "",
    "Where to look next:",
    isUnwritten ? `  ${path}` : `  ${path}/report.html`,
    ...(first === undefined ? [] : againLines(first)),
  ];
  let lines = of(GROUPS_MOST);
  for (let shown = GROUPS_MOST - 1; shown > 0 && lines.length > LINES_MOST; shown -= 1) lines = of(shown);
  return lines.join("\n");
};
