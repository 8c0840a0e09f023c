"""Sweeps: the grid a file means, resuming, failing alone, and the same bytes whoever computes."""

import dataclasses
import hashlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from rsa2c.cli import main
from rsa2c.config import ALGORITHMS, make_config
from rsa2c.errors import ConfigError, NotFoundError
from rsa2c.files import StorageError
from rsa2c.runs.data import RunData
from rsa2c.runs.folder import Run
from rsa2c.runs.summary import Return, Summary
from rsa2c.runs.sweep import Grid, Progress, check_same, is_done, run_job, run_sweep
from rsa2c.runs.training import train_run

SMALL = {
    "environments": ["Pendulum-v1"],
    "algorithms": ["rsa2c-kme", "advanced-ac"],
    "seeds": [1000, 1001],
    "total_timesteps": 3200,
    "n_envs": 2,
    "horizon": 100,
    "capacity": 24,
    "final_episodes": 2,
    "evaluation_episodes": 2,
}


def digest(folder):
    """What a run is: its model, curve and returns, byte for byte."""
    names = ("model.safetensors", "state.safetensors", "evaluations.npz", "returns.npz")
    return [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names]


def digests(out, jobs):
    return {job.run_id: digest(out / job.run_id) for job in jobs}


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """The small sweep on two workers."""
    out = tmp_path_factory.mktemp("swept")
    jobs = Grid.of(SMALL).jobs()
    progress = run_sweep(jobs, out, workers=2)
    assert progress.errors == {}
    return out, jobs, progress


def test_a_grid_is_the_product_of_its_axes_with_readable_names():
    axes = {"noise": [0.0, 0.01], "distractors": [0, 3], "presets": ["default", "paper"], "gamma": [0.98, 0.99]}
    document = {**SMALL, **axes}
    jobs = Grid.of(document).jobs()
    assert len(jobs) == 2**6
    assert len({job.run_id for job in jobs}) == len(jobs)
    ids = [job.run_id for job in jobs]
    assert "Pendulum-v1__rsa2c-kme__paper__n0.01__s1000__d3__gamma=0.98" in ids
    job = jobs[ids.index("Pendulum-v1__rsa2c-kme__paper__n0.01__s1000__d3__gamma=0.98")]
    assert job.fields["gamma"] == 0.98 and job.fields["noise_variance"] == 0.01 and job.fields["n_envs"] == 2
    assert job.final_noise == (0.0, 0.01), "a run is judged under the noise it was trained with, too"


def test_kinds_of_distractors_are_an_axis_of_those_that_have_some():
    axes = {"algorithms": ["rsa2c-kme", "ppo"], "distractors": [0, 3], "distractor_kind": ["noise", "twin"]}
    jobs = Grid.of({"environments": ["Pendulum-v1"], **axes}).jobs()
    assert [job.run_id.split("__n0__s0")[1] for job in jobs if job.algorithm == "ppo"] == ["", "__d3", "__d3-twin"]
    assert [job.changes for job in jobs[-2:]] == ["distractor_kind=noise", "distractor_kind=twin"]
    assert jobs[-1].fields["distractor_kind"] == "twin" and not jobs[-1].suffix


def test_a_run_takes_the_settings_of_the_grid_that_it_reads():
    axes = {"algorithms": ["rsa2c-cme", "advanced-ac"], "cme_ridge": [0.01, 0.1], "step_rule": "polynomial"}
    jobs = Grid.of({"environments": ["Pendulum-v1"], **axes}).jobs()
    assert [(job.run_id, job.fields.get("cme_ridge")) for job in jobs] == [
        ("Pendulum-v1__rsa2c-cme__default__n0__s0__cme_ridge=0.01", 0.01),
        ("Pendulum-v1__rsa2c-cme__default__n0__s0__cme_ridge=0.1", 0.1),
        ("Pendulum-v1__advanced-ac__default__n0__s0", None),
    ]
    assert {job.fields["step_rule"] for job in jobs} == {"polynomial"}


def test_seeds_may_be_a_number_and_steps_a_mapping():
    grid = Grid.of({"environments": ["Pendulum-v1", "Ant-v5"], "seeds": 3, "total_timesteps": {"Ant-v5": 5}})
    assert {job.fields["seed"] for job in grid.jobs()} == {0, 1, 2}
    assert {(job.environment, job.total_timesteps) for job in grid.jobs()} == {("Pendulum-v1", 200_000), ("Ant-v5", 5)}


def test_baselines_take_part_once_whatever_the_presets():
    axes = {"algorithms": ["sac", "rsa2c-kme"], "presets": ["default", "paper"]}
    grid = Grid.of({"environments": ["Pendulum-v1"], **axes})
    assert [job.run_id for job in grid.jobs()] == [
        "Pendulum-v1__sac__rl-zoo__n0__s0",
        "Pendulum-v1__rsa2c-kme__default__n0__s0",
        "Pendulum-v1__rsa2c-kme__paper__n0__s0",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"algoritms": ["sac"]}, "key 'algoritms' is unknown. Did you mean 'algorithms'?"),
        ({"algorithms": ["rsa2c-kmee"]}, "algorithm 'rsa2c-kmee' is unknown.*Did you mean 'rsa2c-kme'?"),
        ({"seeds": []}, "has no runs: 'seeds' is empty"),
        ({"cme_ridge": 0.1}, "cme_ridge has no effect with attribution='kme'"),
        ({"kl": 0.1, "step_rule": ["constant", "polynomial"]}, "kl has no effect with step_rule='constant'"),
        ({"seeds": 0}, "seeds must be between 1 and 10,000, got 0"),
        ({"seeds": 20_000}, "seeds must be between 1 and 10,000, got 20,000"),
        ({"seeds": [-1]}, "seeds must hold non-negative whole numbers .*, got -1"),
        ({"noise": [-1.0]}, "the sweep: noise must hold non-negative variances, got -1.0"),
        ({"noise_variance": 0.1}, "key 'noise_variance' is unknown. Use 'noise'."),
        ({"guidance": "none"}, "the sweep: guidance='none' would turn rsa2c-kme into advanced-ac"),
        ({"environments": None}, "has no runs: 'environments' is empty"),
        ({"kl": []}, "has no runs: 'kl' is empty"),
        ({"kl": [-1.0]}, "kl must be positive, got -1.0"),
        ({"presets": ["papr"]}, "preset 'papr' does not exist.*Did you mean 'paper'?"),
        ({"noise": ["much"]}, "noise must hold non-negative variances, got 'much'"),
        ({"seeds": [0.5]}, "seeds must hold non-negative whole numbers"),
        ({"environments": ["antigravity:x-v0"]}, "'antigravity:x-v0' names a module, and a file has nothing imported"),
        ({"total_timesteps": -5}, "total_timesteps must be a positive whole number, got -5"),
        ({"total_timesteps": True}, "total_timesteps must be a positive whole number, got True"),
        ({"total_timesteps": {"Pendulum": 5}}, "total_timesteps is given for 'Pendulum'.*Did you mean 'Pendulum-v1'?"),
        ({"final_noise": 0.1}, "final_noise must be a list of non-negative variances, got 0.1"),
        ({"final_noise": None}, "final_noise must be a list"),
        ({"final_noise": ["a"]}, "final_noise must be a list"),
        ({"final_noise": [-1]}, "final_noise must be a list"),
        ({"final_episodes": 0}, "final_episodes must be a positive whole number, got 0"),
        ({"final_episodes": "abc"}, "final_episodes must be a positive whole number, got 'abc'"),
        ({"algorithms": ["sac"], "kl": 0.1}, "the sweep: sac has no setting n_envs, .*, kl: it trains with RL-Zoo's"),
        ({"algorithms": ["sac", "rsa2c-kme"], "kl": "bogus"}, "the sweep: kl must be"),
        ({"algorithms": ["sac", "rsa2c-kme"], "presets": ["papre"]}, "preset 'papre' does not exist"),
    ],
)
def test_a_grid_that_makes_no_sense_is_refused_before_anything_runs(change, message):
    with pytest.raises(ConfigError, match=message):
        Grid.of({**SMALL, **change})


def test_files_that_are_no_sweeps(tmp_path):
    with pytest.raises(NotFoundError, match=r"sweep file .*none.yaml does not exist"):
        Grid.read(tmp_path / "none.yaml")
    path = tmp_path / "bad.yaml"
    path.write_text("environments: [")
    with pytest.raises(ConfigError, match="is not YAML"):
        Grid.read(path)
    path.write_text("environments: [Pendulum-v1]\nseeds: 2\nenvironments: [Ant-v5]")
    with pytest.raises(ConfigError, match="'environments' is given twice"):
        Grid.read(path)
    path.write_text("- 1")
    with pytest.raises(ConfigError, match="must be a mapping"):
        Grid.read(path)


def test_values_that_differ_have_names_that_differ():
    jobs = Grid.of({**SMALL, "noise": [0.1234567, 0.1234568], "kl": [0.01234561, 0.01234562]}).jobs()
    assert len({job.run_id for job in jobs}) == len(jobs) == 2**4


def test_what_a_baseline_can_be_told_may_vary(tmp_path):
    told = {"environments": ["Pendulum-v1"], "algorithms": ["ppo"], "evaluation_episodes": [1, 2]}
    jobs = Grid.of({**told, "total_timesteps": 128, "final_episodes": 1}).jobs()
    assert [job.run_id.split("__")[-1] for job in jobs] == ["evaluation_episodes=1", "evaluation_episodes=2"]
    run_job(jobs[0], tmp_path)
    assert is_done(jobs[0], tmp_path)
    other = dataclasses.replace(jobs[0], fields={**jobs[0].fields, "evaluation_episodes": 3})
    with pytest.raises(ConfigError, match="with evaluation_episodes=1, the sweep asks for 3"):
        check_same(other, RunData.of(Run(tmp_path / jobs[0].run_id)))


def test_a_level_of_noise_is_added_to_those_that_are_there(swept, tmp_path):
    _, jobs, _ = swept
    first, second = (dataclasses.replace(jobs[0], final_noise=levels) for levels in ((0.0, 0.5), (0.0, 0.1)))
    run_job(first, tmp_path)
    before = Run(tmp_path / first.run_id).read_returns()
    run_job(second, tmp_path)
    after = Run(tmp_path / first.run_id).read_returns()
    assert list(after["noise_variance"]) == [0.0, 0.1, 0.5]
    np.testing.assert_array_equal(after["returns"][[0, 2]], before["returns"])
    assert is_done(first, tmp_path) and is_done(second, tmp_path)
    fresh = run_job(second, tmp_path / "fresh")
    assert fresh.returns[0.1].mean == after["returns"][1].mean(), "as if nothing had been there"


def test_a_group_of_runs_is_summed_up_at_one_noise_level(swept):
    from rsa2c.cli.sweep import table

    _, jobs, _ = swept
    pair = [dataclasses.replace(job, final_noise=(0.1,)) for job in jobs if job.algorithm == "rsa2c-kme"]
    _, _, progress = swept
    at = [{0.0: Return(-150.0, 1.0), 0.1: Return(-560.0, 1.0)}, {0.1: Return(-562.0, 1.0)}]
    rows = {index: dataclasses.replace(progress.rows[0], returns=returns) for index, returns in enumerate(at)}
    assert table(Progress(pair, Path("runs"), rows=rows)).split()[-4:] == ["2", "-561.0", "1.0", "-561.0"]
    alone = table(Progress(pair[:1], Path("runs"), rows={0: rows[0]}))
    assert alone.split()[-4:] == ["1", "-560.0", "-", "-560.0"], "one run has no spread"


def test_a_dry_run_says_which_environment_is_unknown(tmp_path, capsys):
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump({**SMALL, "environments": ["Pendulm-v1"]}))
    assert main(["sweep", str(tmp_path / "sweep.yaml"), "--dry-run"]) == 0
    error = capsys.readouterr().err
    assert "will fail: Gymnasium has no environment 'Pendulm-v1'. Did you mean 'Pendulum-v1'?" in error


def test_variants_differ_from_rsa2c_kme_in_the_named_part_alone():
    for environment in ("Pendulum-v1", "BipedalWalker-v3", "Ant-v5", "rsa2c/LQR-v0"):
        for preset in ("default", "paper"):
            reference = make_config(environment, preset, "rsa2c-kme").settings()
            for algorithm, named in ALGORITHMS.items():
                settings = make_config(environment, preset, algorithm).settings()
                differing = {name for name in settings.keys() & reference.keys() if settings[name] != reference[name]}
                expected = {name for name, value in named.items() if value != reference[name]}
                assert differing == expected, (environment, preset, algorithm)


def test_one_worker_gives_the_bytes_of_two(swept, tmp_path):
    out, jobs, _ = swept
    assert run_sweep(jobs, tmp_path, workers=1).errors == {}
    assert digests(tmp_path, jobs) == digests(out, jobs)


def test_a_finished_run_is_never_repeated_and_a_stopped_one_goes_on(swept, tmp_path):
    out, jobs, progress = swept
    times = {job.run_id: (out / job.run_id / "state.safetensors").stat().st_mtime_ns for job in jobs}
    again = run_sweep(jobs, out, workers=1)
    assert again.rows == progress.rows
    assert times == {job.run_id: (out / job.run_id / "state.safetensors").stat().st_mtime_ns for job in jobs}

    job = jobs[0]
    train_run(job.environment, job.algorithm, job.preset, 2600, tmp_path, track=False, **job.fields)
    run_job(job, tmp_path)
    kept = [0, 1, 3]  # the shorter run evaluated at its own end, too
    assert [digest(tmp_path / job.run_id)[i] for i in kept] == [digest(out / job.run_id)[i] for i in kept]


def test_a_failing_run_is_listed_and_the_others_are_whole(swept, tmp_path, capsys):
    out, _, _ = swept
    document = {**SMALL, "environments": ["Pendulum-v1", "NoSuchTask-v0"], "algorithms": ["rsa2c-kme"]}
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(document))
    damaged = tmp_path / "out" / "Pendulum-v1__rsa2c-kme__default__n0__s1001"
    damaged.mkdir(parents=True)
    (damaged / "config.yaml").write_text("broken: [")
    assert main(["sweep", str(tmp_path / "sweep.yaml"), "--out", str(tmp_path / "out"), "--workers", "1"]) == 2
    error = capsys.readouterr().err
    assert "3 of 4 runs failed" in error
    assert "NoSuchTask" in error and "is not YAML" in error
    good = "Pendulum-v1__rsa2c-kme__default__n0__s1000"
    assert digest(tmp_path / "out" / good) == digest(out / good)


def test_other_settings_in_a_folder_are_refused_by_name(swept):
    out, jobs, _ = swept
    changed = Grid.of({**SMALL, "value_ridge": 0.5}).jobs()[0]
    with pytest.raises(ConfigError, match=r"with value_ridge=0.0001, the sweep asks for 0.5. Use another --out"):
        check_same(changed, RunData.of(Run(out / changed.run_id)))
    check_same(jobs[0], RunData.of(Run(out / jobs[0].run_id)))


def test_a_run_trained_further_is_judged_again_and_a_longer_one_is_refused(tmp_path):
    short, long = (Grid.of({**SMALL, "total_timesteps": steps}).jobs()[0] for steps in (2600, 3200))
    before = run_job(short, tmp_path)
    after = run_job(long, tmp_path)
    assert (before.steps, after.steps) == (2600, 3200) and before.returns[0.0] != after.returns[0.0]
    with pytest.raises(ConfigError, match=r"was asked to train 3,200 steps, the sweep asks for 2,600"):
        run_job(short, tmp_path)


def test_a_sweep_that_names_no_steps_asks_for_the_usual_number(swept):
    out, jobs, _ = swept
    unnamed = {key: value for key, value in SMALL.items() if key != "total_timesteps"}
    assert is_done(jobs[0], out) and not is_done(Grid.of(unnamed).jobs()[0], out)


def test_workers_end_with_a_master_that_is_killed(tmp_path):
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump({**SMALL, "total_timesteps": 10_000_000}))
    command = [sys.executable, "-m", "rsa2c.cli", "sweep", "sweep.yaml", "--out", "out", "--workers", "2"]
    master = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folders = [Run(tmp_path / "out" / job.run_id) for job in Grid.of(SMALL).jobs()[:2]]
    deadline = time.monotonic() + 120
    while not all(folder.metrics_path.exists() for folder in folders):
        assert master.poll() is None and time.monotonic() < deadline
        time.sleep(0.2)
    master.kill()
    master.wait()
    while True:
        try:
            for folder in folders:
                with folder.locked():
                    assert folder.state_path.exists(), "it saved before it ended"
            return
        except StorageError:
            assert time.monotonic() < deadline, "a worker holds its run after its master is gone"
            time.sleep(0.2)


def test_rows_hold_what_the_last_evaluation_measured(swept):
    out, jobs, progress = swept
    data = RunData.of(Run(out / jobs[0].run_id))
    row, returns = Summary.of(data), data.returns["returns"][0]
    assert row == progress.rows[0]
    assert row.returns == {0.0: Return(returns.mean(), returns.std(), 2)}
    assert row.steps == 3200 and row.algorithm == "rsa2c-kme"


def test_the_command_line_lists_and_sums_up(swept, tmp_path, capsys):
    out, jobs, _ = swept
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(SMALL))
    assert main(["sweep", str(tmp_path / "sweep.yaml"), "--out", str(out), "--dry-run"]) == 0
    assert capsys.readouterr().out.count("(done)") == len(jobs)
    assert main(["sweep", str(tmp_path / "sweep.yaml"), "--out", str(out), "--workers", "1"]) == 0
    captured = capsys.readouterr()
    assert "[4/4]" in captured.err
    assert "Pendulum-v1__advanced-ac__default__n0 " in captured.out


@pytest.fixture(scope="module")
def cluster():
    """A Ray cluster of two nodes on this machine, one run at a time on each."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    # Else its workers wait for every other process of a busy machine
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    cluster.nodes = [cluster.add_node(num_cpus=1), cluster.add_node(num_cpus=1)]
    cluster.wait_for_nodes()
    yield cluster
    cluster.shutdown()


@pytest.mark.filterwarnings("ignore")
def test_ray_gives_the_bytes_of_processes_and_survives_the_loss_of_a_node(swept, cluster, tmp_path):
    out, jobs, _ = swept
    assert run_sweep(jobs, tmp_path / "ray", executor="ray", address=cluster.address).errors == {}
    assert digests(tmp_path / "ray", jobs) == digests(out, jobs)

    long = Grid.of({**SMALL, "algorithms": ["rsa2c-kme"], "seeds": [1000, 1001], "total_timesteps": 60_000}).jobs()
    lost = threading.Event()

    def lose_a_node(progress, ended):
        trained = [np.size(Run(tmp_path / "lost" / job.run_id).read_metrics()) for job in long]
        if min(trained) > 20 and not lost.is_set():
            lost.set()
            cluster.remove_node(cluster.nodes[0], allow_graceful=False)

    broken = run_sweep(long, tmp_path / "lost", executor="ray", address=cluster.address, show=lose_a_node)
    assert lost.is_set() and broken.errors == {}
    assert run_sweep(long, tmp_path / "whole", workers=2).errors == {}
    assert digests(tmp_path / "lost", long) == digests(tmp_path / "whole", long)


def test_a_folder_held_by_a_process_that_dies_late_is_waited_for(swept, tmp_path):
    _, jobs, _ = swept
    job = jobs[0]
    run = train_run(job.environment, job.algorithm, job.preset, 2600, tmp_path, track=False, **job.fields)
    released = threading.Event()

    def hold():
        with run.locked():
            held.set()
            time.sleep(2.0)
            released.set()

    held = threading.Event()
    threading.Thread(target=hold).start()
    held.wait()
    run_job(job, tmp_path)
    assert released.is_set()


def test_sweeps_know_every_field_of_the_configuration():
    for name, value in make_config("Pendulum-v1").settings().items():
        if name not in ("seed", "noise_variance", "distractors"):
            Grid.of({"environments": ["Pendulum-v1"], name: value})
