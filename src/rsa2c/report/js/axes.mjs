// Shared by all charts: ticks, named rows, interpolated colours.

import { format, svg, textWidth } from "./dom.mjs";

const LINE = 18;

/** Round numbers that cover [low, high]. */
export function ticks(low, high, count = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((k) => k * power).find((k) => k >= rough);
  const out = [];
  for (let k = Math.ceil(low / step); k * step <= high + 1e-9 * step; k++) out.push(k * step);
  return out;
}

/** A tick label centred at x, moved inwards if it would leave the drawing. */
export function xTick(x, y, text, width) {
  const half = textWidth(text, 11) / 2;
  return svg(
    "text",
    { class: "tick", x: Math.min(Math.max(x, half + 1), width - half - 1), y, "text-anchor": "middle" },
    text,
  );
}

export function finite(values) {
  return values.filter((v) => v !== null && Number.isFinite(v));
}

export function short(x) {
  const size = Math.abs(x);
  if (size >= 1e6) return `${format(x / 1e6, 3)} M`;
  if (size >= 1e4) return `${format(x / 1e3, 3)} k`;
  return format(x, 3);
}

/** Layout of a chart's rows: names to the left, or above their row on a narrow screen. */
export function rowsFor(names, width, height) {
  const longest = Math.max(...names.map((name) => textWidth(name))) + 10;
  const stacked = longest > 0.45 * width;
  return { stacked, left: stacked ? 6 : longest, pitch: stacked ? height + LINE : height };
}

export function rowName(rows, name, y, height) {
  const middle = y + height / 2 + 4;
  return rows.stacked
    ? svg("text", { class: "name", x: 6, y: y - 4 }, name)
    : svg("text", { class: "name", x: rows.left - 8, y: middle, "text-anchor": "end" }, name);
}

export function rgb(hex) {
  return [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
}

/** The colour at s in [0, 1] of a palette of three colours. */
export function mix(palette, s) {
  const place = Math.min(Math.max(s, 0), 1) * 2;
  const k = Math.min(1, Math.floor(place));
  const parts = palette[k].map((from, i) => Math.round(from + (palette[k + 1][i] - from) * (place - k)));
  return `rgb(${parts.join(",")})`;
}
