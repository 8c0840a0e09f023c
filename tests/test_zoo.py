"""The zoo: every agent scores what its card says, and every way to name an agent gives the same one."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rsa2c
from rsa2c import RSA2C, zoo
from rsa2c.algorithm.state import Kept
from rsa2c.cli import main
from rsa2c.errors import FileFormatError, NotFoundError
from rsa2c.evaluation import EvaluationResult
from rsa2c.files import compacted, read_tensors, write_tensors
from rsa2c.files.compact import ROWS, expanded
from rsa2c.report import write_report
from rsa2c.report.gather import NO_LOG
from rsa2c.runs.evaluation import evaluate_policy
from rsa2c.runs.folder import Run
from rsa2c.runs.provenance import provenance
from rsa2c.runs.source import opened
from rsa2c.runs.training import train_run
from strangers import DATA

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))
from zoo import TOLERANCE, acting, add, packed

CARDS = zoo.cards()
QUICK = ("Pendulum-v1", "rsa2c/LQR-v0", "MountainCarContinuous-v0", "InvertedPendulum-v5")
FEW = 4
PENDULUM = "zoo:Pendulum-v1"
STATES = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 4.0]])


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    small = {"n_envs": 4, "horizon": 50, "capacity": 24, "initial_centres": 12, "evaluation_episodes": 2}
    return train_run("Pendulum-v1", total_timesteps=600, out=tmp_path_factory.mktemp("runs"), track=False, **small)


def check_score(card, returns):
    """The mean return is that of the card's first episodes, up to the interval's width.

    With another rounding, episodes of a chaotic system part after some seconds, and two means of the same policy differ
    by more than the width in one case of 180.
    """
    low, high = card.interval
    width = (high - low) * (card.episodes / len(returns)) ** 0.5
    assert returns.mean() == pytest.approx(np.mean(card.returns[: len(returns)]), abs=width, rel=1e-6)


@pytest.mark.parametrize("name", sorted(set(QUICK) & set(CARDS)))
def test_quick_agents_score_what_their_cards_say(name):
    """None of them is chaotic: on the kind of machine that wrote the card every return is the same."""
    card, here = CARDS[name], provenance()
    returns = evaluate_policy(rsa2c.load(f"zoo:{name}"), FEW).returns
    check_score(card, returns)
    if card.evaluated_with == {**here["versions"], "processor": here["processor"]}:
        np.testing.assert_allclose(returns, card.returns[:FEW], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", CARDS)
def test_every_agent_scores_what_its_card_says(name):
    check_score(CARDS[name], evaluate_policy(rsa2c.load(f"zoo:{name}"), CARDS[name].episodes).returns)


@pytest.mark.parametrize("name", CARDS)
def test_a_card_fits_its_agent(name):
    card, agent = CARDS[name], rsa2c.load(f"zoo:{name}")
    score = EvaluationResult(np.array(card.returns), np.array(card.lengths))
    assert (card.mean, card.interval) == (score.mean, score.interval()) and card.episodes == 100
    assert (card.environment, card.algorithm, card.seed) == (agent.env_id, agent.algorithm, agent.config.seed)
    assert card.states == agent.dictionary_sizes and agent.num_timesteps <= card.steps
    assert max(card.rounding.values()) <= TOLERANCE
    assert card.path.name == zoo.file_name(name)


def test_the_zoo_is_small():
    assert {"Pendulum-v1", "rsa2c/LQR-v0"} <= set(CARDS)
    assert len(CARDS) == len(list(zoo.FOLDER.iterdir()))
    assert sum(card.size for card in CARDS.values()) < 6_000_000


def test_every_name_of_an_agent_gives_the_same_agent(run):
    agent = rsa2c.load(PENDULUM)
    np.testing.assert_array_equal(RSA2C.load(PENDULUM).predict(STATES)[0], agent.predict(STATES)[0])
    shutil.copytree(run.path, Path("runs") / "mine")
    expected = RSA2C.load(run.state_path).predict(STATES)[0]
    for source in (run.path, run.state_path, run.model_path, str(run.path), "mine", "runs/mine/model.safetensors"):
        np.testing.assert_array_equal(rsa2c.load(source).predict(STATES)[0], expected)


def test_an_agent_of_the_zoo_explains_certifies_and_trains_on():
    agent = rsa2c.load(PENDULUM)
    for of in ("value", "action", "advantage"):
        assert abs(agent.explain(STATES, of=of).efficiency_residual).max() < 1e-8
    assert np.all(agent.certify(STATES, 0.01).deviation >= 0)
    assert len(agent.prototypes(STATES[0]).shares) == 5
    before = agent.num_timesteps
    agent.learn(1)
    agent.close()
    assert agent.num_timesteps > before
    agent.save("further.safetensors")
    np.testing.assert_array_equal(rsa2c.load("further.safetensors").predict(STATES)[0], agent.predict(STATES)[0])


def test_an_unknown_agent_is_refused_with_the_list(capsys):
    with pytest.raises(NotFoundError, match=r"Did you mean 'zoo:Pendulum-v1'\? It has .*rsa2c/LQR-v0"):
        rsa2c.load("zoo:pendulum")
    with pytest.raises(NotFoundError, match=r"the zoo has no agent '../../x'"):
        rsa2c.load("zoo:../../x")
    assert main(["evaluate", "zoo:nothing"]) == 2
    assert "the zoo has no agent 'nothing'. It has" in capsys.readouterr().err
    with pytest.raises(NotFoundError, match=r"run Pendulum-v1 does not exist\. Did you mean zoo:Pendulum-v1\?"):
        rsa2c.load("Pendulum-v1")


def test_an_agent_of_the_zoo_is_no_run_to_resume(capsys):
    assert main(["resume", PENDULUM, "--quiet"]) == 2
    assert "is an agent of the zoo, and this needs a run folder" in capsys.readouterr().err


def test_the_list(capsys):
    assert main(["zoo"]) == 0
    shown = capsys.readouterr().out
    mean = CARDS["Pendulum-v1"].mean
    assert re.search(rf"zoo:Pendulum-v1 +{mean:,.1f} ± [\d.]+ +0 +[\d,]+ +\d+/\d+ +\d+\n", shown)
    assert main(["zoo", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert list(listed) == [f"zoo:{name}" for name in CARDS]
    assert listed[PENDULUM]["mean"] == mean and len(listed[PENDULUM]["returns"]) == 100


@pytest.mark.parametrize("kind", ["zoo", "file"])
def test_commands_take_an_agent_of_the_zoo_and_a_model_file(kind, run, capsys):
    source, name = PENDULUM, "Pendulum-v1"
    if kind == "file":
        source, name = str(shutil.copy(run.model_path, "mine.safetensors")), "mine"
    assert main(["evaluate", source, "--episodes", "2", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["run"], shown["environment"], shown["episodes"]) == (source, "Pendulum-v1", 2)
    assert main(["explain", source, "--of", "action", "--states", "4"]) == 0
    assert Path(f"explain_action_kme-{name}.npz").is_file()
    assert main(["certify", source, "--epsilon", "0.01", "--states", "2"]) == 0
    assert main(["profile", source, "--epochs", "1"]) == 0
    assert main(["report", source, "--episodes", "2"]) == 0
    assert Path(f"report-{name}.html").is_file()


def test_the_report_shows_the_cards_score_and_says_that_there_is_no_curve(tmp_path):
    text = write_report(PENDULUM, tmp_path / "page.html").read_text(encoding="utf-8")
    page = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])
    card = CARDS["Pendulum-v1"]
    assert page["run"] == PENDULUM and page["warnings"] == [] and page["missing"] == {"result": [NO_LOG]}
    assert (page["result"]["final"]["mean"], page["result"]["final"]["episodes"]) == (card.mean, 100)
    assert page["steps"] == card.steps and page["commit"] == card.commit
    assert f"--seed 0 --total-timesteps {card.total_timesteps}" in page["result"]["command"]


class TestMaking:
    def test_a_run_becomes_an_agent_with_its_score(self, run, tmp_path):
        card = zoo.Card.of(add(opened(run.path), seed=0, episodes=3, folder=tmp_path))
        agent = RSA2C.load(tmp_path / "Pendulum-v1.safetensors")
        assert evaluate_policy(agent, 3).returns.tolist() == list(card.returns)
        assert card.steps == agent.num_timesteps and card.commit == run.read_config()["commit"]
        np.testing.assert_allclose(agent.predict(STATES)[0], RSA2C.load(run.state_path).predict(STATES)[0], rtol=1e-3)

    def test_other_seeds_and_unfinished_runs_are_refused(self, run, tmp_path):
        with pytest.raises(ValueError, match=r"has seed 0; the zoo has that of seed 1, so that nothing is picked"):
            add(opened(run.path), seed=1, episodes=1, folder=tmp_path)
        shutil.copytree(run.path, tmp_path / "half")
        half = Run(tmp_path / "half")
        half.write_config({**half.read_config(), "total_timesteps": 10_000})
        with pytest.raises(ValueError, match=r"half is unfinished"):
            add(opened(half.path), seed=0, episodes=1, folder=tmp_path)

    def test_it_is_the_policy_that_acts(self, run):
        snapshot = RSA2C.load(run.state_path).snapshot()
        state = snapshot.state
        best = replace(state.policy, mean=replace(state.policy.mean, coefficients=2 * state.policy.mean.coefficients))
        about = {"epoch": 2, "steps": 400, "score": 0.0, "episodes": 12}
        kept = Kept(best, state.value, state.advantage, state.background[:7], **about)
        shown = RSA2C.of(acting(replace(snapshot, state=replace(state, kept=kept))))
        np.testing.assert_array_equal(shown.policy_mean(STATES), best.mean(STATES))
        assert (shown.epoch, shown.num_timesteps, len(shown.background), shown.history) == (2, 400, 7, [])
        assert shown.state.kept is None

    def test_what_single_precision_would_change_stays_double(self, run, monkeypatch):
        snapshot = acting(RSA2C.load(run.state_path).snapshot())
        _, metadata, rounding = packed(snapshot)
        assert {"actor/coefficients", "value/coefficients", "background"} <= set(metadata["float32"])
        assert 0 < max(rounding.values()) <= TOLERANCE
        monkeypatch.setattr("zoo.TOLERANCE", 0.0)
        _, metadata, rounding = packed(snapshot)
        assert "actor/coefficients" not in metadata["float32"] and max(rounding.values()) == 0.0


class TestCompact:
    @pytest.mark.parametrize("own", [0, 3, 8])
    def test_tensors_come_back_and_rows_are_stored_once(self, own):
        rng = np.random.default_rng(own)
        a = rng.standard_normal((8, 5))
        b = np.concatenate([a[own:][::-1], rng.standard_normal((own, 5))])[rng.permutation(8)]
        tensors = {"a": a, "b": b, "c": rng.standard_normal(4)}
        stored, metadata = compacted(tensors, {"kind": "model"}, ["a", "b"])
        assert metadata["rows"] == ({} if own == 8 else {"b": "a"})
        assert len(stored["b"]) == own and stored["a"].dtype == np.float32
        whole, rest = expanded(stored, metadata)
        assert rest == {"kind": "model"} and list(whole) == list(tensors)
        for name, array in tensors.items():
            assert whole[name].dtype == np.float64
            exact = array if name == "c" else array.astype(np.float32)
            np.testing.assert_array_equal(whole[name], exact)

    @pytest.mark.parametrize(
        "damage",
        [
            {"rows": {"value/no": "background"}},
            {"rows": ["value"]},
            {"float32": ["bounds/low"]},
            {"float32": ["no such"]},
            {"float32": 3},
        ],
    )
    def test_metadata_that_do_not_fit_are_refused(self, damage, tmp_path):
        tensors, metadata = stored(CARDS["Pendulum-v1"].path)
        write_tensors(tmp_path / "x", tensors, {**metadata, **damage})
        with pytest.raises(FileFormatError, match="do not fit together"):
            RSA2C.load(tmp_path / "x")

    @pytest.mark.parametrize("rows", [[-1, 0], [0, 99], [[0]], [0.0], [0] * 999])
    def test_positions_that_do_not_fit_are_refused(self, rows, tmp_path):
        dtype = np.float32 if isinstance(rows[0], float) else np.int32
        tensors = {"a": np.ones((3, 2)), "b": np.ones((0, 2)), "b" + ROWS: np.array(rows, dtype=dtype)}
        write_tensors(tmp_path / "x", tensors, {"kind": "model", "float32": [], "rows": {"b": "a"}})
        with pytest.raises(FileFormatError, match="is not a list of positions in a"):
            read_tensors(tmp_path / "x")

    def test_a_file_without_a_card_is_named(self):
        with pytest.raises(FileFormatError, match=r"model.safetensors has no card"):
            zoo.Card.of(DATA / "model.safetensors")


def stored(path):
    """Tensors and metadata as they are in a file."""
    from safetensors.numpy import load_file

    from rsa2c.files import read_metadata

    return load_file(path), read_metadata(path)
