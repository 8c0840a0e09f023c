"""Model cards: the front matter is what the hub reads, numbers are the run's, and the code in a card runs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from rsa2c import zoo
from rsa2c.attribution.quality import OWN, RANDOM
from rsa2c.cli import main
from rsa2c.report.card import EXPLAINED_STATES, model_card, plain
from rsa2c.runs.evaluation import evaluate_policy
from rsa2c.runs.source import ModelData, opened
from rsa2c.trained import WEIGHTS

DATA = Path(__file__).parent / "data" / "run-v2"
PENDULUM = "zoo:Pendulum-v1"


def parts(card):
    """The front matter, read as YAML, and the text after it."""
    empty, front, text = re.split(r"^---\n", card, maxsplit=2, flags=re.MULTILINE)
    assert empty == ""
    return yaml.safe_load(front), text


@pytest.fixture(scope="module")
def pendulum():
    return model_card(opened(PENDULUM), licence="mit")


def test_the_front_matter_has_the_score_of_the_agent(pendulum):
    front, _ = parts(pendulum)
    card = zoo.cards()["Pendulum-v1"]
    (index,) = front["model-index"]
    (result,) = index["results"]
    (metric,) = result["metrics"]
    mean, std = map(float, metric["value"].split(" +/- "))
    assert mean == pytest.approx(card.mean, abs=0.005)
    assert std == pytest.approx(float(evaluation_std(card)), abs=0.005)
    assert (metric["type"], metric["verified"]) == ("mean_reward", False)
    assert result["dataset"]["type"] == "Pendulum-v1"
    assert result["task"]["type"] == front["pipeline_tag"] == "reinforcement-learning"
    assert (front["library_name"], front["license"], index["name"]) == ("rsa2c", "mit", "rsa2c-kme")


def evaluation_std(card):
    mean = sum(card.returns) / card.episodes
    return (sum((value - mean) ** 2 for value in card.returns) / card.episodes) ** 0.5


def test_a_card_says_how_it_was_trained_and_how_sure_the_score_is(pendulum):
    _, text = parts(pendulum)
    card = zoo.cards()["Pendulum-v1"]
    low, high = card.interval
    assert f"| 95% interval of the mean | {low:.2f} to {high:.2f} |" in text
    assert f"{card.steps:,} environment steps, seed {card.seed}." in text
    assert f"rsa2c train Pendulum-v1 --algorithm rsa2c-kme --seed 0 --total-timesteps {card.total_timesteps}" in text
    assert all(heading in text for heading in ("## Score", "## How to use it", "## Limits"))
    assert "torque (-2 to 2)" in text


def test_a_card_says_how_well_its_table_of_features_describes_the_policy(pendulum):
    agent = opened(PENDULUM).kernel_agent
    found = agent.fidelity(agent.explain(agent.background[:EXPLAINED_STATES], of="action"), "action")
    own, random, weights = found[OWN], found[RANDOM], found[WEIGHTS]
    assert f"deletion area {own.deletion:.2f} in this order, {random.deletion:.2f} in random order" in pendulum
    assert f"guided its training: rank agreement {weights.agreement:.2f} with Shapley values of the action" in pendulum


def test_the_code_of_a_card_runs(pendulum):
    names = {}
    (code,) = re.findall(r"^```python\n(.*?)^```$", pendulum, re.MULTILINE | re.DOTALL)
    exec(code, names)
    assert names["agent"].env_id == "Pendulum-v1"
    assert names["explanation"].values.shape == (10, 3, 1)


def test_a_model_without_a_final_evaluation_is_evaluated():
    data = replace(opened(PENDULUM), card=None)
    assert isinstance(data, ModelData) and data.returns is None
    played = evaluate_policy(data.agent, 3)
    front, text = parts(model_card(data, episodes=3))
    (metric,) = front["model-index"][0]["results"][0]["metrics"]
    assert metric["value"] == f"{played.mean:.2f} +/- {played.std:.2f}"
    assert "license" not in front
    assert "3 episodes" in text


def test_the_command_prints_the_card_or_writes_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["card", PENDULUM]) == 0
    printed = capsys.readouterr().out
    assert main(["card", PENDULUM, "--out", "README.md"]) == 0
    assert capsys.readouterr().out == "README.md\n"
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == printed == model_card(opened(PENDULUM))
    assert main(["card", "zoo:Pendulm-v1"]) == 2
    assert "Did you mean 'zoo:Pendulum-v1'?" in capsys.readouterr().err


def test_a_run_folder_loads_from_the_file_beside_its_card():
    text = model_card(opened(DATA), episodes=2)
    assert 'rsa2c.load("model.safetensors")' in text


def test_names_from_a_file_stay_text():
    assert plain("x | y\n# z") == "x \\| y # z"
    assert plain("<b>`a`") == "&lt;b&gt;\\`a\\`"
