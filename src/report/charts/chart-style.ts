/**
 * The style of the charts. Colours, light and dark, are the page's (../page/html-style.ts); lines differ in dashes as well, layers
 * in patterns.
 */
import { HUES } from "./swatches.ts";

/** Cells are drawn as lines. */
const hueRules = HUES.map((hue) => `.cells.${hue}{stroke:var(--${hue.replace("kind-", "")})}`).join("");

export const CHART_STYLE = `
.course{border-top:1px solid var(--line);padding:10px 0 6px}.course>summary{font-size:1rem;color:var(--text);padding:4px 0}.course[open]>summary .said{display:none}.course>summary b{color:var(--link);margin-right:4px}
.chart{margin:22px 0 0}.chart figcaption{font-size:.9375rem;line-height:1.45;margin-bottom:4px}.said-only{font-size:.9375rem;margin:22px 0 0}.what{font-weight:650}
.frame{display:block;overflow:visible;padding-left:58px;touch-action:pan-y;user-select:none;-webkit-user-select:none}.named .frame{padding-left:124px}
.frame text{font-size:12px;fill:var(--muted);font-variant-numeric:tabular-nums}.frame .limit-name,.frame .limit-point text,.frame .band-name{fill:var(--text);paint-order:stroke;stroke:var(--card);stroke-width:3.5px;stroke-linejoin:round}
.grid,.plot .grid{stroke:var(--line)}.plot path,.plot line,.plot rect{vector-effect:non-scaling-stroke}.plot .cells path{vector-effect:none}${hueRules}
.line{stroke:var(--text);stroke-width:1.5}.halo{stroke:var(--card);stroke-width:4;opacity:.75}.line.p50{stroke-width:1.6}.line.p99{stroke-width:1.6;stroke-dasharray:5 3}
.line.gauges{stroke:var(--shed);stroke-dasharray:6 3;stroke-width:1.8}.line.callers{stroke:var(--answered);stroke-width:1.9}.line.lag{stroke:var(--refused)}
.limit{stroke:var(--text);stroke-width:1.3;stroke-dasharray:2 3}.limit-point circle{stroke:var(--text);stroke-width:2}.spread{stroke:var(--answered);stroke-width:2;opacity:.55}
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
@media (max-width:720px){.named .frame{padding-left:104px}.frame{padding-left:52px}}
@media print{.controls{display:none}.chart{break-inside:avoid}}
`;
