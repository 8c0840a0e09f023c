"""The SLURM script and the KubeRay manifest, as far as a machine without a cluster allows: the script runs with stubs
of `srun`, `ray` and `rsa2c`, Ray's own parser and ours read their arguments, and the manifest has KubeRay's fields."""

from __future__ import annotations

import csv
import os
import shlex
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

import rsa2c
from pages import blocks
from rsa2c.cli.command import parse
from rsa2c.cli.train import ResumeOptions, RunOptions, resume, train
from rsa2c.config import make_config
from rsa2c.runs.names import make_run_id

ROOT = Path(__file__).parent.parent
SCRIPT, MANIFEST = ROOT / "examples" / "slurm.sh", ROOT / "examples" / "rayjob.yaml"
JOB = {
    "SLURM_JOB_ID": "4711", "SLURM_JOB_NUM_NODES": "3", "SLURM_CPUS_PER_TASK": "16", "SLURMD_NODENAME": "node7",
}  # fmt: skip
HEAD = "127.0.0.1:24711"
STUBS = {
    "hostname": 'echo "fe80::1 127.0.0.1 10.0.0.1"',
    # Options up to the program are srun's, the rest is what it starts
    "srun": """\
echo "srun $*" >> "$LOG"
while [ "$1" != ray ]; do shift; done
exec "$@"
""",
    "ray": """\
echo "ray $*" >> "$LOG"
echo $$ >> pids
case "$* $DIES" in
    *--head*dies) echo "no memory" >&2; exit 1 ;;
    *--head*)
        port=$(echo "$*" | sed "s/.*--port=\\([0-9]*\\).*/\\1/")
        exec python3 -c "import socket, time; s = socket.create_server(('127.0.0.1', $port)); time.sleep(60)" ;;
    *) exec sleep 60 ;;
esac
""",
    # Like the training, it waits for the workers
    "rsa2c": """\
i=0
while ! grep -q "^ray start --address" "$LOG" && [ $i -lt 300 ] && [ -z "$ALONE" ]; do sleep 0.1; i=$((i + 1)); done
echo "rsa2c $*" >> "$LOG"
exit "${RESULT:-0}"
""",
}


def run_script(
    folder: Path, *arguments: str, stubs: Sequence[str] = tuple(STUBS), **more: str
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """The script's end, and the commands that it gave, in their order."""
    programs, log = folder / "bin", folder / "log"
    programs.mkdir(exist_ok=True)
    log.write_text("")
    for name in stubs:
        (programs / name).write_text(f"#!/bin/bash\n{STUBS[name]}\n")
        (programs / name).chmod(stat.S_IRWXU)
    env = {**os.environ, **JOB, **more, "LOG": str(log)}
    env["PATH"] = f"{programs}{os.pathsep}{env['PATH']}"
    command = ["bash", str(SCRIPT), *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=1200, check=False)
    return done, log.read_text().splitlines()


def options(command: str) -> set[str]:
    return set(shlex.split(command))


def test_the_script_starts_the_head_then_the_others_then_the_training(tmp_path):
    done, log = run_script(tmp_path, "Ant-v5", "--n-envs", "94")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in log] == ["srun", "ray", "srun", "ray", "rsa2c"]
    of_head, head, of_others, others, training = log
    both = {"--overlap", "--no-kill", "--kill-on-bad-exit=0", "--ntasks-per-node=1", "--cpus-per-task=16"}
    assert options(of_head.partition(" ray ")[0]) == {"srun", *both, "--nodes=1", "--ntasks=1", "--nodelist=node7"}
    assert options(of_others.partition(" ray ")[0]) == {"srun", *both, "--nodes=2", "--ntasks=2", "--exclude=node7"}
    assert of_head.endswith(head) and of_others.endswith(others)
    head_options = {"--node-ip-address=127.0.0.1", "--port=24711", "--ray-client-server-port=29711"}
    head_options |= {"--include-dashboard=false", "--num-cpus=15", "--head"}
    node = {"ray", "start", "--min-worker-port=0", "--max-worker-port=0", "--block"}
    assert options(head) == {*node, *head_options}
    assert options(others) == {*node, f"--address={HEAD}", "--num-cpus=16"}
    workers = 15 + 2 * 16
    assert training == f"rsa2c train Ant-v5 --n-envs 94 --out runs/4711 --workers {workers} --address {HEAD} --quiet"
    begun = parse(RunOptions, [x for x in shlex.split(training)[2:] if x not in ("--n-envs", "94")], train)
    assert (begun.env, begun.workers, begun.address) == ("Ant-v5", workers, HEAD)


def test_the_script_leaves_nothing_running(tmp_path):
    run_script(tmp_path, "Ant-v5")
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 2
    until = time.monotonic() + 30.0
    while any(runs(pid) for pid in pids):
        assert time.monotonic() < until
        time.sleep(0.1)


def runs(pid: str) -> bool:
    """Whether a process exists and has not ended."""
    stat_file = Path(f"/proc/{pid}/stat")
    return stat_file.exists() and stat_file.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_job_that_is_started_again_resumes_its_own_run(tmp_path):
    (tmp_path / "runs" / "4711" / "Ant-v5__s0").mkdir(parents=True)
    assert " train " in run_script(tmp_path, "Ant-v5")[1][-1]
    (tmp_path / "runs" / "4711" / "Ant-v5__s0" / "config.yaml").touch()
    again = run_script(tmp_path, "Ant-v5")[1][-1]
    assert again == f"rsa2c resume runs/4711/Ant-v5__s0 --workers 47 --address {HEAD} --quiet"
    assert parse(ResumeOptions, shlex.split(again)[2:], resume).address == HEAD
    assert " train " in run_script(tmp_path, "Ant-v5", SLURM_JOB_ID="4712")[1][-1]


def test_jobs_that_share_a_node_have_ports_of_their_own(tmp_path):
    ports = set()
    for job in ("4711", "4712"):
        line = run_script(tmp_path, "Ant-v5", SLURM_JOB_ID=job)[1][1]
        ports |= {each.partition("=")[2] for each in shlex.split(line) if "port=2" in each}
    assert len(ports) == 4


def test_one_node_needs_no_others_and_a_failed_training_is_a_failed_job(tmp_path):
    done, log = run_script(tmp_path, "Ant-v5", SLURM_JOB_NUM_NODES="1", ALONE="yes", RESULT="3")
    assert done.returncode == 3
    assert [line.split()[0] for line in log] == ["srun", "ray", "rsa2c"] and "--workers 15 " in log[-1]


def test_a_head_that_ends_is_an_error_and_no_training_begins(tmp_path):
    done, log = run_script(tmp_path, "Ant-v5", DIES="dies")
    assert done.returncode == 1 and not [line for line in log if line.startswith("rsa2c")]
    assert "no memory" in done.stderr and f"Ray does not answer at {HEAD} on node7" in done.stderr


def test_ray_knows_the_scripts_options(tmp_path):
    start = pytest.importorskip("ray.scripts.scripts").start
    for line in run_script(tmp_path, "Ant-v5")[1]:
        if line.startswith("ray"):
            start.make_context("start", shlex.split(line)[2:])


@pytest.mark.slow
def test_the_script_trains_on_two_nodes_of_this_machine(tmp_path):
    """With real Ray and a real training; only SLURM is played."""
    pytest.importorskip("ray")
    arguments = ["Pendulum-v1", "--n-envs", "6", "--horizon", "1000", "--capacity", "40", "--total-timesteps", "12000"]
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    job = {"SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_PER_TASK": "2", "PATH": paths}
    done, _ = run_script(tmp_path, *arguments, stubs=("hostname", "srun"), **job)
    assert done.returncode == 0, done.stderr
    (metrics,) = tmp_path.glob("runs/4711/*/metrics.csv")
    with metrics.open() as file:
        assert {row["workers"] for row in csv.DictReader(file)} == {"3"}


FIELDS: dict[str, set[str]] = {
    "spec": {
        "activeDeadlineSeconds", "backoffLimit", "clusterSelector", "deletionStrategy", "entrypoint",
        "entrypointNumCpus", "entrypointNumGpus", "entrypointResources", "jobId", "managedBy", "metadata",
        "preRunningDeadlineSeconds", "rayClusterSpec", "runtimeEnvYAML", "shutdownAfterJobFinishes", "submissionMode",
        "submitterConfig", "submitterPodTemplate", "suspend", "ttlSecondsAfterFinished",
    },
    "rayClusterSpec": {
        "authOptions", "autoscalerOptions", "enableInTreeAutoscaling", "gcsFaultToleranceOptions", "headGroupSpec",
        "headServiceAnnotations", "historyServerOptions", "managedBy", "networkPolicy", "rayVersion", "suspend",
        "tlsOptions", "upgradeStrategy", "workerGroupSpecs",
    },
    "headGroupSpec": {
        "enableIngress", "headService", "ingressOptions", "labels", "rayStartParams", "resources", "serviceType",
        "template",
    },
    "workerGroupSpecs": {
        "groupName", "idleTimeoutSeconds", "labels", "maxReplicas", "minReplicas", "numOfHosts", "priority",
        "rayStartParams", "replicas", "resources", "scaleStrategy", "suspend", "template",
    },
}  # fmt: skip
"""Those of `ray.io/v1` in KubeRay 1.7.0 (helm-chart/kuberay-operator/crds/ray.io_rayjobs.yaml)."""


@pytest.fixture
def manifest() -> tuple[dict[str, Any], dict[str, Any]]:
    claim, job = yaml.safe_load_all(MANIFEST.read_text("utf-8"))
    return claim, job


def test_the_manifest_has_fields_that_kuberay_has(manifest):
    _, job = manifest
    cluster = job["spec"]["rayClusterSpec"]
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert set(job["spec"]) <= FIELDS["spec"] and set(cluster) <= FIELDS["rayClusterSpec"]
    assert set(cluster["headGroupSpec"]) <= FIELDS["headGroupSpec"]
    for group in cluster["workerGroupSpecs"]:
        assert {"groupName", "minReplicas", "maxReplicas", "template"} <= set(group) <= FIELDS["workerGroupSpecs"]
    starts = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    assert all(isinstance(x, str) for group in starts for x in group["rayStartParams"].values())


def test_the_manifests_parts_fit_together(manifest):
    """One image with one Ray, as many CPUs as workers, and files where the driver is, which is the head alone."""
    claim, job = manifest
    cluster = job["spec"]["rayClusterSpec"]
    head, (group,) = cluster["headGroupSpec"], cluster["workerGroupSpecs"]
    pods = [each["template"]["spec"] for each in (head, group)]
    assert {pod["containers"][0]["image"] for pod in pods} == {
        f"REGISTRY/rsa2c:{rsa2c.__version__}-ray{cluster['rayVersion']}"
    }
    resources = [pod["containers"][0]["resources"] for pod in pods]
    assert all(each["requests"] == each["limits"] for each in resources)
    assert head["rayStartParams"]["num-cpus"] == "0"
    (volume,), (mount,) = pods[0]["volumes"], pods[0]["containers"][0]["volumeMounts"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert volume["name"] == mount["name"] and "volumes" not in pods[1]
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]

    shell, flag, script = shlex.split(job["spec"]["entrypoint"])
    assert (shell, flag) == ("sh", "-c") and subprocess.run(["sh", "-nc", script], check=False).returncode == 0
    condition, resumed, begun, _ = script.split(";")
    run = f"{mount['mountPath']}/{make_run_id('Ant-v5', 'rsa2c-kme', 'default', make_config('Ant-v5', n_envs=32))}"
    assert condition.strip() == f"if [ -f {run}/config.yaml ]"
    again = parse(ResumeOptions, shlex.split(resumed)[3:], resume)
    first = parse(RunOptions, [x for x in shlex.split(begun)[3:] if x not in ("--n-envs", "32")], train)
    cpus = group["replicas"] * int(resources[1]["limits"]["cpu"])
    assert again.run == run and again.workers == first.workers == cpus and again.address == first.address == "auto"
    assert first.out == mount["mountPath"] and group["minReplicas"] == group["maxReplicas"] == group["replicas"]


def test_the_docs_show_these_files():
    shown = [text for _, text in blocks(ROOT / "docs" / "scaling.md")]
    assert SCRIPT.read_text("utf-8") in shown and MANIFEST.read_text("utf-8") in shown
