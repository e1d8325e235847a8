"""Any Gymnasium environment under the contract, stepped in this process.

Gymnasium offers no way to save an environment, so resume is statistical here: ``restore``
starts new episodes, with seeds that were never used before, staggered again where they were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

try:
    import gymnasium
except ImportError as error:
    raise ImportError("Gymnasium tasks need gymnasium: pip install 'gammaprime[train]'") from error

from gammaprime.envs.contract import (
    Ages,
    Box,
    Discrete,
    Snapshot,
    check_actions,
    check_answer,
    check_finite,
    check_observation,
    check_scalar,
    check_started,
    read,
)
from gammaprime.envs.generators import later_seed, spawn_seeds
from gammaprime.types import Transition

Constructor = Callable[[], "gymnasium.Env[Any, Any]"]


class GymEnv:
    """N Gymnasium environments, each made by its own constructor.

    ``time_limit`` truncates beside whatever the environments do themselves; by default it is
    the limit they are registered with, None where there is none.
    """

    exact_resume = False

    def __init__(
        self,
        constructors: Sequence[Constructor],
        *,
        time_limit: int | None = None,
        stagger: bool = False,
    ) -> None:
        self.num_envs = len(constructors)
        self._envs = [_made_by(constructor) for constructor in constructors]
        limit = _check_limits([_own_limit(env) for env in self._envs], time_limit)
        self._ages = Ages(self.num_envs, limit, stagger)
        # What an environment returns is checked once; an author's mistake is there from the start.
        self._was_reset: set[int] = set()
        self._stepped: set[int] = set()
        self.time_limit = limit
        self.seeds: list[int] = []
        self.observation = observation_space(self._envs[0].observation_space)
        self.action: Box | Discrete = action_space(self._envs[0].action_space)
        for row, env in enumerate(self._envs):
            if (env.observation_space, env.action_space) != self._spaces():
                raise ValueError(
                    f"constructors[{row}] makes spaces {env.observation_space} and "
                    f"{env.action_space}: must be those of row 0"
                )

    def _spaces(self) -> tuple[Any, Any]:
        return self._envs[0].observation_space, self._envs[0].action_space

    @property
    def age(self) -> NDArray[np.int64]:
        return self._ages.age

    def reset(self, seed: int) -> NDArray[np.generic]:
        self.seeds = spawn_seeds(seed, self.num_envs)
        self._ages.restart()
        self._episodes = np.zeros(self.num_envs, np.int64)
        self._obs = self._empty()
        for row, row_seed in enumerate(self.seeds):
            self._obs[row] = self._reset_row(row, row_seed)
        check_finite("obs", self._obs, self._ages.age)
        return self._obs

    def step(self, action: ArrayLike) -> Transition:
        check_started("step", self.seeds)
        action = check_actions(action, self.action, self.num_envs)
        next_obs = self._empty()
        reward = np.empty(self.num_envs)
        terminated = np.empty(self.num_envs, bool)
        stopped = np.empty(self.num_envs, bool)
        for row, choice in enumerate(self._native(action)):
            answer = self._step_row(row, choice)
            next_obs[row], reward[row], terminated[row], stopped[row] = answer
        step, cut = self._ages.advance()
        truncated = stopped | cut
        check_finite("next_obs", next_obs, step)
        check_finite("reward", reward, step)
        self._obs = next_obs
        ended = terminated | truncated
        if ended.any():
            self._restart_rows(ended)
        early = self._ages.early
        if early is not None:
            early = early & ~stopped
        return Transition(next_obs, reward, terminated, truncated, step, self._obs, early)

    def _native(self, action: NDArray[np.generic]) -> Sequence[Any]:
        if isinstance(self.action, Discrete):
            return (action + self.action.start).tolist()
        return list(action)

    def _empty(self) -> NDArray[np.generic]:
        return np.empty((self.num_envs, *self.observation.shape), self.observation.dtype)

    def _step_row(self, row: int, action: Any) -> tuple[Any, float, bool, bool]:
        answer = self._envs[row].step(action)
        if row not in self._stepped:
            self._check_step(row, answer)
        obs, reward, terminated, truncated, _ = answer
        return obs, float(reward), bool(terminated), bool(truncated)

    def _check_step(self, row: int, answer: Any) -> None:
        call = f"step() of environment {row}"
        names = ("observation", "reward", "terminated", "truncated", "info")
        check_answer(call, answer, names)
        obs, reward, terminated, truncated, _ = answer
        check_observation(call, obs, self.observation)
        check_scalar(call, "reward", reward, "a number", "biuf")
        check_scalar(call, "terminated", terminated, "True or False", "b")
        check_scalar(call, "truncated", truncated, "True or False", "b")
        self._stepped.add(row)

    def _reset_row(self, row: int, seed: int | None = None) -> Any:
        answer = self._envs[row].reset(seed=seed)
        if row not in self._was_reset:
            call = f"reset() of environment {row}"
            check_answer(call, answer, ("observation", "info"))
            check_observation(call, answer[0], self.observation)
            self._was_reset.add(row)
        return answer[0]

    def _restart_rows(self, ended: NDArray[np.bool_]) -> None:
        self._obs = self._obs.copy()
        self._episodes = self._episodes + ended
        for row in np.flatnonzero(ended):
            self._obs[row] = self._reset_row(int(row))
        self._ages.rejuvenate(ended)
        check_finite("obs", self._obs, self._ages.age)

    def snapshot(self) -> Snapshot:
        check_started("snapshot", self.seeds)
        return {"seeds": np.array(self.seeds, np.uint64), "episodes": self._episodes.copy()}

    def restore(self, snapshot: Mapping[str, NDArray[np.generic]]) -> NDArray[np.generic]:
        seeds = read(snapshot, "seeds", (self.num_envs,))
        episodes = read(snapshot, "episodes", (self.num_envs,))
        self.seeds = [int(seed) for seed in seeds]
        # The episode that was under way is lost: counting it keeps the next seed new.
        self._episodes = np.array(episodes, np.int64) + 1
        self._ages.restart()
        self._obs = self._empty()
        for row, seed in enumerate(self.seeds):
            self._obs[row] = self._reset_row(row, later_seed(seed, int(self._episodes[row])))
        return self._obs

    def close(self) -> None:
        for env in self._envs:
            env.close()


def observation_space(space: Any) -> Box:
    """The description of a Gymnasium observation space, if it is a vector of real numbers."""
    if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
        is_image = isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 3
        help_ = "images need a trainer with convolutions, such as Stable-Baselines3, with "
        help_ += "gammaprime.integrations.sb3"
        if not is_image:
            help_ = "gymnasium.wrappers.FlattenObservation makes one of most spaces"
        raise ValueError(
            f"observation space {space} is not supported: must be a Box with one axis ({help_})"
        )
    dtype = space.dtype if np.issubdtype(space.dtype, np.floating) else np.float32
    return Box(space.shape, np.dtype(dtype), space.low, space.high)


def action_space(space: Any) -> Box | Discrete:
    """The description of a Gymnasium action space, if it is a vector or a choice."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return Discrete(int(space.n), int(space.start))
    is_vector = isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1
    if is_vector and np.issubdtype(space.dtype, np.floating):
        return Box(space.shape, np.dtype(np.float32), space.low, space.high)
    raise ValueError(
        f"action space {space} is not supported: must be a Discrete, or a Box of floats with "
        "one axis (gymnasium.wrappers.TransformAction can number those of a MultiDiscrete)"
    )


def registered(
    task: str, time_limit: int | None, kwargs: Mapping[str, Any] | None = None
) -> Constructor:
    """The constructor of a registered id, with another time limit or arguments if given."""
    more = dict(kwargs or {})

    def construct() -> gymnasium.Env[Any, Any]:
        # Gymnasium's checker looks at every step and warns about what the contract allows.
        try:
            return gymnasium.make(
                task, max_episode_steps=time_limit, disable_env_checker=True, **more
            )
        except gymnasium.error.DependencyNotInstalled as error:
            raise ImportError(f"task={task!r}: {error}") from error
        except gymnasium.error.Error as error:
            raise ValueError(f"task={task!r}: {error}") from error
        except TypeError as error:
            if not more:
                raise
            raise ValueError(f"task={task!r}, env_kwargs={more!r}: {error}") from error

    return construct


def _made_by(constructor: Constructor) -> gymnasium.Env[Any, Any]:
    env = constructor()
    if not is_environment(env):
        raise ValueError(f"task={constructor!r}: makes a {type(env).__name__}, no gymnasium.Env")
    return env


def is_environment(task: Any) -> bool:
    return isinstance(task, gymnasium.Env)


def refuse_vector(task: Any) -> None:
    """Refuse a vector environment of Gymnasium, and say what to give in its place."""
    if isinstance(task, gymnasium.vector.VectorEnv):
        raise ValueError(
            f"{task!r}: is a vector environment, whose step hides the true successor at a reset or "
            "spends a step on the reset; give the constructor of one row and num_envs to the "
            f"agent, gp.train(gp.PPO(num_envs={task.num_envs}), make_env, ...), or a list of the "
            "constructors of its rows to gp.make"
        )


def registered_ids() -> list[str]:
    """Every id that Gymnasium knows at this moment."""
    return list(gymnasium.registry)


def registered_limit(task: str) -> int | None:
    """Return the time limit that an id is registered with; of "module:id", by that module."""
    module, _, name = task.rpartition(":")
    try:
        if module:
            resolve_name(module)  # which registers it
        return gymnasium.spec(name).max_episode_steps
    except ModuleNotFoundError as error:
        raise ValueError(
            f"task={task!r}: {error} (the current folder is searched with PYTHONPATH=.)"
        ) from error
    except (gymnasium.error.Error, ImportError) as error:
        raise ValueError(f"task={task!r}: {error}") from error


def _check_limits(own: Sequence[int | None], asked: int | None) -> int | None:
    """Return the time limit of environments with these limits of their own, and one asked for."""
    least = min((limit for limit in own if limit is not None), default=None)
    if asked is None:
        if len(set(own)) > 1:
            raise ValueError(f"constructors make time limits {list(own)}: must all be the same")
        return least
    if least is not None and asked > least:
        raise ValueError(
            f"time_limit={asked!r}: must be at most {least}, where the environment cuts its "
            "episodes itself; make it with gymnasium.make(..., max_episode_steps=)"
        )
    return asked


def _own_limit(env: gymnasium.Env[Any, Any]) -> int | None:
    """Return the time limit that an environment is registered with, or wrapped in."""
    limits = [] if env.spec is None else [env.spec.max_episode_steps]
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            limits.append(env._max_episode_steps)
        env = env.env
    return min((limit for limit in limits if limit is not None), default=None)
