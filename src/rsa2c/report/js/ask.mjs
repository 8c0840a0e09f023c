// "Ask the policy": a state that the user edits, and everything the policy computes for it.

import { row } from "./decode.mjs";
import { waterfall } from "./bars.mjs";
import { choice, format, html } from "./dom.mjs";
import { prototypeCards, showFamiliarity, steps } from "./explained.mjs";
import { drawing, scenePoint } from "./scenes.mjs";

const MANY = 12;

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
    this.element("ask-output").append(choice("What is explained", labels, this.output, (i) => this.explainOutput(i)));
    this.element("ask-note").textContent = this.note();
    this.show(this.firstState());
  }

  /** A state early in an episode, where something happens; a typical state may be at rest. */
  firstState() {
    const { episodes, model } = this.page;
    const one = episodes?.[1] ?? episodes?.[0];
    return one ? row(one.states, Math.floor(0.05 * one.states.shape[0])) : row(model.background, model.typical);
  }

  note() {
    const { background_used: used, background, precision } = this.page.model;
    const thinned =
      used < background.shape[0] ? ` (a subset of ${background.shape[0]}, so that the page responds while you drag)` : "";
    const game = `Interventional (KME) Shapley values, ${precision}, against ${used} visited states${thinned}.`;
    return `${game} Actions are explained before squashing.`;
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
      button("A typical state", () => row(model.background, model.typical)),
      button("A random visited state", () =>
        row(model.background, Math.floor(Math.random() * model.background.shape[0])),
      ),
    );
    const worst = episodes?.[0];
    if (worst) {
      const scores = worst.values ?? worst.rewards;
      const lowest = scores.data.indexOf(scores.data.reduce((a, b) => Math.min(a, b)));
      const at = worst.values ? lowest : Math.floor(lowest / worst.stride);
      host.append(button("The worst state of the worst episode", () => row(worst.states, at)));
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
    const label = unit ? `${name} (${unit})` : name;
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
        html("span", {}, units[o] ? `${name} (${units[o]})` : name),
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
    this.element("ask-value").textContent = value === null ? "–" : format(value);
    this.remember();
    this.explain();
    const spent = performance.now() - start;
    this.element("ask-time").textContent = `computed in ${format(spent, 2)} ms`;
    this.element("ask-time").dataset.milliseconds = spent;
  }

  draw() {
    const { model } = this.page;
    this.picture?.show(this.state, { action: this.action, low: model.low.data[0], high: model.high.data[0] });
  }

  remember() {
    const { actions, model } = this.page;
    const found = this.policy.prototypes(this.state, 4);
    showFamiliarity(this.element("ask-familiar"), found.nearest, model.familiar);
    const cards = prototypeCards(found, { ...this.page, scene: this.scene, pick: (state) => this.show(state) });
    this.element("ask-prototypes").replaceChildren(...cards);
    const others = Array.from(found.others, (x, o) => `${actions[o]} ${format(x, 3)}`)
      .slice(0, 4)
      .join(", ");
    const count = this.policy.functions.action.size - found.shown.length;
    const more = actions.length > 4 ? ", …" : "";
    this.element("ask-others").textContent =
      `The other ${count} remembered states together: ${others}${more} (before squashing).`;
  }

  explain() {
    const { name, label, column } = this.outputs[this.output];
    const found = this.policy.explain(name, this.state);
    const m = found.outputs;
    const values = Float64Array.from({ length: this.policy.dimension }, (_, i) => found.values[i * m + column]);
    const host = this.element("ask-waterfall");
    const what = name === "value" ? "value, in reward units" : `${label}, mean before squashing`;
    waterfall(host, {
      base: found.base[column],
      prediction: found.prediction[column],
      steps: steps(values, this.state, this.page.features),
      label: what,
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
