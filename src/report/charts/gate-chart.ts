/** How many times worse the head is than the base, a row for each measurement: the interval, what is allowed, every pair. */
import { scaleLog } from "d3-scale";
import type { Comparison, GateVerdict } from "../../gate/paired-comparison.ts";
import { html } from "../page/markup.ts";
import { type Chart, inFrame, percent, WIDTH } from "./frame.ts";

const ROW = 40;
/** Ratios beyond these are drawn at the edge. */
const FURTHEST = 4;

const WORDS: Record<GateVerdict, string> = {
  regression: "worse",
  "no-regression": "no worse",
  inconclusive: "open",
  "not-measured": "not measured",
};

type Shown = Comparison & { worseBy: number };

const times = (ratio: number | null): string =>
  ratio === null ? "?" : ratio >= 100 ? "over 100" : ratio.toFixed(Math.abs(ratio - 1) < 0.1 ? 3 : 2);

const saidOf = ({ measurement, worseBy, low, high, margin }: Shown): string =>
  `${measurement} ${times(worseBy)} times worse (${times(low)} to ${times(high)}; ${margin} allowed)`;

const findingOf = (rows: readonly Shown[]): string => {
  const of = (verdict: GateVerdict): Shown[] => rows.filter((row) => row.verdict === verdict);
  const [worse, open, fine] = [of("regression"), of("inconclusive"), of("no-regression")];
  const sentences = [
    worse.length === 0 ? "Nothing is shown to be worse." : `Worse: ${worse.map(saidOf).join("; ")}.`,
    ...(open.length === 0 ? [] : [`Open: ${open.map(({ measurement }) => measurement).join(", ")}.`]),
    ...(fine.length === 0 ? [] : [`${fine.length} of ${rows.length} measurements are inside their margins.`]),
  ];
  return sentences.join(" ");
};

/** `null` where no pair was compared. */
export const gateChart = (comparisons: readonly Comparison[], id: string): Chart | null => {
  const rows = comparisons.filter((one): one is Shown => one.worseBy !== null && one.worseBy > 0);
  if (rows.length === 0) return null;
  const clipped = (ratio: number): number => Math.min(FURTHEST, Math.max(1 / FURTHEST, ratio));
  const all = rows
    .flatMap(({ worseBy, low, high, margin, differences }) => [
      worseBy,
      low ?? worseBy,
      high ?? worseBy,
      margin,
      ...differences.map(Math.exp),
    ])
    .map(clipped);
  // The same distance on both sides of 1.
  const reach = Math.max(...all.map((ratio) => Math.max(ratio, 1 / ratio))) * 1.03;
  const x = scaleLog([1 / reach, reach], [0, 1]);
  const at = (ratio: number): string => percent(x(clipped(ratio)));
  const height = rows.length * ROW;
  const marks = rows.map(({ low, high, worseBy, margin, differences, measurement, verdict }, i) => {
    const y = inFrame(i * ROW + 13);
    const pairs = differences.map((difference, n) => {
      const below = y + 8 + (14 * n) / Math.max(1, differences.length - 1);
      return html`<circle class="pair" fill="currentColor" cx="${at(Math.exp(difference))}" cy="${below.toFixed(1)}" r="1.5"/>`;
    });
    const spread =
      low === null || high === null
        ? null
        : html`<line class="spread wide" x1="${at(low)}" x2="${at(high)}" y1="${y}" y2="${y}" stroke="currentColor"/>`;
    const allowed = html`<line class="limit" x1="${at(margin)}" x2="${at(margin)}" y1="${y - 9}" y2="${y + 9}" stroke="currentColor"/>`;
    const isRight = x(clipped(worseBy)) > 0.85;
    const word =
      verdict === "no-regression"
        ? null
        : html`<text class="limit-name" x="${at(worseBy)}" dx="${isRight ? -10 : 10}" y="${y - 6}" text-anchor="${isRight ? "end" : "start"}" fill="currentColor">${WORDS[verdict]}</text>`;
    return html`<g><title>${measurement}: ${WORDS[verdict]}</title>${word}${spread}${allowed}<circle class="gate-${verdict}" fill="currentColor" cx="${at(worseBy)}" cy="${y}" r="4.5"/>${pairs}</g>`;
  });
  const candidates = [0.25, 0.33, 0.5, 0.67, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.25, 1.5, 2, 3, 4];
  const near = candidates.filter((ratio) => ratio >= 1 / reach && ratio <= reach);
  const ticks = near
    .filter((ratio) => ratio === 1 || Math.abs(x(ratio) - 0.5) > 0.12)
    .filter((ratio, i, kept) => i === 0 || ratio === 1 || x(ratio) - x(kept[i - 1] as number) > 0.09);
  return {
    id,
    height,
    isNamed: true,
    title: "Head beside base.",
    finding: findingOf(rows),
    description:
      "A row for each measurement, on a logarithmic scale of how many times worse the head is: a dot for what is typical of the pairs, a line for its 95 % interval, a dashed mark for what is allowed, and beneath it a small dot for each pair, in the order in which they were measured.",
    across: ticks.map((ratio) => ({ at: x(ratio), text: String(ratio) })),
    acrossName: "times worse",
    up: rows.map(({ measurement }, i) => ({ at: (i * ROW + 13) / height, text: measurement })),
    drawn: html`<path class="line" fill="none" stroke="currentColor" d="M${WIDTH / 2} 0V${height}"/>`,
    labels: html`${marks}`,
    table: {
      head: ["measurement", "base", "head", "times worse", "95 % interval", "allowed", "pairs", "verdict"],
      rows: rows.map((row) => [
        row.measurement,
        row.base === null ? null : Number(row.base.toPrecision(3)),
        row.head === null ? null : Number(row.head.toPrecision(3)),
        times(row.worseBy),
        row.low === null ? null : `${times(row.low)} to ${times(row.high)}`,
        row.margin,
        row.pairs,
        WORDS[row.verdict],
      ]),
    },
  };
};
