// "What it looks at": importances and weights over training, Shapley values over visited states.

import { beeswarm } from "./beeswarm.mjs";
import { choice, html } from "./dom.mjs";
import { named } from "./explained.mjs";
import { heatmap } from "./heatmap.mjs";

const [TRAINED, SWARMED] = [24, 12];

export function showTraining({ epochs, features, importances, weights }) {
  for (const [id, table, scale] of [
    ["attention-importances", importances, "size"],
    ["attention-weights", weights, "ratio"],
  ]) {
    const [columns, d] = table.shape;
    const order = ranked(d, (i) => average(columns, (c) => table.data[c * d + i])).slice(0, TRAINED);
    const host = document.getElementById(id);
    const body = html("div", {});
    host.append(body);
    heatmap(body, {
      names: order.map((i) => features[i]),
      columns,
      value: (r, c) => table.data[c * d + order[r]],
      x: "epoch",
      axis: [epochs[0], epochs[epochs.length - 1]],
      scale,
    });
  }
}

export function showSwarm(page, ask) {
  const { values, states, outputs } = page.attention.swarm;
  const [count, d, m] = values.shape;
  const host = document.getElementById("attention-swarm");
  const at = (t, i, o) => values.data[(t * d + i) * m + o];
  const draw = (o) => {
    const order = ranked(d, (i) => average(count, (t) => Math.abs(at(t, i, o)))).slice(0, SWARMED);
    const rows = order.map((i) => {
      const data = Float64Array.from({ length: count }, (_, t) => states.data[t * d + i]);
      return {
        name: named(page.features[i], page.feature_units[i]),
        data,
        values: Array.from({ length: count }, (_, t) => at(t, i, o)),
        shade: shades(data),
      };
    });
    const body = html("div", {});
    host.replaceChildren(body);
    const unit = page.action_units[page.actions.indexOf(outputs[o])];
    beeswarm(body, {
      rows,
      label: `effect on ${named(outputs[o], unit)}`,
      onPick: (t) => ask?.show(states.data.subarray(t * d, (t + 1) * d)),
    });
  };
  const first = outputs.length - page.actions.length;
  if (outputs.length > 1)
    document.getElementById("attention-output").append(choice("What is explained", outputs, first, draw));
  draw(first);
}

/** Features in the order of their mean absolute Shapley value over all outputs, each output weighted equally. */
export function importanceOrder({ values }) {
  const [count, d, m] = values.shape;
  const total = new Float64Array(d);
  for (let o = 0; o < m; o++) {
    const size = Array.from({ length: d }, (_, i) => average(count, (t) => Math.abs(values.data[(t * d + i) * m + o])));
    const whole = size.reduce((a, b) => a + b, 0) || 1;
    size.forEach((x, i) => (total[i] += x / whole));
  }
  return ranked(d, (i) => total[i]);
}

function ranked(count, size) {
  const sizes = Array.from({ length: count }, (_, i) => size(i));
  return Array.from(sizes.keys()).sort((i, j) => sizes[j] - sizes[i]);
}

function average(count, value) {
  let sum = 0;
  for (let k = 0; k < count; k++) sum += value(k);
  return sum / count;
}

/** Values as fractions of the range from the 5th to the 95th percentile, so that outliers do not use up the colours. */
function shades(data) {
  const sorted = Float64Array.from(data).sort();
  const [low, high] = [0.05, 0.95].map((q) => sorted[Math.round(q * (sorted.length - 1))]);
  return Array.from(data, (x) => (high > low ? Math.min(1, Math.max(0, (x - low) / (high - low))) : 0.5));
}
