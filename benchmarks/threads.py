"""Threads for one run, on two cores: in training, and in physics alone beside MuJoCo's own pool.

`mujoco.rollout.Rollout` steps many rows in one call, which holds no lock of Python's at all.  It
returns the states of the rows, but not the accelerations that warm-start their contact solvers:
the next call starts from the old ones, and its numbers are not those of ``mj_step``.  So it is
timed here, without a limit and without agreement, and not used.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.harness import Contender, Contest, Limit, Run
from benchmarks.on_policy import TIMED_ROLLOUTS, WARM_ROLLOUTS, make_agent, train

if TYPE_CHECKING:
    import numpy as np

NUM_ENVS = 16
NUM_STEPS = 100
SPEED_UP = 1.35
TRAINED = "Ant-v4"
SHORT = "HalfCheetah-v4"


def train_on(threads: int, task: str) -> Run:
    return train(make_agent(NUM_ENVS), task, WARM_ROLLOUTS, TIMED_ROLLOUTS, threads)


def step_on(threads: int, task: str) -> Run:
    """Random actions from the same reset."""
    from gammaprime import envs

    env = envs.make(task, NUM_ENVS, threads=threads)
    actions = draw_actions(env.action.shape[0])

    def run() -> np.ndarray:
        env.reset(0)
        for action in actions:
            seen = env.step(action)
        return seen.obs

    return run


def step_by_rollout(threads: int, task: str) -> Run:
    """The same actions through MuJoCo's pool: physics alone, without resets or observations."""
    import mujoco
    import numpy as np
    from mujoco import rollout

    from gammaprime import envs
    from gammaprime.envs.mujoco_tasks import TASKS

    env = envs.make(task, NUM_ENVS)
    env.reset(0)
    model, frame_skip, kind = env.model, TASKS[task].frame_skip, mujoco.mjtState.mjSTATE_FULLPHYSICS
    start = np.empty((NUM_ENVS, mujoco.mj_stateSize(model, kind)))
    for data, row in zip(env.data, start, strict=True):
        mujoco.mj_getState(model, data, row, kind)
    warm = np.stack([data.qacc_warmstart for data in env.data])
    controls = np.repeat(draw_actions(model.nu).astype(np.float64)[:, :, None], frame_skip, 2)
    pool = rollout.Rollout(nthread=threads)
    scratch = [mujoco.MjData(model) for _ in range(threads)]
    states = np.empty((NUM_ENVS, frame_skip, start.shape[1]))
    sensors = np.empty((NUM_ENVS, frame_skip, model.nsensordata))
    written = {"skip_checks": True, "nstep": frame_skip, "state": states, "sensordata": sensors}

    def run() -> np.ndarray:
        state = start
        for control in controls:
            pool.rollout(
                [model] * NUM_ENVS,
                scratch,
                state,
                control,
                initial_warmstart=warm,
                chunk_size=NUM_ENVS // (2 * threads),
                **written,
            )
            state = states[:, -1].copy()
        return state

    return run


def draw_actions(size: int) -> np.ndarray:
    """Shapes: -> (NUM_STEPS, NUM_ENVS, size)."""
    import numpy as np

    shape = (NUM_STEPS, NUM_ENVS, size)
    return np.random.default_rng(0).uniform(-1.0, 1.0, shape).astype(np.float32)


CONTESTS = (
    Contest(
        f"threads-training-{TRAINED}",
        f"PPO at 16 x 128 with two threads on two cores: {SPEED_UP} times as fast as with one",
        (
            Contender("two threads", partial(train_on, 2, TRAINED)),
            Contender("one thread", partial(train_on, 1, TRAINED)),
        ),
        (Limit("two threads", "one thread", 1 / SPEED_UP, agree=0.0),),
        num_cores=2,
    ),
    Contest(
        f"threads-stepping-{SHORT}",
        "steps of 16 short rows with two threads on two cores take no longer than with one",
        (
            Contender("two threads", partial(step_on, 2, SHORT)),
            Contender("one thread", partial(step_on, 1, SHORT)),
            Contender("mujoco.rollout, two threads", partial(step_by_rollout, 2, SHORT)),
        ),
        (Limit("two threads", "one thread", 1.0, agree=0.0),),
        num_cores=2,
    ),
)
