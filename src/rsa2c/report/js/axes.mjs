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

/** Scales of an axis of steps: what is drawn at equal distances, and how it is called. */
export const STEP_SCALES = {
  linear: { of: (x) => x, inverse: (z) => z, note: "" },
  sqrt: { of: Math.sqrt, inverse: (z) => z * z, note: ", square-root scale" },
  log: { of: Math.log, inverse: Math.exp, note: ", logarithmic scale" },
};

/**
 * The scale on which learning takes up most of the width: the one that puts the step at which a curve has made half of
 * its rise nearest to the middle. Pendulum rises in a tenth of its steps, a walker in most of them: no scale suits both.
 */
export function learningScale(series) {
  const halves = series.map(({ x, y }) => {
    const points = Array.from(x, (step, k) => [step, y[k]]).filter(([, v]) => v !== null && Number.isFinite(v));
    const half = (points[0]?.[1] + Math.max(...points.map(([, v]) => v))) / 2;
    return points.find(([, v]) => v >= half)?.[0];
  });
  const steps = finite(series.flatMap((s) => Array.from(s.x)));
  const [first, last] = [Math.min(...steps), Math.max(...steps)];
  const known = halves.filter((x) => x > first);
  if (!known.length || !(first > 0)) return "linear";
  const place = (of, x) => (of(x) - of(first)) / (of(last) - of(first));
  const miss = (of) => known.reduce((sum, x) => sum + Math.abs(place(of, x) - 0.5), 0);
  const names = Object.keys(STEP_SCALES);
  return names.reduce((best, name) => (miss(STEP_SCALES[name].of) < miss(STEP_SCALES[best].of) ? name : best));
}

/** Round numbers 1, 2, 5, 10, ... within [low, high]. */
export function roundNumbers(low, high) {
  const out = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10)
    for (const k of [1, 2, 5]) if (k * power >= low && k * power <= high) out.push(k * power);
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
