"""How good the policy of a run is, told in three returns side by side.  NumPy and a simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gammaprime import envs
from gammaprime.loops.evaluate import evaluate
from gammaprime.networks import Policy
from gammaprime.runs import folders

AT_ONCE = 10


def judge(run: Path, num_episodes: int, seed: int) -> list[str]:
    """Evaluate a run's newest policy; what to print of it."""
    settings = folders.read_settings(run)
    protocol = settings["protocol"]
    if not isinstance(settings["task"], str):
        raise ValueError(f"{run}: was trained on an object, which is not here to be played")
    if num_episodes < 1:
        raise ValueError(f"episodes={num_episodes!r}: must be at least 1")
    actor = Policy.load(run).actor
    rows = max(n for n in range(1, min(AT_ONCE, num_episodes) + 1) if num_episodes % n == 0)
    env = envs.make(
        settings["task"],
        rows,
        time_limit=protocol["time_limit"],
        time_feature=protocol["time_feature"],
    )
    gamma, gamma_prime = settings["agent"]["gamma"], protocol["eval_gamma_prime"]
    try:
        episodes = evaluate(actor, env, num_episodes, seed, gamma, gamma_prime)
    finally:
        env.close()
    numbers = np.array(episodes)
    names = ("length", "return", f"J_γ, γ = {gamma:g}", f"J_γ', γ' = {gamma_prime:g}")
    head = f"{settings['task']}, {num_episodes} episodes, the most likely actions"
    columns = zip(names, numbers[:, 1:].T, strict=True)
    return [head] + [f"  {name:<18} {x.mean():10.2f} ± {x.std():.2f}" for name, x in columns]
