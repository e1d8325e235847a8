"""Agents, on-policy and off-policy, and the values of their slots.

PPO(advantage=TaylorQ(gamma_prime=0.999, order=1))    PPO(K) of the paper
PPO(weighting=TaylorWeight(gamma_prime=0.999))        updates weighted by w_K(t)
TD3(weighting=DensityRatio())                         TD3(γ): by a ratio of state densities
"""

from __future__ import annotations

from gammaprime.agents.density_ratio import DensityRatio
from gammaprime.agents.descent import CriticFit
from gammaprime.agents.off_policy import OffPolicy
from gammaprime.agents.on_policy import OnPolicy
from gammaprime.agents.pg import PG, SGD, Adam
from gammaprime.agents.ppo import PPO
from gammaprime.agents.sac import SAC, FixedEntropy, LearnedEntropy
from gammaprime.agents.slots import (
    GAE,
    TaylorCritic,
    TaylorGradient,
    TaylorQ,
    TaylorWeight,
    TDDelta,
    Uniform,
)
from gammaprime.agents.td3 import DDPG, DDPG_SPINNING_UP, TD3
from gammaprime.agents.trpo import BASELINES, TRPO

__all__ = [
    "DDPG",
    "DDPG_SPINNING_UP",
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
    "CriticFit",
    "DensityRatio",
    "FixedEntropy",
    "LearnedEntropy",
    "OffPolicy",
    "OnPolicy",
    "TDDelta",
    "TaylorCritic",
    "TaylorGradient",
    "TaylorQ",
    "TaylorWeight",
    "Uniform",
]

Agent = OnPolicy | OffPolicy

PRESETS: dict[str, Agent] = {
    "ppo": PPO(),
    "trpo": TRPO(),
    "trpo_baselines": BASELINES,
    "pg": PG(),
    "td3": TD3(),
    "ddpg": DDPG,
    "ddpg_spinning_up": DDPG_SPINNING_UP,
    "sac": SAC(),
}
"""Agents by their names on the command line and in specs."""
