// Matrices as colours, drawn to the available width.

import { mix, rgb, rowName, rowsFor, short, ticks, xTick } from "./axes.mjs";
import { colour, format, html, mount, svg } from "./dom.mjs";

/** How a value becomes a place on the colour scale, and how the ends of the scale are written. */
const SCALES = {
  size: { of: (x) => x, diverging: false, ends: (most) => ["0", format(most, 3)] },
  signed: { of: (x) => x, diverging: true, ends: (most) => [`−${format(most, 3)}`, `+${format(most, 3)}`] },
  // Weights around 1 differ by factors: 1 is white, and a half is as far from it as 2.
  ratio: {
    of: Math.log,
    diverging: true,
    ends: (most) => [Math.exp(-most), Math.exp(most)].map((x) => format(x, 2)),
    middle: "1",
  },
};

/** Draw the matrix value(row, column) in colour. Returns a function that marks a column. */
export function heatmap(host, { names, columns, value: raw, scale = "size", x: xLabel, label = "", onPick, axis }) {
  const { of, diverging, ends, middle } = SCALES[scale];
  const value = (r, c) => of(raw(r, c));
  let mark = null;
  let at = null;
  let size = 0;
  for (let r = 0; r < names.length; r++) for (let c = 0; c < columns; c++) size = Math.max(size, Math.abs(value(r, c)));
  // Where all weights are 1 there is no difference to show.
  size = Math.max(size, scale === "ratio" ? Math.log(1.1) : 0);
  mount(host, (width) => {
    const height = names.length > 8 ? 17 : 26;
    const layout = rowsFor(names, width, height);
    const inner = width - layout.left - 8;
    const total = 6 + names.length * layout.pitch + 44;
    const root = svg("svg", { width, height: total, role: "img", "aria-label": label });
    names.forEach((name, r) => {
      const y = 6 + r * layout.pitch + (layout.pitch - height);
      root.append(rowName(layout, name, y, height - 1));
      const picture = painted(columns, (c) => value(r, c) / (size || 1), diverging);
      root.append(
        svg("image", {
          href: picture,
          x: layout.left,
          y,
          width: inner,
          height: height - 1,
          preserveAspectRatio: "none",
          class: "pixels",
        }),
        svg("rect", { class: "outline", x: layout.left, y, width: inner, height: height - 1 }),
      );
    });
    const bottom = 6 + names.length * layout.pitch;
    const [first, last] = axis;
    for (const t of ticks(first, last, Math.max(2, Math.floor(inner / 100))).filter(Number.isInteger)) {
      const x = layout.left + ((t - first) / (last - first || 1)) * inner;
      root.append(xTick(x, bottom + 14, short(t), width));
    }
    root.append(
      svg("text", { class: "label", x: layout.left + inner / 2, y: bottom + 30, "text-anchor": "middle" }, xLabel),
    );
    mark = svg("rect", { class: "mark", y: 3, height: bottom - 2, width: Math.max(3, inner / columns) });
    mark.place = (c) => {
      mark.setAttribute("x", layout.left + (c / columns) * inner - (inner / columns < 3 ? 1 : 0));
      root.append(mark);
    };
    if (at !== null) mark.place(at);
    if (onPick) {
      root.classList.add("pickable");
      root.setAttribute("tabindex", "0");
      const pick = (c) => onPick(Math.min(columns - 1, Math.max(0, c)));
      root.addEventListener("click", (event) => {
        const inside = event.clientX - root.getBoundingClientRect().left - layout.left;
        pick(Math.floor((inside / inner) * columns));
      });
      root.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (step) {
          event.preventDefault();
          pick((at ?? 0) + step);
        }
      });
    }
    return root;
  });
  const legend = html("div", { class: "scale" });
  const repaint = () => {
    const stops = painted(40, (c) => (diverging ? c / 19.5 - 1 : c / 39), diverging);
    const bar = html("img", { src: stops, alt: "", width: 120, height: 8, class: "pixels" });
    const [low, high] = ends(size);
    const centre = middle ? html("span", { class: "centre" }, middle) : null;
    legend.replaceChildren(
      ...[html("span", {}, low), html("span", { class: "ramp" }, bar, ...(centre ? [centre] : []))],
      html("span", {}, high),
      ...(label ? [html("span", {}, label)] : []),
    );
    return html("span", {});
  };
  host.after(legend);
  const sentinel = html("div", { class: "sentinel" });
  legend.after(sentinel);
  mount(sentinel, repaint);
  return (c) => {
    at = c;
    mark?.place(c);
  };
}

function painted(columns, value, diverging) {
  const canvas = html("canvas", { width: columns, height: 1 });
  const context = canvas.getContext("2d");
  const palette = (diverging ? ["negative", "paper", "positive"] : ["paper", "heat-middle", "heat"])
    .map(colour)
    .map(rgb);
  for (let c = 0; c < columns; c++) {
    const v = value(c);
    context.fillStyle = mix(palette, diverging ? (v + 1) / 2 : v);
    context.fillRect(c, 0, 1, 1);
  }
  return canvas.toDataURL();
}
