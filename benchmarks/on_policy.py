"""On-policy training: against bare physics on the same actions, and the second start."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Contender, Contest, Limit, Measurement, Run

if TYPE_CHECKING:
    import numpy as np

    from gammaprime.agents import PPO
    from gammaprime.envs import Transition, VecEnv
    from gammaprime.loops.loop import OnPolicyLoop

BATCH = 2048
GAMMA_PRIME = 0.999
WARM_ROLLOUTS = 16  # about 30,000 steps: rows no longer fall at once
TIMED_ROLLOUTS = 2
PHYSICS_LIMITS = {
    "HalfCheetah-v4": 1 / 0.5,
    "Walker2d-v4": 1 / 0.7,
    "Ant-v4": 1 / 0.7,
    "Hopper-v4": 1 / 0.7,
}
ONE_ROW_LIMIT = 110 / 36 / 1.15
"""A step at 1 x 2048 took 110 µs, of which 36 were physics; it should be 1.15 times as fast."""
SECOND_START_SECONDS = 6.0


def make_agent(num_envs: int, **slots: Any) -> PPO:
    """OpenAI Baselines' settings: 2,048 samples, 10 epochs, minibatches of 64, 64x64 tanh."""
    from gammaprime.agents import PPO

    return PPO(num_envs=num_envs, num_steps=BATCH // num_envs, **slots)


def make_loop(
    agent: PPO,
    task: str,
    warm: int,
    seen_as: Callable[[VecEnv], VecEnv] | None = None,
    threads: int = 1,
) -> OnPolicyLoop:
    """A run as `gammaprime train` sets it up, without evaluations and files, somewhat trained."""
    from gammaprime import envs
    from gammaprime.loops.loop import OnPolicyLoop

    env = envs.make(task, agent.num_envs, stagger=True, threads=threads)
    env = env if seen_as is None else seen_as(env)
    loop = OnPolicyLoop(agent, env, total_steps=1_000_000, seed=0, gamma_prime=GAMMA_PRIME)
    for _ in range(warm):
        loop.advance()
    return loop


def train(agent: PPO, task: str, warm: int, timed: int, threads: int = 1) -> Run:
    """So many iterations, the same ones each time: the loop goes back to where they began."""
    loop = make_loop(agent, task, warm, threads=threads)
    start = loop.snapshot()

    def run() -> np.ndarray:
        loop.restore(start)
        for _ in range(timed):
            loop.advance()
        return _physics(loop.env.data)

    return run


def replay(agent: PPO, task: str, warm: int, timed: int) -> Run:
    """mj_step alone, on the very actions of those iterations.

    Beside it only what makes it the same physics: a row's controls before each step, and its
    state after each reset.
    """
    import mujoco

    from gammaprime.envs.mujoco_tasks import TASKS

    loop = make_loop(agent, task, warm, Recorder)
    record = loop.env.begin()
    for _ in range(timed):
        loop.advance()
    model, frame_skip = record.env.model, TASKS[task].frame_skip
    actions = [list(action.astype("float64")) for action in record.actions]
    rows = [mujoco.MjData(model) for _ in range(agent.num_envs)]
    controls = [data.ctrl for data in rows]
    mj_step = mujoco.mj_step

    def put(states: Sequence[tuple[int, np.ndarray]]) -> None:
        for row, state in states:
            mujoco.mj_setState(model, rows[row], state, record.kind)

    def run() -> np.ndarray:
        put(record.start)
        for t, action in enumerate(actions):
            for data, control, chosen in zip(rows, controls, action, strict=True):
                control[:] = chosen
                mj_step(model, data, frame_skip)
            if t in record.resets:
                put(record.resets[t])
        return _physics(rows)

    return run


def step(agent: PPO, task: str, warm: int, timed: int) -> Run:
    """The environment alone, on the very actions of those iterations."""
    loop = make_loop(agent, task, warm, Recorder)
    record = loop.env.begin()
    env, start = record.env, record.env.snapshot()
    for _ in range(timed):
        loop.advance()

    def run() -> np.ndarray:
        env.restore(start)
        for action in record.actions:
            env.step(action)
        return _physics(env.data)

    return run


class Recorder:
    """A MuJoCo environment that remembers its actions and the state of every row it reset."""

    def __init__(self, env: VecEnv) -> None:
        import mujoco

        self.env = env
        self.num_envs, self.action, self.observation = env.num_envs, env.action, env.observation
        self.reset = env.reset
        self.kind = mujoco.mjtState.mjSTATE_INTEGRATION
        self.actions: list[np.ndarray] = []
        self.resets: dict[int, list[tuple[int, np.ndarray]]] = {}

    def begin(self) -> Recorder:
        """Remember only what follows."""
        self.start = self._states(range(self.num_envs))
        self.actions.clear()
        self.resets.clear()
        return self

    def step(self, action: np.ndarray) -> Transition:
        seen = self.env.step(action)
        ended = seen.terminated | seen.truncated
        if ended.any():
            self.resets[len(self.actions)] = self._states(ended.nonzero()[0])
        self.actions.append(action)
        return seen

    def _states(self, rows: Sequence[int]) -> list[tuple[int, np.ndarray]]:
        import mujoco
        import numpy as np

        model, size = self.env.model, mujoco.mj_stateSize(self.env.model, self.kind)
        states = [(int(row), np.empty(size)) for row in rows]
        for row, state in states:
            mujoco.mj_getState(model, self.env.data[row], state, self.kind)
        return states


def _physics(rows: Sequence[Any]) -> np.ndarray:
    """Positions and velocities.  Shapes: -> (N, nq + nv)."""
    import numpy as np

    return np.stack([np.concatenate([data.qpos, data.qvel]) for data in rows])


def second_start() -> Callable[[], dict[str, float]]:
    """`gammaprime train` for one rollout, after another process has compiled the same."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    environment = os.environ | {"XDG_CACHE_HOME": folder.name}
    runs = count()

    def start() -> dict[str, float]:
        command = train_command(Path(folder.name) / f"run-{next(runs)}")
        began = time.perf_counter()
        done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        return {"seconds of the process": time.perf_counter() - began}

    start()
    return start


def train_command(out: Path) -> list[str]:
    script = Path(sys.executable).with_name("gammaprime")
    options = ["--task", "HalfCheetah-v4", "--steps", f"{BATCH}", "--evaluation.every", "0"]
    return [str(script), "train", "ppo", *options, "--out", str(out)]


def _physics_contest(task: str, num_envs: int, ratio: float) -> Contest:
    def contender(make: Callable[..., Run]) -> Callable[[], Run]:
        return lambda: make(make_agent(num_envs), task, WARM_ROLLOUTS, TIMED_ROLLOUTS)

    size = f"{num_envs} x {BATCH // num_envs}"
    return Contest(
        f"on-policy-{'physics' if num_envs > 1 else 'one-row'}-{task}",
        f"PPO at {size} trains at {1 / ratio:.2g} or more of the speed of mj_step alone",
        (
            Contender("PPO", contender(train)),
            Contender("its environment", contender(step)),
            Contender("mj_step", contender(replay)),
        ),
        (Limit("PPO", "mj_step", ratio, agree=0.0),),
    )


CONTESTS = (
    *(_physics_contest(task, 16, ratio) for task, ratio in PHYSICS_LIMITS.items()),
    _physics_contest("HalfCheetah-v4", 1, ONE_ROW_LIMIT),
    Measurement(
        "on-policy-second-start",
        "with a warm compilation cache, `gammaprime train` of one rollout ends within 6 s",
        second_start,
        {"seconds of the process": SECOND_START_SECONDS},
    ),
)
