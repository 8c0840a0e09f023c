"""What older versions of the file format stored differently.

Names of tensors are written out here: those of an old version never change.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rsa2c.config import upgraded_settings, without_shadows
from rsa2c.files.versions import Metadata, Tensors


def _from_version_1(tensors: Tensors, metadata: Metadata) -> tuple[Tensors, Metadata]:
    """Version 1 wrote settings without an effect, a Value Critic even without one, one standard deviation for all
    actions, and counted the epochs of attributions from zero."""
    config = upgraded_settings(metadata["config"])
    tensors = {
        **tensors,
        "policy/sigma": np.full(len(tensors["bounds/low"]), float(metadata["sigma"])),
        "scale/mean": tensors["normaliser/mean"],
        "scale/variance": tensors["normaliser/std"] ** 2,
    }
    if config["value_fit"] == "none":
        tensors = {name: array for name, array in tensors.items() if not name.startswith("value/")}
    if "attributions/epoch" in tensors:
        tensors = {**tensors, "attributions/epoch": tensors["attributions/epoch"] + 1}
    metadata = {name: value for name, value in metadata.items() if name != "sigma"}
    warmup = metadata["num_timesteps"] - metadata["epoch"] * config["n_envs"] * config["horizon"]
    return tensors, {**metadata, "config": config, "warmup_steps": max(warmup, 0)}


def _from_version_2(tensors: Tensors, metadata: Metadata) -> tuple[Tensors, Metadata]:
    """Version 2 stored remembered states in normalised units, knew no tails but clipped ones, and let the KL of a step
    shrink as batches grew."""
    upgraded = dict(tensors)
    for kept in ("", "kept/") if metadata.get("kept") is not None else ("",):
        mean, std = upgraded.pop(f"{kept}normaliser/mean"), upgraded.pop(f"{kept}normaliser/std")
        upgraded |= {f"{kept}metric/mean": mean, f"{kept}metric/std": std}
        for name in (f"{kept}actor", f"{kept}value"):
            if f"{name}/centres" in upgraded:
                upgraded[f"{name}/states"] = upgraded.pop(f"{name}/centres") * std + mean
    config = metadata["config"]
    if config.get("batch_doubling") is not None and config.get("step_rule") == "kl":
        config = {**config, "kl_halving": config["batch_doubling"]}
    return upgraded, {**metadata, "config": config, "tails": "clipped"}


def _from_version_3(tensors: Tensors, metadata: Metadata) -> tuple[Tensors, Metadata]:
    """Version 3 knew logarithmic tails with a knee at one standard deviation only, and tried a policy to be kept in
    twelve episodes, never again."""
    upgraded = {name: value for name, value in metadata.items() if name != "tails"}
    if upgraded.get("kept") is not None:
        upgraded["kept"] = {**upgraded["kept"], "episodes": 12}
    return tensors, {**upgraded, "knee": 1.0 if metadata["tails"] == "logarithmic" else None}


def _from_version_4(tensors: Tensors, metadata: Metadata) -> tuple[Tensors, Metadata]:
    """Version 4 took the floor of kernel weights as it was set, however much of the value was explained."""
    return {**tensors, "importances/explained": np.ones_like(tensors["importances/null"])}, metadata


def _from_version_5(tensors: Tensors, metadata: Metadata) -> tuple[Tensors, Metadata]:
    """Version 5 had one critic, and took twice the level of permuted shadow features off its importances: two critics
    are taken to agree on what was above that level."""
    upgraded = dict(tensors)
    null = upgraded.pop("importances/null")[:, None]
    excess = np.maximum(upgraded.pop("importances/moments") - 2.0 * null, 0.0)
    upgraded |= {"importances/agreed": excess, "importances/alone": excess}
    return upgraded, {**metadata, "config": without_shadows(metadata["config"])}


def _from_version_6(tensors: Tensors, metadata: Metadata) -> tuple[Tensors, Metadata]:
    """Version 6 did not ask what actions move. Every feature begins as moved by one standard deviation, so that after
    ten measurements or more it counts at least a little, until new measurements have taken over."""
    return {**tensors, "importances/moved": np.ones(len(tensors["metric/mean"]))}, metadata


UPGRADES: dict[int, Callable[[Tensors, Metadata], tuple[Tensors, Metadata]]] = {
    1: _from_version_1,
    2: _from_version_2,
    3: _from_version_3,
    4: _from_version_4,
    5: _from_version_5,
    6: _from_version_6,
}
"""What turns a file of format version n into one of version n + 1."""
