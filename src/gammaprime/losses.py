"""What on-policy agents minimise: one number for each sample of a batch, weighted and averaged.

Advantages are normalised before they are weighted, and weights touch the policy's term alone:
neither the critic's nor the entropy's.  Arrays in, arrays out (JAX).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import jax.numpy as jnp

Array: TypeAlias = Any


def normalise(advantage: Array, eps: float = 1e-8) -> Array:
    """(A − mean)/(std + ε) over the batch.  Shapes: (B,) -> (B,)."""
    return (advantage - advantage.mean()) / (advantage.std() + eps)


def policy_gradient_loss(log_prob: Array, advantage: Array, weight: Array) -> Array:
    """−mean w A log π(a|x): its gradient is the update of Algorithms 2 and 3 as written.

    Paper: algo:k-adv, algo:weight-onpolicy.  Departs: S3, S5.  Shapes: (B,) -> ().
    """
    return -jnp.mean(weight * advantage * log_prob)


def surrogate_loss(log_ratio: Array, advantage: Array, weight: Array) -> Array:
    """−mean w A π(a|x)/μ(a|x), what a trust region bounds.  Shapes: (B,) -> ()."""
    return -jnp.mean(weight * advantage * jnp.exp(log_ratio))


def clipped_surrogate_loss(
    log_ratio: Array, advantage: Array, weight: Array, clip_eps: float
) -> Array:
    """PPO's pessimistic surrogate, −mean w min(ratio·A, clip(ratio, 1±ε)·A).

    Paper: appendix:exp.  Shapes: (B,) -> ().
    """
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, 1.0 - clip_eps, 1.0 + clip_eps)
    return -jnp.mean(weight * jnp.minimum(ratio * advantage, clipped * advantage))


def value_loss(value: Array, target: Array) -> Array:
    """½ mean (V − target)², summed over heads.  Shapes: (B, H) -> ()."""
    return 0.5 * jnp.mean(jnp.sum((value - target) ** 2, axis=-1))


def clipped_value_loss(value: Array, target: Array, old_value: Array, clip: float) -> Array:
    """As `value_loss`, but of V and of V kept near its old value the worse counts.

    Shapes: (B, H) -> ().
    """
    near = old_value + jnp.clip(value - old_value, -clip, clip)
    worse = jnp.maximum((value - target) ** 2, (near - target) ** 2)
    return 0.5 * jnp.mean(jnp.sum(worse, axis=-1))
