// Charts as SVG. Labels are HTML beside the drawing, so that they keep their size at every width.

import { h, put, svg } from "./dom.js";
import { clock } from "./format.js";

const WIDTH = 600;
const HEIGHT = 150;

// Round numbers from at most `low` to at least `high`, in about `most` steps of 1, 2 or 5 times a power
// of ten, or of 1,024 where the values are bytes.
export function ticks(low, high, { most = 3, unit = 1 } = {}) {
  if (!(high > low)) return [low, low + 1];
  if (unit > 1 && high - low >= unit) return ticks(low / unit, high / unit, { most, unit }).map((tick) => tick * unit);
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough * (1 - 1e-9));
  const first = Math.floor(low / step + 1e-9);
  return Array.from({ length: Math.ceil(high / step - 1e-9) - first + 1 }, (_, at) => (first + at) * step);
}

// A line through what is known; it breaks where a value is null.
export function linePath(values, x, y) {
  let path = "";
  let isDown = false;
  values.forEach((value, at) => {
    if (value == null) {
      isDown = false;
      return;
    }
    path += `${isDown ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    // A point alone would not be seen.
    if (!isDown) path += "h0.1";
    isDown = true;
  });
  return path;
}

// { title, note, at: [ms], series: [{ name, values }], format, unit of round numbers, stacked, fromZero }
export function chart({ title, note, at, series, format, unit, stacked, fromZero = true }) {
  const known = series.flatMap(({ values }) => values).filter((value) => value != null);
  const sums = at.map((_, row) => series.reduce((sum, { values }) => sum + (values[row] ?? 0), 0));
  const top = Math.max(0, ...(stacked ? sums : known));
  const bottom = fromZero || known.length === 0 ? 0 : Math.min(...known);
  const lines = ticks(bottom, top, { unit });
  const [low, high] = [lines[0], lines.at(-1)];
  const last = Math.max(1, at.length - 1);
  const slot = WIDTH / Math.max(1, at.length);
  const x = (row) => (stacked ? (row + 0.5) * slot : (row * WIDTH) / last);
  const y = (value) => HEIGHT - ((value - low) / (high - low)) * HEIGHT;
  const legend = h("ul.legend");
  const cursor = svg("line.cursor", { y1: 0, y2: HEIGHT });
  const bases = at.map(() => 0);
  const marks = series.map(({ values }, number) => (stacked ? svg("path", { class: `block s${number % 5}`, d: values.map((value, row) => {
    if (!value) return "";
    const from = bases[row];
    bases[row] += value;
    const width = Math.max(0.8, slot * 0.75);
    return `M${(x(row) - width / 2).toFixed(1)} ${y(from).toFixed(1)}h${width.toFixed(1)}V${y(bases[row]).toFixed(1)}h-${width.toFixed(1)}z`;
  }).join("") }) : svg("path", { class: `line s${number % 5}`, d: linePath(values, x, y) })));
  const plot = h("div.plot", { tabindex: 0, role: "slider", "aria-label": title, "aria-valuemin": 0, "aria-valuemax": at.length - 1,
    onkeydown: (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      point(Math.max(0, Math.min(at.length - 1, chosen + step)));
    },
    onpointermove: (event) => {
      const box = plot.getBoundingClientRect();
      const share = (event.clientX - box.left) / box.width;
      point(Math.max(0, Math.min(at.length - 1, stacked ? Math.floor(share * at.length) : Math.round(share * last))));
    },
    onpointerleave: () => point(at.length - 1) },
  svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    lines.map((tick) => svg("line.grid", { x1: 0, x2: WIDTH, y1: y(tick), y2: y(tick) })), marks, cursor));
  let chosen = at.length - 1;

  function point(row) {
    chosen = row;
    const isLast = row === at.length - 1;
    cursor.setAttribute("x1", x(row));
    cursor.setAttribute("x2", x(row));
    cursor.setAttribute("visibility", isLast ? "hidden" : "visible");
    const texts = series.map(({ name, values }) => [name, format(values[row])]);
    plot.setAttribute("aria-valuenow", row);
    plot.setAttribute("aria-valuetext", `${clock(at[row])}: ${texts.map((pair) => pair.join(" ")).join(", ")}`);
    put(legend, texts.map(([name, text], number) => h("li", h(`i.swatch.s${number % 5}`), name, " ", h("strong", text))), h("li.note", clock(at[row])));
  }
  point(chosen);
  const scale = h("div.scale", { "aria-hidden": "true" }, lines.toReversed().map((tick) => h("span", format(tick))));
  const times = [0, 1, 2].map((part) => at[Math.round((part * (at.length - 1)) / 2)]);
  return h("figure.chart", h("figcaption", h("h3", title), note && h("span.note", note)), legend,
    h("div.plotted", scale, plot, h("div.times", { "aria-hidden": "true" }, [...new Set(times)].map((ms) => h("span", clock(ms))))));
}

// Parts of a whole as one bar: [[name, value]], and what the whole may be.
export function parts(rows, most, format) {
  const sum = rows.reduce((total, [, value]) => total + value, 0);
  const whole = Math.max(most ?? 0, sum) || 1;
  let from = 0;
  const bars = rows.map(([, value], number) => {
    const bar = svg("rect", { class: `block s${number % 7}`, x: (1000 * from) / whole, y: 0, width: Math.max(value > 0 ? 1 : 0, (1000 * value) / whole), height: 22 });
    from += value;
    return bar;
  });
  const label = rows.map(([name, value]) => `${name} ${format(value)}`).join(", ");
  return h("div.parts", svg("svg", { viewBox: "0 0 1000 22", preserveAspectRatio: "none", role: "img", "aria-label": label },
    svg("rect.track", { x: 0, y: 0, width: 1000, height: 22 }), bars),
  h("ul.legend", rows.map(([name, value], number) => h("li", h(`i.swatch.s${number % 7}`), name, " ", h("strong", format(value))))));
}
