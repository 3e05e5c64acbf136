/** What a capacity search saw: the share of calls that broke the objective, by the rate at which they were offered. */
import { scaleLinear } from "d3-scale";
import { wilsonInterval } from "../../history/statistics/statistics.ts";
import { figure, perSecond, share } from "../figures.ts";
import { html } from "../page/markup.ts";
import { type Chart, inFrame, percent, WIDTH } from "./frame.ts";

const HEIGHT = 200;

/** What of `capacity.json` is drawn. */
export type FoundCapacity = {
  answer: {
    kind: string;
    /** Calls a second; what cannot be said is absent or null. */
    ratePerS?: number | null;
    low?: number | null;
    high?: number | null;
    reason: string;
    /** Which objective bounds it. */
    binding?: number | null;
  };
  objectives: string[];
  probes: {
    plan: { ratePerS: number; purpose: string };
    tallies: { bad: number; n: number }[];
    generator: { notes: string[] };
  }[];
};

/** Of an objective such as `refusals<=1%`: its share. */
const limitOf = (objective: string): number | null => {
  const found = /<=?(\d+(?:\.\d+)?)%$/.exec(objective);
  return found === null ? null : Number(found[1]) / 100;
};

/** `null` where nothing was played. */
export const capacityChart = ({ answer, objectives, probes }: FoundCapacity, id: string): Chart | null => {
  const which = answer.binding ?? 0;
  const objective = objectives[which] ?? "the objective";
  const played = probes.flatMap(({ plan, tallies, generator }) => {
    const tally = tallies[which];
    return tally === undefined || tally.n === 0 ? [] : [{ ...plan, ...tally, isClean: generator.notes.length === 0 }];
  });
  if (played.length === 0) return null;
  const { ratePerS, low, high } = answer;
  const most = Math.max(...played.map((probe) => probe.ratePerS), high ?? 0);
  const x = scaleLinear([0, most * 1.05], [0, 1]);
  const worst = Math.max(0.02, ...played.map(({ bad, n }) => bad / n));
  const y = scaleLinear([0, Math.min(1, worst * 1.15)], [HEIGHT, 0]).nice(4);
  const top = y.domain()[1] as number;
  const limit = limitOf(objective);
  const dots = played.map(({ ratePerS: rate, bad, n, purpose, isClean }) => {
    const interval = wilsonInterval(bad, n);
    const cx = percent(x(rate));
    const spread =
      interval === null
        ? null
        : html`<line class="spread" x1="${cx}" x2="${cx}" y1="${inFrame(y(Math.min(top, interval.high)))}" y2="${inFrame(y(interval.low))}" stroke="currentColor"/>`;
    return html`<g><title>${perSecond(rate)}, ${purpose}: ${share(bad, n)} of ${n}</title>${spread}<circle class="${isClean ? "kind-answered" : "hollow"}" fill="currentColor" stroke="currentColor" cx="${cx}" cy="${inFrame(y(bad / n))}" r="4.5"/></g>`;
  });
  const across = x.ticks(6).map((rate) => ({ at: x(rate), text: figure(rate) }));
  const band =
    low == null || high == null
      ? null
      : html`<rect class="band" fill="none" x="${x(low) * WIDTH}" y="0" width="${(x(high) - x(low)) * WIDTH}" height="${HEIGHT}"><title>95 % interval of the answer</title></rect>`;
  const line =
    ratePerS == null
      ? null
      : html`<path class="line" fill="none" stroke="currentColor" d="M${(x(ratePerS) * WIDTH).toFixed(1)} 0V${HEIGHT}"/>`;
  const found =
    ratePerS == null
      ? `No highest rate was found: ${answer.reason}.`
      : `${objective} holds up to ${perSecond(ratePerS)}${low == null || high == null ? "" : ` (between ${perSecond(low)} and ${perSecond(high)})`}.`;
  const doubt = answer.kind === "unknown" && ratePerS != null ? ` It is not settled: ${answer.reason}.` : "";
  return {
    id,
    height: HEIGHT,
    title: "Rate against what broke the objective.",
    finding: `${found}${doubt}`,
    description: `A dot for each probe: its rate across, the share of its calls that broke ${objective} up, with the 95 % interval (Wilson). Hollow dots are probes in which the generator or its host was disturbed.`,
    across,
    acrossName: "calls/s offered",
    up: y.ticks(4).map((value) => ({ at: 1 - value / top, text: `${figure(value * 100)} %` })),
    drawn: html`${band}${line}${limit === null || limit > top ? null : html`<path class="limit" fill="none" stroke="currentColor" d="M0 ${y(limit).toFixed(1)}H${WIDTH}"/>`}`,
    labels: html`${dots}${limit === null || limit > top ? null : html`<text class="limit-name" x="100%" y="${inFrame(y(limit) - 5)}" text-anchor="end" fill="currentColor">${objective}</text>`}`,
    table: {
      head: ["calls/s", "for", "calls", "broke it", "share", "undisturbed"],
      rows: played.map(({ ratePerS: rate, purpose, bad, n, isClean }) => [
        figure(rate),
        purpose,
        n,
        bad,
        share(bad, n),
        isClean ? "yes" : "no",
      ]),
    },
  };
};
