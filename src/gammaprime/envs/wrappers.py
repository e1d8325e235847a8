"""Wrappers of environments, under the same contract."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gammaprime.envs.contract import Box, Snapshot, VecEnv
from gammaprime.types import Transition


class TimeFeature:
    """Append the age to the observation, as 2·age/time_limit − 1 in [−1, 1].

    For an agent that sees its age the time limit is the end of the task, so episodes that the
    limit ends are ``terminated`` here, and no value is bootstrapped there.  Other truncations,
    such as a staggered first episode, stay truncations (Pardo et al., 2018, Time Limits in
    Reinforcement Learning).

    Paper: x:time-feature.
    """

    def __init__(self, env: VecEnv) -> None:
        if env.time_limit is None:
            raise ValueError("time_limit=None: a time feature needs a limit to scale by")
        self._env = env
        self._limit = env.time_limit
        self.num_envs = env.num_envs
        self.time_limit: int | None = env.time_limit
        self.action = env.action
        self.exact_resume = env.exact_resume
        (size,), dtype, low, high = env.observation
        low, high = np.append(low, -1).astype(dtype), np.append(high, 1).astype(dtype)
        self.observation = Box((size + 1,), dtype, low, high)

    @property
    def seeds(self) -> list[int]:
        return self._env.seeds

    @property
    def age(self) -> NDArray[np.int64]:
        return self._env.age

    def reset(self, seed: int) -> NDArray[np.generic]:
        return self._append(self._env.reset(seed), self.age)

    def step(self, action: ArrayLike) -> Transition:
        inner = self._env.step(action)
        at_limit = inner.truncated & (inner.step + 1 >= self._limit)
        return Transition(
            next_obs=self._append(inner.next_obs, inner.step + 1),
            reward=inner.reward,
            terminated=inner.terminated | at_limit,
            truncated=inner.truncated & ~at_limit,
            step=inner.step,
            obs=self._append(inner.obs, self.age),
            early=inner.early,
        )

    def _append(self, obs: NDArray[np.generic], age: NDArray[np.int64]) -> NDArray[np.generic]:
        feature = (2.0 * age / self._limit - 1.0).astype(obs.dtype)
        return np.concatenate((obs, feature[:, None]), axis=1)

    def snapshot(self) -> Snapshot:
        return self._env.snapshot()

    def restore(self, snapshot: Mapping[str, NDArray[np.generic]]) -> NDArray[np.generic]:
        return self._append(self._env.restore(snapshot), self.age)

    def close(self) -> None:
        self._env.close()
