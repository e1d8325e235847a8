"""Weights for replayed states: how much more often the latest policies visit them.

A network tells states of the recent buffer from those of the whole replay, and so learns the
ratio of their densities; the policy's update counts each state by a tempered form of it.  The
critic's does not, and no gradient of the policy reaches the ratio.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax

from gammaprime.acting import Network, apply_network
from gammaprime.agents.checks import check_choice, check_positive
from gammaprime.losses import age_weights, log_softplus, ratio_loss
from gammaprime.types import check_count, check_discount, check_discounts

Array: TypeAlias = Any

SCALES = ("sum", "paper")
CADENCES = ("update", "policy_update")


class Recent(NamedTuple):
    """States of the latest transitions, for each of U updates."""

    obs: Array
    """(U, R, O)"""
    step: Array
    """(U, R): age inside the episode."""


class Trained(NamedTuple):
    """Parameters, and what their optimiser remembers of them."""

    params: Any
    moments: Any

    @classmethod
    def start(cls, params: Any) -> Trained:
        return cls(params, optax.adam(1.0).init(params))

    def descend(self, gradient: Any, learning_rate: float) -> Trained:
        """One step of Adam."""
        change, moments = optax.adam(learning_rate).update(gradient, self.moments)
        return Trained(optax.apply_updates(self.params, change), moments)


@dataclass(frozen=True)
class DensityRatio:
    """w̃ ∝ (f/μ)^τ on the policy's term; f the latest ``recent_size`` states, μ the whole replay.

    TD3(γ) and SAC(γ) are ``TD3(weighting=DensityRatio())`` and ``SAC(weighting=DensityRatio())``.
    Open in the paper, and settled here: the ratio is trained at every update (or ``every``
    "policy_update"), on as many recent states as the minibatch of the update has, which it sees
    too, with the agent's learning rate; unless it has a batch size and a rate of its own.
    ``scale`` "sum" takes Σ w̃_i ∇Q, so that equal weights give the batch mean; "paper" divides by
    the size of the batch once more, as the paper's text does.
    ``gamma_prime`` below 1 counts a state of age t by γ'^t where the ratio is trained: at the
    agent's γ this is the fully discounted rival, at 1 the paper's method.

    Paper: algo:off, x:density-weighted-update, x:discounted-ratio.  Departs: S13, S14.
    """

    inverse_temperature: float = 0.1
    scale: str = "sum"
    gamma_prime: float = 1.0
    recent_size: int = 10_000
    batch_size: int | None = None
    learning_rate: float | None = None
    every: str = "update"

    def __post_init__(self) -> None:
        check_positive("inverse_temperature", self.inverse_temperature, zero_allowed=True)
        check_choice("scale", self.scale, SCALES)
        check_discount("gamma_prime", self.gamma_prime, one_allowed=True)
        check_positive("gamma_prime", self.gamma_prime)
        check_count("recent_size", self.recent_size)
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size)
        if self.learning_rate is not None:
            check_positive("learning_rate", self.learning_rate)
        check_choice("every", self.every, CADENCES)

    def check(self, gamma: float) -> None:
        if self.gamma_prime < 1.0:
            check_discounts(gamma, self.gamma_prime)

    def train(
        self, ratio: Trained, obs: Array, step: Array, recent: Recent, learning_rate: float
    ) -> tuple[Trained, Array, Array]:
        """One step towards the ratio; the ratio, the loss and log w of ``obs`` before that step.

        The weights of an update come from the pass that trains the ratio, and cost nothing more.

        Shapes: obs (B, O), step (B,), recent.obs (R, O), recent.step (R,) -> ratio, (), (B,).
        """
        inputs, count = jnp.concatenate([recent.obs, obs]), len(recent.step)
        weights = [age_weights(x, self.gamma_prime) for x in (recent.step, step)]

        def loss(network: Network) -> tuple[Array, Array]:
            logs = log_ratio(network, inputs)
            return ratio_loss(logs[:count], logs[count:], *weights), logs[count:]

        (value, logs), gradient = jax.value_and_grad(loss, has_aux=True)(ratio.params)
        return ratio.descend(gradient, self.learning_rate or learning_rate), value, logs

    def rescale(self, weight: Array) -> Array:
        """w̃ as the update uses it.  Shapes: (B,) -> (B,)."""
        return weight if self.scale == "sum" else weight / len(weight)


def log_ratio(network: Network, obs: Array) -> Array:
    """log w(x), w the softplus of the network's one output.  Shapes: (..., O) -> (...)."""
    return log_softplus(apply_network(network, obs, jax.nn.relu)[..., 0])
