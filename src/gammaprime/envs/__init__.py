"""Environments: one contract for MuJoCo, PyBullet, Gymnasium, finite MDPs and probes.

Nothing here imports a simulator before it is needed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from gammaprime.envs.contract import Box, Discrete, Snapshot, VecEnv
from gammaprime.envs.finite import FiniteEnv
from gammaprime.envs.mujoco_tasks import TASKS as _MUJOCO_TASKS
from gammaprime.envs.threads import check_threads
from gammaprime.envs.wrappers import TimeFeature
from gammaprime.types import Transition, check_count

__all__ = [
    "BULLET_TASKS",
    "MUJOCO_TASKS",
    "Box",
    "Discrete",
    "FiniteEnv",
    "Snapshot",
    "TimeFeature",
    "Transition",
    "VecEnv",
    "make",
    "time_limit",
]

MUJOCO_TASKS = tuple(_MUJOCO_TASKS)
"""Stepped as one batch, resumed exactly."""
BULLET_TASKS = (
    "HalfCheetahBulletEnv-v0",
    "AntBulletEnv-v0",
    "Walker2DBulletEnv-v0",
    "HopperBulletEnv-v0",
)
"""Stepped in place, resumed exactly by replay."""
_BULLET_LIMIT = 1000
_CHANGED = (
    "task={task!r} goes through Gymnasium, at Gymnasium's speed, and a resumed run continues in "
    "new episodes"
)
_FALLBACK = f"{_CHANGED}; the PyBullet tasks stepped in place are {{tasks}}"


def make(
    task: str | Callable[[], Any] | Sequence[Callable[[], Any]] | Any,
    num_envs: int = 1,
    *,
    time_limit: int | None = None,
    stagger: bool = False,
    time_feature: bool = False,
    threads: int = 1,
    env_kwargs: Mapping[str, Any] | None = None,
) -> VecEnv:
    """Return N environments of a task.

    Args:
        task: An id (a MuJoCo, a PyBullet or any other registered Gymnasium id), a constructor of a
            Gymnasium environment, a list of N constructors, or one Gymnasium environment.
        num_envs: Number N of environments.
        time_limit: Steps after which an episode is truncated; the task's own limit by default.
        stagger: Cut first episodes early, so that several environments do not share one age.
        time_feature: Append the time to observations; the time limit then terminates.
        threads: Threads that step the environments of a MuJoCo task; results do not depend on it.
        env_kwargs: Keyword arguments of the environment that an id stands for; MuJoCo tasks with
            them go through Gymnasium.

    Returns:
        Environments that are reset one by one as their episodes end.
    """
    check_count("num_envs", num_envs)
    if time_limit is not None:
        check_count("time_limit", time_limit)
    check_threads(threads, num_envs)
    if env_kwargs:
        _refuse_threads(threads, "a task with env_kwargs, which goes through Gymnasium")
        env = _make_changed(task, num_envs, time_limit, stagger, env_kwargs)
    elif isinstance(task, str):
        env = _make_id(task, num_envs, time_limit, stagger, threads)
    else:
        _refuse_threads(threads, "an environment of one's own")
        env = _make_object(task, num_envs, time_limit, stagger)
    if time_feature:
        return TimeFeature(env)
    return env


def _make_id(
    task: str, num_envs: int, time_limit: int | None, stagger: bool, threads: int
) -> VecEnv:
    if task in MUJOCO_TASKS:
        from gammaprime.envs.mujoco import MujocoEnv

        return MujocoEnv(task, num_envs, time_limit=time_limit, stagger=stagger, threads=threads)
    from gammaprime.envs.gym import GymEnv, registered, registered_ids

    on_bullet = "BulletEnv-" in task
    if on_bullet:
        from gammaprime.envs.bullet import BulletEnv

        if task in BULLET_TASKS:
            _refuse_threads(threads, "PyBullet, which keeps Python's lock while it steps")
            return BulletEnv(task, num_envs, time_limit=time_limit, stagger=stagger)
    if ":" not in task and task not in registered_ids():
        raise ValueError(f"task={task!r}: {_suggest(task, registered_ids())}")
    _refuse_threads(threads, f"{task}, which goes through Gymnasium")
    if on_bullet:
        # stacklevel 1 is one place in the code, where Python says a thing once; callers are many.
        warnings.warn(_FALLBACK.format(task=task, tasks=", ".join(BULLET_TASKS)), stacklevel=1)
    return GymEnv([registered(task, time_limit)] * num_envs, stagger=stagger)


def _make_changed(
    task: Any, num_envs: int, time_limit: int | None, stagger: bool, kwargs: Mapping[str, Any]
) -> VecEnv:
    """N environments of an id whose constructor gets keyword arguments."""
    from gammaprime.envs.gym import GymEnv, registered

    if not isinstance(task, str):
        raise ValueError(
            f"env_kwargs={dict(kwargs)!r}: are for an id; a constructor can be given its own, as "
            "functools.partial(MyEnv, ...)"
        )
    _known_limit(task)
    if task in BULLET_TASKS:
        warnings.warn(_CHANGED.format(task=task), stacklevel=1)
    return GymEnv([registered(task, time_limit, kwargs)] * num_envs, stagger=stagger)


def _refuse_threads(threads: int, where: str) -> None:
    if threads != 1:
        raise ValueError(f"threads={threads!r}: must be 1 for {where}; only MuJoCo tasks use more")


def time_limit(task: str) -> int | None:
    """Return the steps after which episodes of a task are cut, or None if nothing cuts them.

    Known without a simulator for MuJoCo and PyBullet tasks; Gymnasium's registry tells the others.
    """
    if task in MUJOCO_TASKS:
        return _MUJOCO_TASKS[task].time_limit
    if task in BULLET_TASKS:
        return _BULLET_LIMIT
    return _known_limit(task)


def _known_limit(task: str) -> int | None:
    """Return the time limit in Gymnasium's registry; refuse an id that is not there."""
    from gammaprime.envs.gym import registered_ids, registered_limit

    if "BulletEnv-" in task:
        import gammaprime.envs.bullet  # noqa: F401  (registers the tasks)
    if ":" not in task and task not in registered_ids():
        raise ValueError(f"task={task!r}: {_suggest(task, registered_ids())}")
    return registered_limit(task)


def _suggest(task: str, registered_ids: Sequence[str]) -> str:
    names = {name.lower(): name for name in (*registered_ids, *BULLET_TASKS, *MUJOCO_TASKS)}
    nearest = [names[name] for name in get_close_matches(task.lower(), names, 3)]
    if nearest:
        return f"no such task; did you mean {', '.join(nearest)}?"
    return "no such task; it must be registered with Gymnasium"


def _make_object(task: Any, num_envs: int, time_limit: int | None, stagger: bool) -> VecEnv:
    from gammaprime.envs.gym import GymEnv, is_environment, refuse_vector

    refuse_vector(task)
    if is_environment(task):
        if num_envs != 1:
            raise ValueError(f"num_envs={num_envs!r}: one environment object is one row")
        constructors = [lambda: task]
    elif callable(task):
        constructors = [task] * num_envs
    elif isinstance(task, list | tuple) and task and all(callable(item) for item in task):
        if num_envs not in (1, len(task)):
            raise ValueError(f"num_envs={num_envs!r}: the list holds {len(task)} constructors")
        constructors = list(task)
    else:
        raise ValueError(
            f"task={task!r}: must be an id, a Gymnasium environment or constructors of them"
        )
    return GymEnv(constructors, time_limit=time_limit, stagger=stagger)
