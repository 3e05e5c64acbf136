/** Dots with intervals: ratios of a gate, shares of bad calls of a capacity search, organizations of a stage. */
import { scaleLinear, scaleLog } from "d3-scale";
import type { Answer } from "../../capacity/capacity-claims.ts";
import type { Comparison, GateVerdict } from "../../gate/paired-comparison.ts";
import { parseObjectives } from "../../history/objectives.ts";
import { fairnessIndex, sumOf, wilsonInterval } from "../../history/statistics/statistics.ts";
import { clip } from "../escape.ts";
import { count, counted, figure, perSecond, share } from "../figures.ts";
import { html } from "../page/markup.ts";
import { fieldsOf, listOf, shaped } from "../shown-curve.ts";
import { type ChartSeries, WIDTH } from "./chart-series.ts";
import { band, type Chart, dot, label, linear, spread } from "./frame.ts";

const ROW_HEIGHT = 40;
/** Ratios beyond these are drawn at the edge. */
const FURTHEST = 4;
const RATIO_TICKS = [0.25, 0.33, 0.5, 0.67, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.25, 1.5, 2, 3, 4];

const WORDS: Record<GateVerdict, string> = {
  regression: "worse",
  "no-regression": "no worse",
  inconclusive: "open",
  "not-measured": "not measured",
};

type Row = Pick<Comparison, "margin" | "pairs" | "low" | "high" | "base" | "head" | "verdict" | "differences"> & {
  measurement: string;
  worseBy: number;
};
const ROW_OF_FILE: Omit<Row, "verdict" | "differences"> = {
  ...{ measurement: "?", margin: 0, pairs: 0, worseBy: 0, low: null, high: null, base: null, head: null },
};

const rowsOf = (found: unknown): Row[] =>
  listOf(fieldsOf(found).comparisons).flatMap((one) => {
    const of = fieldsOf(one);
    const verdict = (Object.keys(WORDS) as GateVerdict[]).find((known) => known === of.verdict);
    const differences = listOf(of.differences).filter((value) => typeof value === "number");
    const row = shaped(one, ROW_OF_FILE);
    return verdict === undefined || row.worseBy === 0 ? [] : [{ ...row, verdict, differences }];
  });

const times = (ratio: number | null): string =>
  ratio === null ? "?" : ratio >= 100 ? "over 100" : ratio.toFixed(Math.abs(ratio - 1) < 0.1 ? 3 : 2);

const ratiosFinding = (rows: readonly Row[]): string => {
  const of = (verdict: GateVerdict): Row[] => rows.filter((row) => row.verdict === verdict);
  const [open, fine] = [of("inconclusive"), of("no-regression")];
  const worse = of("regression").map(({ measurement, worseBy, low, high, margin }) => {
    return `${measurement} ${times(worseBy)} times worse (${times(low)} to ${times(high)}; ${margin} allowed)`;
  });
  return [
    worse.length === 0 ? "Nothing is shown to be worse." : `Worse: ${worse.join("; ")}.`,
    open.length === 0 ? "" : ` Open: ${open.map(({ measurement }) => measurement).join(", ")}.`,
    fine.length === 0 ? "" : ` ${fine.length} of ${rows.length} measurements are inside their margins.`,
  ].join("");
};

/** A row for each measurement of `gate.json`: interval, margin, every pair. Returns `null` if no pair was compared. */
export const gateChart = (found: unknown, id: string): Chart | null => {
  const rows = rowsOf(found);
  if (rows.length === 0) return null;
  const clipped = (ratio: number): number => Math.min(FURTHEST, Math.max(1 / FURTHEST, ratio));
  const all = rows.flatMap(({ worseBy, low, high, margin, differences }) =>
    [worseBy, low ?? worseBy, high ?? worseBy, margin, ...differences.map(Math.exp)].map(clipped),
  );
  // The axis reaches equally far on both sides of 1.
  const reach = Math.max(...all.map((ratio) => Math.max(ratio, 1 / ratio))) * 1.03;
  const x = scaleLog([1 / reach, reach], [0, 1]);
  const at = (ratio: number): number => x(clipped(ratio));
  const height = rows.length * ROW_HEIGHT;
  const marks = rows.map(({ low, high, worseBy, margin, differences, measurement, verdict }, i) => {
    const y = i * ROW_HEIGHT + 13;
    const pairs = differences.map((difference, n) => {
      return dot("pair", [at(Math.exp(difference)), y + 8 + (14 * n) / Math.max(1, differences.length - 1)], 1.5);
    });
    const hasInterval = low !== null && high !== null;
    const word = label("limit-name", WORDS[verdict], [at(worseBy), y - 6], {
      ...(at(worseBy) > 0.85 ? { dx: -10, anchor: "end" } : { dx: 10 }),
    });
    return html`<g><title>${measurement}: ${WORDS[verdict]}</title>${verdict !== "no-regression" && word}${hasInterval && spread("spread wide", [at(low), y], [at(high), y])}${spread("limit", [at(margin), y - 9], [at(margin), y + 9])}${dot(`gate-${verdict}`, [at(worseBy), y])}${pairs}</g>`;
  });
  const ticks = RATIO_TICKS.filter((ratio) => ratio >= 1 / reach && ratio <= reach)
    .filter((ratio) => ratio === 1 || Math.abs(x(ratio) - 0.5) > 0.12)
    .filter((ratio, i, kept) => i === 0 || ratio === 1 || x(ratio) - x(kept[i - 1] as number) > 0.09);
  const short = (value: number | null): number | null => value && Number(value.toPrecision(3));
  return {
    id,
    height,
    isNamed: true,
    title: "Head beside base.",
    finding: ratiosFinding(rows),
    description:
      "A row for each measurement, on a logarithmic scale of how many times worse the head is: a dot for what is typical of the pairs, a line for its 95 % interval, a dashed mark for what is allowed, and beneath it a small dot for each pair, in the order in which they were measured.",
    across: ticks.map((ratio) => ({ at: x(ratio), text: String(ratio) })),
    acrossName: "times worse",
    up: rows.map(({ measurement }, i) => ({ at: (i * ROW_HEIGHT + 13) / height, text: measurement })),
    lines: [{ shape: "line", d: `M${WIDTH / 2} 0V${height}` }],
    labels: marks,
    table: {
      head: ["measurement", "base", "head", "times worse", "95 % interval", "allowed", "pairs", "verdict"],
      rows: rows.map(({ measurement, base, head, worseBy, low, high, margin, pairs, verdict }) => {
        const interval = low === null ? null : `${times(low)} to ${times(high)}`;
        return [measurement, short(base), short(head), times(worseBy), interval, margin, pairs, WORDS[verdict]];
      }),
    },
  };
};

const ANSWER: Pick<Answer, "reason" | "high" | "binding"> &
  Record<"ratePerS" | "low", number | null> & { kind: string } = {
  ...{ kind: "unknown", reason: "", ratePerS: null, low: null, high: null, binding: null },
};

const capacityFinding = ({ kind, ratePerS, low, high, reason }: typeof ANSWER, objective: string): string => {
  if (ratePerS === null) return `No highest rate was found: ${reason}.`;
  const between = low === null || high === null ? "" : ` (between ${perSecond(low)} and ${perSecond(high)})`;
  const doubt = kind === "unknown" ? ` It is not settled: ${reason}.` : "";
  return `${objective} holds up to ${perSecond(ratePerS)}${between}.${doubt}`;
};

/** The share that an objective such as `refusals<=1%` allows; `null` for a time, and for what is no objective. */
const shareAllowed = (text: string): number | null => {
  try {
    const [objective] = parseObjectives(text);
    return objective?.kind === "share" ? objective.limit : null;
  } catch {
    return null;
  }
};

const REPLICAS_SHOWN = 8;

/** The share of calls that broke the objective, by offered rate, of `capacity.json`; `null` if no probe was played. */
export const capacityChart = (found: unknown, id: string): Chart | null => {
  const { probes, ...of } = fieldsOf(found);
  const { replicas } = shaped(of, { replicas: 0 });
  const answer = shaped(of.answer, ANSWER);
  const which = answer.binding ?? 0;
  const objective = shaped(of.objectives, [""])[which] ?? "the objective";
  const played = listOf(probes).flatMap((probe) => {
    const { plan, tallies, generator } = fieldsOf(probe);
    const { ratePerS, purpose } = shaped(plan, { ratePerS: 0, purpose: "" });
    const { bad, n } = shaped(listOf(tallies)[which], { bad: 0, n: 0 });
    const isClean = listOf(fieldsOf(generator).notes).length === 0;
    return ratePerS === 0 || n === 0 || bad > n ? [] : [{ ratePerS, purpose, bad, n, isClean }];
  });
  if (played.length === 0) return null;
  const { ratePerS, low, high } = answer;
  const most = Math.max(...played.map((probe) => probe.ratePerS), high ?? 0);
  const x = scaleLinear([0, most * 1.05], [0, 1]);
  const worst = Math.max(0.02, ...played.map(({ bad, n }) => bad / n));
  const { y, height, ticks, top } = linear(200, Math.min(1, worst * 1.15), 4, (value) => `${figure(value * 100)} %`);
  const limit = shareAllowed(objective);
  const dots = played.map(({ ratePerS: rate, bad, n, purpose, isClean }) => {
    const at = x(rate);
    const interval = wilsonInterval(bad, n);
    const line = interval && spread("spread", [at, y(Math.min(top, interval.high))], [at, y(interval.low)]);
    return html`<g><title>${perSecond(rate)}, ${purpose}: ${share(bad, n)} of ${n}</title>${line}${dot(isClean ? "kind-answered" : "hollow", [at, y(bad / n)])}</g>`;
  });
  return {
    id,
    height,
    title: `${replicas > 0 ? `Replicas: ${replicas}. ` : ""}Rate against what broke the objective.`,
    finding: capacityFinding(answer, objective),
    description: `A dot for each probe: its rate across, the share of its calls that broke ${objective} up, with the 95 % interval (Wilson). Hollow dots are probes in which the generator or its host was disturbed.`,
    across: x.ticks(6).map((rate) => ({ at: x(rate), text: figure(rate) })),
    acrossName: "calls/s offered",
    up: ticks,
    drawn: html`${low !== null && high !== null && band([x(low) * WIDTH, x(high) * WIDTH], height, "95 % interval of the answer")}`,
    lines: [{ shape: "line", d: ratePerS === null ? "" : `M${(x(ratePerS) * WIDTH).toFixed(1)} 0V${height}` }],
    limits: limit !== null && limit <= top ? [{ y: y(limit), text: objective }] : [],
    labels: dots,
    table: {
      head: ["calls/s", "for", "calls", "broke it", "share", "undisturbed"],
      rows: played.map(({ ratePerS: rate, purpose, bad, n, isClean }) => {
        return [figure(rate), purpose, n, bad, share(bad, n), isClean ? "yes" : "no"];
      }),
    },
  };
};

/** A chart for each number of replicas that was measured, or the one of the deployment as it is. */
export const capacityCharts = (found: unknown, id: string): (Chart | null)[] => {
  const measured = listOf(fieldsOf(found).replicas).slice(0, REPLICAS_SHOWN);
  return (measured.length === 0 ? [found] : measured).map((one, at) =>
    capacityChart(one, at === 0 ? id : `${id}-${at + 1}`),
  );
};

/** Height of a row, most rows, and longest name of the chart of organizations. */
const ORG_ROW = 20;
const ORGS_MOST = 24;
const NAME_MOST = 15;

const orgsOf = ({ series }: ChartSeries) =>
  Object.entries(series.by_organization)
    .filter(([org]) => org !== "-")
    .map(([org, { offered, answered, shed }]) => {
      const of = sumOf(offered);
      return { org, offered: of, served: sumOf(answered), shed: sumOf(shed), share: sumOf(answered) / of };
    })
    .sort((a, b) => a.share - b.share || b.offered - a.offered);

type Org = ReturnType<typeof orgsOf>[number];

const orgsFinding = (rows: readonly Org[]): string => {
  const [worst, best] = [rows[0] as Org, rows.at(-1) as Org];
  const jain = fairnessIndex(rows);
  const index = jain === null ? "" : ` (Jain's index of the shares ${figure(jain)})`;
  const [low, high] = [worst, best].map(({ served, offered }) => share(served, offered));
  if (low === high)
    return `All ${counted(rows.length, "organization")} were answered alike: ${low} of their calls${index}.`;
  const all = rows.map(({ offered }) => offered);
  const isNoisy =
    rows.length > 2 && worst.offered === Math.max(...all) && worst.offered > (3 * sumOf(all)) / rows.length;
  const least = (rows[1] as Org).share;
  const others = least === 1 ? "all of theirs" : `at least ${share(least, 1)} of theirs`;
  return isNoisy
    ? `${worst.org} offered most and had ${low} of its calls answered, the others ${others}${index}.`
    : `Between ${low} (${worst.org}) and ${high} (${best.org}) of an organization's own calls were answered${index}.`;
};

/** The answered share of each organization's calls, with its 95 % interval; `null` for fewer than two organizations. */
export const organizationsChart = (stage: ChartSeries, id: string): Chart | null => {
  const rows = orgsOf(stage);
  if (rows.length < 2) return null;
  const half = ORGS_MOST / 2;
  const isCut = rows.length > ORGS_MOST;
  const shown = isCut ? [...rows.slice(0, half), ...rows.slice(-half)] : rows;
  const left = ` Of ${rows.length} organizations the ${half} least and the ${half} most answered are drawn; the table has all that the series keeps.`;
  const dots = shown.map(({ org, served, offered, share: of }, i) => {
    const y = (i + 0.5) * ORG_ROW;
    const interval = wilsonInterval(served, offered);
    return html`<g><title>${org}: ${count(served)} of ${count(offered)}</title>${interval && spread("spread", [interval.low, y], [interval.high, y])}${dot("kind-answered", [of, y])}</g>`;
  });
  const height = shown.length * ORG_ROW;
  return {
    id,
    height,
    isNamed: true,
    title: "By organization.",
    finding: `${orgsFinding(rows)}${isCut ? left : ""}`,
    description: `A row for each organization, the least answered first: a dot at the share of its calls that were answered, and a line for the 95 % interval (Wilson).`,
    across: [0, 0.25, 0.5, 0.75, 1].map((at) => ({ at, text: `${at * 100} %` })),
    acrossName: "of its own calls answered",
    up: shown.map(({ org }, i) => ({ at: (i + 0.5) / shown.length, text: clip(org, NAME_MOST) })),
    labels: dots,
    hasGrid: true,
    table: {
      head: ["organization", "offered", "answered", "shed", "share answered"],
      rows: rows.map(({ org, offered, served, shed }) => [org, offered, served, shed, share(served, offered)]),
    },
  };
};
