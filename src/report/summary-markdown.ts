/** `summary.md`: verdict and tables in Markdown, cut to 900 KiB, because CI drops a step summary above 1 MiB. */

import { someOf } from "../contract/lists.ts";
import type { Claim, ClaimVerdict, RunDocument } from "../history/run-document.ts";
import { driverText, OUTCOME_KINDS, outcomeRows } from "./charts/layers.ts";
import { clip, escapeMarkdown, markdownCode, oneLine, utf8Bytes } from "./escape.ts";
import { count, duration, figure, intervalText, share, valueText, whyNoInterval, withUnit } from "./figures.ts";
import { calibrationText, notJudged, spendingText, statesMet } from "./run-facts.ts";
import { curveSentences, curveTable, shownCurve } from "./shown-curve.ts";
import { claimsInOrder, countByVerdict, whyOf } from "./verdict.ts";

export const SUMMARY_BYTES_MAX = 900 * 1024;
const CELL_MAX = 400;
const IDS_MAX = 8;
const RESERVE_BYTES = 2048;

const SIGN = { fail: "❌ fail", inconclusive: "❓ inconclusive", skipped: "➖ skipped", pass: "✅ pass" } as const;

const cell = (text: string): string => escapeMarkdown(clip(oneLine(text), CELL_MAX)) || "–";
const code = (text: string): string => markdownCode(clip(oneLine(text), CELL_MAX)) || "–";
const EXPLAINED = "`npx floodgate explain CLAIM` says what a claim means and what usually breaks it.";
const row = (...cells: string[]): string => `| ${cells.join(" | ")} |`;
const head = (...cells: string[]): string[] => [row(...cells), row(...cells.map(() => "---"))];

/** A table, folded or not; only its rows may be cut. */
type Section = { before: string[]; rows: string[]; after: string[] };

/** `said`: lines between the title and the table. */
const table = (title: string, heads: string[], rows: string[], folded = false, said: string[] = []): Section => ({
  before: folded
    ? [`<details><summary>${title} (${count(rows.length)})</summary>`, "", ...head(...heads)]
    : [`## ${title}`, "", ...said, ...head(...heads)],
  rows,
  after: folded ? ["", "</details>", ""] : [""],
});

const claimRow = (claim: Claim): string => {
  const why =
    claim.verdict === "skipped"
      ? cell(claim.reason)
      : `${cell(claim.reason)}<br>expected: ${cell(claim.expected)}<br>got: ${cell(claim.got)}`;
  const evidence = claim.evidence.slice(0, IDS_MAX).map(code).join(", ");
  const again = claim.replay === "" ? "" : code(claim.replay);
  const look = [evidence, again].filter((text) => text !== "").join("<br>") || "–";
  return row(SIGN[claim.verdict], claim.level, code(claim.id), why, look);
};

const top = (run: RunDocument): string[] => {
  const { fail, inconclusive, skipped, pass } = countByVerdict(run.claims);
  const { outcomes_seen: seen, outcomes_of: all } = run.coverage;
  const spent = spendingText(run);
  const facts = [
    `seed ${run.seed}`,
    duration(run.duration_ms),
    run.target.embedded ? "embedded platform" : code(run.target.base_url),
    `exit code ${run.exit_code}`,
  ];
  return [
    `# ${SIGN[run.verdict].toUpperCase()}: ${cell(run.profile)} on ${cell(run.target.name)}`,
    "",
    escapeMarkdown(clip(whyOf(run), 4000)),
    "",
    ...head("fail", "inconclusive", "skipped", "pass", "outcomes seen"),
    row(...[fail, inconclusive, skipped, pass].map(count), `${seen} of ${all}`),
    "",
    `Run ${code(run.id)}, ${facts.join(", ")}${run.commit === null ? "" : `, commit ${code(run.commit)}`}.`,
    "",
    ...(spent === null ? [] : [`Spent: ${cell(spent)}.`, ""]),
    ...(run.calibration.length === 0 ? [] : [cell(calibrationText(run.calibration)), ""]),
  ];
};

const notJudgedLines = (run: RunDocument): string[] => {
  const { skipped, unseen } = notJudged(run);
  const groups = skipped.map(({ reason, ids }) => `- ${cell(reason)}: ${someOf(ids.map(code), IDS_MAX)}`);
  const outcomes = unseen.length === 0 ? [] : [`- outcomes in no stage: ${unseen.map(code).join(", ")}`];
  return [...groups, ...outcomes];
};

const curveSection = (found: unknown): Section[] => {
  const curve = shownCurve(found);
  if (curve === null) return [];
  const { heads, rows } = curveTable(curve);
  const lines = rows.map((cells) => row(...cells.map(cell)));
  return [{ ...table("Shedding by load", heads, lines), after: ["", cell(curveSentences(curve).join(" ")), ""] }];
};

const sections = (run: RunDocument, curve: unknown): Section[] => {
  const claims = claimsInOrder(run.claims);
  const claimHeads = ["verdict", "level", "claim", "why", "evidence, replay"];
  const having = (...verdicts: ClaimVerdict[]): Claim[] => claims.filter(({ verdict }) => verdicts.includes(verdict));
  const passed = having("pass").map((c) => row(SIGN.pass, c.level, code(c.id), cell(c.reason)));
  const outcomes = run.stages.flatMap((stage) =>
    outcomeRows(stage).map(({ outcome, kind, n }) => {
      const counts = [count(n), share(n, stage.calls.sent)];
      return row(code(stage.name), cell(driverText(stage)), code(outcome), OUTCOME_KINDS[kind].label, ...counts);
    }),
  );
  const faults = run.faults.map((f) => {
    const when = `${duration(f.started_ms)} to ${duration(f.ended_ms)}`;
    return row(code(f.experiment), cell(f.link), cell(f.fault), when, f.took_effect ? "yes" : "**no**");
  });
  const met = statesMet(run) ?? { heads: [], rows: [] };
  const states = met.rows.map(({ stage, cells }) =>
    row(code(stage), ...cells.map(({ text, must, missed }) => (missed ? "**never**" : must ? `**${text}**` : text))),
  );
  const measured = run.measurements.map((m) =>
    row(code(m.stage), code(m.name), cell(valueText(m)), cell(intervalText(m) ?? whyNoInterval(m) ?? "–"), count(m.n)),
  );
  const calibrated = run.calibration.map(({ name, truth, measured: found, unit, verdict }) => {
    const [isTrue, wasFound] = [truth, found].map((value) => cell(withUnit(figure(value), unit)));
    return row(cell(name), isTrue as string, wasFound as string, SIGN[verdict]);
  });
  const notes = run.environment.host_notes.map((note) => row(cell(note)));
  return [
    table("Not passed", claimHeads, having("fail", "inconclusive").map(claimRow), false, [EXPLAINED, ""]),
    ...curveSection(curve),
    { before: ["## Not judged", ""], rows: notJudgedLines(run), after: [""] },
    table("Skipped claims", claimHeads, having("skipped").map(claimRow), true),
    table("Outcomes by stage", ["stage", "driver", "outcome", "kind", "calls", "share"], outcomes, true),
    table("Faults", ["experiment", "link", "fault", "when", "took effect"], faults, true),
    table("What the faults met", ["experiment", ...met.heads], states, true),
    table("Measurements", ["stage", "measurement", "value", "95 % interval", "n"], measured, true),
    table("Calibration", ["what", "truth", "measured", "verdict"], calibrated, true),
    table("Notes on the host", ["note"], notes, true),
    table("Passed claims", ["verdict", "level", "claim", "why"], passed, true),
  ];
};

/** Markdown of at most `maxBytes` in UTF-8; below about 8 KiB there is no room for the verdict itself. */
export const summaryMarkdown = (
  run: RunDocument,
  { curve, maxBytes = SUMMARY_BYTES_MAX }: { curve?: unknown; maxBytes?: number } = {},
): string => {
  const lines = top(run);
  let left = maxBytes - RESERVE_BYTES - utf8Bytes(lines.join("\n"));
  const take = (line: string): boolean => {
    const bytes = utf8Bytes(line) + 1;
    if (bytes > left) return false;
    left -= bytes;
    lines.push(line);
    return true;
  };
  const cutText = (n: number, what: string): string =>
    `**${count(n)} rows ${what} to keep this file small;** run.json has them all.`;
  let dropped = 0;
  for (const { before, rows, after } of sections(run, curve).filter((section) => section.rows.length > 0)) {
    const frame = utf8Bytes([...before, ...after].join("\n")) + 120;
    if (frame > left) dropped += rows.length;
    else {
      left -= frame;
      lines.push(...before);
      const kept = rows.findIndex((line) => !take(line));
      if (kept !== -1) lines.push("", cutText(rows.length - kept, "are cut here"));
      lines.push(...after);
    }
  }
  if (dropped > 0) lines.push(cutText(dropped, "of further sections are cut"));
  return `${lines.join("\n").trimEnd()}\n`;
};
