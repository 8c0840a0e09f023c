"""Settings are checked when they are made, and every error suggests what to do."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
import yaml

from rsa2c import config as package
from rsa2c.cli import main
from rsa2c.cli.settings import EVERYDAY
from rsa2c.config import (
    ALGORITHMS,
    CME,
    LSTD,
    TD,
    AgreementGuidance,
    Config,
    NoGuidance,
    PrintedGuidance,
    ReleasedGuidance,
    algorithm_name,
    all_settings,
    make_config,
    preset_names,
    upgraded_settings,
)
from rsa2c.config.flat import CHOICES
from rsa2c.config.variants import GENERAL
from rsa2c.envs.known import find, known_ids
from rsa2c.errors import ConfigError

PRESETS = {env_id: find(env_id).presets for env_id in known_ids()}


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
    assert make_config("Hopper-v5") == Config.of(GENERAL)
    assert preset_names("Hopper-v5") == ["default"]


def test_overrides_win_over_variant_and_preset():
    config = make_config("Pendulum-v1", "default", kl=0.5, guidance="none")
    assert config.step.kl == 0.5
    assert algorithm_name(config) == "advanced-ac"


def test_variants_differ_in_the_named_fields_alone():
    base = make_config("Pendulum-v1", algorithm="rsa2c-kme").settings()
    for name, values in ALGORITHMS.items():
        variant = make_config("Pendulum-v1", algorithm=name).settings()
        assert {key for key in base if key in variant and base[key] != variant[key]} <= set(values)


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
        ("shuffle_weights", 1, "shuffle_weights must be true or false"),
        ("noise_variance", -0.1, "noise_variance must not be negative"),
        ("horizon", 0, "horizon must be positive"),
    ],
)
def test_values_are_checked(field, value, says):
    with pytest.raises(ConfigError, match=says):
        Config.of({field: value})


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(ConfigError, match=r"'lenght_scale' does not exist\. Did you mean 'length_scale'"):
        Config().updated(lenght_scale=1.0)
    with pytest.raises(ConfigError, match=r"preset 'defualt' .* Did you mean 'default'"):
        make_config("Pendulum-v1", "defualt")
    with pytest.raises(ConfigError, match="Did you mean 'rsa2c-kme'"):
        make_config("Pendulum-v1", algorithm="rsac-kme")


def test_config_survives_yaml_exactly():
    config = Config.of(kl=0.1 + 0.2, length_scale=1 / 3, kl_final=1e-300, attribution="cme", value_fit="td")
    assert Config.of(yaml.safe_load(yaml.safe_dump(config.settings()))) == config


def test_a_choice_brings_its_own_settings():
    config = Config.of(value_fit="td", value_step=0.3, attribution="cme", cme_ridge=0.1)
    assert config.value == TD(value_step=0.3)
    assert config.guidance.game == CME(cme_ridge=0.1)
    changed = config.updated(value_fit="closed", guidance="none")
    assert changed.value == LSTD() and changed.guidance == NoGuidance()
    assert "value_step" not in changed.settings() and "cme_ridge" not in changed.settings()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"value_step": 0.1}, "value_step has no effect with value_fit='closed': it belongs to value_fit='td' or 'mc'"),
        ({"value_fit": "mc", "value_lambda": 0.5}, "value_lambda has no effect with value_fit='mc'"),
        ({"guidance": "none", "weight_floor": 0.1}, "weight_floor has no effect with guidance='none'"),
        ({"attribution": "cme", "cme_rank": 9}, "cme_rank=9 has no effect without an approximation"),
        ({"cme_ridge": 0.1}, "cme_ridge has no effect with attribution='kme': it belongs to attribution='cme'"),
        ({"guidance": "uniform", "cme_ridge": 0.1}, "it belongs to attribution='cme'"),
        ({"ratio_mix": 0.1}, "it belongs to guidance='released'"),
        ({"step_size": 0.1}, "it belongs to step_rule='constant' or 'polynomial'"),
        ({"replacement": "none", "replacement_every": 2}, "replacement_every has no effect with replacement='none'"),
        ({"guidance": "agrement"}, "guidance must be one of .* Did you mean 'agreement'"),
        ({"advantage_fit": "released", "smooth_advantage": True}, "smooth_advantage=True does nothing"),
    ],
)
def test_a_setting_without_effect_is_refused_with_the_choice_it_belongs_to(settings, says):
    with pytest.raises(ConfigError, match=says):
        Config.of(settings)
    with pytest.raises(ConfigError, match=says):
        make_config("Pendulum-v1", **settings)


def test_what_a_preset_brings_for_another_choice_is_dropped():
    config = make_config("Pendulum-v1", "paper", guidance="none", step_rule="kl")
    assert {"ratio_mix", "step_size"}.isdisjoint(config.settings())


def test_a_variant_cannot_be_turned_into_another():
    with pytest.raises(ConfigError, match="guidance='none' would turn rsa2c-kme into advanced-ac"):
        make_config("Pendulum-v1", algorithm="rsa2c-kme", guidance="none")


def test_no_setting_name_stands_for_two_things():
    """A flat name that several alternatives share has one type and one meaning in all of them."""
    seen = {}
    for choice in CHOICES.values():
        for kind in choice.alternatives.values():
            for setting in all_settings(kind).values():
                assert seen.setdefault(setting.name, setting.hint) == setting.hint
    assert {field.name for field in fields(Config)} - set(CHOICES) <= set(all_settings(Config))
    assert all(setting.help for setting in all_settings(Config).values())


def test_there_are_few_settings_and_every_kind_is_public():
    assert len(fields(Config)) <= 33
    kinds = {kind.__name__ for choice in CHOICES.values() for kind in choice.alternatives.values()}
    assert kinds <= set(package.__all__)


def test_help_shows_the_everyday_settings_and_help_all_every_one(capsys):
    everyday = {name for names in EVERYDAY.values() for name in names}
    assert 18 <= len(everyday) <= 24
    for flag, names in (("--help", everyday), ("--help-all", all_settings(Config))):
        with pytest.raises(SystemExit):
            main(["train", "Pendulum-v1", flag])
        text = capsys.readouterr().out
        shown = {name for name in all_settings(Config) if re.search(rf"--{name.replace('_', '-')}[ ,]", text)}
        assert shown >= set(names)
        assert ("--value-sweeps" in text) == (flag == "--help-all")


VERSION_1 = {
    "baseline": "value", "attribution": "kme", "attribution_critic": "shadow", "weight_rule": "null",
    "admission_threshold_final": None, "admission_limit": 64, "admission_every": 1, "advantage_clip": None,
    "smooth_advantage": False, "null_factor": 2.0, "warmup_episodes": 3, "value_fit": "closed", "value_step": 0.01,
    "ratio_mix": 0.25, "phi_statistic": "squared", "kl": 0.02,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"guidance": "agreement", "attribution": "kme", "value_fit": "closed", "admission": "constant"}),
        ({"baseline": "none", "attribution": "none"}, {"guidance": "none", "value_fit": "none"}),
        ({"attribution": "uniform"}, {"guidance": "uniform"}),
        (
            {"attribution_critic": "value", "weight_rule": "ratio", "phi_statistic": "signed", "ratio_mix": 0.08},
            {"guidance": "released", "ratio_mix": 0.08},
        ),
        ({"admission_limit": 4}, {"admission": "annealed", "admission_limit": 4, "admission_threshold_final": 1e-2}),
        ({"advantage_clip": 10.0}, {"advantage_fit": "released", "advantage_clip": 10.0}),
    ],
)
def test_settings_of_version_1_mean_what_they_meant(changes, expected):
    settings = upgraded_settings({**VERSION_1, **changes})
    assert expected.items() <= settings.items()
    assert Config.of(settings).settings() == settings


def test_settings_of_version_1_that_are_gone_are_named():
    with pytest.raises(ConfigError, match=r"null_factor=3.0, which can no longer be set \(it is 2.0 now\)"):
        upgraded_settings({**VERSION_1, "null_factor": 3.0})
    with pytest.raises(ConfigError, match="no longer go together"):
        upgraded_settings({**VERSION_1, "weight_rule": "ratio"})


def test_the_default_guidance_is_ours_and_the_papers_is_the_released_one():
    assert isinstance(make_config("Ant-v5").guidance, AgreementGuidance)
    assert isinstance(make_config("Ant-v5", "paper").guidance, ReleasedGuidance)
    printed = make_config("Ant-v5", "paper", "rsa2c-kme", guidance="printed")
    assert isinstance(printed.guidance, PrintedGuidance) and printed.guidance.phi_statistic == "absolute"
    with pytest.raises(ConfigError, match="ratio_mix has no effect with guidance='printed'"):
        make_config("Ant-v5", "paper", guidance="printed", ratio_mix=0.5)


def test_constants_that_were_settings_have_the_value_that_old_files_may_have():
    from rsa2c.algorithm import admission, guidance, projection, weights
    from rsa2c.config import upgrade

    now = {
        "attribution_samples": guidance.SAMPLES,
        "attribution_ridge": guidance.RIDGE,
        "attribution_nodes": guidance.NODES,
        "shortest_length_scale": weights.SHORTEST_LENGTH_SCALE,
        "cme_permutations": guidance.CME_PERMUTATIONS,
        "reproject_ridge": projection.REPROJECTION_RIDGE,
    }
    assert now.items() <= upgrade.CONSTANT.items()
    assert upgrade.ADMISSION_LIMIT == admission.ADMISSION_LIMIT
