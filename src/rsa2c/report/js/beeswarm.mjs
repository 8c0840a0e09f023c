// Shapley values of many states in SVG, drawn to the available width.

import { mix, rgb, rowName, rowsFor, short, ticks, xTick } from "./axes.mjs";
import { colour, format, mount, signed, svg } from "./dom.mjs";

/** One row per feature, one dot per state: position shows the Shapley value, colour the feature's value. */
export function beeswarm(host, { rows, label, onPick }) {
  mount(host, (width) => {
    const [height, top] = [34, 6];
    const layout = rowsFor(
      rows.map((r) => r.name),
      width,
      height,
    );
    const all = rows.flatMap((r) => Array.from(r.values));
    const [x0, x1] = [Math.min(0, ...all), Math.max(0, ...all)];
    const px = (x) => layout.left + 6 + ((x - x0) / (x1 - x0 || 1)) * (width - layout.left - 16);
    const total = top + rows.length * layout.pitch + 40;
    const root = svg("svg", { width, height: total, role: "img", "aria-label": label });
    root.append(svg("line", { class: "axis", x1: px(0), x2: px(0), y1: top, y2: total - 38 }));
    const palette = [colour("negative"), colour("middle"), colour("positive")].map(rgb);
    rows.forEach((r, k) => {
      const y = top + k * layout.pitch + (layout.pitch - height) + height / 2;
      root.append(rowName(layout, r.name, y - height / 2 + (layout.stacked ? 4 : 0), height));
      const places = swarm(r.values, px);
      const group = svg("g", {});
      r.values.forEach((value, t) => {
        const dot = svg("circle", {
          cx: px(value).toFixed(1),
          cy: (y + places[t]).toFixed(1),
          r: 2.6,
          fill: mix(palette, r.shade[t]),
        });
        if (onPick) dot.addEventListener("click", () => onPick(t));
        dot.append(svg("title", {}, `${r.name} = ${format(r.data[t])}: ${signed(value)}`));
        group.append(dot);
      });
      root.append(group);
    });
    for (const t of ticks(x0, x1, Math.max(4, Math.floor((width - layout.left) / 90)))) {
      root.append(xTick(px(t), total - 24, short(t), width));
    }
    root.append(svg("text", { class: "label", x: width - 10, y: total - 6, "text-anchor": "end" }, label));
    return root;
  });
}

/** Vertical positions of dots: dots that would overlap are stacked around the middle. */
function swarm(values, px) {
  const bins = new Map();
  return Array.from(values, (value) => {
    const bin = Math.round(px(value) / 4);
    const count = bins.get(bin) ?? 0;
    bins.set(bin, count + 1);
    const level = Math.ceil(count / 2) * (count % 2 ? 1 : -1);
    return Math.max(-14, Math.min(14, level * 2.6));
  });
}
