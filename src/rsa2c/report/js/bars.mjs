// Horizontal bars and waterfalls in SVG, drawn to the available width.

import { finite, rowName, rowsFor } from "./axes.mjs";
import { format, mount, signed, svg, textWidth } from "./dom.mjs";

/** Horizontal bars {name, value, low?, high?, note?} from `from`, which is zero unless given. */
export function barChart(host, { rows, label, from = 0 }) {
  mount(host, (width) => {
    const [height, top] = [22, 8];
    const layout = rowsFor(
      rows.map((r) => r.name),
      width,
      height,
    );
    const notes = Math.max(...rows.map((r) => textWidth(r.note ?? format(r.value)))) + 12;
    const ends = finite(rows.flatMap((r) => [from, r.value, r.low ?? r.value, r.high ?? r.value]));
    const [x0, x1] = [Math.min(...ends), Math.max(...ends)];
    const px = (x) => layout.left + ((x - x0) / (x1 - x0 || 1)) * (width - layout.left - notes - 8);
    const total = top + rows.length * layout.pitch + (label ? 24 : 4);
    const root = svg("svg", { width, height: total, role: "img", "aria-label": label });
    rows.forEach((r, k) => {
      const y = top + k * layout.pitch + (layout.pitch - height) + 2;
      root.append(rowName(layout, r.name, y, height - 6));
      const [a, b] = [px(Math.min(from, r.value)), px(Math.max(from, r.value))];
      root.append(svg("rect", { class: "bar", x: a, y, width: Math.max(1, b - a), height: height - 6 }));
      if (Number.isFinite(r.low) && r.low !== null) {
        const middle = y + (height - 6) / 2;
        root.append(svg("line", { class: "whisker", x1: px(r.low), x2: px(r.high), y1: middle, y2: middle }));
      }
      root.append(
        svg("text", { class: "note", x: width - 2, y: y + 12, "text-anchor": "end" }, r.note ?? format(r.value)),
      );
    });
    if (label) root.append(svg("text", { class: "label", x: layout.left, y: total - 6 }, label));
    return root;
  });
}

/** From the average to the prediction, which `label` names; steps {name, value} in the order shown. */
export function waterfall(host, { base, prediction, steps, label }) {
  const height = 22;
  const draw = (width) => {
    const names = ["average", ...steps.map((s) => s.name), label];
    const layout = rowsFor(names, width, height);
    let here = base;
    const spans = steps.map((s) => [here, (here += s.value)]);
    const all = [base, prediction, ...spans.flat()];
    const [x0, x1] = [Math.min(...all), Math.max(...all)];
    const [before, after] = [56, 72];
    const px = (x) => layout.left + before + ((x - x0) / (x1 - x0 || 1)) * (width - layout.left - before - after);
    const total = 14 + names.length * layout.pitch;
    const root = svg("svg", { width, height: total, role: "img", "aria-label": label });
    const rowTop = (k) => 6 + k * layout.pitch + (layout.pitch - height) + 2;
    const bar = height - 6;
    const end = (k, x, text) => {
      const y = rowTop(k);
      root.append(rowName(layout, names[k], y, bar));
      root.append(svg("line", { class: "end", x1: px(x), x2: px(x), y1: y - 1, y2: y + bar + 1 }));
      root.append(svg("text", { class: "note strong", x: px(x) + 6, y: y + 12 }, text));
    };
    // If names are above the bars, a line to the next bar would cross them.
    const join = (k, x) => {
      if (!layout.stacked)
        root.append(svg("line", { class: "step", x1: px(x), x2: px(x), y1: rowTop(k) + bar, y2: rowTop(k + 1) }));
    };
    end(0, base, format(base, 3));
    spans.forEach(([from, to], k) => {
      const [y, value] = [rowTop(k + 1), steps[k].value];
      const side = value >= 0 ? "positive" : "negative";
      root.append(rowName(layout, names[k + 1], y, bar));
      join(k, from);
      const [a, b] = [px(Math.min(from, to)), px(Math.max(from, to))];
      root.append(svg("rect", { class: `bar ${side}`, x: a, y, width: Math.max(1, b - a), height: bar }));
      const outside = value >= 0 ? { x: b + 4 } : { x: a - 4, "text-anchor": "end" };
      root.append(svg("text", { class: "note", ...outside, y: y + 12 }, signed(value)));
    });
    join(steps.length, here);
    end(steps.length + 1, prediction, format(prediction, 3));
    return root;
  };
  if (host.clientWidth) host.replaceChildren(draw(host.clientWidth));
  host.redraw = draw;
  if (!host.watched) {
    host.watched = true;
    let width = host.clientWidth;
    new ResizeObserver(() => {
      if (host.clientWidth === width) return;
      width = host.clientWidth;
      if (width) host.replaceChildren(host.redraw(width));
    }).observe(host);
  }
}
