"""PPO on HalfCheetah-v4 against Stable-Baselines3 and SBX: an iteration, collection and update.

The same 2,048 samples, 10 epochs, minibatches of 64 and 64x64 tanh, on the same core and one
thread, observations and rewards as they are on all sides.  The peers are spared what would slow
them: no Monitor, no environment checker, no log.  They are run at 1, 8 and 16 environments: a limit
that is met against each of the three is met against the best of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.harness import Contender, Contest, Limit, Run
from benchmarks.on_policy import BATCH, make_agent, make_loop

TASK = "HalfCheetah-v4"
PEERS_AT = (1, 8, 16)
SPEED_UPS = {"SB3": {16: 7.0, 1: 5.0}, "SBX": {16: 3.8, 1: 3.5}}
"""At 16 environments against a peer at its best number, at one against a peer at one."""
SETTINGS = {"batch_size": 64, "n_epochs": 10, "device": "cpu"}
LAYERS = {"pi": [64, 64], "vf": [64, 64]}


def ours(num_envs: int) -> Run:
    agent = make_agent(num_envs, normalise_obs=False, scale_rewards=False)
    return make_loop(agent, TASK, warm=1).advance


def stable_baselines(num_envs: int) -> Run:
    import torch
    from stable_baselines3 import PPO

    torch.set_num_threads(1)
    return iterations(PPO, num_envs, torch.nn.Tanh)


def sbx(num_envs: int) -> Run:
    import flax
    from sbx import PPO

    return iterations(PPO, num_envs, flax.linen.tanh)


def iterations(algorithm: Callable[..., Any], num_envs: int, activation: Any) -> Run:
    """One iteration of a peer for each call; the first, which resets and compiles, is done."""
    import gymnasium
    from stable_baselines3.common.vec_env import DummyVecEnv

    def make() -> Any:
        return gymnasium.make(TASK, disable_env_checker=True)

    model = algorithm(
        "MlpPolicy",
        DummyVecEnv([make] * num_envs),
        n_steps=BATCH // num_envs,
        policy_kwargs={"net_arch": LAYERS, "activation_fn": activation},
        **SETTINGS,
    )
    model.learn(BATCH, log_interval=None)
    return lambda: model.learn(BATCH, log_interval=None, reset_num_timesteps=False)


def at(name: str, num_envs: int) -> str:
    return f"{name} {num_envs}x{BATCH // num_envs}"


def _contenders(name: str, make: Callable[[int], Run], sizes: tuple[int, ...]) -> list[Contender]:
    return [Contender(at(name, size), lambda size=size: make(size)) for size in sizes]


def _limits(peer: str) -> list[Limit]:
    best, alone = SPEED_UPS[peer][16], SPEED_UPS[peer][1]
    return [
        *(Limit(at("ours", 16), at(peer, size), 1 / best) for size in PEERS_AT),
        Limit(at("ours", 1), at(peer, 1), 1 / alone),
    ]


CONTESTS = (
    Contest(
        "on-policy-peers",
        "an iteration of PPO at 16 environments is at least 7 times as fast as SB3's and 3.8 "
        "times SBX's at their best of 1, 8 and 16; all at one environment, 5 and 3.5 times",
        (
            *_contenders("ours", ours, (1, 16)),
            *_contenders("SB3", stable_baselines, PEERS_AT),
            *_contenders("SBX", sbx, PEERS_AT),
        ),
        tuple(limit for peer in SPEED_UPS for limit in _limits(peer)),
    ),
)
