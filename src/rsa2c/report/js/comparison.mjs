// The page of a sweep.

import { decode } from "./decode.mjs";
import { format, html, score } from "./dom.mjs";
import { lineChart } from "./lines.mjs";
import { csv, download, sortableTable } from "./table.mjs";
import { themeButton } from "./theme.mjs";

const page = decode(JSON.parse(document.getElementById("data").textContent));
themeButton();
for (const [environment, series] of Object.entries(page.charts)) {
  const host = html("div", {}, html("h3", {}, environment));
  document.getElementById("curve-charts").append(host);
  lineChart(host, { series, x: "environment steps", y: "return", height: 280, learning: true });
}

const noiseName = (variance) => `return, noise ${variance}`;
const groupColumns = [
  { name: "environment", value: (g) => g.environment },
  {
    name: "setting",
    value: (g) => g.name,
    text: (g) => `${g.name}${g.unfinished ? ` (${g.unfinished} unfinished)` : ""}`,
  },
  { name: "runs", value: (g) => g.runs },
  { name: "episodes", value: (g) => g.episodes },
  ...page.noises.map((variance, k) => ({
    name: noiseName(variance),
    value: (g) => g.cells[k]?.mean ?? null,
    text: (g) =>
      g.cells[k] ? `${score(g.cells[k].mean)}${g.cells[k].runs > 1 ? ` ± ${score(g.cells[k].std)}` : ""}` : "–",
  })),
  { name: "steps", value: (g) => g.steps, text: (g) => format(g.steps) },
  { name: "seconds", value: (g) => g.seconds, text: (g) => format(g.seconds, 3) },
];
const deviations = page.noises.map((variance, k) => ({
  name: `standard deviation, noise ${variance}`,
  value: (g) => g.cells[k]?.std ?? null,
}));
const runColumns = [
  { name: "run", value: (r) => r.run, link: (r) => r.report },
  { name: "environment", value: (r) => r.environment },
  { name: "algorithm", value: (r) => r.algorithm },
  { name: "seed", value: (r) => r.seed },
  { name: "episodes", value: (r) => r.episodes },
  ...page.noises.map((variance, k) => ({
    name: noiseName(variance),
    value: (r) => r.scores[k],
    text: (r) => score(r.scores[k]),
  })),
  { name: "steps", value: (r) => r.steps, text: (r) => `${format(r.steps)}${r.unfinished ? " (unfinished)" : ""}` },
  { name: "seconds", value: (r) => r.seconds, text: (r) => format(r.seconds, 3) },
];
for (const [host, button, columns, extra, rows] of [
  ["table-groups", "table-csv", groupColumns, deviations, page.groups],
  ["table-runs", "runs-csv", runColumns, [], page.runs],
]) {
  document.getElementById(host).append(sortableTable(columns, rows));
  document
    .getElementById(button)
    .addEventListener("click", () => download(`${host}.csv`, csv([...columns, ...extra], rows)));
}
document.documentElement.dataset.ready = "true";
