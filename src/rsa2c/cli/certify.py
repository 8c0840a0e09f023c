"""`rsa2c certify`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import tyro

from rsa2c.cli.command import command, parse, visited
from rsa2c.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rsa2c.agent import RSA2C
    from rsa2c.robustness.certificates import Certificate

SHOWN_ACTIONS = 8


@dataclass
class CertifyOptions:
    """Which run, and against which observation errors."""

    run: tyro.conf.Positional[str]
    """Run folder, its name under ./runs, a model file, or zoo:ID (`rsa2c zoo` lists them)."""
    epsilon: float
    """Size of the observation errors."""
    norm: Literal["l2", "linf"] = "l2"
    """Norm in which that size is measured."""
    units: Literal["raw", "normalised"] = "raw"
    """Units of epsilon: of the observations, or standard deviations of the kernel's metric."""
    states: int = 64
    """States certified, of those the agent visited last."""
    amount: float | None = None
    """Change of an action for which the certified radius is given; unset: a tenth of each action's range."""
    paper: bool = False
    """Show the bounds that the paper states, too, each beside the largest effect of attacks and random errors."""
    seed: int = 0
    """Seed of the random errors of --paper."""


@command
def certify(arguments: list[str]) -> None:
    """How far observation errors can move a run's actions and value: proven bounds."""
    options = parse(CertifyOptions, arguments, certify)
    from rsa2c.runs.source import opened

    if options.amount is not None and not options.amount > 0:
        raise ConfigError(f"amount must be positive, got {options.amount}.")
    agent = opened(options.run).kernel_agent
    states = visited(agent, options.states, "certify")
    certificate = agent.certify(states, options.epsilon, options.norm, options.units)
    unit = "raw observation units" if options.units == "raw" else "standard deviations of the kernel's metric"
    print(f"{agent.env_id}, {agent.algorithm}: {options.states} visited states,")
    print(f"observation errors of {options.norm} size {options.epsilon:g} in {unit}")
    _print_actions(certificate)
    _print_rest(agent, certificate, options)
    if options.paper:
        _print_paper(agent, states, options)


def _print_paper(agent: RSA2C, states: NDArray[np.float64], options: CertifyOptions) -> None:
    import numpy as np

    from rsa2c.algorithm.threads import limited_threads
    from rsa2c.robustness.bounds import paper_quantities
    from rsa2c.robustness.regions import Region, unit_scale

    region = Region(options.epsilon, options.norm, unit_scale(agent, options.units))
    print("\nthe paper's quantities, and the largest effect that was measured (attacks and random perturbations)")
    rng = np.random.default_rng(options.seed)
    with limited_threads(agent.config.threads):
        for quantity in paper_quantities(
            agent.policy, agent.acting.value, agent.background, float(agent.config.gamma), states, region, rng
        ):
            print(f"  {quantity}")


def _print_actions(certificate: Certificate) -> None:
    import numpy as np

    print("\ncertified change of the action      median      worst   tightest bound")
    tightest = np.stack(list(certificate.bounds.values())).argmin(axis=0)
    names, deviation = list(certificate.bounds), certificate.deviation
    for i, action in enumerate(certificate.action_names[:SHOWN_ACTIONS]):
        often = names[int(np.bincount(tightest[:, i]).argmax())]
        print(f"  {action:<30} {np.median(deviation[:, i]):10.4g} {deviation[:, i].max():10.4g}   {often}")
    if (more := len(certificate.action_names) - SHOWN_ACTIONS) > 0:
        print(f"  and {more} more")


def _print_rest(agent: RSA2C, certificate: Certificate, options: CertifyOptions) -> None:
    import numpy as np

    rows = [("total variation of the policy", certificate.total_variation)]
    if (moves := certificate.value_deviation) is not None:
        rows.insert(0, ("value", moves))
    for name, numbers in rows:
        print(f"  {name:<30} {np.median(numbers):10.4g} {numbers.max():10.4g}")
    bounds = agent.policy.bounds
    amount = 0.1 * (bounds.high - bounds.low) if options.amount is None else np.full(len(bounds.low), options.amount)
    if np.all(np.isfinite(amount)):
        radius = agent.certified_radius(certificate.states, amount, options.norm, options.units)
        sizes = ", ".join(f"{size:g}" for size in np.unique(amount))
        print(f"\nno action moves by more than {sizes} under errors up to (certified radius)")
        print(f"  median {np.median(radius):.4g}, smallest {radius.min():.4g}")
