/** What every page is in: its policy, style and fills, and where it has charts the one script. */
import { fillDefs } from "../charts/fills.ts";
import { PAGE_SCRIPT, PAGE_SCRIPT_HASH } from "../charts/page-script.ts";
import { PAGE_STYLE } from "./html-style.ts";
import { html, Markup } from "./markup.ts";

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
