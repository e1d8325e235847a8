"""Weighting slots: how much each sample counts in the policy's update.

On-policy agents take `Uniform`, `TaylorWeight`, whose weights depend on the age inside the
episode, or `AveragedWeight`, which learns their mean in each state; off-policy agents take
`Uniform` or `DensityRatio`, whose weights are learned from states.
A weight multiplies the policy's term alone, never the critic's.

An on-policy slot is a frozen dataclass with the members of `WeightingSlot`; one of your own works
as well.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from gammaprime import estimators
from gammaprime.lazy import jax, jit, jnp
from gammaprime.losses import age_weights, log_softplus, ratio_loss
from gammaprime.networks import (
    Network,
    Standardiser,
    Trained,
    apply_network,
    init_network,
    multiply,
)
from gammaprime.types import (
    Order,
    check_choice,
    check_count,
    check_discount,
    check_discounts,
    check_order,
    check_positive,
    check_sizes,
)
from gammaprime.typing import Array


@runtime_checkable
class WeightingSlot(Protocol):
    """Members that an on-policy agent uses of its weighting slot."""

    def check(self, gamma: float) -> None:
        """Raise ValueError if the slot cannot work with the agent's γ."""

    def weights(self, step: Array, gamma: float) -> Array:
        """Weights of integer ages, in NumPy.  Shapes: (T, N) -> (T, N) float32."""


@dataclass(frozen=True)
class Uniform:
    """Equal weight for every sample.  Paper: eq:uniform-gradient."""

    def check(self, gamma: float) -> None:
        """Accept every γ."""

    def weights(self, step: Array, gamma: float) -> Array:
        """Ones.  Shapes: (T, N) -> (T, N)."""
        return np.ones(step.shape, dtype=np.float32)


@dataclass(frozen=True)
class TaylorWeight:
    """Weight w_K(t) on the policy's term, t the age inside the episode.

    Order 0 is γ^t, infinite order γ'^t.

    Paper: algo:weight-onpolicy, eq:state-weight, x:self-normalised.  Departs: S2, S3, S20.
    """

    gamma_prime: float = 0.999
    """Discount γ' that the weights approach; at least the agent's γ, at most 1."""
    order: Order = 100
    """Order K, from 0 to infinity; at γ = 0.99, 100 equals infinity up to age 1,000."""
    normalise: bool = False
    """Divide by the mean over the rollout, which keeps the size of the step."""

    def __post_init__(self) -> None:
        check_discount("gamma_prime", self.gamma_prime, one_allowed=True)
        check_order(self.order)

    def check(self, gamma: float) -> None:
        """Refuse a γ above γ'."""
        check_discounts(gamma, self.gamma_prime)

    def weights(self, step: Array, gamma: float) -> Array:
        """Weights of integer ages, from a float64 table.  Shapes: (T, N) -> (T, N) float32."""
        ages = 2 ** int(step.max()).bit_length()
        weights = _weight_curve(gamma, self.gamma_prime, self.order, ages)[step]
        # Where every sample is too old to count, there is no mean to divide by.
        if self.normalise and weights.any():
            weights = weights / weights.mean()
        return weights.astype(np.float32)


@dataclass(frozen=True)
class AveragedWeight:
    """Mean of w_K(t) over the visits to a state, instead of the weight of each visit.

        w̄_K(x) = E[w_K(t) | x_t = x]

    For a policy that does not see the time the expected update is that of `TaylorWeight`, with a
    variance that is never larger.  A network regresses w_K(age) on observations: Adam on the
    squared error, with a sigmoid as output, continued from one rollout to the next.  Order 0 is
    the method of Che, Vasan and Mahmood (2023).

    Paper: x:averaged-weights.
    """

    gamma_prime: float = 0.999
    """Discount γ' that the weights approach; at least the agent's γ, at most 1."""
    order: Order = 100
    """Order K, from 0 to infinity; at γ = 0.99, 100 equals infinity up to age 1,000."""
    hidden: tuple[int, ...] = (64,)
    """Units of each hidden layer of the regression."""
    learning_rate: float = 3e-3
    """Learning rate of the regression; usually 1e-3 to 1e-2."""
    gradient_steps: int = 64
    """Gradient steps of the regression in each update, each on an eighth of the rollout."""

    def __post_init__(self) -> None:
        check_discount("gamma_prime", self.gamma_prime, one_allowed=True)
        check_order(self.order)
        object.__setattr__(self, "hidden", check_sizes("hidden", self.hidden))
        check_positive("learning_rate", self.learning_rate)
        check_count("gradient_steps", self.gradient_steps)

    def check(self, gamma: float) -> None:
        """Refuse a γ above γ'."""
        check_discounts(gamma, self.gamma_prime)

    def weights(self, step: Array, gamma: float) -> Array:
        """Weights before averaging.  Shapes: (T, N) -> (T, N) float32."""
        return TaylorWeight(self.gamma_prime, self.order).weights(step, gamma)

    def init(self, key: Array, num_inputs: int) -> Trained:
        """Regression before any rollout."""
        return Trained.start(init_network(key, (num_inputs, *self.hidden, 1), 0.01))

    def average(
        self, fitted: Trained, obs: Array, standardise: Standardiser | None, weight: Array
    ) -> tuple[Trained, Array]:
        """Fit the regression to a rollout; return it and the weights that it predicts.

        Shapes: obs (T, N, ...), weight (T, N) -> weight (T, N) float32.
        """
        # A sigmoid never reaches 1, and here all weights are 1.
        if self.gamma_prime == 1.0 and math.isinf(self.order):
            return fitted, weight
        return _average(self, fitted, obs, standardise, weight)


@jit(static_argnames=("slot",))
def _average(
    slot: AveragedWeight,
    fitted: Trained,
    obs: Array,
    standardise: Standardiser | None,
    weight: Array,
) -> tuple[Trained, Array]:
    """All gradient steps, then the predictions, in one compiled call."""
    x = jnp.asarray(obs, jnp.float32).reshape(weight.size, -1)
    x = x if standardise is None else standardise(x)
    # Every eighth sample, from another start in each step: no permutation has to be drawn.
    stride = min(8, weight.size)
    size = weight.size // stride
    batches = [a[: size * stride].reshape(size, stride, -1) for a in (x, weight.reshape(-1))]

    def step(fitted: Trained, start: Array) -> tuple[Trained, None]:
        inputs, target = (batch[:, start] for batch in batches)

        def loss(network: Network) -> Array:
            return jnp.mean((_predict(network, inputs) - target[..., 0]) ** 2)

        return fitted.descend(jax.grad(loss)(fitted.params), slot.learning_rate), None

    starts = jnp.arange(slot.gradient_steps) % stride
    fitted, _ = jax.lax.scan(step, fitted, starts)
    return fitted, _predict(fitted.params, x).reshape(weight.shape)


def _predict(network: Network, x: Array) -> Array:
    """w̄(x) in (0, 1).  Shapes: (..., O) -> (...)."""
    return jax.nn.sigmoid(apply_network(network, x, jnp.tanh, multiply)[..., 0])


@functools.lru_cache(maxsize=16)
def _weight_curve(gamma: float, gamma_prime: float, order: Order, ages: int) -> Array:
    """w_K(0), w_K(1), …: computed once for all rollouts, doubled when an age needs it."""
    return estimators.update_weights(np.arange(ages), gamma, gamma_prime, order)


SCALES = ("sum", "paper")
CADENCES = ("update", "policy_update")


class Recent(NamedTuple):
    """States of the latest transitions, for each of U updates."""

    obs: Array
    """(U, R, O)"""
    step: Array
    """(U, R): age inside the episode."""


@dataclass(frozen=True)
class DensityRatio:
    """w̃ ∝ (f/μ)^τ on the policy's term; f the latest ``recent_size`` states, μ the whole replay.

    A network learns to tell recent states from replayed ones, and so the ratio of their
    densities; no gradient of the policy reaches it.  TD3(γ) and SAC(γ) are
    ``TD3(weighting=DensityRatio())`` and ``SAC(weighting=DensityRatio())``.
    The paper leaves open when and on what the ratio is trained.  Here: at every update, on the
    minibatch of the update and as many recent states, with the agent's learning rate.

    Paper: algo:off, x:density-weighted-update, x:discounted-ratio.  Departs: S13, S14.
    """

    inverse_temperature: float = 0.1
    """Exponent τ of the ratio: 0 gives uniform weights, 1 importance sampling."""
    scale: str = "sum"
    """Weights that add up to 1 ("sum"), or divided by the batch size once more ("paper")."""
    gamma_prime: float = 1.0
    """Discount γ' of ages where the ratio is trained: 1 is the paper's method, γ its rival."""
    recent_size: int = 10_000
    """Number of latest states that stand for the current policy; usually 1 % of the replay."""
    batch_size: int | None = None
    """Recent states for each update of the ratio; the agent's batch size by default."""
    learning_rate: float | None = None
    """Learning rate of the ratio; the agent's by default."""
    every: str = "update"
    """Train the ratio at every "update" of the critics or at every "policy_update"."""

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
        """Refuse a γ above γ'."""
        if self.gamma_prime < 1.0:
            check_discounts(gamma, self.gamma_prime)

    def train(
        self, ratio: Trained, obs: Array, step: Array, recent: Recent, learning_rate: float
    ) -> tuple[Trained, Array, Array]:
        """Take one step towards the ratio; return it, the loss, and log w of ``obs`` before.

        The weights of an update come from the pass that trains the ratio, at no further cost.

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
