"""Networks and policies where they learn: initialisation, likelihoods, entropies, divergences.

How a policy acts is in `gammaprime.acting`, in NumPy alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from gammaprime.acting import Layer, Network

Array: TypeAlias = Any

ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu}

LOG_2PI = math.log(2.0 * math.pi)


def init_network(key: Array, sizes: tuple[int, ...], last_scale: float) -> Network:
    """Orthogonal weights of gain √2, ``last_scale`` in the last layer; zero biases."""
    keys = jax.random.split(key, len(sizes) - 1)
    gains = [math.sqrt(2.0)] * (len(sizes) - 2) + [last_scale]
    return tuple(
        Layer(jax.nn.initializers.orthogonal(gain)(k, (rows, columns)), jnp.zeros(columns))
        for k, gain, rows, columns in zip(keys, gains, sizes[:-1], sizes[1:], strict=True)
    )


def init_uniform(key: Array, sizes: tuple[int, ...]) -> Network:
    """Weights and biases uniform in ±1/√inputs, the default of PyTorch's linear layers.

    For off-policy agents: their published scores were made with it.
    """
    shapes = list(pairwise(sizes))
    # One draw for all layers: every draw of its own would be compiled anew.
    draws = jax.random.uniform(
        key, (sum((rows + 1) * columns for rows, columns in shapes),), minval=-1.0
    )
    network = []
    for rows, columns in shapes:
        size = (rows + 1) * columns
        layer = draws[:size].reshape(rows + 1, columns) / math.sqrt(rows)
        network.append(Layer(layer[:-1], layer[-1]))
        draws = draws[size:]
    return tuple(network)


@jax.custom_vjp
def multiply(x: Array, weight: Array) -> Array:
    """xW, for layers whose gradients are to be quick on a CPU.

    The gradient xᵀg of a layer of few outputs is computed as (gᵀx)ᵀ: the same sums, which XLA adds
    up along the long side instead of the short one, in a third of the time.

    Shapes: (..., inputs), (inputs, outputs) -> (..., outputs); gradients where x is (B, inputs).
    """
    return x @ weight


def _multiply_forward(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    return x @ weight, (x, weight)


def _multiply_backward(saved: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    x, weight = saved
    inputs, outputs = weight.shape
    # Without the barrier XLA takes both transpositions for none.
    weight_slope = jax.lax.optimization_barrier(slope.T @ x).T if outputs < inputs else x.T @ slope
    return slope @ weight.T, weight_slope


multiply.defvjp(_multiply_forward, _multiply_backward)


class PolicyParams(NamedTuple):
    """A network, and for a Gaussian one log standard deviation for each action."""

    network: Network
    log_std: Array | None


class Distribution(NamedTuple):
    """What a policy says of a batch: a mean or logits, and a Gaussian's log σ."""

    center: Array
    log_std: Array | None


@dataclass(frozen=True)
class Gaussian:
    """a ~ N(μ(x), σ²) with one σ for each action, whatever the state.  Paper: appendix:exp."""

    num_actions: int
    initial_log_std: float = 0.0

    def init(self, key: Array, sizes: tuple[int, ...]) -> PolicyParams:
        network = init_network(key, (*sizes, self.num_actions), 0.01)
        # A type of its own: a weak one would turn strong in the first update, and compile it twice.
        log_std = jnp.full(self.num_actions, self.initial_log_std, jnp.float32)
        return PolicyParams(network, log_std)

    def log_prob(self, distribution: Distribution, action: Array) -> Array:
        """Shapes: (..., A) -> (...)."""
        center, log_std = distribution
        z = (action - center) * jnp.exp(-log_std)
        return -0.5 * jnp.sum(z**2 + 2.0 * log_std + LOG_2PI, axis=-1)

    def entropy(self, distribution: Distribution) -> Array:
        """Shapes: (..., A) -> (...)."""
        entropy = jnp.sum(distribution.log_std + 0.5 * (1.0 + LOG_2PI))
        return jnp.broadcast_to(entropy, distribution.center.shape[:-1])

    def divergence(self, old: Distribution, new: Distribution) -> Array:
        """KL(old ‖ new).  Shapes: (..., A) -> (...)."""
        log_ratio = new.log_std - old.log_std
        spread = jnp.exp(-2.0 * log_ratio) + ((old.center - new.center) / jnp.exp(new.log_std)) ** 2
        return jnp.sum(log_ratio + 0.5 * (spread - 1.0), axis=-1)


@dataclass(frozen=True)
class Categorical:
    """a ~ softmax of the network's logits."""

    num_actions: int

    def init(self, key: Array, sizes: tuple[int, ...]) -> PolicyParams:
        return PolicyParams(init_network(key, (*sizes, self.num_actions), 0.01), None)

    def log_prob(self, distribution: Distribution, action: Array) -> Array:
        """Shapes: action (...) int -> (...)."""
        logits = jax.nn.log_softmax(distribution.center)
        return jnp.take_along_axis(logits, action[..., None], axis=-1)[..., 0]

    def entropy(self, distribution: Distribution) -> Array:
        logits = jax.nn.log_softmax(distribution.center)
        return -jnp.sum(jnp.exp(logits) * logits, axis=-1)

    def divergence(self, old: Distribution, new: Distribution) -> Array:
        """KL(old ‖ new).  Shapes: (..., A) -> (...)."""
        old_logits, new_logits = (jax.nn.log_softmax(d.center) for d in (old, new))
        return jnp.sum(jnp.exp(old_logits) * (old_logits - new_logits), axis=-1)


Policy: TypeAlias = Gaussian | Categorical


def squash(mean: Array, log_std: Array, noise: Array) -> tuple[Array, Array]:
    """a = tanh(u), u = μ + σε, and its log-likelihood.

        log π(a|x) = Σ_j −½ε_j² − log σ_j − ½log 2π − log(1 − tanh² u_j)

    The last term is written 2(log 2 − u − softplus(−2u)), which neither overflows nor needs a
    small number inside the logarithm, however close to its bounds the action is.

    Shapes: (..., A) -> (..., A), (...).
    """
    pre_squash = mean + jnp.exp(log_std) * noise
    log_slope = 2.0 * (math.log(2.0) - pre_squash - jax.nn.softplus(-2.0 * pre_squash))
    log_prob = -0.5 * (noise**2 + LOG_2PI) - log_std - log_slope
    return jnp.tanh(pre_squash), jnp.sum(log_prob, axis=-1)
