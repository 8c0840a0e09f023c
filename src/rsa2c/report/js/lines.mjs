// Curves over steps in SVG, drawn to the available width.

import { STEP_SCALES, finite, learningScale, roundNumbers, short, ticks, xTick } from "./axes.mjs";
import { format, html, mount, svg, textWidth } from "./dom.mjs";

const SERIES = ["a", "b", "c", "d", "e", "f", "g", "h"];
const hue = (s, i) =>
  `series-${SERIES[(s.hue ?? i) % SERIES.length]}${s.thin ? " thin" : ""}${s.dashed ? " dashed" : ""}`;

/**
 * Lines with bands: series {name, x, y, low?, high?, thin?, dashed?, hue?}. With `learning`, the axis of steps has the
 * scale on which learning is widest; `least` is the room for numbers at the left, at least. Returns a function that moves the cursor.
 */
export function lineChart(host, { series, x, y: yLabel, height = 220, onPick, legend = true, zero = false, learning, least = 0 }) {
  const scale = STEP_SCALES[learning ? learningScale(series) : "linear"];
  const xLabel = `${x}${scale.note}`;
  const box = html("div", { class: "plot" });
  const names = html("div", { class: "legend" });
  series.forEach((s, i) => {
    const key = html("i", { class: `key ${hue(s, i)}` });
    names.append(html("span", {}, key, s.name));
  });
  host.append(...(legend ? [names, box] : [box]));
  let cursor = null;
  let place = null;
  let at = null;
  mount(box, (width) => {
    const xs = finite(series.flatMap((s) => Array.from(s.x)));
    const ys = finite(series.flatMap((s) => [...s.y, ...(s.low ?? []), ...(s.high ?? [])]));
    let [x0, x1] = [Math.min(...xs), Math.max(...xs)];
    let [y0, y1] = [Math.min(...ys, ...(zero ? [0] : [])), Math.max(...ys, ...(zero ? [0] : []))];
    if (x1 === x0) x1 = x0 + 1;
    if (y1 === y0) [y0, y1] = [y0 - 0.5, y1 + 0.5];
    const room = 0.05 * (y1 - y0);
    [y0, y1] = [y0 - (zero && y0 === 0 ? 0 : room), y1 + room];
    const count = Math.max(3, Math.round(height / 50));
    const [few, more] = [ticks(y0, y1, count), ticks(y0, y1, 2 * count)];
    const yTicks = few.length > 1 ? few : more;
    const left = Math.max(least - 12, ...yTicks.map((t) => textWidth(short(t), 11))) + 12;
    const [right, top, bottom] = [14, yLabel ? 22 : 8, xLabel ? 36 : 20];
    const [z0, z1] = [scale.of(x0), scale.of(x1)];
    const px = (x) => left + ((scale.of(x) - z0) / (z1 - z0)) * (width - left - right);
    const py = (y) => top + ((y1 - y) / (y1 - y0)) * (height - top - bottom);
    const root = svg("svg", { width, height, role: "img", "aria-label": `${yLabel || series[0].name} over ${xLabel}` });
    for (const t of yTicks) {
      root.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: py(t), y2: py(t) }));
      root.append(svg("text", { class: "tick", x: left - 6, y: py(t) + 4, "text-anchor": "end" }, short(t)));
    }
    const linear = ticks(x0, x1, Math.max(3, Math.floor(width / 100)));
    const round = scale.note ? roundNumbers(x0, x1) : [];
    let free = Infinity;
    for (const t of (round.length > 3 ? round : linear).reverse()) {
      const half = textWidth(short(t), 11) / 2;
      if (px(t) + half > free) continue;
      free = px(t) - half - 10;
      root.append(xTick(px(t), height - bottom + 15, short(t), width));
    }
    if (xLabel)
      root.append(
        svg("text", { class: "label", x: (left + width) / 2, y: height - 4, "text-anchor": "middle" }, xLabel),
      );
    if (yLabel) root.append(svg("text", { class: "label", x: 0, y: 12 }, yLabel));
    const stripes = learning ? coinciding(series, py) : series.map(() => null);
    series.forEach((s, i) => {
      const name = hue(s, i);
      const points = Array.from(s.x, (x, k) => [x, s.y[k], k]).filter(([, y]) => y !== null && Number.isFinite(y));
      const path = (value) => points.map(([x, , k]) => `${px(x).toFixed(1)},${py(value(k)).toFixed(1)}`);
      if (s.low) {
        const edge = [...path((k) => s.high[k]), ...path((k) => s.low[k]).reverse()];
        root.append(svg("polygon", { class: `band ${name}`, points: edge.join(" ") }));
      }
      const line = path((k) => s.y[k]).join(" ");
      root.append(svg("polyline", { class: `line ${name}${stripes[i] ? " striped" : ""}`, points: line, ...stripes[i] }));
    });
    cursor = svg("line", { class: "cursor", y1: top, y2: height - bottom, x1: -9, x2: -9 });
    const reading = svg("text", { class: "reading", y: 12, "text-anchor": "end", x: width - right });
    root.append(cursor, reading);
    const inverse = (event) => {
      const inside = event.clientX - root.getBoundingClientRect().left - left;
      return scale.inverse(z0 + Math.min(Math.max(inside / (width - left - right), 0), 1) * (z1 - z0));
    };
    root.addEventListener("pointermove", (event) => {
      const x = inverse(event);
      const texts = series.map((s) => {
        let best = 0;
        for (let k = 1; k < s.x.length; k++) if (Math.abs(s.x[k] - x) < Math.abs(s.x[best] - x)) best = k;
        return [s.x[best], s.y[best]];
      });
      reading.textContent = `${short(texts[0][0])}: ${texts.map(([, y]) => format(y, 3)).join(", ")}`;
    });
    root.addEventListener("pointerleave", () => (reading.textContent = ""));
    if (onPick) root.addEventListener("click", (event) => onPick(inverse(event)));
    place = (x) => {
      cursor.setAttribute("x1", px(x));
      cursor.setAttribute("x2", px(x));
    };
    if (at !== null) place(at);
    return root;
  });
  return (x) => {
    at = x;
    place?.(x);
  };
}

const STRIPE = 14;
const SAMPLES = 60;

/** Dashes for lines that would hide each other, so that where they coincide their colours alternate. */
function coinciding(series, py) {
  const ends = (pick, part) => pick(...series.map((s) => part(...s.x)));
  const [from, to] = [ends(Math.max, Math.min), ends(Math.min, Math.max)];
  const places = Array.from({ length: SAMPLES }, (_, k) => from + ((k + 0.5) / SAMPLES) * (to - from));
  const heights = series.map((s) => places.map((x) => py(interpolated(s, x))));
  const groups = [];
  heights.forEach((mine, i) => {
    const near = (other) => mine.filter((y, k) => Math.abs(y - heights[other][k]) < 2).length > SAMPLES / 3;
    const group = series[i].thin ? null : groups.find((members) => members.some((other) => !series[other].thin && near(other)));
    if (group) group.push(i);
    else groups.push([i]);
  });
  return series.map((_, i) => {
    const group = groups.find((members) => members.includes(i));
    if (group.length === 1) return null;
    const gap = STRIPE * (group.length - 1);
    return { "stroke-dasharray": `${STRIPE} ${gap}`, "stroke-dashoffset": -STRIPE * group.indexOf(i) };
  });
}

function interpolated({ x, y }, at) {
  let k = 1;
  while (k < x.length - 1 && x[k] < at) k++;
  if (x.length < 2) return y[0];
  const share = Math.min(1, Math.max(0, (at - x[k - 1]) / (x[k] - x[k - 1])));
  return y[k - 1] + share * (y[k] - y[k - 1]);
}
