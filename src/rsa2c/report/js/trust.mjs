// "Trust": the page checks its own arithmetic against the library's.

import { row } from "./decode.mjs";
import { format } from "./dom.mjs";

/** The largest difference between this page and Python at a few states, relative to each output's largest value. */
export function selfCheck(policy, reference) {
  const [count] = reference.states.shape;
  let worst = 0;
  for (let t = 0; t < count; t++) {
    const state = row(reference.states, t);
    worst = Math.max(worst, difference(policy.action(state), row(reference.action, t)));
    for (const [name, expected] of Object.entries(reference.values)) {
      const size = expected.data.length / count;
      worst = Math.max(
        worst,
        difference(policy.explainShown(name, state).values, expected.data.subarray(t * size, (t + 1) * size)),
      );
    }
  }
  return worst;
}

function difference(found, expected) {
  const scale = expected.reduce((a, b) => Math.max(a, Math.abs(b)), 0) || 1;
  return found.reduce((worst, x, i) => Math.max(worst, Math.abs(x - expected[i]) / scale), 0);
}

export function showCheck(policy, reference) {
  const worst = selfCheck(policy, reference);
  const host = document.getElementById("trust-check");
  host.dataset.difference = worst;
  host.className = worst < 1e-9 ? "" : "badge warn";
  host.textContent =
    worst < 1e-9 ? format(worst, 2) : `${format(worst, 2)}: do not trust this page's numbers in this browser`;
}
