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
from typing import Any

import numpy as np

from rsa2c.algorithm.automatic import Sizes
from rsa2c.algorithm.samples import Samples, environments_per_block
from rsa2c.algorithm.shares import Rollout, Span
from rsa2c.algorithm.task import Task
from rsa2c.algorithm.workers import Spread, Traffic, Workers
from rsa2c.config import Config
from rsa2c.envs import Source
from rsa2c.errors import ConfigError, notice
from rsa2c.workers.serving import ABOUT, packed, request
from rsa2c.workers.software import check_same, processor
from rsa2c.workers.transport import Handle, Lost, Transport, WorkerError

START_SECONDS = 300.0
"""How long all workers together may take to start: nodes join, CPUs become free, programs are loaded."""
TELL_SECONDS = 20.0
"""After how long a driver says what it waits for; then after twice as long, and so on."""
STRAGGLER_SECONDS, STRAGGLER_FACTOR = 60.0, 10.0
"""A worker that has not answered after a minute, and ten times as long as the slowest of those that have, is
replaced."""
SILENCE_SECONDS = 3600.0
"""Where no worker has answered, they are replaced after an hour, and ten times as long as any request took before."""
MOST_LOSSES = 5
"""Losses of one share at one request after which training stops: an environment that crashes its process would do so
at every attempt."""
POLL = 0.5
"""Seconds between two looks at who is late."""
LASTING = ("roll_out", "reduce")
"""Requests that change what a share holds, so that a replacement has to answer them first."""


_Request = tuple[Any, int]
"""A request as its transport ships it, and its size in bytes."""


@dataclass(eq=False)
class _Member:
    """A worker, its requests that are not answered yet, and what its driver knows of it."""

    span: Span
    env: str
    contents: bytes
    handle: Handle
    waiting: deque[_Request] = field(default_factory=deque)
    """Requests and their sizes; the first is under way."""
    began: float = 0.0
    losses: int = 0

    @property
    def name(self) -> str:
        last = self.span.first + self.span.count - 1
        return f"the worker of environments {self.span.first} to {last} of {self.env}"


class RemoteWorkers(Workers):
    """A driver's side of several shares."""

    def __init__(
        self, transport: Callable[[], Transport], source: Source, config: Config, task: Task, count: int
    ) -> None:
        self.n_envs, self.episode_limit, self.count = Sizes.of(config).n_envs, task.episode_limit, count
        spans = dealt(self.n_envs, Sizes.of(config).horizon, count)
        self.traffic = Traffic()
        self._transport = transport()
        self._about = self._shipped(ABOUT, ())
        self._journal: list[_Request] = []
        self._journal_seconds = self._longest = self._slowest = 0.0
        self._members: list[_Member] = []
        try:
            for span in spans:
                contents = packed(source, config, span)
                self._members.append(_Member(span, source.name, contents, self._transport.hire(contents, False)))
            self._answers([self._about] * count, _Start(source.name, count, self._transport))
        except BaseException:
            self.close()
            raise

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        shipped = self._shipped(method, arguments)
        if method == "roll_out":
            self._journal, self._journal_seconds = [], 0.0
        began = time.monotonic()
        answers = self._answers([shipped] * self.count)
        if method in LASTING:
            self._journal.append(shipped)
            self._journal_seconds += time.monotonic() - began
        return answers

    def ask_each(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        return self._answers([self._shipped(method, each) for each in arguments])

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

    def _shipped(self, method: str, arguments: tuple[Any, ...]) -> _Request:
        asked = request(method, arguments)
        return self._transport.ship(asked), len(asked)

    def _answers(self, requests: list[_Request], start: _Start | None = None) -> list[Any]:
        """What the workers answer, each to its request; at the start they are waited for, later replaced if late."""
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
                    self._replace(self._members[i], requests[i], lost)
                    continue
                if done:
                    answers[i] = value
                    seconds.append(time.monotonic() - self._members[i].began)
            if start is not None:
                start.wait(len(answers))
            else:
                self._replace_late([self._members[i] for i in pending if i not in answers], requests, seconds)
        if start is None:
            self._slowest = max(self._slowest, *seconds)
        self.traffic = self.traffic.plus(requests=1, longest=self._longest, waited=time.monotonic() - began)
        return [answers[i] for i in range(self.count)]

    def _begin(self, member: _Member, requests: list[_Request]) -> None:
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
            raise type(value)(f"{value} (from {member.name})") from value
        if member.waiting[0] is self._about:
            _check_alike(value, member.name)
        member.waiting.popleft()
        if member.waiting:
            self._send(member)
        return not member.waiting, value

    def _replace(self, member: _Member, asked: _Request, reason: Lost) -> None:
        """Hire another worker for a share, which answers the epoch's requests again and then this one."""
        member.losses += 1
        if member.losses > MOST_LOSSES:
            raise WorkerError(
                f"{member.name} was lost {member.losses} times at the same request: {reason} Environments that crash "
                "or hang do so at every attempt; try one with workers=1."
            ) from reason
        member.handle.end()
        member.handle = self._transport.hire(member.contents, True)
        self.traffic = self.traffic.plus(replaced=1)
        first = [] if asked is self._about else [self._about]
        self._begin(member, [*first, *self._journal, asked])

    def _replace_late(self, late: list[_Member], requests: list[_Request], seconds: list[float]) -> None:
        """Replace those who take much longer than the others took or, where all are late, than requests did before."""
        least, usual = (STRAGGLER_SECONDS, max(seconds)) if seconds else (SILENCE_SECONDS, self._slowest)
        if usual == 0.0:
            return  # the first request: `step_timeout` ends environments that hang
        for member in late:
            again = self._journal_seconds if member.losses else 0.0
            limit = max(least, STRAGGLER_FACTOR * (usual + again))
            if time.monotonic() - member.began > limit:
                own = requests[self._members.index(member)]
                self._replace(member, own, Lost(f"it had not answered after {limit:.0f} s."))


class _Start:
    """The wait for workers to start: it tells what is missing, and ends."""

    def __init__(self, env: str, count: int, transport: Transport) -> None:
        self.env, self.count, self.transport = env, count, transport
        self.began, self.told = time.monotonic(), TELL_SECONDS

    def wait(self, started: int) -> None:
        """Called now and then with the number of those that have started."""
        seconds = time.monotonic() - self.began
        if started == self.count or seconds < min(self.told, START_SECONDS):
            return
        found = f"{started} of {self.count} workers of {self.env} have started after {seconds:.0f} s"
        if seconds >= START_SECONDS:
            raise WorkerError(f"only {found}: {self.transport.state}.")
        self.told *= 2
        notice(f"{found}; the others have {START_SECONDS - seconds:.0f} s more: {self.transport.state}.")


def _check_alike(about: tuple[dict[str, str], str], who: str) -> None:
    """Refuse a worker with other software; one on another kind of processor is only mentioned."""
    software, there = about
    check_same(software, who)
    if there != processor():
        notice(
            f"{who} runs on a processor of another kind ({there} there, {processor()} here): the result differs in its "
            "last digits from that of machines that are alike, and depends on who computes what."
        )


def dealt(n_envs: int, horizon: int, workers: int) -> list[Span]:
    """The environments in whole blocks, as evenly as these allow."""
    per_block = environments_per_block(n_envs, horizon)
    blocks = -(-n_envs // per_block)
    if workers > blocks:
        raise ConfigError(
            f"workers is {workers}, but {n_envs} environments of {horizon} steps make {blocks} "
            f"block{'s' * (blocks != 1)} of at least 1,000 steps, and a worker takes whole blocks. Set workers to at "
            f"most {blocks}, or n_envs to at least {workers * per_block}."
        )
    parts = np.array_split(np.arange(blocks), workers)
    firsts = [int(part[0]) * per_block for part in parts]
    ends = [*firsts[1:], n_envs]
    return [Span(first, end - first, per_block) for first, end in zip(firsts, ends, strict=True)]
