// Helpers: elements, number formatting, colours, redrawing when the width changes.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element; text is inserted as text, so markup in names has no effect. */
export function html(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A number as text: four significant digits by default, with a true minus sign. */
export function format(x, digits = 4) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  const size = Math.abs(x);
  let text;
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) text = x.toExponential(Math.min(2, digits - 1));
  else if (size >= 1000) text = Math.round(x).toLocaleString("en-US");
  else text = String(Number(x.toPrecision(digits)));
  return text.replaceAll("-", "−");
}

/** A return, written as the page's sentences write it: one decimal, or three digits if it is below ten. */
export function score(x) {
  if (!(Math.abs(x) >= 10)) return format(x, 3);
  const text = x.toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
  return text.replaceAll("-", "−");
}

export const signed = (x, digits = 3) => (x > 0 ? "+" : "") + format(x, digits);

/** The value of a colour variable of the style sheet. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

const drawings = new Set();

/** Draw into `host` now, and again whenever its width or the theme changes. */
export function mount(host, draw) {
  let width = 0;
  const redraw = () => {
    if (!host.clientWidth) return;
    width = host.clientWidth;
    host.replaceChildren(draw(width));
  };
  new ResizeObserver(() => {
    if (host.clientWidth !== width) redraw();
  }).observe(host);
  drawings.add(redraw);
  redraw();
  return redraw;
}

export function redrawAll() {
  for (const redraw of drawings) redraw();
}

const ruler = typeof document === "undefined" ? null : document.createElement("canvas").getContext("2d");

export function textWidth(text, size = 12) {
  ruler.font = `${size}px system-ui, sans-serif`;
  return ruler.measureText(text).width;
}

/** A group of buttons of which one is selected. */
export function choice(label, names, chosen, onChoose) {
  const buttons = names.map((name, i) =>
    html("button", { type: "button", "aria-pressed": String(i === chosen), onclick: () => choose(i) }, name),
  );
  function choose(i) {
    buttons.forEach((button, k) => button.setAttribute("aria-pressed", String(k === i)));
    onChoose(i);
  }
  return html("div", { class: "choice", role: "group", "aria-label": label }, ...buttons);
}
