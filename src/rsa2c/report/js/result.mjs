// "Result": curves, score, robustness, dictionary, time.

import { barChart } from "./bars.mjs";
import { format } from "./dom.mjs";
import { lineChart } from "./lines.mjs";

export function showResult({ evaluations, metrics, robustness, phases, operations }) {
  const element = (id) => document.getElementById(id);
  const steps = metrics.timesteps ?? [];
  const series = [];
  if (evaluations) {
    series.push({
      name: `evaluation: mean of ${evaluations.episodes} episodes, band from 10th to 90th percentile`,
      x: evaluations.steps,
      y: evaluations.mean,
      low: evaluations.low,
      high: evaluations.high,
    });
  }
  if (metrics.ep_rew_mean)
    series.push({ name: "training episodes, with exploration", x: steps, y: metrics.ep_rew_mean, thin: true });
  if (series.length) lineChart(element("result-curve"), { series, x: "environment steps", y: "return", height: 280 });
  if (metrics.actor_states) {
    const states = [
      { name: "actor", x: steps, y: metrics.actor_states },
      { name: "value", x: steps, y: metrics.value_states, dashed: true },
    ];
    lineChart(element("result-dictionary"), {
      series: states,
      x: "environment steps",
      y: "remembered states",
      zero: true,
    });
  }
  if (metrics.seconds) {
    const time = [{ name: "seconds", x: steps, y: metrics.seconds }];
    lineChart(element("result-time"), {
      series: time,
      x: "environment steps",
      y: "training time, seconds",
      zero: true,
      legend: false,
    });
  }
  if (robustness) {
    const rows = robustness.map((r) => ({
      name: r.variance ? String(r.variance) : "none",
      value: r.mean,
      low: r.low,
      high: r.high,
      note: format(r.mean),
    }));
    barChart(element("result-robustness"), { rows, label: "mean return; line: its 95 % interval" });
  }
  if (operations) {
    const rows = Object.entries(operations).map(([name, count]) => ({
      name,
      value: count / 1e6,
      note: format(count / 1e6, 3),
    }));
    barChart(element("result-operations"), { rows, label: "million operations" });
  }
  const named = Object.entries(phases ?? {});
  if (named.length) {
    const whole = named.reduce((sum, [, seconds]) => sum + seconds, 0);
    const rows = named.map(([name, seconds]) => ({
      name,
      value: seconds,
      note: `${format(seconds, 3)} s, ${format((100 * seconds) / whole, 2)} %`,
    }));
    barChart(element("result-phases"), { rows, label: "seconds in each phase" });
  }
}
