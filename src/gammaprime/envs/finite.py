"""A finite MDP as an environment: one-hot observations, discrete actions, known values.

The arrays come as they are, or inside any object that carries them, such as
``gammaprime.tabular.MDP``: the exact room is not imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from gammaprime.envs.contract import (
    Ages,
    Array,
    Box,
    Discrete,
    Snapshot,
    check_actions,
    check_started,
    read,
)
from gammaprime.envs.generators import (
    WORDS,
    make_generator,
    pack_generators,
    spawn_seeds,
    unpack_generator,
)
from gammaprime.types import Transition, check_count

ROW_SUM_TOLERANCE = 1e-8


class FiniteMDP(Protocol):
    """Transitions (X, A, X), or A sparse (X, X); mean rewards (X, A)."""

    @property
    def transition(self) -> Any: ...
    @property
    def reward(self) -> Any: ...


class FiniteEnv:
    """N rows of a finite MDP.

    A state that every action leaves in place, for no reward, is absorbing: arriving there is
    ``terminated``.  ``time_limit`` truncates; on the step of a termination both flags are set.
    start: a state, or a distribution over states that are not absorbing.
    reward_noise: σ of the paper's toy rewards, r(x, a)·(1 + σξ) with ξ standard normal.
    continuous: of two actions, play the second with probability (1 + a)/2 for a in [−1, 1]
    (clipped to it): a problem for continuous policies, linear in a, with the same values.

    Paper: fig:errors (the rewards).
    """

    exact_resume = True

    def __init__(
        self,
        mdp: FiniteMDP,
        num_envs: int = 1,
        *,
        start: int | ArrayLike = 0,
        time_limit: int | None = None,
        stagger: bool = False,
        reward_noise: float = 0.0,
        continuous: bool = False,
    ) -> None:
        self.num_envs = check_count("num_envs", num_envs)
        self._kernel = _Kernel(mdp.transition)
        self._reward = np.array(mdp.reward, np.float64)
        num_states, num_actions = self._kernel.shape
        if self._reward.shape != (num_states, num_actions) or not np.isfinite(self._reward).all():
            raise ValueError(f"reward: must be finite, of shape {(num_states, num_actions)}")
        if not (np.isfinite(reward_noise) and reward_noise >= 0.0):
            raise ValueError(f"reward_noise={reward_noise!r}: must be finite and >= 0")
        if continuous and num_actions != 2:
            raise ValueError(f"continuous={continuous!r}: needs 2 actions, not {num_actions}")
        self._noise = float(reward_noise)
        self.absorbing = self._kernel.stays.all(axis=1) & (self._reward == 0.0).all(axis=1)
        self._start = np.cumsum(_as_start(start, self.absorbing))
        self._ages = Ages(num_envs, time_limit, stagger)
        self.time_limit = time_limit
        self.seeds: list[int] = []
        self._codes = np.eye(num_states, dtype=np.float32)
        zero, one = self._codes[0] * 0, self._codes[0] * 0 + 1
        self.observation = Box((num_states,), np.dtype(np.float32), zero, one)
        self.action: Box | Discrete = Discrete(num_actions)
        if continuous:
            self.action = Box((1,), np.dtype(np.float32), -one[:1], one[:1])

    @property
    def age(self) -> NDArray[np.int64]:
        return self._ages.age

    def reset(self, seed: int) -> NDArray[np.float32]:
        self.seeds = spawn_seeds(seed, self.num_envs)
        self._generators = [make_generator(row_seed) for row_seed in self.seeds]
        self._ages.restart()
        self.state = self._draw_starts(np.ones(self.num_envs, bool))
        return self._codes[self.state]

    def step(self, action: ArrayLike) -> Transition:
        check_started("step", self.seeds)
        given = check_actions(action, self.action, self.num_envs)
        choice = given if isinstance(self.action, Discrete) else self._mix(given[:, 0])
        arrived = self._kernel.draw(self.state, choice, self._uniform())
        reward = self._reward[self.state, choice]
        if self._noise:
            draws = [generator.standard_normal() for generator in self._generators]
            reward = reward * (1.0 + self._noise * np.array(draws))
        step, truncated = self._ages.advance()
        terminated = self.absorbing[arrived]
        next_obs = obs = self._codes[arrived]
        self.state = arrived
        ended = terminated | truncated
        if ended.any():
            self._ages.rejuvenate(ended)
            self.state = np.where(ended, self._draw_starts(ended), arrived)
            obs = self._codes[self.state]
        return Transition(next_obs, reward, terminated, truncated, step, obs, self._ages.early)

    def _uniform(self) -> Array:
        return np.array([generator.random() for generator in self._generators])

    def _mix(self, action: NDArray[np.generic]) -> NDArray[np.int64]:
        chance = (1.0 + np.clip(action, -1.0, 1.0)) / 2.0
        return (self._uniform() < chance).astype(np.int64)

    def _draw_starts(self, rows: NDArray[np.bool_]) -> NDArray[np.int64]:
        """New states for these rows, 0 for the others: each row draws only for itself."""
        starts = np.zeros(self.num_envs, np.int64)
        for row in np.flatnonzero(rows):
            draw = self._generators[row].random() * self._start[-1]
            starts[row] = np.searchsorted(self._start, draw, side="right")
        return starts

    def snapshot(self) -> Snapshot:
        check_started("snapshot", self.seeds)
        return {
            "state": self.state.copy(),
            "generators": pack_generators(self._generators),
            "seeds": np.array(self.seeds, np.uint64),
            **self._ages.snapshot(),
        }

    def restore(self, snapshot: Mapping[str, NDArray[np.generic]]) -> NDArray[np.float32]:
        state = np.array(read(snapshot, "state", (self.num_envs,)), np.int64)
        generators = read(snapshot, "generators", (self.num_envs, WORDS))
        seeds = read(snapshot, "seeds", (self.num_envs,))
        if state.min() < 0 or state.max() >= len(self._codes):
            raise ValueError(f"snapshot['state']: must lie in [0, {len(self._codes)})")
        self._ages.restore(snapshot)
        self.state = state
        self.seeds = [int(seed) for seed in seeds]
        self._generators = [unpack_generator(words) for words in generators]
        return self._codes[state]

    def close(self) -> None:
        """Nothing to free."""


class _Kernel:
    """p(y | x, a) as one sorted list of cumulative probabilities, drawn from by bisection.

    Row x·A + a holds the cumulative sums of its own probabilities, plus the row number: the
    whole list increases, and one search serves every row of the batch.
    """

    def __init__(self, transition: Any) -> None:
        matrices = _as_matrices(transition)
        num_states, num_actions = matrices[0].shape[0], len(matrices)
        self.shape = (num_states, num_actions)
        stacked = sp.csr_array(sp.vstack(matrices))
        order = np.arange(num_states * num_actions).reshape(num_actions, num_states).T.ravel()
        rows = sp.csr_array(stacked[order])
        rows.eliminate_zeros()
        sums = _check_rows(rows, num_actions)
        owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        rows.data /= sums[owner]
        total = np.cumsum(rows.data)
        before = np.concatenate(([0.0], total))[rows.indptr[:-1]]
        self._bounds = owner + np.minimum(total - before[owner], 1.0)
        self._first, self._last = rows.indptr[:-1], rows.indptr[1:] - 1
        self._target = rows.indices.astype(np.int64)
        itself = np.repeat(np.arange(num_states), num_actions)
        alone = self._first == self._last
        self.stays = (alone & (self._target[self._first] == itself)).reshape(self.shape)

    def draw(self, state: Any, action: Any, uniform: Array) -> NDArray[np.int64]:
        row = state * self.shape[1] + action
        found = np.searchsorted(self._bounds, row + uniform, side="right")
        # The sums of a row may miss 1 by a rounding error.
        return self._target[np.clip(found, self._first[row], self._last[row])]


def _as_matrices(transition: Any) -> list[Any]:
    if isinstance(transition, tuple | list) and any(sp.issparse(item) for item in transition):
        matrices = [sp.csr_array(item, dtype=np.float64) for item in transition]
    else:
        dense = np.asarray(transition, np.float64)
        if dense.ndim != 3:
            raise ValueError(f"transition has shape {dense.shape}: must be (X, A, X)")
        matrices = [sp.csr_array(dense[:, a]) for a in range(dense.shape[1])]
    shapes = {matrix.shape for matrix in matrices}
    if len(shapes) != 1 or len(set(*shapes)) != 1 or matrices[0].shape[0] == 0:
        raise ValueError(
            f"transition holds {sorted(shapes)}: must be square, with X >= 1 and A >= 1"
        )
    return matrices


def _check_rows(rows: Any, num_actions: int) -> Array:
    """Return the sums of the rows, if they are distributions."""
    sums = np.asarray(rows.sum(axis=1)).ravel()
    lowest = rows.min(axis=1).toarray().ravel()
    good = (np.abs(sums - 1.0) <= ROW_SUM_TOLERANCE) & (lowest >= 0.0)
    if not good.all():
        worst = int(good.argmin())
        state, action = divmod(worst, num_actions)
        raise ValueError(
            f"transition[{state}, {action}] sums to {sums[worst]}, its least entry is "
            f"{lowest[worst]}: rows must be distributions"
        )
    return sums


def _as_start(start: int | ArrayLike, absorbing: NDArray[np.bool_]) -> Array:
    num_states = len(absorbing)
    weights = np.asarray(start)
    if weights.ndim == 0:
        if not (np.issubdtype(weights.dtype, np.integer) and 0 <= weights < num_states):
            raise ValueError(f"start={start!r}: must be a state in [0, {num_states})")
        weights = np.eye(num_states)[int(weights)]
    weights = weights.astype(np.float64)
    if weights.shape != (num_states,) or not abs(weights.sum() - 1.0) <= ROW_SUM_TOLERANCE:
        raise ValueError(f"start={start!r}: must be a distribution over {num_states} states")
    if (weights < 0.0).any() or (weights[absorbing] > 0.0).any():
        raise ValueError(f"start={start!r}: must be >= 0, and 0 for absorbing states")
    return weights
