"""Gradient steps on minibatches: PPO's own, and those that fit a critic between policy steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from gammaprime.acting import Network
from gammaprime.agents.checks import check_divides, check_positive
from gammaprime.agents.on_policy import Batch, Metrics, draw_minibatches, evaluate_critic
from gammaprime.losses import value_loss
from gammaprime.types import check_count

Array: TypeAlias = Any
Loss: TypeAlias = Callable[[Any, Any], tuple[Array, Metrics]]


def init_moments(optimiser: optax.GradientTransformation, params: Any) -> Any:
    """What the optimiser remembers before the first of the steps of `descend`."""
    return optimiser.init(ravel_pytree(params)[0])


def descend(
    loss: Loss,
    params: Any,
    moments: Any,
    batch: Any,
    rows: Array,
    optimiser: optax.GradientTransformation,
) -> tuple[Any, Any, Metrics]:
    """One step of the optimiser for each minibatch; parameters, moments, the metrics' means.

    The norm is that of the gradient as it came, before the optimiser clips it.  The optimiser
    sees all parameters as one vector: small layers one by one cost more to begin than to compute.

    Shapes: batch (B, ...), rows (steps, size).
    """
    unravel = ravel_pytree(params)[1]

    def step(carry: tuple[Any, Any], row: Array) -> tuple[tuple[Any, Any], Metrics]:
        params, moments = carry
        minibatch = jax.tree.map(lambda x: x[row], batch)
        layers, metrics = jax.grad(loss, has_aux=True)(params, minibatch)
        gradient = ravel_pytree(layers)[0]
        change, moments = optimiser.update(gradient, moments)
        metrics |= {"train/grad_norm": optax.tree.norm(gradient)}
        return (optax.apply_updates(params, unravel(change)), moments), metrics

    (params, moments), metrics = jax.lax.scan(step, (params, moments), rows)
    return params, moments, jax.tree.map(jnp.mean, metrics)


@dataclass(frozen=True)
class CriticFit:
    """Adam on the critic's squared error, for so many epochs of minibatches."""

    learning_rate: float = 1e-3
    epochs: int = 80
    minibatches: int = 1

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        check_count("epochs", self.epochs)
        check_count("minibatches", self.minibatches)

    def check(self, batch_size: int) -> None:
        check_divides("minibatches", self.minibatches, batch_size)

    def init_optimiser(self, critic: Network) -> Any:
        return init_moments(self._optimiser(), critic)

    def draw_minibatches(self, rng: np.random.Generator, batch_size: int) -> np.ndarray:
        return draw_minibatches(rng, batch_size, self.epochs, self.minibatches)

    def fit(
        self, critic: Network, moments: Any, batch: Batch, rows: Array
    ) -> tuple[Network, Any, Metrics]:
        """The critic after all steps."""

        def loss(critic: Network, minibatch: tuple[Array, Array]) -> tuple[Array, Metrics]:
            obs, target = minibatch
            error = value_loss(evaluate_critic(critic, obs), target)
            return error, {"train/value_loss": error}

        learned = descend(loss, critic, moments, (batch.obs, batch.target), rows, self._optimiser())
        critic, moments, metrics = learned
        metrics["train/value_grad_norm"] = metrics.pop("train/grad_norm")
        return critic, moments, metrics

    def _optimiser(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate)
