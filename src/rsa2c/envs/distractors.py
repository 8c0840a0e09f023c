"""Useless features of every kind, appended to the observation.

A kind says what k features show at each step. Those with a memory keep it for each of n environments: `ready` forgets
everything, `next` is called for all environments at each step, `first` for those in which an episode begins. Random
numbers are drawn apart from that (`draw`), from each environment's own generator: an environment shows what it would
show alone, whatever happens in the others.
What is known of the features they imitate (deviations, autocorrelations) is measured once, under random actions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from rsa2c.envs.sample import SAMPLE_STEPS, Sample, random_actions, sample_of
from rsa2c.envs.source import Source
from rsa2c.errors import ConfigError, EnvError, did_you_mean

Array = NDArray[np.float64]
LARGEST_AUTOCORRELATION = 0.999
"""A drift of a thousand steps is a constant in most episodes; what is slower could not be told from it."""
COPY_NOISE = 1.0
"""Standard deviation of the noise on a copy, in deviations of its original: their correlation is 0.7."""
TWIN_SEED = 500_000_000
"""Added to the seeds of other instances, which would otherwise begin where the environment itself begins."""
JUMP_PROBABILITY = 0.02
"""Per step: levels last 50 steps on average, a quarter of Pendulum's episode and a twentieth of a walker's."""


class Appended:
    """k features after the d true ones, in every one of n environments."""

    stream: ClassVar[int] = 2
    label: ClassVar[str]
    """Name of a feature: with {i} its number, with {of} the name of the feature that it imitates."""
    imitates: ClassVar[bool] = True
    """Whether each feature imitates a true one."""

    def __init__(self, k: int, source: Source | None = None) -> None:
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 0:
            raise ConfigError(f"The number of distractors must be a whole number >= 0, got {k!r}.")
        self.k, self._source = int(k), source

    @property
    def source(self) -> Source:
        """Where further environments come from."""
        assert self._source is not None, f"{type(self).__name__} was made without a source"
        return self._source

    @cached_property
    def imitated(self) -> NDArray[np.intp]:
        """(k,): the feature that each distractor imitates: those that vary, in turn."""
        vary = np.flatnonzero(self.sample.std > 0)
        if not len(vary):
            raise EnvError(
                f"no feature of {self.source.name} varied in {SAMPLE_STEPS:,} steps under random actions, so there is "
                "nothing to imitate. Use distractor_kind='noise'."
            )
        return vary[np.arange(self.k) % len(vary)]

    @cached_property
    def sample(self) -> Sample:
        """What is known of the true features."""
        return sample_of(self.source)

    def space(self, space: spaces.Box) -> spaces.Box:
        """The space of the observations with the appended features; what they imitate is measured here."""
        if self.imitates and self.k and max(self.imitated) >= space.shape[0]:
            raise EnvError(
                f"{self.source.name} has {space.shape[0]} features here and {self.sample.observations.shape[1]} where "
                "it is made again, so they cannot be imitated. Use distractor_kind='noise'."
            )
        return unbounded(space.shape[0] + self.k, space)

    def names(self, own: Sequence[str]) -> tuple[str, ...]:
        """Names of the k features behind those called `own`."""
        if "{i}" in self.label:
            numbers = (i for i in range(1, len(own) + self.k + 1) if self.label.format(i=i) not in own)
            return tuple(self.label.format(i=next(numbers)) for _ in range(self.k))
        times: Counter[str] = Counter()
        found = []
        for feature in self.imitated:
            name = self.label.format(of=own[feature])
            times[name] += 1
            found.append(name if times[name] == 1 else f"{name} ({times[name]})")
        return tuple(found)

    def ready(self, n: int, seed: int) -> None:
        """Forget everything; there are n environments from now on, with the seeds `seed`, `seed` + 1, ..."""
        self.shown = np.zeros((n, self.k))

    def draw(self, d: int, rng: np.random.Generator) -> NDArray[Any]:
        """Random numbers for one observation of one environment."""
        return rng.standard_normal(self.k)

    def first(self, observations: NDArray[Any], noise: NDArray[Any], rows: NDArray[np.intp]) -> NDArray[Any]:
        """The first observations (r, d + k) of episodes that begin in environments `rows`."""
        self.shown[rows] = self.begun(observations, noise, rows)
        return self._joined(observations, self.shown[rows])

    def next(self, observations: NDArray[Any], noise: NDArray[Any]) -> NDArray[Any]:
        """Further observations (n, d + k), of all environments."""
        self.shown = self.followed(observations, noise)
        return self._joined(observations, self.shown)

    def begun(self, observations: NDArray[Any], noise: NDArray[Any], rows: NDArray[np.intp]) -> Array:
        """What the features (r, k) show where an episode begins."""
        raise NotImplementedError

    def followed(self, observations: NDArray[Any], noise: NDArray[Any]) -> Array:
        """What the features (n, k) show a step after `self.shown`; without a memory, as where an episode begins."""
        return self.begun(observations, noise, np.arange(len(observations)))

    @staticmethod
    def _joined(observations: NDArray[Any], values: Array) -> NDArray[Any]:
        if not np.issubdtype(observations.dtype, np.floating):
            observations = observations.astype(np.float64)
        return np.concatenate([observations, values.astype(observations.dtype, copy=False)], axis=-1)

    def close(self) -> None:
        """Close what was opened besides."""


class Noise(Appended):
    """Independent standard normal features, drawn afresh at every step."""

    label = "noise_{i}"
    imitates = False

    def begun(self, observations: NDArray[Any], noise: NDArray[Any], rows: NDArray[np.intp]) -> Array:
        return noise


class Drift(Appended):
    """x <- rho x + sqrt(1 - rho^2) e with e standard normal, and rho the autocorrelation of a true feature (AR(1)).

    An episode begins with a draw from the stationary law, which is standard normal.
    """

    label = "drift_{i}"

    @cached_property
    def rho(self) -> Array:
        """(k,)"""
        return np.clip(self.sample.autocorrelation[self.imitated], -LARGEST_AUTOCORRELATION, LARGEST_AUTOCORRELATION)

    def begun(self, observations: NDArray[Any], noise: NDArray[Any], rows: NDArray[np.intp]) -> Array:
        return noise

    def followed(self, observations: NDArray[Any], noise: NDArray[Any]) -> Array:
        return self.rho * self.shown + np.sqrt(1.0 - self.rho**2) * noise


class Copies(Appended):
    """A true feature plus normal noise of the feature's own standard deviation, drawn afresh at every step."""

    label = "copy of {of}"

    def begun(self, observations: NDArray[Any], noise: NDArray[Any], rows: NDArray[np.intp]) -> Array:
        return observations[:, self.imitated] + COPY_NOISE * self.sample.std[self.imitated] * noise


class Permuted(Appended):
    """A true feature's value at another time, drawn afresh at every step: one of those under random actions.

    Times of the present episode would not do: a pendulum that has been upright for a while most likely still is.
    """

    label = "permuted {of}"

    def draw(self, d: int, rng: np.random.Generator) -> NDArray[Any]:
        return rng.integers(len(self.sample.observations), size=self.k)

    def begun(self, observations: NDArray[Any], noise: NDArray[Any], rows: NDArray[np.intp]) -> Array:
        return np.asarray(self.sample.observations[noise, self.imitated])


class Twin(Appended):
    """The state of other instances of the environment, as many as k features take, under random actions.

    They run on their own: the end of an episode here does not reset them.
    """

    label = "another's {of}"
    twins: VectorEnv[Any, Any, Any] | None = None

    def __init__(self, k: int, source: Source | None = None) -> None:
        super().__init__(k, source)
        if source is not None and source.alone:
            raise EnvError(
                f"{source.name} was given as an object that cannot be made again, so there is no other instance of it "
                "to show. Give a function that makes one environment, or use another distractor_kind."
            )

    @cached_property
    def imitated(self) -> NDArray[np.intp]:
        return np.arange(self.k) % self.sample.observations.shape[1]

    @property
    def each(self) -> int:
        """Instances that k features take."""
        return -(-self.k // self.sample.observations.shape[1])

    def ready(self, n: int, seed: int) -> None:
        from rsa2c.envs.making import make_env

        super().ready(n, seed)
        if self.twins is None or self.twins.num_envs != n * self.each:
            self.close()
            given = self.source
            self.twins = make_env(given if given.vector is None else Source(factory=given.factory), n * self.each)
        # those of consecutive seeds are consecutive, so that an environment has the same ones in any company
        self._see(self.twins.reset(seed=(TWIN_SEED + seed * self.each) % 2**30)[0])

    def draw(self, d: int, rng: np.random.Generator) -> NDArray[Any]:
        assert self.twins is not None, "drawn before reset"
        return rng.random((self.each, *(self.twins.single_action_space.shape or ())))

    def begun(self, observations: NDArray[Any], noise: NDArray[Any], rows: NDArray[np.intp]) -> Array:
        return self.shown[rows]

    def followed(self, observations: NDArray[Any], noise: NDArray[Any]) -> Array:
        assert self.twins is not None, "step before reset"
        actions = random_actions(self.twins.single_action_space, noise.reshape(-1, *noise.shape[2:]))
        self._see(self.twins.step(actions)[0])
        return self.shown

    def _see(self, states: NDArray[Any]) -> None:
        self.shown = np.array(states, dtype=np.float64).reshape(len(self.shown), -1)[:, : self.k]

    def close(self) -> None:
        if self.twins is not None:
            self.twins.close()
        self.twins = None


class Jumps(Appended):
    """Standard normal levels that stay as they are, and are drawn anew with probability `JUMP_PROBABILITY` a step."""

    label = "level_{i}"
    imitates = False

    def draw(self, d: int, rng: np.random.Generator) -> NDArray[Any]:
        return np.stack([rng.standard_normal(self.k), rng.random(self.k)])

    def begun(self, observations: NDArray[Any], noise: NDArray[Any], rows: NDArray[np.intp]) -> Array:
        return noise[:, 0]

    def followed(self, observations: NDArray[Any], noise: NDArray[Any]) -> Array:
        return np.where(noise[:, 1] < JUMP_PROBABILITY, noise[:, 0], self.shown)


KINDS: dict[str, type[Appended]] = {
    "noise": Noise,
    "drift": Drift,
    "copies": Copies,
    "permuted": Permuted,
    "twin": Twin,
    "jumps": Jumps,
}
"""The kinds by the name that users give them."""


def distractors_of(kind: str, k: int, source: Source | None) -> Appended:
    """k distractors of a kind; `source` makes further environments like the one they are appended to."""
    if kind not in KINDS:
        known = ", ".join(KINDS)
        raise ConfigError(f"distractor_kind must be one of {known}, got {kind!r}.{did_you_mean(str(kind), KINDS)}")
    return KINDS[kind](k, source)


def unbounded(d: int, like: spaces.Box) -> spaces.Box:
    """A space of d features without bounds."""
    dtype: Any = like.dtype if np.issubdtype(like.dtype, np.floating) else np.dtype(np.float64)
    return spaces.Box(-np.inf, np.inf, shape=(d,), dtype=dtype.type)
