// The trained agent: normaliser, kernel expansions, squashing, explanations and remembered states.

import { row } from "./decode.mjs";
import { ProductGame } from "./shapley.mjs";

const FACTORS = { rbf: (u) => Math.exp(-0.5 * u * u), laplace: (u) => Math.exp(-Math.abs(u)) };
const NEAR = 1e-6;
const EXPONENTS = { rbf: (u) => -0.5 * u * u, laplace: (u) => -Math.abs(u) };

/** f(s) = offset + sum_j k(s, s_j) c_j for normalised states. */
class KernelFunction {
  constructor(spec, kernel) {
    this.kernel = kernel;
    this.scales = spec.scales.data;
    [this.size, this.dimension] = spec.centres.shape;
    this.remembered = spec.centres;
    this.centres = this.scaled(spec.centres.data);
    this.coefficients = spec.coefficients.data;
    this.outputs = spec.coefficients.shape[1];
    this.offset = spec.offset.data;
    this.names = spec.names;
    this.nodes = spec.nodes;
  }

  /** Rows of normalised states times the kernel's inverse length scales. */
  scaled(rows) {
    return Float64Array.from(rows, (x, k) => x * this.scales[k % this.dimension]);
  }

  similarity(x) {
    const [z, d, exponent] = [this.scaled(x), this.dimension, EXPONENTS[this.kernel]];
    const out = new Float64Array(this.size);
    for (let j = 0; j < this.size; j++) {
      let sum = 0;
      for (let i = 0; i < d; i++) sum += exponent(z[i] - this.centres[j * d + i]);
      out[j] = Math.exp(sum);
    }
    return out;
  }

  combine(similarity) {
    const out = Float64Array.from(this.offset);
    for (let j = 0; j < this.size; j++) {
      for (let o = 0; o < this.outputs; o++) out[o] += similarity[j] * this.coefficients[j * this.outputs + o];
    }
    return out;
  }

  game(background) {
    this.cachedGame ??= new ProductGame({
      centres: this.centres,
      coefficients: this.coefficients,
      outputs: this.outputs,
      background: this.scaled(background),
      dimension: this.dimension,
      nodes: this.nodes,
      kernel: FACTORS[this.kernel],
    });
    return this.cachedGame;
  }
}

export class Policy {
  constructor(spec) {
    this.spec = spec;
    this.dimension = spec.mean.data.length;
    this.functions = Object.fromEntries(
      Object.entries(spec.functions).map(([name, f]) => [name, new KernelFunction(f, spec.kernel)]),
    );
    const rows = spec.background.data.subarray(0, spec.background_used * this.dimension);
    this.background = Float64Array.from(rows, (s, k) => this.normaliseOne(s, k % this.dimension));
  }

  normaliseOne(s, i, clip = this.spec.clip) {
    const { mean, std, knee } = this.spec;
    const z = Math.min(clip, Math.max(-clip, (s - mean.data[i]) / std.data[i]));
    return knee ? knee * Math.asinh(z / knee) : z;
  }

  /** Similarity to the nearest remembered state, without the clip, beyond which all states are alike to the policy. */
  familiarity(state) {
    const x = Float64Array.from(state, (s, i) => this.normaliseOne(s, i, Infinity));
    return this.functions.action.similarity(x).reduce((a, b) => Math.max(a, b), 0);
  }

  normalise(state) {
    return Float64Array.from(state, (s, i) => this.normaliseOne(s, i));
  }

  /** The function's outputs: `value` in reward units, `action` the mean before squashing. */
  evaluate(name, state) {
    const f = this.functions[name];
    return f.combine(f.similarity(this.normalise(state)));
  }

  action(state) {
    return this.squash(this.evaluate("action", state));
  }

  squash(u) {
    const { squash, low, high } = this.spec;
    if (squash === "none") return u;
    const inside = squash === "tanh" ? Math.tanh : (x) => Math.min(1, Math.max(-1, x));
    return u.map((x, o) => (low.data[o] + high.data[o]) / 2 + ((high.data[o] - low.data[o]) / 2) * inside(x));
  }

  /** The mean slope of the squashing function between u0 and u, as ActionBounds.mean_slope computes it. */
  meanSlope(u0, u) {
    const [from, to] = [this.squash(u0), this.squash(u)];
    return u.map((x, o) => {
      const step = x - u0[o];
      if (Math.abs(step) >= NEAR) return (to[o] - from[o]) / step;
      const { squash, low, high } = this.spec;
      if (squash === "none") return 1;
      const middle = u0[o] + step / 2;
      const slope = squash === "tanh" ? 1 - Math.tanh(middle) ** 2 : Number(Math.abs(middle) < 1);
      return ((high.data[o] - low.data[o]) / 2) * slope;
    });
  }

  /** Shapley values (d, m), base values (m) and the prediction (m) they add up to; an action's before squashing. */
  explain(name, state) {
    const f = this.functions[name];
    const game = f.game(this.background);
    return {
      values: game.values(f.scaled(this.normalise(state))),
      base: game.base.map((b, o) => b + f.offset[o]),
      prediction: this.evaluate(name, state),
      outputs: f.outputs,
    };
  }

  /** The same in the units shown: base and prediction of an action are squashed, its contributions scaled to fit. */
  explainShown(name, state) {
    const found = this.explain(name, state);
    if (name !== "action") return found;
    const slope = this.meanSlope(found.base, found.prediction);
    return {
      ...found,
      values: found.values.map((x, k) => x * slope[k % found.outputs]),
      base: this.squash(found.base),
      prediction: this.squash(found.prediction),
    };
  }

  /** The k most similar remembered states, nearest first, and what the policy does there. */
  similar(state, k) {
    const similarity = this.functions.action.similarity(this.normalise(state));
    const order = Array.from(similarity.keys()).sort((i, j) => similarity[j] - similarity[i] || i - j);
    return order.slice(0, k).map((number) => {
      const remembered = this.remembered(number);
      return { number, similarity: similarity[number], state: remembered, action: this.action(remembered) };
    });
  }

  /** Remembered state j of the actor in raw units. */
  remembered(j) {
    const { mean, std, knee } = this.spec;
    const inverse = (x) => (knee ? knee * Math.sinh(x / knee) : x);
    return row(this.functions.action.remembered, j).map((x, i) => inverse(x) * std.data[i] + mean.data[i]);
  }
}
