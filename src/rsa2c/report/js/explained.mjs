// Shared by "Ask the policy" and "Episodes": waterfall steps, familiarity and cards of remembered states.

import { format, html } from "./dom.mjs";
import { drawing } from "./scenes.mjs";

const SHOWN = 10;

/** A quantity's name with its unit, if it has one. */
export const named = (name, unit) => (unit ? `${name} (${unit})` : name);

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
  badge.textContent = far
    ? `extrapolation: at most ${percent(nearest)} similar to a remembered state`
    : `familiar state: ${percent(nearest)} similar`;
  badge.title = `Visited states are ${percent(threshold)} or more similar to their nearest remembered state.`;
}

/** Cards of remembered states and what the policy does there; clicking a card calls `pick` with its state. */
export function prototypeCards(found, { scene, features, actions, action_units: units, model, order, pick }) {
  return found.map((one) => {
    const picture = scene ? drawing(scene, `remembered state ${one.number}`) : null;
    picture?.show(one.state, { action: one.action, low: model.low.data[0], high: model.high.data[0] });
    const largest = Array.from(one.action.keys()).sort((a, b) => Math.abs(one.action[b]) - Math.abs(one.action[a]));
    const done = largest
      .slice(0, 2)
      .map((o) => html("div", {}, `${actions[o]} ${format(one.action[o], 3)}${units[o] ? ` ${units[o]}` : ""}`));
    const facts = picture
      ? []
      : order.slice(0, 3).map((i) => html("div", { class: "fact" }, `${features[i]} ${format(one.state[i], 3)}`));
    return html(
      "button",
      { type: "button", class: "prototype", onclick: () => pick(one.state), title: "Ask about this state" },
      picture?.element ?? null,
      html("div", { class: "similar" }, `${format(100 * one.similarity, 2)} % similar`),
      ...done,
      ...facts,
    );
  });
}
