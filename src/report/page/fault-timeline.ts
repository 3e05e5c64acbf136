/** When which fault was in force, as one track for each fault over the time of the run, in SVG that needs no scaling. */
import type { FaultRecord } from "../../history/run-document.ts";
import { duration } from "../figures.ts";
import { html, type Markup } from "./markup.ts";

const TRACK = 20;
const TICKS = [0, 0.5, 1] as const;
/** More times than this of one fault are counted, not listed. */
const LISTED_MAX = 3;

const percent = (part: number, whole: number): string => `${((100 * part) / whole).toFixed(3)}%`;

const moment = (ms: number): string => (ms === 0 ? "0 s" : duration(ms));

const when = (fault: FaultRecord): string => `${moment(fault.started_ms)} to ${moment(fault.ended_ms)}`;

/** A fault that took no effect is an empty, dashed frame. */
const bar = (fault: FaultRecord, spanMs: number): Markup => {
  const width = percent(Math.max(fault.ended_ms - fault.started_ms, spanMs / 200), spanMs);
  const kind = fault.took_effect ? "fault" : "fault-without-effect";
  return html`<rect class="${kind}" x="${percent(fault.started_ms, spanMs)}" y="4" width="${width}" height="${TRACK - 8}" rx="2"><title>${when(fault)}${fault.took_effect ? "" : ", no effect"}</title></rect>`;
};

const track = (faults: readonly FaultRecord[], spanMs: number): Markup => {
  const { experiment, link, fault, stream } = faults[0]!;
  const without = faults.filter((f) => !f.took_effect).length;
  const times = faults.length > LISTED_MAX ? `${faults.length} times` : faults.map(when).join("; ");
  const some = without === faults.length ? "✖ no effect" : `✖ no effect ${without} of ${faults.length} times`;
  const effect = without === 0 ? html`, took effect` : html`, <b class="warn">${some}</b>`;
  const label = `${experiment} on ${link}: ${times}${without === 0 ? "" : `, ${some}`}`;
  return html`<li><div class="fault-name"><b>${experiment}</b> <span class="muted">${fault} on ${link} (${stream}), ${times}${effect}</span></div>
<svg class="track" width="100%" height="${TRACK}" role="img" aria-label="${label}"><rect class="rail" x="0" y="${TRACK / 2 - 1}" width="100%" height="2"/>${faults.map((f) => bar(f, spanMs))}</svg></li>`;
};

const axis = (spanMs: number): Markup => {
  const marks = TICKS.map((at) => {
    const anchor = at === 0 ? "start" : at === 1 ? "end" : "middle";
    return html`<text x="${at * 100}%" y="14" text-anchor="${anchor}">${moment(at * spanMs)}</text>`;
  });
  return html`<svg class="axis" width="100%" height="18" aria-hidden="true">${marks}</svg>`;
};

/** Faults of one kind share a track (a flapping link is one row, not fifty). Times count from the start of the run. */
export const faultTimeline = (faults: readonly FaultRecord[], runMs: number): Markup => {
  const spanMs = Math.max(runMs, 1, ...faults.map((f) => f.ended_ms));
  const tracks = new Map<string, FaultRecord[]>();
  for (const fault of faults) {
    const key = JSON.stringify([fault.experiment, fault.link, fault.fault, fault.stream]);
    tracks.set(key, [...(tracks.get(key) ?? []), fault]);
  }
  return html`<ul class="timeline">${[...tracks.values()].map((list) => track(list, spanMs))}</ul>${axis(spanMs)}`;
};
