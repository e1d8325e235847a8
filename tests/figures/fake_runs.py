"""Finished and unfinished run folders in the real file formats, without any training."""

import hashlib
from typing import NamedTuple

import numpy as np

from gammaprime.runs.directory import to_json
from gammaprime.sweeps import spec

MANIFEST = {
    "command": ["gammaprime", "run", "made_up"],
    "cores": 2,
    "cpu": "Some Processor 3000",
    "gammaprime": "0.1.0",
    "platform": "Linux",
    "versions": {"python": "3.11.7", "numpy": "2.4.6", "jax": "0.10.2", "mujoco": "3.14.0"},
}
CURVES = """
title = "PPO(K) against PPO at both discounts"
paper = ["fig:onpolicy"]
claim = "PPO(K) learns faster, ends higher or varies less."
base = "ppo"
tasks = ["Hopper-v4", "Walker2d-v4"]
seeds = [0, 1, 2, 3, 4]
steps = 100_000

[[variants]]
name = "PPO"

[[variants]]
name = "PPO 0.999"
gamma = 0.999

[[variants]]
name = "PPO(K)"
advantage = { kind = "taylor_q", gamma_prime = 0.999, order = 1, eta = 0.01, lookahead = 10 }

[figure]
kind = "curves"
compare = [["PPO 0.999", "PPO"], ["PPO(K)", "PPO"]]
"""
ABLATION = """
title = "Along η"
base = "ppo"
tasks = ["Hopper-v4", "Walker2d-v4", "Swimmer-v4"]
seeds = [0, 1, 2]
steps = 100_000

[[variants]]
name = "PPO"

[[variants]]
name = "η = 0.02"
advantage = { kind = "taylor_q", gamma_prime = 0.999, order = 1, eta = 0.02, lookahead = 10 }

[[variants]]
name = "K = ∞"
weighting = { kind = "taylor_weight", gamma_prime = 0.999, order = inf }

[figure]
kind = "ablation"
normalise_by = "PPO"

[[figure.panels]]
label = "η"
values = [0.0, 0.02]
variants = ["PPO", "η = 0.02"]

[[figure.panels]]
label = "K"
values = [0, inf]
variants = ["PPO", "K = ∞"]
"""


class Planned(NamedTuple):
    """A run whose folder is written."""

    variant: str
    task: str
    seed: int
    steps: int
    config: dict


def load(text, name="made_up"):
    """The sweep in a TOML text."""
    return spec.parse(text, name, where=f"{name}.toml")


def write(sweep, root, level, share=lambda planned: 1.0):
    """A folder for each run of a sweep.

    level: the return that a run ends with.  share: how far it got, 0 if it has not begun.
    """
    for variant, config in sweep.configs():
        planned = Planned(variant, config.task, config.seed, config.steps, config.to_table())
        if share(planned) > 0:
            path = root / config.folder
            path.mkdir(parents=True, exist_ok=True)
            write_one(path, planned, level(planned), share(planned))


def stored(text, root, level, share=lambda planned: 1.0):
    """The sweep of a spec, and what `write` left of it."""
    sweep = load(text)
    write(sweep, root, level, share)
    return sweep, sweep.results(root)


def write_one(path, planned, level, share):
    digest = hashlib.sha256(repr((planned.variant, planned.task, planned.seed)).encode())
    rng = np.random.default_rng(int(digest.hexdigest()[:8], 16))
    (path / "config.json").write_bytes(to_json(planned.config))
    (path / "manifest.json").write_bytes(to_json(MANIFEST | {"seed": planned.seed}))
    rows = metrics(rng, planned.steps, level, share)
    content = b"".join(to_json(row, indent=None) for row in rows)
    (path / "metrics.jsonl").write_bytes(content)
    if share == 1.0:
        done = {"metrics_sha256": hashlib.sha256(content).hexdigest(), "seconds": 1.5}
        (path / "done").write_bytes(to_json(done))


def metrics(rng, steps, level, share, updates=50):
    """Lines of a run whose return rises to its level; every fifth update is evaluated.

    In the last tenth of steps the return is the level itself.
    """
    size = steps // updates
    for i in range(1, round(share * updates) + 1):
        episodes = []
        for ended in (i * size - size // 2, i * size):
            early = (1 - np.exp(-5 * ended / steps)) * (1 + 0.04 * rng.normal())
            value = level * (1.0 if ended > 0.9 * steps else early)
            episodes.append([ended, size // 2, value, 0.1 * value, 0.6 * value])
        row = {"time/total_timesteps": i * size, "episodes": episodes}
        if i % 5 == 0:
            names = ("eval/mean_reward", "eval/mean_reward_gamma", "eval/mean_reward_gamma_prime")
            row |= dict(zip(names, [2.0 * x for x in episodes[-1][2:]], strict=True))
        yield row
