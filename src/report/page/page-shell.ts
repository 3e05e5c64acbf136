/**
 * The frame of every page: its policy, its style and fills, and the one script if it has charts. Colours are variables,
 * for light and for dark, chosen so that text on them has a contrast of at least 4.5 to 1. A word, a letter, a shape or
 * a pattern repeats whatever a colour says.
 */
import { FAULT_STATE_WORDS, FAULT_STATES } from "../../history/run-document.ts";
import { fillDefs, HUES, OUTCOME_KINDS } from "../charts/layers.ts";
import { html, Markup } from "./markup.ts";

/** The only script of the page: a cursor through all charts of a stage, and a zoom. The page is complete without it. */
export const PAGE_SCRIPT = `(() => {
"use strict";
const W = 640;
const filled = (made, attributes, inside) => {
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
};
const el = (name, attributes, ...inside) => filled(document.createElement(name), attributes, inside);
const svg = (name, attributes, ...inside) => filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, inside);
const button = (value, text) => el("button", { type: "button", value }, text);
const controls = (name, span, step) => el("div", { class: "controls" },
  el("label", {}, "Cursor ", el("input", { type: "range", min: 0, max: span, step, value: 0, "aria-label": "cursor through the charts of " + name })),
  el("output", {}),
  el("span", { class: "buttons" }, button("in", "Zoom in"), button("out", "Zoom out"), button("all", "All")));
const svgText = (s, x, y) => svg("text", { x: x * 100 + "%", y, ...(x > 0.97 ? { "text-anchor": "end" } : {}) }, s);
const tidy = (n) => String(Number(n.toFixed(3)));
const words = (s, span) => span >= 120 ? tidy(s / 60) + " min" : s === 0 ? "0" : tidy(s) + " s";
const step = (width, span) => {
  const unit = span >= 120 ? 60 : 1;
  const raw = width / unit / 6, ten = 10 ** Math.floor(Math.log10(raw));
  return unit * [1, 2, 5, 10].map((m) => m * ten).find((s) => s >= raw * 0.7);
};
for (const course of document.querySelectorAll(".course")) {
  const span = Number(course.dataset.span);
  const table = course.querySelector(".all-figures table");
  if (table === null) continue;
  const rowS = Number(table.dataset.row);
  const head = [...table.tHead.rows[1].cells].map((c) => c.textContent);
  const rows = table.tBodies[0].rows;
  const charts = [...course.querySelectorAll("figure.timed")].map((figure) => {
    const [frame, plot] = [figure.querySelector(".frame"), figure.querySelector(".plot")];
    const [first, last] = figure.dataset.columns.split(" ").map(Number);
    const top = Number(plot.getAttribute("y"));
    const cursor = svg("line", { class: "cursor", y1: top, y2: top + Number(plot.getAttribute("height")), visibility: "hidden", stroke: "currentColor" });
    frame.append(cursor);
    const read = el("p", { class: "read" });
    frame.after(read);
    return { frame, plot, cursor, read, ticks: frame.querySelector(".ticks"), names: [...frame.querySelectorAll("[data-s]")], first, last };
  });
  const bar = controls(course.querySelector("summary b").textContent, span, rowS);
  const [slider, out] = [bar.querySelector("input"), bar.querySelector("output")];
  let from = 0, to = span, at = null;
  const share = (s) => (s - from) / (to - from);
  const place = () => {
    for (const c of charts) {
      const x = at === null ? -1 : share(at);
      filled(c.cursor, { visibility: x >= 0 && x <= 1 ? "visible" : "hidden", x1: x * 100 + "%", x2: x * 100 + "%" }, []);
      c.read.hidden = at === null;
      if (at === null) continue;
      const cells = [...rows[Math.min(rows.length - 1, Math.floor(at / rowS))].cells].map((cell) => cell.textContent);
      c.read.textContent = "At " + cells[0] + ": " + head.map((name, i) => name + " " + cells[i]).slice(c.first, c.last).join(", ");
    }
    if (at === null) { out.textContent = ""; return; }
    out.textContent = words(Number(at.toFixed(2)), 0);
    slider.value = String(at);
    slider.setAttribute("aria-valuetext", charts[0].read.textContent);
  };
  const draw = () => {
    const s = step(to - from, span);
    for (const c of charts) {
      const box = c.plot.getAttribute("viewBox").split(" ");
      c.plot.setAttribute("viewBox", (from / span) * W + " 0 " + ((to - from) / span) * W + " " + box[3]);
      for (const name of c.names) {
        const x = share(Number(name.dataset.s));
        filled(name, { x: Math.max(0, x) * 100 + "%", visibility: x > 1 ? "hidden" : "visible" }, []);
      }
      const y = c.ticks.firstElementChild ? c.ticks.firstElementChild.getAttribute("y") : 0;
      c.ticks.replaceChildren();
      for (let t = Math.ceil(from / s - 1e-9) * s; t <= to - (to - from) * 0.015; t += s) c.ticks.append(svgText(words(t, span), share(t), y));
    }
    place();
  };
  const zoom = (a, b) => {
    const width = Math.min(span, Math.max(span / 40, b - a));
    from = Math.min(Math.max(0, (a + b - width) / 2), span - width);
    to = from + width;
    draw();
  };
  const by = (factor) => {
    const middle = at !== null && at >= from && at <= to ? at : (from + to) / 2;
    zoom(middle - ((to - from) * factor) / 2, middle + ((to - from) * factor) / 2);
  };
  const actions = { "in": () => by(0.5), out: () => by(2), all: () => zoom(0, span) };
  for (const button of bar.querySelectorAll("button")) button.addEventListener("click", actions[button.value]);
  slider.addEventListener("input", () => { at = Number(slider.value); place(); });
  for (const c of charts) {
    let start = null;
    const when = (event) => {
      const box = c.frame.getBoundingClientRect();
      const left = parseFloat(getComputedStyle(c.frame).paddingLeft);
      return from + Math.min(1, Math.max(0, (event.clientX - box.left - left) / (box.width - left))) * (to - from);
    };
    c.frame.addEventListener("pointermove", (event) => { at = when(event); place(); });
    c.frame.addEventListener("pointerdown", (event) => { if (event.pointerType === "mouse") start = { x: event.clientX, s: when(event) }; });
    c.frame.addEventListener("pointerup", (event) => {
      if (start !== null && Math.abs(event.clientX - start.x) > 12) zoom(Math.min(start.s, when(event)), Math.max(start.s, when(event)));
      start = null;
    });
    c.frame.addEventListener("dblclick", () => zoom(0, span));
  }
  place();
  course.querySelector("summary").nextElementSibling.after(bar);
}
})();`;

/** The hash by which the page's policy names the script; the test of this file prints the right one. */
export const PAGE_SCRIPT_HASH = "sha256-6hZO31c1sxtG/A4nhbTjFdZkQzJNXWCPDBqNMaSRGdY=";

const kindRules = Object.keys(OUTCOME_KINDS)
  .map((kind) => `.kind-${kind}{fill:var(--${kind})}.on-${kind}{fill:var(--on-kind);stroke:var(--${kind})}`)
  .join("");

/** Cells of maps are drawn as lines. */
const hueRules = HUES.map((hue) => `.cells.${hue}{stroke:var(--${hue.replace("kind-", "")})}`).join("");

/** On a phone each cell names its column. */
const METS = FAULT_STATES.map(
  (state, i) =>
    `.met td:nth-child(${i + 2})::before{content:"${FAULT_STATE_WORDS[state].replace("'", "\u2019")}: ";color:var(--muted)}`,
).join("");

const LIGHT = `--page:#f4f6f8;--card:#fff;--text:#1b1f24;--muted:#545d68;--line:#d4dae1;--link:#0b57b0;--code:#eef1f4;
--pass:#17692f;--fail:#b3261e;--inconclusive:#855300;--skipped:#4f5965;--pass-soft:#e9f6ec;--fail-soft:#fdedec;--inconclusive-soft:#fdf3e0;--skipped-soft:#eef1f4;
--answered:#2b6cb0;--error:#85600f;--shed:#b93e0a;--refused:#7a4aa3;--edge:#5a6675;--indeterminate:#20262d;--on-kind:#fff;--fault:#b93e0a`;
const DARK = `--page:#0e1217;--card:#171c23;--text:#e7eaee;--muted:#a3adba;--line:#303944;--link:#8cb8f0;--code:#222932;
--pass:#6fd08a;--fail:#ff9088;--inconclusive:#f2bd5c;--skipped:#b1bbc7;--pass-soft:#14261a;--fail-soft:#2d1718;--inconclusive-soft:#2b2213;--skipped-soft:#222932;
--answered:#74aee6;--error:#d9b04f;--shed:#f2925f;--refused:#c39ce3;--edge:#9ba7b6;--indeterminate:#f1f3f6;--on-kind:#10151b;--fault:#f2925f`;

const PAGE_STYLE = `
:root{${LIGHT}}
@media (prefers-color-scheme:dark){:root{${DARK}}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;overflow-wrap:anywhere}
main{max-width:1120px;margin:0 auto;padding:20px 20px 48px}
header{display:flex;justify-content:space-between;align-items:baseline;gap:4px 24px;flex-wrap:wrap}
header p{margin:0 0 12px}.brand{font-weight:700;font-size:1.1rem;letter-spacing:.02em}header .muted{font-size:.875rem}
h1{font-size:clamp(1.6rem,7.5vw,2.8rem);line-height:1;margin:0;text-transform:uppercase;letter-spacing:.01em;overflow-wrap:normal}
h2{font-size:1.4rem;margin:0 0 8px}h3{font-size:1.05rem;margin:24px 0 4px;display:flex;gap:8px;align-items:center}
p{margin:0 0 8px}ul{margin:8px 0;padding-left:22px}a{color:var(--link)}
code{font:.875em/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;background:var(--code);border-radius:4px;padding:1px 4px}
.muted{color:var(--muted)}.small{font-size:.8125rem}.warn{color:var(--fail);font-weight:600}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:20px 24px;margin:16px 0}
.banner{border:1px solid var(--line);border-left:10px solid;border-radius:10px;padding:22px 24px 14px;margin-bottom:16px}
.banner.pass{border-color:var(--pass);background:var(--pass-soft)}.banner.fail{border-color:var(--fail);background:var(--fail-soft)}.banner.inconclusive{border-color:var(--inconclusive);background:var(--inconclusive-soft)}
.verdict{display:flex;align-items:center;gap:12px;margin-bottom:14px}.lead{font-size:1.05rem;font-weight:600}
.banner.pass h1{color:var(--pass)}.banner.fail h1{color:var(--fail)}.banner.inconclusive h1{color:var(--inconclusive)}
.sign{flex:none;fill:none;stroke:currentColor;stroke-width:2.2;stroke-linecap:round;stroke-linejoin:round;vertical-align:-.15em}
.pass.sign{color:var(--pass)}.fail.sign{color:var(--fail)}.inconclusive.sign{color:var(--inconclusive)}.skipped.sign{color:var(--skipped)}
.badge{display:inline-flex;align-items:center;gap:5px;font-size:.8125rem;font-weight:650;border-radius:6px;padding:2px 8px 2px 6px;white-space:nowrap}
.badge.pass{color:var(--pass);background:var(--pass-soft)}.badge.fail{color:var(--fail);background:var(--fail-soft)}
.badge.inconclusive{color:var(--inconclusive);background:var(--inconclusive-soft)}.badge.skipped{color:var(--skipped);background:var(--skipped-soft)}

.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(118px,1fr));gap:10px}@media (max-width:720px){.tiles .tile:last-child{grid-column:span 2}}
.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:10px;display:flex;flex-direction:column;color:inherit;text-decoration:none}
.tile .small{color:var(--muted)}
.big{font-size:1.2rem;font-weight:650;white-space:nowrap;color:inherit;text-decoration:none}a.big:hover{text-decoration:underline}
nav{margin:16px 2px 0;display:flex;flex-wrap:wrap;gap:4px 18px}
table{border-collapse:collapse;width:100%;margin:8px 0}
th,td{text-align:left;vertical-align:top;padding:8px 10px;border-bottom:1px solid var(--line)}
thead th{font-size:.8125rem;color:var(--muted);font-weight:600}tbody tr:last-child td{border-bottom:0}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}.met th.number{white-space:normal;min-width:84px}.met td:first-child{overflow-wrap:normal}.values td+td,.values th+th{text-align:right;font-variant-numeric:tabular-nums}.values td+td{white-space:nowrap}.values td,.values th{padding:5px 10px}
.claims{table-layout:fixed}.claims th:nth-child(1){width:136px}.claims th:nth-child(2){width:25%}.claims th:nth-child(4){width:27%}
.claims td{font-size:.9375rem}.claims .id{background:none;padding:0;font-weight:600}.reason{font-weight:600}
.replay{display:block;padding:6px 8px;margin-top:2px;user-select:all}code span{display:inline-block;max-width:100%}
.ids{list-style:none;padding:0;margin:2px 0 6px}.ids li{margin:3px 0}.held li{margin:2px 0}.ids.inline li{display:inline-block;margin-right:6px}
.facts{display:grid;grid-template-columns:max-content 1fr;gap:2px 12px;margin:4px 0}.facts dt{color:var(--muted)}.facts dd{margin:0}
.facts.wide{gap:6px 20px}summary{cursor:pointer;color:var(--link);font-size:.875rem;padding:2px 0}
.stages{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));gap:8px 36px}.stage td,.stage th{padding:5px 8px}.stage td:first-child{white-space:nowrap}
.legend{list-style:none;padding:0;display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,300px),1fr));gap:4px 20px;font-size:.875rem}.legend li{display:flex;gap:8px}
.swatch{flex:none;border-radius:3px;vertical-align:-3px;margin-top:2px}.defs{position:absolute}
.bar{display:block;border-radius:6px;margin:8px 0 4px}.bar text{font-size:14px;font-weight:700;paint-order:stroke;stroke-width:4px;stroke-linejoin:round}
.gap{fill:var(--card)}${kindRules}
.timeline{list-style:none;padding:0;margin:12px 0 0}.timeline li{margin:0 0 6px}.fault-name{font-size:.9375rem}.track,.axis{display:block}
.rail{fill:var(--line)}.fault{fill:var(--fault)}.fault-without-effect{fill:var(--card);stroke:var(--fault);stroke-width:1.5;stroke-dasharray:4 3}
.axis text{fill:var(--muted);font-size:12px}.notes li{margin:2px 0}footer{margin:20px 2px}
@media (max-width:720px){.stage td,.stage th{padding:5px 5px}.stage code{font-size:.8125em;padding:1px 2px}main{padding:14px 12px 40px}.card{padding:16px 14px}.banner{padding:18px 14px 10px;border-left-width:8px}.verdict svg{width:40px;height:40px}
.claims,.claims tbody,.claims tr,.claims td{display:block;width:100%}.claims thead{display:none}
.claims tr{border:1px solid var(--line);border-radius:8px;padding:6px 10px;margin:10px 0}.claims td{border:0;padding:5px 0}
.measurements thead,.values thead{display:none}.measurements tbody,.measurements tr,.measurements td,.values tbody,.values tr,.values td{display:block}
.measurements tr,.values tr{padding:6px 0;border-bottom:1px solid var(--line)}.measurements td,.values td,.values td+td{border:0;padding:1px 0;text-align:left;white-space:normal}.measurements td.number,.values td+td{display:inline-block;margin-right:14px}
.measurements td.number::before,.measurements td[data-label=verdict]::before{content:attr(data-label) ": ";color:var(--muted)}
.met thead{display:none}.met tbody,.met tr,.met td{display:block}.met tr{padding:6px 0;border-bottom:1px solid var(--line)}.met td{border:0;padding:1px 0;text-align:left}.met td:empty{display:none}${METS}.values td+td::before{color:var(--muted);content:"value: "}.values td:nth-child(3)::before{content:"95 % interval: "}.values td:nth-child(4)::before{content:"samples: "}}
.def{color:inherit;text-decoration:underline dotted;text-underline-offset:3px}.strip{list-style:none;padding:0;margin:10px 0 0;display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:14px 16px}.strip a{display:block;color:inherit;text-decoration:none;overflow-wrap:anywhere;font-size:.8125rem}.strip a:hover span{text-decoration:underline}.strip svg.plot{display:block;margin:4px 0 2px;background:var(--code);border-radius:4px}#headline h2{margin-bottom:2px}
.course{border-top:1px solid var(--line);padding:10px 0 6px}.course>summary{font-size:1rem;color:var(--text);padding:4px 0}.course[open]>summary .said{display:none}.course>summary b{color:var(--link);margin-right:4px}
.chart{margin:22px 0 0}.chart figcaption{font-size:.9375rem;line-height:1.45;margin-bottom:4px}.said-only{font-size:.9375rem;margin:22px 0 0}.what{font-weight:650}
.frame{display:block;overflow:visible;padding-left:58px;touch-action:pan-y;user-select:none;-webkit-user-select:none}.named .frame{padding-left:124px}
.frame text{font-size:12px;fill:var(--muted);font-variant-numeric:tabular-nums}.frame .limit-name,.frame .band-name{fill:var(--text);paint-order:stroke;stroke:var(--card);stroke-width:3.5px;stroke-linejoin:round}
.grid,.plot .grid{stroke:var(--line)}.plot path,.plot line,.plot rect{vector-effect:non-scaling-stroke}.plot .cells path{vector-effect:none}${hueRules}
.line{stroke:var(--text);stroke-width:1.5}.halo{stroke:var(--card);stroke-width:4;opacity:.75}.line.p50{stroke-width:1.6}.line.p99{stroke-width:1.6;stroke-dasharray:5 3}
.line.gauges{stroke:var(--shed);stroke-dasharray:6 3;stroke-width:1.8}.line.callers{stroke:var(--answered);stroke-width:1.9}.line.lag{stroke:var(--refused)}
.limit{stroke:var(--text);stroke-width:1.3;stroke-dasharray:2 3}.limit-point{fill:none;stroke:var(--text);stroke-width:2}.spread{stroke:var(--answered);stroke-width:2;opacity:.55}
.spread.wide{stroke-width:4;opacity:.45}.pair{fill:var(--muted)}.gate-regression{fill:var(--shed)}.gate-no-regression{fill:var(--answered)}.gate-inconclusive,.gate-not-measured,.hollow{fill:var(--card);stroke:var(--answered);stroke-width:2}
.band{fill:var(--text);fill-opacity:.09;stroke:var(--text);stroke-opacity:.45;stroke-width:1}.band.empty{fill:none;stroke-dasharray:4 3}.mark{stroke:var(--muted);stroke-dasharray:1 3}
.layer-stroke{stroke:var(--on-kind);opacity:.45}.doubt{fill:var(--muted);fill-opacity:.2}.cursor{stroke:var(--text);stroke-width:1;opacity:.7;pointer-events:none}
.keys{list-style:none;margin:0 0 2px;padding:0;display:flex;flex-wrap:wrap;gap:2px 16px;font-size:.8125rem;color:var(--muted)}.keys .swatch{margin:0 3px 0 0}
.read{font-size:.8125rem;font-variant-numeric:tabular-nums;margin:2px 0 0}.numbers{margin-top:2px}.numbers summary{font-size:.8125rem}
.scroll{overflow:auto;overflow-wrap:normal}.numbers .scroll{max-height:320px}.figures{font-size:.8125rem;width:auto;min-width:50%}.figures th,.figures td{padding:2px 12px 2px 0}.figures thead th{position:sticky;top:0;background:var(--card)}.figures td,.figures th{overflow-wrap:normal}.figures td+td,.figures th+th{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.all-figures td:first-child{white-space:nowrap}.figures th[colspan]{text-align:left!important}.all-figures thead tr+tr th{top:24px}.all-figures td+td,.all-figures th+th{padding-left:10px}
.beside{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),1fr));gap:0 44px;align-items:start}
.controls{position:sticky;top:0;z-index:1;background:var(--card);display:flex;flex-wrap:wrap;gap:6px 14px;align-items:center;padding:6px 0;font-size:.875rem;border-bottom:1px solid var(--line)}
.controls label{flex:1 1 220px;display:flex;gap:10px;align-items:center}.controls input{flex:1;accent-color:var(--link);min-width:80px}.controls output{min-width:4em;font-variant-numeric:tabular-nums}
.buttons{display:flex;gap:6px}.controls button{font:inherit;color:var(--link);background:var(--card);border:1px solid var(--line);border-radius:6px;padding:2px 10px;cursor:pointer}.controls button:hover{border-color:var(--link)}
:focus-visible{outline:2px solid var(--link);outline-offset:2px}
@media (max-width:720px){.spare{display:none}.named .frame{padding-left:124px}.frame{padding-left:52px}}
@media print{body{background:#fff}.controls,nav{display:none}.chart,.tile,tr,.facts dd{break-inside:avoid}h2,h3,thead{break-after:avoid}.card,main{padding:0}.card{border:0}.values td:first-child{white-space:nowrap}.values td:nth-child(3){white-space:normal}}
`;

export const pageShell = (title: string, body: Markup, hasCharts: boolean): string => {
  const script = hasCharts ? html`<script>${new Markup(PAGE_SCRIPT)}</script>` : null;
  const runs = new Markup(hasCharts ? ` script-src '${PAGE_SCRIPT_HASH}';` : "");
  return html`<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none';${runs} style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">
<title>${title}</title><style>${new Markup(PAGE_STYLE)}</style></head>
<body>${fillDefs()}<main>
${body}
</main>${script}</body></html>
`.text;
};
