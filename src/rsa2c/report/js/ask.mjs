// "Ask the policy": a state that the user edits, and everything the policy computes for it.

import { row } from "./decode.mjs";
import { waterfall } from "./bars.mjs";
import { choice, format, html } from "./dom.mjs";
import { named, prototypeCards, showFamiliarity, steps } from "./explained.mjs";
import { drawing, scenePoint } from "./scenes.mjs";

const MANY = 12;
const BUSY = 0.9;

export class Ask {
  constructor(page, policy, scene) {
    Object.assign(this, { page, policy, scene });
    this.outputs = Object.entries(policy.functions).flatMap(([name, f]) =>
      f.names.map((label, column) => ({ name, label, column })),
    );
    this.output = this.outputs.findIndex((o) => o.name === "action");
    this.ranges = ranges(page, policy);
    this.element = (id) => document.getElementById(id);
    this.buildDrawing();
    this.buildButtons();
    this.buildSliders();
    this.buildGauges();
    const labels = this.outputs.map((o) => o.label);
    if (labels.length > 1)
      this.element("ask-output").append(choice("What is explained", labels, this.output, (i) => this.explainOutput(i)));
    this.element("ask-note").textContent = this.note();
    this.show(this.firstState());
  }

  /** A familiar state of the worst episode, where the features matter more than in most: a typical one may be at rest. */
  firstState() {
    const { episodes, model, actions } = this.page;
    const one = episodes?.[0];
    if (!one) return row(model.background, model.typical);
    const [columns, d, m] = one.attributions.shape;
    const steps = Array.from({ length: columns }, (_, c) => {
      let size = 0;
      for (let i = 0; i < d; i++)
        for (let o = m - actions.length; o < m; o++) size += Math.abs(one.attributions.data[(c * d + i) * m + o]);
      return { at: c * one.every, size };
    });
    const familiar = steps.filter(({ at }) => one.nearest.data[at] >= model.familiar);
    const order = (familiar.length ? familiar : steps).sort((a, b) => a.size - b.size);
    return row(one.states, order[Math.floor(BUSY * order.length)].at);
  }

  note() {
    const { background_used: used, precision, squash } = this.page.model;
    const exactness = precision === "exact" ? "Exact Shapley values" : `Shapley values (${precision})`;
    const rule = { tanh: "tanh", clip: "the clipping" }[squash];
    const through = rule ? `; an action’s pass ${rule} by one common factor (Aumann–Shapley)` : "";
    return `${exactness} against ${used} visited states${through}.`;
  }

  buildDrawing() {
    const host = this.element("ask-scene");
    if (!this.scene) {
      host.remove();
      return;
    }
    this.picture = drawing(this.scene, "the state");
    host.append(this.picture.element, html("p", { class: "hint" }, this.scene.hint ?? ""));
    const drag = (event) => {
      if (!event.buttons) return;
      if (this.scene.drag) this.show(this.scene.drag(this.state, ...scenePoint(this.picture.element, event)));
      else if (this.scene.camera) {
        this.scene.camera.yaw += event.movementX / 120;
        this.scene.camera.pitch = Math.min(1.5, Math.max(0, this.scene.camera.pitch + event.movementY / 120));
        this.draw();
      }
    };
    if (this.scene.drag || this.scene.camera) {
      this.picture.element.classList.add("draggable");
      this.picture.element.addEventListener("pointerdown", (event) => {
        this.picture.element.setPointerCapture(event.pointerId);
        drag(event);
      });
      this.picture.element.addEventListener("pointermove", drag);
    }
  }

  buildButtons() {
    const { model, episodes } = this.page;
    const button = (text, state) => html("button", { type: "button", onclick: () => this.show(state()) }, text);
    const host = this.element("ask-buttons");
    host.append(
      button("Typical state", () => row(model.background, model.typical)),
      button("Random state", () =>
        row(model.background, Math.floor(Math.random() * model.background.shape[0])),
      ),
    );
    const worst = episodes?.[0];
    if (worst) {
      const scores = worst.values ?? worst.rewards;
      const lowest = scores.data.indexOf(scores.data.reduce((a, b) => Math.min(a, b)));
      const at = worst.values ? lowest : Math.floor(lowest / worst.stride);
      host.append(button("Worst state", () => row(worst.states, at)));
    }
  }

  buildSliders() {
    const { features, feature_units: units } = this.page;
    const host = this.element("ask-sliders");
    this.rows = [];
    for (const handle of this.scene?.handles ?? []) {
      this.addRow(host, handle.name, handle.unit, handle.low, handle.high, handle.get, handle.set, "handle");
    }
    for (const i of this.page.order) {
      const set = (state, value) => Float64Array.from(state, (old, k) => (k === i ? value : old));
      this.addRow(host, features[i], units[i], ...this.ranges[i], (state) => state[i], set);
    }
    if (features.length > MANY) {
      const search = html("input", {
        type: "search",
        placeholder: `Search ${features.length} features`,
        "aria-label": "Search features",
      });
      search.addEventListener("input", () => {
        const wanted = search.value.toLowerCase().split(/\s+/);
        for (const one of this.rows)
          one.element.hidden = !wanted.every((word) => one.name.toLowerCase().includes(word));
      });
      host.before(search);
    }
  }

  addRow(host, name, unit, low, high, get, set, kind = "") {
    const label = named(name, unit);
    const slider = html("input", { type: "range", min: low, max: high, step: "any", "aria-label": label });
    const typed = html("input", { type: "number", step: "any", "aria-label": `${label}, typed` });
    const change = (value) => {
      if (Number.isFinite(value)) this.show(set(this.state, value), typed);
    };
    slider.addEventListener("input", () => change(slider.valueAsNumber));
    typed.addEventListener("input", () => change(typed.valueAsNumber));
    const element = html("label", { class: `slider ${kind}` }, html("span", {}, label), slider, typed);
    host.append(element);
    this.rows.push({ element, name, slider, typed, get });
  }

  buildGauges() {
    const { actions, action_units: units, model } = this.page;
    this.gauges = actions.map((name, o) => {
      const [low, high] = [model.low.data[o], model.high.data[o]];
      const bounded = Number.isFinite(low) && Number.isFinite(high) && model.squash !== "none";
      const fill = html("i", {});
      const number = html("b", { class: "action-value" });
      const element = html(
        "div",
        { class: "gauge" },
        html("span", {}, named(name, units[o])),
        html("div", { class: "track", hidden: !bounded }, fill),
        number,
      );
      this.element("ask-actions").append(element);
      return { fill, number, low, high };
    });
  }

  explainOutput(number) {
    this.output = number;
    this.explain();
  }

  /** Show a state; `typing` is the input field that must not be overwritten. */
  show(state, typing = null) {
    this.state = Float64Array.from(state);
    for (const one of this.rows) {
      const value = one.get(this.state);
      one.slider.value = value;
      if (one.typed !== typing || document.activeElement !== typing) one.typed.value = Number(value.toPrecision(4));
    }
    if (!this.pending) {
      this.pending = true;
      requestAnimationFrame(() => {
        this.pending = false;
        this.answer();
      });
    }
  }

  answer() {
    const start = performance.now();
    this.action = this.policy.action(this.state);
    this.draw();
    this.gauges.forEach((gauge, o) => {
      const middle = (gauge.low + gauge.high) / 2;
      const share = (this.action[o] - middle) / (gauge.high - gauge.low);
      gauge.fill.style.left = `${50 + 100 * Math.min(0, share)}%`;
      gauge.fill.style.width = `${100 * Math.abs(share)}%`;
      gauge.number.textContent = format(this.action[o], 3);
    });
    const value = this.policy.functions.value ? this.policy.evaluate("value", this.state)[0] : null;
    if (value !== null) this.element("ask-value").textContent = format(value, 3);
    this.remember();
    this.explain();
    const spent = performance.now() - start;
    this.element("ask-note").title = `computed in ${format(spent, 2)} ms`;
    this.element("ask-note").dataset.milliseconds = spent;
  }

  draw() {
    const { model } = this.page;
    this.picture?.show(this.state, { action: this.action, low: model.low.data[0], high: model.high.data[0] });
  }

  remember() {
    showFamiliarity(this.element("ask-familiar"), this.policy.familiarity(this.state), this.page.model.familiar);
    const pick = (state) => this.show(state);
    const cards = prototypeCards(this.policy.similar(this.state, 4), { ...this.page, scene: this.scene, pick });
    this.element("ask-prototypes").replaceChildren(...cards);
  }

  explain() {
    const { name, label, column } = this.outputs[this.output];
    const found = this.policy.explainShown(name, this.state);
    const m = found.outputs;
    const values = Float64Array.from({ length: this.policy.dimension }, (_, i) => found.values[i * m + column]);
    const host = this.element("ask-waterfall");
    const unit = name === "action" ? this.page.action_units[column] : "";
    waterfall(host, {
      base: found.base[column],
      prediction: found.prediction[column],
      steps: steps(values, this.state, this.page.features),
      label: named(label, unit),
    });
    host.dataset.base = found.base[column];
    host.dataset.sum = values.reduce((a, b) => a + b, 0);
    host.dataset.prediction = found.prediction[column];
  }
}

/** Slider range of each feature: the visited range plus a margin. */
function ranges(page, policy) {
  const { background } = page.model;
  return Array.from({ length: policy.dimension }, (_, i) => {
    let [low, high] = [Infinity, -Infinity];
    const include = (x) => ([low, high] = [Math.min(low, x), Math.max(high, x)]);
    for (let b = 0; b < background.shape[0]; b++) include(background.data[b * policy.dimension + i]);
    for (const one of page.episodes ?? []) for (let t = 0; t < one.states.shape[0]; t++) include(row(one.states, t)[i]);
    const room = 0.1 * (high - low) || 1;
    return [low - room, high + room];
  });
}
