"""The policy as embedded in the page: everything `predict`, `explain` and `prototypes` need, in double precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.attribution.game import Game
from rsa2c.attribution.kme import choose_nodes, exact_nodes
from rsa2c.attribution.prototypes import familiar

if TYPE_CHECKING:
    from rsa2c.agent import RSA2C
    from rsa2c.attribution import Explanation
    from rsa2c.kernel.rkhs import RKHSFunction

TOLERANCE = 1e-9
LIVE_WORK = 24_000_000
"""Centres x background states x features x nodes that a browser can process while a slider moves."""
FEWEST_BACKGROUND = 16
REFERENCE_STATES = 3


class Embedded:
    """An agent's functions, with the background and the quadrature nodes that the page uses for them."""

    def __init__(self, agent: RSA2C) -> None:
        self.agent = agent
        self.functions: dict[str, RKHSFunction] = {"action": agent.policy_mean}
        if agent.config.has_value:
            self.functions = {"value": agent.value, **self.functions}
        self.nodes = {name: self._nodes(f) for name, f in self.functions.items()}
        work = max(f.centres.size * self.nodes[name] for name, f in self.functions.items())
        used = min(len(agent.background), max(FEWEST_BACKGROUND, LIVE_WORK // work))
        self.background: NDArray[np.float64] = agent.background[:used]
        self.familiar = familiar(agent.policy_mean, agent.background)

    def explain(self, name: str, states: NDArray[np.float64]) -> Explanation:
        """The explanation that the page computes, computed by the library."""
        return self.agent.explain(states, of=name, background=self.background, nodes=self.nodes[name], progress=False)

    def in_units(self, name: str, explanation: Explanation) -> NDArray[np.float64]:
        """(T, d, m): the values of an explanation in the units shown, so that those of an action end at the action.

        An action is explained before squashing; its contributions are brought through the squashing function by
        `ActionBounds.mean_slope`.
        """
        if name != "action":
            return explanation.values
        base = explanation.base_values
        mean = base + explanation.values.sum(axis=1)
        return explanation.values * self.agent.policy.bounds.mean_slope(base, mean)[:, None, :]

    @property
    def precision(self) -> str:
        """How precise the page's Shapley values are, in words."""
        most = exact_nodes(len(self.agent.feature_names))
        return "exact" if min(self.nodes.values()) >= most else f"estimated error below {TOLERANCE:.0e}"

    @property
    def output_names(self) -> list[str]:
        """`value` if the agent has one, then the actions."""
        return [name for f in self.functions.values() for name in f.output_names]

    def document(self) -> dict[str, Any]:
        """The policy for the page, with reference results at a few states, against which the page checks itself."""
        agent = self.agent
        metric, bounds = agent.policy_mean.kernel.metric, agent.policy.bounds
        reference = agent.background[-REFERENCE_STATES:]
        return {
            "kernel": agent.policy_mean.kernel.name,
            "mean": metric.mean,
            "std": metric.std,
            "clip": metric.clip,
            "knee": metric.knee,
            "squash": bounds.squash,
            "low": bounds.low,
            "high": bounds.high,
            "background": agent.background,
            "background_used": len(self.background),
            "precision": self.precision,
            "familiar": self.familiar,
            "typical": self._typical(),
            "functions": {
                name: {
                    "centres": f.centres,
                    "coefficients": f.coefficients,
                    "offset": np.array(f.offset),
                    "scales": f.kernel.scales,
                    "names": list(f.output_names),
                    "nodes": self.nodes[name],
                }
                for name, f in self.functions.items()
            },
            "reference": {
                "states": reference,
                "action": bounds.action(agent.policy_mean(reference)),
                "values": {name: self.in_units(name, self.explain(name, reference)) for name in self.functions},
            },
        }

    def _nodes(self, function: RKHSFunction) -> int:
        """Enough nodes for visited states, and for the corners of their range, which sliders can reach."""
        visited = self.agent.background
        x = function.coordinates(np.vstack([visited[-6:], visited.min(axis=0), visited.max(axis=0)]))
        background = function.coordinates(visited[:64])
        game = Game(x, background, function.centres, function.coefficients, function.kernel)
        return choose_nodes(game, TOLERANCE)[0]

    def _typical(self) -> int:
        """Index of the visited state nearest to the median of all visited states."""
        x = self.agent.policy_mean.coordinates(self.agent.background)
        return int(np.abs(x - np.median(x, axis=0)).sum(axis=1).argmin())
