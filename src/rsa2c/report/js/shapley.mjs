// Exact interventional Shapley values of a kernel expansion, as rsa2c/attribution/quadrature.py computes them.
//
// A centre and a background state form a product game with the factors a_i = k_i(s_i, c_i), b_i = k_i(x_i, c_i):
//   phi_i = (a_i - b_i) * integral over t in [0, 1] of prod_{l != i} z_l(t),   z_l = b_l + t (a_l - b_l),
// a polynomial in t of degree d - 1, which ceil(d/2) Gauss-Legendre nodes integrate exactly. Products of all factors but
// one come from prefix and suffix products, so nothing is divided.

const NEGLIGIBLE = 1e-30;

/** Nodes and weights on [0, 1] by Newton's method on the Legendre polynomial. */
export function gaussLegendre(count) {
  const nodes = new Float64Array(count);
  const weights = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    let x = Math.cos((Math.PI * (i + 0.75)) / (count + 0.5));
    let slope = 1;
    for (let step = 0; step < 100; step++) {
      let [before, here] = [1, x];
      for (let k = 2; k <= count; k++) [before, here] = [here, ((2 * k - 1) * x * here - (k - 1) * before) / k];
      slope = (count * (before - x * here)) / (1 - x * x);
      const change = here / slope;
      x -= change;
      if (Math.abs(change) < 1e-16) break;
    }
    nodes[count - 1 - i] = x / 2 + 0.5;
    weights[count - 1 - i] = 1 / ((1 - x * x) * slope * slope);
  }
  return { nodes, weights };
}

/** The game of one function against a fixed background; whatever does not depend on the state is precomputed. */
export class ProductGame {
  /** `kernel(u)` is the factor for a scaled difference u; centres (q, d) and background (n, d) are scaled, flat arrays. */
  constructor({ centres, coefficients, outputs, background, dimension, nodes, kernel }) {
    Object.assign(this, { centres, coefficients, outputs, dimension, kernel });
    this.count = background.length / dimension;
    this.factors = new Float64Array((centres.length / dimension) * background.length);
    this.base = new Float64Array(outputs);
    const [d, n] = [dimension, this.count];
    for (let j = 0, at = 0; j < centres.length / d; j++) {
      let mean = 0;
      for (let b = 0; b < n; b++) {
        let product = 1;
        for (let i = 0; i < d; i++, at++) {
          this.factors[at] = kernel(background[b * d + i] - centres[j * d + i]);
          product *= this.factors[at];
        }
        mean += product / n;
      }
      for (let o = 0; o < outputs; o++) this.base[o] += coefficients[j * outputs + o] * mean;
    }
    const rule = gaussLegendre(nodes);
    // Nodes are processed in pairs; an odd number is padded with a node of weight zero.
    const even = nodes + (nodes % 2);
    this.nodes = Float64Array.from({ length: even }, (_, k) => (k < nodes ? rule.nodes[k] : 0.5));
    this.weights = Float64Array.from({ length: even }, (_, k) => (k < nodes ? rule.weights[k] : 0));
    this.prefix = new Float64Array(2 * d);
  }

  /** Shapley values (d, outputs), flat, at a scaled state. */
  values(x) {
    const { centres, coefficients, outputs, dimension: d, kernel, count } = this;
    const out = new Float64Array(d * outputs);
    const [a, sums] = [new Float64Array(d), new Float64Array(d)];
    for (let j = 0; j < centres.length / d; j++) {
      for (let i = 0; i < d; i++) a[i] = kernel(x[i] - centres[j * d + i]);
      sums.fill(0);
      for (let b = 0; b < count; b++) {
        for (let n = 0; n < this.nodes.length; n += 2) this.addPair(a, (j * count + b) * d, n, sums);
      }
      for (let i = 0; i < d; i++) {
        for (let o = 0; o < outputs; o++) out[i * outputs + o] += (coefficients[j * outputs + o] * sums[i]) / count;
      }
    }
    return out;
  }

  /** Add the contribution of two nodes to `sums`, for the product game whose factors b start at index `at`. */
  addPair(a, at, n, sums) {
    const { factors, prefix, dimension: d } = this;
    const [t0, t1] = [this.nodes[n], this.nodes[n + 1]];
    let [p0, p1] = [1, 1];
    for (let i = 0; i < d; i++) {
      const b = factors[at + i];
      const step = a[i] - b;
      prefix[2 * i] = p0;
      prefix[2 * i + 1] = p1;
      p0 *= b + t0 * step;
      p1 *= b + t1 * step;
    }
    let [s0, s1] = [this.weights[n], this.weights[n + 1]];
    if (p0 * s0 + p1 * s1 <= NEGLIGIBLE) return;
    for (let i = d - 1; i >= 0; i--) {
      const b = factors[at + i];
      const step = a[i] - b;
      sums[i] += step * (prefix[2 * i] * s0 + prefix[2 * i + 1] * s1);
      s0 *= b + t0 * step;
      s1 *= b + t1 * step;
    }
  }
}
