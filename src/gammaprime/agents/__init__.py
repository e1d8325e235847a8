"""On-policy agents, and the values of their two slots.

PPO(advantage=TaylorQ(gamma_prime=0.999, order=1))    PPO(K) of the paper
PPO(weighting=TaylorWeight(gamma_prime=0.999))        updates weighted by w_K(t)
"""

from gammaprime.agents.descent import CriticFit
from gammaprime.agents.pg import PG, SGD, Adam
from gammaprime.agents.ppo import PPO
from gammaprime.agents.slots import (
    GAE,
    TaylorCritic,
    TaylorGradient,
    TaylorQ,
    TaylorWeight,
    TDDelta,
    Uniform,
)
from gammaprime.agents.trpo import TRPO

__all__ = [
    "GAE",
    "PG",
    "PPO",
    "SGD",
    "TRPO",
    "Adam",
    "CriticFit",
    "TDDelta",
    "TaylorCritic",
    "TaylorGradient",
    "TaylorQ",
    "TaylorWeight",
    "Uniform",
]
