"""The one contract of every environment: N rows, true successors, no dead rows.

A row that ends is reset inside ``step``.  The Transition then carries both observations: the
true successor in ``next_obs``, and in ``obs`` the one to act on next.  What comes back is never
written to again, so a rollout may keep it without copying.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gammaprime.types import Transition, check_count

Array = NDArray[np.float64]
_ONE = np.array(1)
"""NumPy adds an array without axes faster than an integer."""
Snapshot = dict[str, NDArray[np.generic]]
"""A flat dict of plain arrays: it goes into a safetensors file as it is."""


class Box(NamedTuple):
    """Real vectors between two bounds, which may be infinite."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    low: NDArray[np.generic]
    high: NDArray[np.generic]


class Discrete(NamedTuple):
    """The integers 0, 1, ..., n − 1, which a task may know as ``start``, ``start`` + 1, ..."""

    n: int
    start: int = 0


@runtime_checkable
class VecEnv(Protocol):
    """N environments behind one ``step``."""

    num_envs: int
    observation: Box
    action: Box | Discrete
    time_limit: int | None
    """Steps after which an episode is truncated; None where nothing cuts it."""
    exact_resume: bool
    """Does ``restore`` continue bit for bit?  Otherwise it starts new episodes."""

    @property
    def seeds(self) -> list[int]:
        """The integer seed of each row, known after ``reset``."""
        ...

    @property
    def age(self) -> NDArray[np.int64]:
        """(N,) steps since the reset of each row: the age of the observation to act on next."""
        ...

    def reset(self, seed: int) -> NDArray[np.generic]:
        """Start a new episode in every row.  Shapes: -> obs (N, ...)."""
        ...

    def step(self, action: ArrayLike) -> Transition:
        """Act in every row.  Shapes: action (N, A) float, or (N,) integers."""
        ...

    def snapshot(self) -> Snapshot:
        """All that ``restore`` needs, copied."""
        ...

    def restore(self, snapshot: Mapping[str, NDArray[np.generic]]) -> NDArray[np.generic]:
        """Continue from a snapshot, also in a new process; gives the observation to act on."""
        ...

    def close(self) -> None:
        """Free what the environments hold."""
        ...


class Ages:
    """The age of each row's episode, and the age at which it is cut.

    Rows that start together stay together until one falls: a batch then knows one age only,
    and weights that depend on the age see one value.  With ``stagger`` the FIRST episode of
    row i is cut at ⌈time_limit·(i+1)/N⌉, as a truncation, so that from ``time_limit`` on the
    rows are spread evenly over all ages.  The age itself stays true, and later episodes have
    their full length.  The last row keeps its full length from the start, so one row alone is
    never cut early.

    Paper: x:episode-clock.  Departs: S3.
    """

    def __init__(self, num_envs: int, time_limit: int | None, stagger: bool = False) -> None:
        self.num_envs = check_count("num_envs", num_envs)
        if time_limit is not None:
            check_count("time_limit", time_limit)
        self.time_limit = time_limit
        self.stagger = stagger
        self.restart()

    def restart(self) -> None:
        """Every row at age 0, in its first episode."""
        never = np.iinfo(np.int64).max
        self.age = np.zeros(self.num_envs, np.int64)
        self.early: NDArray[np.bool_] | None = None
        self.limit = np.full(self.num_envs, self.time_limit or never, np.int64)
        if self.stagger and self.time_limit is not None:
            rank = np.arange(1, self.num_envs + 1)
            self.limit = -(-self.time_limit * rank // self.num_envs)
        self._note_limits()

    def _note_limits(self) -> None:
        """Remember whether a first episode that will be cut early is still under way."""
        limit = self.time_limit
        self._has_early_limits = limit is not None and bool((self.limit < limit).any())

    def advance(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """One step older: the ages that were acted in, and which rows their limit cuts.

        ``early`` then holds the rows that were cut to stagger them, or None if none was.
        """
        step = self.age
        self.age = step + _ONE
        cut = self.age >= self.limit
        self.early = None
        if self._has_early_limits:
            assert self.time_limit is not None
            self.early = cut & (self.limit < self.time_limit)
        return step, cut

    def rejuvenate(self, rows: NDArray[np.bool_]) -> None:
        """The rows that were just reset are young again, and have their full length ahead."""
        self.age[rows] = 0
        if self.stagger and self.time_limit is not None:
            self.limit[rows] = self.time_limit
            self._note_limits()

    def snapshot(self) -> Snapshot:
        return {"age": self.age.copy(), "limit": self.limit.copy()}

    def restore(self, snapshot: Mapping[str, NDArray[np.generic]]) -> None:
        self.age = np.array(read(snapshot, "age", self.age.shape), np.int64)
        self.limit = np.array(read(snapshot, "limit", self.limit.shape), np.int64)
        self._note_limits()


def check_started(call: str, seeds: list[int]) -> None:
    """Refuse what makes no sense before the first reset."""
    if not seeds:
        raise ValueError(f"{call} before reset: call reset(seed) or restore(snapshot) first")


def check_actions(action: ArrayLike, space: Box | Discrete, num_envs: int) -> NDArray[np.generic]:
    """The actions in the dtype of their space, refused before they can do harm.

    Continuous actions beyond their bounds pass: what a bound means is the task's own affair.
    """
    if isinstance(space, Discrete):
        return _check_choices(np.asarray(action), space.n, num_envs)
    array = np.ascontiguousarray(action, space.dtype)
    if array.shape != (num_envs, *space.shape):
        raise ValueError(f"action has shape {array.shape}: must be {(num_envs, *space.shape)}")
    check_finite("action", array)
    return array


def _check_choices(action: NDArray[Any], n: int, num_envs: int) -> NDArray[np.int64]:
    if action.shape != (num_envs,):
        raise ValueError(f"action has shape {action.shape}: must be {(num_envs,)}")
    if not np.issubdtype(action.dtype, np.integer):
        raise ValueError(f"action has dtype {action.dtype}: must be integers in [0, {n})")
    wrong = (action < 0) | (action >= n)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"action[{row}]={action[row]}: must be an integer in [0, {n})")
    return action.astype(np.int64)


def check_answer(call: str, answer: Any, names: tuple[str, ...]) -> None:
    """Refuse what is not the tuple that Gymnasium asks an environment for."""
    if isinstance(answer, tuple) and len(answer) == len(names):
        return
    found = f"{len(answer)} values" if isinstance(answer, tuple) else f"a {type(answer).__name__}"
    raise ValueError(f"{call} returns {found}: must return {len(names)}, ({', '.join(names)})")


def check_observation(call: str, obs: Any, space: Box) -> None:
    """Refuse an observation that is not an array of numbers in the shape of its space."""
    try:
        array = np.asarray(obs)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{call} returns an observation that is no array: {error}") from None
    if array.shape != space.shape:
        raise ValueError(
            f"{call} returns an observation of shape {array.shape}: must be {space.shape}, "
            "that of its observation_space"
        )
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{call} returns an observation of {array.dtype}: must be real numbers")


def check_scalar(call: str, name: str, value: Any, rule: str, kinds: str) -> None:
    """Refuse a value that is not a scalar of these kinds of NumPy's dtypes."""
    if np.shape(value) != () or np.asarray(value).dtype.kind not in kinds:
        raise ValueError(f"{call} returns {name}={value!r}: must be {rule}")


class NotFiniteError(ValueError):
    """NaN or infinity in an action, an observation or a reward."""


def check_finite(name: str, array: NDArray[Any], step: NDArray[np.int64] | None = None) -> None:
    """Refuse NaN and infinity, naming the row, and the step if one is given."""
    # A sum of squares is finite only if its terms are, and takes less time to find.
    if math.isfinite(np.vdot(array, array)) or np.isfinite(array).all():
        return
    at = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
    when = "" if step is None else f" at step {step[at[0]]} of its episode"
    raise NotFiniteError(f"{name}{list(at)}={array[at]} in row {at[0]}{when}: must be finite")


def read(
    snapshot: Mapping[str, NDArray[np.generic]], name: str, shape: tuple[int, ...]
) -> NDArray[np.generic]:
    """One array of a snapshot, if it is there and fits this environment."""
    if name not in snapshot:
        raise ValueError(f"snapshot has no {name!r}: it is not of this kind of environment")
    array = np.asarray(snapshot[name])
    if array.shape != shape:
        raise ValueError(
            f"snapshot[{name!r}] has shape {array.shape}: this environment needs {shape}"
        )
    return array
