"""How a policy acts: NumPy alone, so that a call costs microseconds and deployment needs no JAX.

Actions need only the policy's mean or logits; values and likelihoods of a whole rollout are
computed in the update.
"""

from gammaprime.acting.actors import Actor
from gammaprime.acting.bounded import (
    BoundedActor,
    Bounds,
    NoisyActor,
    SquashedActor,
    UniformActor,
    mean_and_log_std,
)
from gammaprime.acting.networks import Layer, Network, Standardiser, apply_network
from gammaprime.acting.policy import Policy

__all__ = [
    "Actor",
    "BoundedActor",
    "Bounds",
    "Layer",
    "Network",
    "NoisyActor",
    "Policy",
    "SquashedActor",
    "Standardiser",
    "UniformActor",
    "apply_network",
    "mean_and_log_std",
]
