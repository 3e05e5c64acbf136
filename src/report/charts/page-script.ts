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
