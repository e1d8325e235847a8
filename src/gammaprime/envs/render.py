"""Environments that can be looked at: one row, a picture of it, the seconds of its step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from gammaprime import envs
from gammaprime.envs.contract import VecEnv

HEIGHT, WIDTH = 360, 480
FRAMES_PER_SECOND = 25
"""Where an environment does not say how fast it is."""


class Stage(NamedTuple):
    """An environment of one row, how to look at it, and the seconds of one of its steps."""

    env: VecEnv
    look: Callable[[], np.ndarray]
    seconds: float


def stage(
    task: str, time_limit: int | None, time_feature: bool, env_kwargs: Mapping[str, Any]
) -> Stage:
    """One row of a task, ready to be reset, stepped and looked at."""
    if task in envs.MUJOCO_TASKS and not env_kwargs:
        made = _mujoco_stage(task, time_limit)
    else:
        made = _gymnasium_stage(task, time_limit, env_kwargs)
    return made._replace(env=envs.TimeFeature(made.env)) if time_feature else made


def draw_nothing() -> None:
    """An empty scene through MuJoCo: whether this process can draw at all."""
    import mujoco

    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    renderer = mujoco.Renderer(model, 16, 16)
    renderer.update_scene(mujoco.MjData(model))
    renderer.render()


def _mujoco_stage(task: str, time_limit: int | None) -> Stage:
    import mujoco

    from gammaprime.envs.mujoco import MujocoEnv

    env = MujocoEnv(task, 1, time_limit=time_limit)
    renderer = mujoco.Renderer(env.model, HEIGHT, WIDTH)
    camera = 0 if env.model.ncam else -1

    def look() -> np.ndarray:
        renderer.update_scene(env.data[0], camera)
        return renderer.render().copy()

    env.reset(0)
    before = env.data[0].time
    assert isinstance(env.action, envs.Box)
    env.step(np.zeros((1, *env.action.shape), np.float32))
    return Stage(env, look, env.data[0].time - before)


def _gymnasium_stage(task: str, time_limit: int | None, kwargs: Mapping[str, Any]) -> Stage:
    """Gymnasium's own pictures, for PyBullet and whatever else can draw itself."""
    from gammaprime.envs import gym

    plain = envs.make(task)
    plain.close()
    spec = gym.registered(task, time_limit, kwargs)().spec
    assert spec is not None  # it is registered
    one = spec.make(render_mode="rgb_array")
    rate = one.metadata.get("render_fps") or FRAMES_PER_SECOND
    return Stage(envs.make(one), lambda: np.asarray(one.render(), np.uint8), 1.0 / rate)
