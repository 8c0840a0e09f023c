"""A worker: it makes its environments and answers one request after another, as bytes."""

from __future__ import annotations

import pickle
import time
import traceback
from typing import Any

import cloudpickle

from rsa2c.algorithm.shares import Share, Span
from rsa2c.algorithm.threads import limited_threads
from rsa2c.algorithm.workers import training_env
from rsa2c.config import Config
from rsa2c.envs import Source
from rsa2c.envs.modules import use_module, was_typed
from rsa2c.errors import EnvError, RSA2CError, described
from rsa2c.workers.software import processor, software


def packed(source: Source, config: Config, span: Span) -> bytes:
    """Everything a worker has to know. What a user defined in a script or a notebook goes along as code."""
    return cloudpickle.dumps((source, config, span, source.id is not None and was_typed(source.id)))


ABOUT = "about"
"""The first request, to the worker and not to its share: what computes there."""


def request(method: str, arguments: tuple[Any, ...]) -> bytes:
    """A request as bytes: a method of `Share` and its arguments."""
    return pickle.dumps((method, arguments), protocol=5)


class Server:
    """Answers requests to a share."""

    def __init__(self, contents: bytes) -> None:
        self._contents = contents
        self._share: tuple[Share, int] | None = None

    def answer(self, asked: bytes) -> bytes:
        """(seconds it took, whether it succeeded, value or error), as bytes."""
        began = time.perf_counter()
        try:
            method, arguments = pickle.loads(asked)
            reply: tuple[bool, Any] = True, about() if method == ABOUT else self._asked(method, arguments)
        except Exception as error:
            failed = error if isinstance(error, RSA2CError) else EnvError(f"a worker failed: {described(error)}")
            failed.add_note("".join(traceback.format_exception(error)))
            reply = False, failed
        return pickle.dumps((time.perf_counter() - began, *reply), protocol=5)

    def _asked(self, method: str, arguments: tuple[Any, ...]) -> Any:
        share, threads = self._made()
        with limited_threads(threads):
            return getattr(share, method)(*arguments)

    def _made(self) -> tuple[Share, int]:
        """The share, with its environments; made at the first request, so that a failure is an answer."""
        if self._share is None:
            source, config, span, typed = pickle.loads(self._contents)
            if typed:
                use_module(source.id)
            with limited_threads(config.threads):
                env = training_env(source, config, span.count)
            self._share = Share(env, span, config), config.threads
        return self._share


def about() -> tuple[dict[str, str], str]:
    """The software and the kind of processor that compute here."""
    return software(), processor()
