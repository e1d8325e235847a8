"""PyBullet's locomotion tasks, resumed exactly by replaying the episode that was under way.

PyBullet cannot write its state to memory, but it is deterministic: a fresh simulator, the random
generator as it was at the reset and the episode's actions give the same bits again.  One thing
survives a reset there.  The first reset of an environment loads the robot before the floor, the
mean position of all parts counts the floor only from then on, and the first reward differs: a
first episode is therefore replayed as a first one, a later one as a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gammaprime.envs.quiet import quiet

try:
    with quiet():
        import pybullet  # noqa: F401  (its import is not silent either)
        import pybullet_envs_gymnasium  # noqa: F401  (registers the tasks)
except ImportError as error:
    raise ImportError(
        f"PyBullet tasks need {error.name or 'pybullet'}: pip install 'gammaprime[bullet]'"
    ) from error

from gammaprime.envs.contract import Snapshot, read
from gammaprime.envs.generators import WORDS, pack_generators, unpack_generator
from gammaprime.envs.gym import Constructor, GymEnv


class BulletEnv(GymEnv):
    """N rows of a PyBullet task; every row keeps the actions of its episode."""

    exact_resume = True

    def __init__(
        self,
        constructors: Sequence[Constructor],
        *,
        time_limit: int | None = None,
        stagger: bool = False,
    ) -> None:
        super().__init__(constructors, time_limit=time_limit, stagger=stagger)
        self._actions: list[list[NDArray[np.float32]]] = [[] for _ in constructors]
        self._shape = self._spaces()[1].shape
        self._at_reset = np.zeros((self.num_envs, WORDS), np.uint64)

    def reset(self, seed: int) -> NDArray[np.generic]:
        self._rebuild()
        return super().reset(seed)

    def _rebuild(self) -> None:
        """Fresh simulators: the first episode of a used one is not a first episode."""
        self.close()
        self._envs = [constructor() for constructor in self._constructors]

    def _step_row(self, row: int, action: Any) -> tuple[Any, float, bool, bool]:
        self._actions[row].append(action)
        return super()._step_row(row, action)

    def _reset_row(self, row: int, seed: int | None = None) -> Any:
        self._actions[row] = []
        self._at_reset[row] = 0  # a first episode is replayed from its seed
        if seed is None:
            self._at_reset[row] = pack_generators([self._envs[row].unwrapped.np_random])[0]
        # The first reset makes a simulator, and every simulator says hello.
        with quiet():
            return super()._reset_row(row, seed)

    def snapshot(self) -> Snapshot:
        longest = max(len(actions) for actions in self._actions)
        actions = np.zeros((self.num_envs, longest, *self._shape), np.float32)
        for row, played in enumerate(self._actions):
            actions[row, : len(played)] = np.reshape(played, (-1, *self._shape))
        return {
            **super().snapshot(),
            **self._ages.snapshot(),
            "actions": actions,
            "at_reset": self._at_reset.copy(),
            "obs": self._obs.copy(),
        }

    def restore(self, snapshot: Mapping[str, NDArray[np.generic]]) -> NDArray[np.generic]:
        n = self.num_envs
        seeds = read(snapshot, "seeds", (n,))
        episodes = read(snapshot, "episodes", (n,))
        at_reset = read(snapshot, "at_reset", (n, WORDS))
        expected = read(snapshot, "obs", (n, *self.observation.shape))
        self._ages.restore(snapshot)
        longest = int(self._ages.age.max())
        actions = read(snapshot, "actions", (n, longest, *self._shape))
        self.seeds = [int(seed) for seed in seeds]
        self._episodes = np.array(episodes, np.int64)
        self._rebuild()
        self._obs = self._empty()
        for row, age in enumerate(self._ages.age):
            self._obs[row] = self._replay(row, at_reset[row], actions[row, :age])
            if not np.array_equal(self._obs[row], expected[row]):
                raise ValueError(
                    f"snapshot: row {row} replayed {age} steps and did not arrive where it "
                    "was; are these the same versions and the same kind of processor?"
                )
        return self._obs

    def _replay(self, row: int, at_reset: Any, actions: Any) -> Any:
        seed = self.seeds[row]
        obs = self._reset_row(row, seed)
        if self._episodes[row] > 0:
            generator = self._envs[row].unwrapped.np_random
            generator.bit_generator.state = unpack_generator(at_reset).bit_generator.state
            obs = self._reset_row(row)
        for action in actions:
            obs, *_ = self._step_row(row, action)
        return obs
