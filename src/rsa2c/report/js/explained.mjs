// Shared by "Ask the policy" and "An episode": waterfall steps and cards of remembered states.

import { format, html, signed } from "./dom.mjs";
import { drawing } from "./scenes.mjs";

const SHOWN = 10;

/** The largest contributions with their features' values; the others are combined into one. */
export function steps(values, state, features, shown = SHOWN) {
  const order = Array.from(values.keys()).sort((i, j) => Math.abs(values[j]) - Math.abs(values[i]));
  const some = order.length > shown + 1 ? order.slice(0, shown) : order;
  const out = some.map((i) => ({ name: `${features[i]} = ${format(state[i], 3)}`, value: values[i] }));
  const rest = order.slice(some.length);
  if (rest.length)
    out.push({ name: `${rest.length} other features`, value: rest.reduce((sum, i) => sum + values[i], 0) });
  return out;
}

/** Show in a badge how similar the nearest remembered state is, and mark extrapolation. */
export function showFamiliarity(badge, nearest, threshold) {
  const percent = (x) => `${format(100 * x, 3)} %`;
  const far = nearest < threshold;
  badge.className = far ? "badge warn" : "badge";
  badge.textContent = `${far ? "extrapolation" : "familiar"}: the nearest remembered state is ${percent(nearest)} similar`;
  if (far) badge.textContent += ` (visited states: ${percent(threshold)} or more)`;
}

/** Cards of the remembered states behind an action; clicking a card calls `pick` with its state. */
export function prototypeCards(found, { scene, features, actions, order, pick }) {
  return found.shown.map((one) => {
    const picture = scene ? drawing(scene, `remembered state ${one.number}`) : null;
    picture?.show(one.state);
    const largest = Array.from(one.shares.keys()).sort((a, b) => Math.abs(one.shares[b]) - Math.abs(one.shares[a]));
    const shares = largest
      .slice(0, 2)
      .map((o) => html("div", { class: one.shares[o] > 0 ? "up" : "down" }, `${actions[o]} ${signed(one.shares[o])}`));
    const facts = order
      .slice(0, 3)
      .map((i) => html("div", { class: "fact" }, `${features[i]} ${format(one.state[i], 3)}`));
    return html(
      "button",
      { type: "button", class: "prototype", onclick: () => pick(one.state), title: "Ask about this remembered state" },
      picture?.element ?? null,
      html("div", { class: "similar" }, `${format(100 * one.similarity, 3)} % similar`),
      ...shares,
      ...facts,
    );
  });
}
