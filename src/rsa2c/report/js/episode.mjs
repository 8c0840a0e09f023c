// "An episode": recorded episodes with drawing, actions and the attribution of every step.

import { row } from "./decode.mjs";
import { choice, html, score } from "./dom.mjs";
import { named, showFamiliarity } from "./explained.mjs";
import { heatmap } from "./heatmap.mjs";
import { lineChart } from "./lines.mjs";
import { drawing } from "./scenes.mjs";

const ROWS = 16;
const SECONDS = 16;
const NUMBERS = 54; // room for -1,000 beside each chart, so that a step is at one place in all of them

export class Player {
  constructor(page, policy, scene, ask) {
    Object.assign(this, { page, policy, scene, ask });
    this.element = (id) => document.getElementById(id);
    this.output = page.outputs.length > 1 ? page.outputs.length - page.actions.length : 0;
    const labels = page.episodes.map((e) => `${e.label} ${score(e.return)}`);
    this.element("episode-choice").append(choice("Episode", labels, 0, (i) => this.load(i)));
    if (page.outputs.length > 1)
      this.element("episode-output").append(
        choice("What is explained", page.outputs, this.output, (i) => this.chooseOutput(i)),
      );
    this.buildPicture();
    this.scrub = this.element("episode-scrub");
    this.scrub.addEventListener("input", () => this.go(this.scrub.valueAsNumber));
    this.button = this.element("episode-play");
    this.button.addEventListener("click", () => (this.timer ? this.pause() : this.play()));
    this.element("episode-ask").addEventListener("click", () => {
      this.ask.show(this.state);
      this.element("ask").scrollIntoView();
    });
    this.load(0);
  }

  buildPicture() {
    const host = this.element("episode-scene");
    if (this.scene) {
      this.picture = drawing(this.scene, "the recorded step");
      host.append(this.picture.element);
    } else if (this.page.episodes[0].frames) {
      this.frame = html("img", { class: "frame", alt: "the environment at this step" });
      host.append(this.frame);
    } else {
      this.traces = html("div", {});
      host.append(this.traces);
    }
  }

  load(number) {
    this.pause();
    this.episode = this.page.episodes[number];
    const { states, stride, ended, length, seed, actions, rewards, values } = this.episode;
    const endings = { terminated: ", ended by the environment", truncated: "", cut: ", cut short" };
    const shown = stride > 1 ? `, one in ${stride} shown` : "";
    this.element("episode-facts").textContent = `seed ${seed}, ${length} steps${endings[ended]}${shown}`;
    this.scrub.max = states.shape[0] - 1;
    const time = Array.from({ length: states.shape[0] }, (_, t) => t * stride);
    const pick = (x) => this.go(Math.round(x / stride));
    const charts = this.element("episode-charts");
    charts.replaceChildren();
    const chart = (series, y) => {
      const host = html("div", {});
      charts.append(host);
      return lineChart(host, { series, x: "", y, height: 110, onPick: pick, legend: series.length > 1, least: NUMBERS });
    };
    const m = actions.shape[1];
    const taken = this.page.actions
      .slice(0, 8)
      .map((name, o) => ({ name, x: time, y: time.map((_, t) => actions.data[t * m + o]) }));
    this.cursors = [
      chart(taken, m > 1 ? "actions" : named(this.page.actions[0], this.page.action_units[0])),
      chart([{ name: "reward", x: Array.from(rewards.data.keys()), y: Array.from(rewards.data) }], "reward"),
    ];
    if (values) this.cursors.push(chart([{ name: "value", x: time, y: Array.from(values.data) }], "value"));
    if (this.traces) this.drawTraces(time);
    this.drawHeatmap();
    this.go(0);
  }

  /** Features over time, for environments without a drawing. */
  drawTraces(time) {
    const { states } = this.episode;
    const order = this.page.order.slice(0, 4);
    this.traces.replaceChildren();
    const series = order.map((i) => ({
      name: this.page.features[i],
      x: time,
      y: time.map((_, t) => row(states, t)[i]),
    }));
    this.cursors.push(lineChart(this.traces, { series, x: "step", y: "", height: 240 }));
  }

  chooseOutput(number) {
    this.output = number;
    this.drawHeatmap();
    this.go(this.at);
  }

  drawHeatmap() {
    const [columns, d, m] = this.episode.attributions.shape;
    const { data } = this.episode.attributions;
    const at = (i, c) => data[(c * d + i) * m + this.output];
    const size = (i) => Array.from({ length: columns }, (_, c) => Math.abs(at(i, c))).reduce((a, b) => a + b, 0);
    const sizes = Array.from({ length: d }, (_, i) => size(i));
    const order = Array.from(sizes.keys())
      .sort((i, j) => sizes[j] - sizes[i])
      .slice(0, ROWS);
    const { outputs, actions, action_units: units } = this.page;
    const unit = units[actions.indexOf(outputs[this.output])];
    const host = this.element("episode-heatmap");
    host.replaceChildren();
    const body = html("div", {});
    host.append(body);
    this.mark = heatmap(body, {
      names: order.map((i) => this.page.features[i]),
      columns,
      value: (r, c) => at(order[r], c),
      scale: "signed",
      x: "step",
      axis: [0, this.episode.length],
      label: `effect on ${named(outputs[this.output], unit)}`,
      onPick: (c) => {
        this.pause();
        this.go(c * this.episode.every);
      },
    });
  }

  go(frame) {
    const { states, actions, stride, every, nearest } = this.episode;
    this.at = Math.min(states.shape[0] - 1, Math.max(0, frame));
    this.scrub.value = this.at;
    this.state = row(states, this.at);
    const step = this.at * stride;
    const column = Math.floor(this.at / every);
    this.element("episode-step").textContent = `step ${step}`;
    this.element("episode-step").dataset.step = step;
    const action = row(actions, this.at);
    const { model } = this.page;
    this.picture?.show(this.state, { action, low: model.low.data[0], high: model.high.data[0] });
    if (this.frame)
      this.frame.src =
        this.episode.frames.images[
          Math.min(this.episode.frames.images.length - 1, Math.floor(step / this.episode.frames.every))
        ];
    for (const move of this.cursors) move(step);
    this.mark(column);
    showFamiliarity(this.element("episode-familiar"), nearest.data[this.at], model.familiar);
  }

  play() {
    const frames = this.episode.states.shape[0];
    if (this.at >= frames - 1) this.at = 0;
    this.button.textContent = "Pause";
    const began = performance.now();
    const from = this.at;
    this.timer = setInterval(() => {
      const frame = from + Math.floor(((performance.now() - began) / (1000 * SECONDS)) * frames);
      if (frame !== this.at) this.go(frame);
      if (frame >= frames - 1) this.pause();
    }, 33);
  }

  pause() {
    if (!this.timer) return;
    clearInterval(this.timer);
    this.timer = null;
    this.button.textContent = "Play";
    this.go(this.at);
  }
}
