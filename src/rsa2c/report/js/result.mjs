// "Training": learning curve, returns under noise, and what the run cost.

import { barChart } from "./bars.mjs";
import { finite } from "./axes.mjs";
import { format, score } from "./dom.mjs";
import { lineChart } from "./lines.mjs";

const element = (id) => document.getElementById(id);

export function showResult({ evaluations, metrics, robustness, phases, operations }) {
  const steps = metrics.timesteps ?? [];
  showCurve(evaluations, metrics, steps);
  if (robustness) showNoise(robustness, metrics);
  showCost(metrics, steps, phases, operations);
}

function showCurve(evaluations, metrics, steps) {
  const series = [];
  if (evaluations) {
    series.push({
      name: `evaluation, ${evaluations.episodes} episodes each (band: 10 to 90 %)`,
      x: evaluations.steps,
      y: evaluations.mean,
      low: evaluations.low,
      high: evaluations.high,
    });
  }
  if (finite(metrics.ep_rew_mean ?? []).length) series.push({ name: "training, exploring", x: steps, y: metrics.ep_rew_mean, thin: true });
  if (series.length)
    lineChart(element("result-curve"), { series, x: "environment steps", y: "return", height: 280, learning: true });
}

/** Bars begin at the return before learning, so that a long bar is a good one whatever the sign of the returns. */
function showNoise(robustness, metrics) {
  const untrained = finite(metrics.ep_rew_mean ?? [])[0];
  const lowest = Math.min(...finite(robustness.flatMap((r) => [r.mean, r.low])));
  const from = Math.min(untrained ?? Math.min(0, 1.2 * lowest), lowest);
  const rows = robustness.map((r) => ({
    name: r.variance ? `variance ${r.variance}` : "no noise",
    value: r.mean,
    low: r.low,
    high: r.high,
    note: score(r.mean),
  }));
  element("result-floor").textContent = from === untrained ? `the first epoch’s ${score(from)}` : score(from);
  barChart(element("result-robustness"), { rows, from, label: "" });
}

function showCost(metrics, steps, phases, operations) {
  if (metrics.actor_states) {
    const series = [
      { name: "actor", x: steps, y: metrics.actor_states },
      { name: "value", x: steps, y: metrics.value_states, dashed: true },
    ];
    lineChart(element("result-dictionary"), { series, x: "environment steps", y: "", zero: true });
  }
  const spent = Object.entries(phases ?? {});
  if (spent.length) {
    const rows = spent.map(([name, seconds]) => ({ name, value: seconds, note: `${format(seconds, 3)} s` }));
    barChart(element("result-phases"), { rows, label: "seconds" });
  }
  if (operations) {
    const rows = Object.entries(operations).map(([name, count]) => ({
      name,
      value: count / 1e6,
      note: format(count / 1e6, 3),
    }));
    barChart(element("result-operations"), { rows, label: "million operations" });
  }
}
