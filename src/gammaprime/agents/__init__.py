"""Agents, on-policy and off-policy, and the values of their slots.

PPO(advantage=TaylorQ(gamma_prime=0.999, order=1))    PPO(K) of the paper
PPO(weighting=TaylorWeight(gamma_prime=0.999))        updates weighted by w_K(t)
TD3(weighting=DensityRatio())                         TD3(γ): by a ratio of state densities
"""

from gammaprime.agents.density_ratio import DensityRatio
from gammaprime.agents.descent import CriticFit
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
from gammaprime.agents.trpo import TRPO

__all__ = [
    "DDPG",
    "DDPG_SPINNING_UP",
    "GAE",
    "PG",
    "PPO",
    "SAC",
    "SGD",
    "TD3",
    "TRPO",
    "Adam",
    "CriticFit",
    "DensityRatio",
    "FixedEntropy",
    "LearnedEntropy",
    "TDDelta",
    "TaylorCritic",
    "TaylorGradient",
    "TaylorQ",
    "TaylorWeight",
    "Uniform",
]
