"""Agents, on-policy and off-policy, and the values of their slots.

PPO(advantage=TaylorQ(gamma_prime=0.999, order=1))    Q expanded towards γ'
PPO(advantage=TaylorQ.paper())                        PPO(K) as the paper runs it
PPO(weighting=TaylorWeight(gamma_prime=0.999))        updates weighted by w_K(t)
TD3(weighting=DensityRatio())                         TD3(γ): by a ratio of state densities

Importing agents and making them needs NumPy alone; JAX is imported by the first `init`.
"""

from __future__ import annotations

from typing import TypeAlias

from gammaprime.agents.advantages import GAE, TaylorCritic, TaylorGradient, TaylorQ, TDDelta
from gammaprime.agents.off_policy import OffPolicy
from gammaprime.agents.on_policy import CriticFit, OnPolicy
from gammaprime.agents.pg import PG, SGD, Adam
from gammaprime.agents.ppo import PPO
from gammaprime.agents.sac import SAC, FixedEntropy, LearnedEntropy
from gammaprime.agents.td3 import DDPG, TD3
from gammaprime.agents.trpo import TRPO
from gammaprime.agents.weightings import AveragedWeight, DensityRatio, TaylorWeight, Uniform

OnPolicyAgent: TypeAlias = PPO | TRPO | PG
OffPolicyAgent: TypeAlias = TD3 | SAC
Agent: TypeAlias = OnPolicyAgent | OffPolicyAgent

PRESETS: dict[str, Agent] = {
    "ppo": PPO(),
    "trpo": TRPO(),
    # OpenAI Baselines' MuJoCo settings: both normalisations, critic minibatches of 64.
    "trpo_baselines": TRPO(
        lam=0.98,
        num_steps=1024,
        hidden=(32, 32),
        initial_log_std=0.0,
        normalise_obs=True,
        obs_limit=5.0,
        scale_rewards=True,
        backtrack_ratio=0.5,
        critic=CriticFit(epochs=5, minibatches=16),
    ),
    "pg": PG(),
    "td3": TD3(),
    "ddpg": DDPG(),
    # The learning rate of the code that the paper's scores of DDPG come from.
    "ddpg_spinning_up": DDPG(learning_rate=1e-3),
    "sac": SAC(),
    # Classic control, chosen on seeds 0 to 3; `learning_classic` judges them on seeds 10 to 12.
    "ppo_cartpole": PPO(
        num_envs=8,
        num_steps=32,
        minibatches=4,
        learning_rate=1e-3,
        normalise_obs=False,
        scale_rewards=False,
        value_clip=None,
    ),
    "ppo_pendulum": PPO(
        gamma=0.9,
        num_envs=4,
        num_steps=256,
        minibatches=16,
        learning_rate=1e-3,
        return_discount=0.9,
        value_clip=None,
    ),
    "ppo_acrobot": PPO(
        lam=0.94,
        num_envs=16,
        num_steps=256,
        epochs=4,
        minibatches=64,
        anneal=False,
        value_clip=None,
    ),
}
"""Agents by their names on the command line and in specs."""

__all__ = [
    "DDPG",
    "GAE",
    "PG",
    "PPO",
    "PRESETS",
    "SAC",
    "SGD",
    "TD3",
    "TRPO",
    "Adam",
    "Agent",
    "AveragedWeight",
    "CriticFit",
    "DensityRatio",
    "FixedEntropy",
    "LearnedEntropy",
    "OffPolicy",
    "OffPolicyAgent",
    "OnPolicy",
    "OnPolicyAgent",
    "TDDelta",
    "TaylorCritic",
    "TaylorGradient",
    "TaylorQ",
    "TaylorWeight",
    "Uniform",
]
