"""Workers elsewhere: asked together, replaced when they are lost or too slow.

All randomness of an epoch comes from seeds in its requests, so a worker is replaced by one that answers the epoch's
requests again, from the rollout on, and the training goes on to the same bytes.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pickle import loads
from typing import Any, Protocol

import numpy as np

from rsa2c.algorithm.automatic import Sizes
from rsa2c.algorithm.samples import Samples, environments_per_block
from rsa2c.algorithm.shares import Rollout, Span
from rsa2c.algorithm.task import Task
from rsa2c.algorithm.workers import Spread, Traffic, Workers
from rsa2c.config import Config
from rsa2c.envs import Source
from rsa2c.errors import ConfigError, EnvError, RSA2CError
from rsa2c.workers.serving import packed, request

STRAGGLER_SECONDS, STRAGGLER_FACTOR = 60.0, 10.0
"""A worker that has not answered after a minute, and ten times as long as the slowest of those that have, is
replaced."""
MOST_LOSSES = 5
"""Losses of one share at one request after which training stops: an environment that crashes its process would do so
at every attempt."""
POLL = 0.5
"""Seconds between two looks at who is late."""
LASTING = ("roll_out", "reduce")
"""Requests that change what a share holds, so that a replacement has to answer them first."""


class Lost(Exception):
    """A worker that will not answer any more, and why."""


class WorkerError(RSA2CError, RuntimeError):
    """Workers that were lost again and again."""


class Handle(Protocol):
    """One worker as its driver sees it."""

    def send(self, asked: Any) -> None: ...

    def receive(self) -> bytes:
        """The next answer; raises `Lost`."""

    def end(self) -> None:
        """Let it go, whatever it is doing."""


class Transport(Protocol):
    """Where workers are, and how requests reach them."""

    def hire(self, contents: bytes, again: bool) -> Handle:
        """A new worker, perhaps in the place of one that was lost."""

    def ship(self, asked: bytes) -> Any:
        """A request in the form in which it is sent, to one worker or to many."""

    def ready(self, handles: Sequence[Any], timeout: float) -> Sequence[Any]:
        """Those with an answer, or lost; none if nothing happens in time."""

    def close(self) -> None: ...


@dataclass(eq=False)
class _Member:
    """A worker, its requests that are not answered yet, and what its driver knows of it."""

    span: Span
    contents: bytes
    handle: Handle
    waiting: deque[tuple[Any, int]] = field(default_factory=deque)
    """Requests and their sizes; the first is under way."""
    began: float = 0.0
    losses: int = 0

    @property
    def name(self) -> str:
        last = self.span.first + self.span.count - 1
        return f"the worker of environments {self.span.first} to {last}"


class RemoteWorkers(Workers):
    """A driver's side of several shares."""

    def __init__(
        self, transport: Callable[[], Transport], source: Source, config: Config, task: Task, count: int
    ) -> None:
        self.n_envs, self.episode_limit, self.count = Sizes.of(config).n_envs, task.episode_limit, count
        spans = dealt(self.n_envs, Sizes.of(config).horizon, count)
        self.traffic = Traffic()
        self._transport = transport()
        self._journal: list[tuple[Any, int]] = []
        self._journal_seconds = self._longest = 0.0
        self._members: list[_Member] = []
        for span in spans:
            contents = packed(source, config, span)
            self._members.append(_Member(span, contents, self._transport.hire(contents, False)))

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        asked = request(method, arguments)
        shipped = self._transport.ship(asked), len(asked)
        if method == "roll_out":
            self._journal, self._journal_seconds = [], 0.0
        began = time.monotonic()
        answers = self._answers([shipped] * self.count)
        if method in LASTING:
            self._journal.append(shipped)
            self._journal_seconds += time.monotonic() - began
        return answers

    def ask_each(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        asked = [request(method, each) for each in arguments]
        return self._answers([(self._transport.ship(each), len(each)) for each in asked])

    def roll_out(self, plan: Rollout, observe: Any = None) -> Samples:
        if observe is not None:
            raise ConfigError(
                "callbacks that are called after each step need the environments in this process. Train with workers=1 "
                "and no cluster, or give a function, which is called after each epoch."
            )
        return super().roll_out(plan)

    def spread_since(self, mark: tuple[float, Traffic]) -> Spread:
        cost, seconds = self.traffic - mark[1], time.perf_counter() - mark[0]
        idle = max(0.0, 1.0 - cost.busy / (self.count * seconds))
        return Spread(self.count, cost.sent + cost.received, idle, cost.replaced)

    def close(self) -> None:
        for member in self._members:
            member.handle.end()
        self._members = []
        self._transport.close()

    def _answers(self, requests: list[tuple[Any, int]]) -> list[Any]:
        """What the workers answer, each to its request."""
        began, self._longest = time.monotonic(), 0.0
        for member, asked in zip(self._members, requests, strict=True):
            member.losses = 0
            self._begin(member, [asked])
        answers: dict[int, Any] = {}
        seconds: list[float] = []
        while len(answers) < self.count:
            pending = [i for i in range(self.count) if i not in answers]
            members = {id(self._members[i].handle): i for i in pending}
            for handle in self._transport.ready([self._members[i].handle for i in pending], POLL):
                i = members[id(handle)]
                try:
                    done, value = self._received(self._members[i])
                except Lost as lost:
                    self._replace(self._members[i], requests[i], str(lost))
                    continue
                if done:
                    answers[i] = value
                    seconds.append(time.monotonic() - self._members[i].began)
            self._replace_late([self._members[i] for i in pending if i not in answers], requests, seconds)
        self.traffic = self.traffic.plus(requests=1, longest=self._longest, waited=time.monotonic() - began)
        return [answers[i] for i in range(self.count)]

    def _begin(self, member: _Member, requests: list[tuple[Any, int]]) -> None:
        """Send the first request; the others follow as answers come, so that neither side waits for the other."""
        member.waiting, member.began = deque(requests), time.monotonic()
        self._send(member)

    def _send(self, member: _Member) -> None:
        asked, size = member.waiting[0]
        self.traffic = self.traffic.plus(sent=size)
        member.handle.send(asked)

    def _received(self, member: _Member) -> tuple[bool, Any]:
        """Whether the last of a worker's requests is answered, and its value."""
        content = member.handle.receive()
        busy, succeeded, value = loads(content)
        self.traffic, self._longest = self.traffic.plus(received=len(content), busy=busy), max(self._longest, busy)
        if not succeeded:
            raise type(value)(f"{value} (from {member.name})") if isinstance(value, EnvError) else value
        member.waiting.popleft()
        if member.waiting:
            self._send(member)
        return not member.waiting, value

    def _replace(self, member: _Member, asked: tuple[Any, int], reason: str) -> None:
        """Hire another worker for a share, which answers the epoch's requests again and then this one."""
        member.losses += 1
        if member.losses > MOST_LOSSES:
            raise WorkerError(
                f"{member.name} was lost {member.losses} times at the same request: {reason} Environments that crash "
                "or hang do so at every attempt; try one with workers=1."
            )
        member.handle.end()
        member.handle = self._transport.hire(member.contents, True)
        self.traffic = self.traffic.plus(replaced=1)
        self._begin(member, [*self._journal, asked])

    def _replace_late(self, late: list[_Member], requests: list[tuple[Any, int]], seconds: list[float]) -> None:
        """Replace those who take much longer than the others took."""
        if not seconds:
            return
        for member in late:
            again = self._journal_seconds if member.losses else 0.0
            limit = max(STRAGGLER_SECONDS, STRAGGLER_FACTOR * (max(seconds) + again))
            if time.monotonic() - member.began > limit:
                own = requests[self._members.index(member)]
                self._replace(member, own, f"it had not answered after {limit:.0f} s.")


def dealt(n_envs: int, horizon: int, workers: int) -> list[Span]:
    """The environments in whole blocks, as evenly as these allow."""
    per_block = environments_per_block(n_envs, horizon)
    blocks = -(-n_envs // per_block)
    if workers > blocks:
        raise ConfigError(
            f"workers is {workers}, but {n_envs} environments of {horizon} steps make {blocks} blocks of at least "
            f"1,000 steps, and a worker takes whole blocks. Set workers to at most {blocks}, or n_envs to at least "
            f"{workers * per_block}."
        )
    parts = np.array_split(np.arange(blocks), workers)
    firsts = [int(part[0]) * per_block for part in parts]
    ends = [*firsts[1:], n_envs]
    return [Span(first, end - first, per_block) for first, end in zip(firsts, ends, strict=True)]
