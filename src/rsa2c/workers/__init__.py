"""One training over several processes or machines.

The environments of a training are dealt out in whole blocks (`algorithm/samples.py`). Each worker holds a share of them
and answers requests (`serving.py`); `remote.py` asks, adds up, and replaces workers that are lost or too slow. Workers
are processes of this machine (`processes.py`) or actors of a Ray cluster (`cluster.py`); to their driver these look
alike (`transport.py`), and they must have the same software as it (`software.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rsa2c.errors import ConfigError

if TYPE_CHECKING:
    from rsa2c.algorithm.task import Task
    from rsa2c.algorithm.workers import Workers
    from rsa2c.config import Config
    from rsa2c.envs import Source


def check_workers(workers: int, cluster: str | None) -> None:
    """Refuse a number of workers below one, and an address that is no text."""
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise ConfigError(f"workers must be a whole number >= 1, got {workers!r}.")
    if cluster is not None and not isinstance(cluster, str):
        raise ConfigError(f"cluster must be None, 'auto', 'local' or an address, got {cluster!r}.")


def hired(source: Source, config: Config, task: Task, workers: int, cluster: str | None) -> Workers:
    """So many workers: processes of this machine, or actors of the Ray cluster at an address."""
    from rsa2c.workers.remote import RemoteWorkers

    if source.vector is not None or source.alone:
        raise ConfigError(
            f"workers={workers} needs an environment that workers can make for themselves; {source.name} was given as "
            "an object. Give its id, a class, or a function that makes one."
        )
    if cluster is None:
        from rsa2c.workers.processes import Processes

        return RemoteWorkers(Processes, source, config, task, workers)
    from rsa2c.workers.cluster import RayActors

    return RemoteWorkers(lambda: RayActors(cluster, workers), source, config, task, workers)
