"""Settings are checked when they are made, and every error suggests what to do."""

from __future__ import annotations

from dataclasses import asdict, fields
from importlib import resources

import pytest
import tyro
import yaml

from rsa2c.config import ALGORITHMS, Config, algorithm_name, make_config, preset_names
from rsa2c.errors import ConfigError

PRESETS = {
    file.name.removesuffix(".yaml"): yaml.safe_load(file.read_text("utf-8"))
    for file in (resources.files("rsa2c") / "presets").iterdir()
    if file.name.endswith(".yaml")
}


@pytest.mark.parametrize(
    ("env_id", "preset"), [(env_id, preset) for env_id, presets in PRESETS.items() for preset in presets]
)
def test_every_preset_is_valid_for_every_algorithm(env_id, preset):
    for algorithm in ALGORITHMS:
        config = make_config(env_id, preset, algorithm)
        assert algorithm_name(config) == algorithm


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "BipedalWalker-v3", "Ant-v5"])
def test_the_papers_environments_have_a_default_preset(env_id):
    assert "default" in preset_names(env_id)


def test_an_environment_without_presets_takes_the_defaults():
    assert make_config("Hopper-v5") == Config()
    assert preset_names("Hopper-v5") == ["default"]


def test_overrides_win_over_variant_and_preset():
    config = make_config("Pendulum-v1", "default", kl=0.5, attribution="none")
    assert config.kl == 0.5
    assert algorithm_name(config) == "advanced-ac"


def test_variants_differ_in_the_named_fields_alone():
    base = asdict(make_config("Pendulum-v1", algorithm="rsa2c-kme"))
    for name, values in ALGORITHMS.items():
        variant = asdict(make_config("Pendulum-v1", algorithm=name))
        assert {key for key in base if base[key] != variant[key]} <= set(values)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("gamma", 1.5, r"gamma must lie in \[0, 1\], got 1.5"),
        ("n_envs", 0, "n_envs must be positive, got 0"),
        ("n_envs", 2.5, "n_envs must be a whole number or 'auto', got 2.5"),
        ("n_envs", "al", "n_envs must be .*'auto'"),
        ("n_envs", True, "n_envs must be"),
        ("capacity", -1, "capacity must be positive"),
        ("seed", -1, "seed must not be negative"),
        ("kl", float("nan"), "kl must be finite"),
        ("kl", None, "kl must be"),
        ("kernel", "rbff", "Did you mean 'rbf'"),
        ("reproject", 1, "reproject must be true or false"),
        ("noise_variance", -0.1, "noise_variance must not be negative"),
        ("horizon", 0, "horizon must be positive"),
    ],
)
def test_values_are_checked(field, value, says):
    with pytest.raises(ConfigError, match=says):
        Config(**{field: value})


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(ConfigError, match=r"'lenght_scale' does not exist\. Did you mean 'length_scale'"):
        Config().updated(lenght_scale=1.0)
    with pytest.raises(ConfigError, match=r"preset 'defualt' .* Did you mean 'default'"):
        make_config("Pendulum-v1", "defualt")
    with pytest.raises(ConfigError, match="Did you mean 'rsa2c-kme'"):
        make_config("Pendulum-v1", algorithm="rsac-kme")


def test_config_survives_yaml_exactly():
    config = Config(kl=0.1 + 0.2, length_scale=1 / 3, kl_final=1e-300)
    assert Config(**yaml.safe_load(yaml.safe_dump(asdict(config)))) == config


def test_every_field_has_help(capsys):
    with pytest.raises(SystemExit):
        tyro.cli(Config, args=["--help"])
    text = capsys.readouterr().out
    for field in fields(Config):
        assert f"--{field.name.replace('_', '-')}" in text
