"""What an adapter adds to an iteration of somebody else's trainer."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

from benchmarks.harness import Measurement

LIMIT = 1.05
ROUNDS = 3  # in each repetition; their median is one sample
TASK = "Pendulum-v1"


def measure_sb3(num_envs: int, num_steps: int) -> Callable[[], dict[str, float]]:
    """Iterations of Stable-Baselines3's PPO with its default settings, taking turns."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    from gammaprime.agents import TaylorQ, TaylorWeight
    from gammaprime.integrations.sb3 import Taylor

    torch.set_num_threads(1)
    callbacks = {
        "plain": None,
        "order 1": Taylor(TaylorQ(0.999, order=1)),
        "order inf": Taylor(TaylorQ(0.999, order=math.inf)),
        "order 1 and weights": Taylor(TaylorQ(0.999, order=1), TaylorWeight(0.999, 10)),
    }
    models = {
        name: PPO("MlpPolicy", make_vec_env(TASK, num_envs, seed=0), n_steps=num_steps, seed=0)
        for name in callbacks
    }

    def iterate(name: str) -> float:
        start = time.perf_counter()
        models[name].learn(num_envs * num_steps, callbacks[name])
        return time.perf_counter() - start

    for name in callbacks:
        iterate(name)

    def measure() -> dict[str, float]:
        rounds = [{name: iterate(name) for name in callbacks} for _ in range(ROUNDS)]
        return {
            f"{name} / plain": statistics.median(row[name] / row["plain"] for row in rounds)
            for name in callbacks
            if name != "plain"
        }

    return measure


NAMES = ("order 1", "order inf", "order 1 and weights")

CONTESTS = tuple(
    Measurement(
        name=f"adapters_sb3_{num_envs}x{num_steps}",
        claim="With Taylor, an iteration of SB3's PPO takes at most 5 % longer.",
        setup=lambda num_envs=num_envs, num_steps=num_steps: measure_sb3(num_envs, num_steps),
        limits={f"{name} / plain": LIMIT for name in NAMES},
    )
    for num_envs, num_steps in ((8, 256), (1, 2048))
)
