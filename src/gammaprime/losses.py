"""Losses of the agents, in JAX: one number for each sample of a batch, weighted and averaged.

On-policy, advantages are normalised before they are weighted, and weights multiply the policy's
term alone, not the critic's and not the entropy's.  Off-policy, weights add up to 1 over a batch
and multiply the whole objective of the policy, SAC's entropy included.
"""

from __future__ import annotations

import math

from gammaprime.lazy import jax, jnp
from gammaprime.typing import Array


def normalise(advantage: Array, eps: float = 1e-8) -> Array:
    """(A − mean)/(std + ε) over the batch.  Shapes: (B,) -> (B,)."""
    return (advantage - advantage.mean()) / (advantage.std() + eps)


def policy_gradient_loss(log_prob: Array, advantage: Array, weight: Array) -> Array:
    """−mean w A log π(a|x): its gradient is the update of Algorithms 2 and 3 as written.

    Paper: algo:k-adv, algo:weight-onpolicy.  Departs: S3, S5.  Shapes: (B,) -> ().
    """
    return -jnp.mean(weight * advantage * log_prob)


def surrogate_loss(log_ratio: Array, advantage: Array, weight: Array) -> Array:
    """−mean w A π(a|x)/μ(a|x), the surrogate of TRPO.  Shapes: (B,) -> ()."""
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
    """Maximum of the squared errors of V and of V clipped to within ``clip`` of its old value.

    As in PPO2, with the factor and the sum over heads of `value_loss`.  Shapes: (B, H) -> ().
    """
    near = old_value + jnp.clip(value - old_value, -clip, clip)
    worse = jnp.maximum((value - target) ** 2, (near - target) ** 2)
    return 0.5 * jnp.mean(jnp.sum(worse, axis=-1))


def bellman_target(reward: Array, next_value: Array, terminated: Array, gamma: float) -> Array:
    """y = r + γ Q'(x', a'), and r alone where the episode terminated.

    A truncation is not an end: the successor's value is used there too.

    Shapes: (B,) -> (B,).
    """
    return reward + gamma * jnp.where(terminated, 0.0, next_value)


def soft_value(value: Array, log_prob: Array, entropy_coef: Array) -> Array:
    """Q − α log π, the value of an action with its entropy bonus.  Shapes: (B,) -> (B,)."""
    return value - entropy_coef * log_prob


def critics_loss(values: Array, target: Array) -> Array:
    """Σ_c mean (Q_c − y)²: one target for every critic.  Shapes: (C, B), (B,) -> ()."""
    return jnp.sum(jnp.mean((values - target) ** 2, axis=-1))


def weighted_policy_loss(value: Array, weight: Array) -> Array:
    """−Σ w̃_i Q(x_i, π(x_i)); the plain batch mean where w̃_i = 1/B.

    SAC uses the soft value instead of Q, so its entropy has the same weight.

    Paper: x:density-weighted-update, algo:off.  Departs: S14.  Shapes: (B,) -> ().
    """
    return -jnp.sum(weight * value)


def entropy_coef_loss(log_coef: Array, log_prob: Array, target_entropy: float) -> Array:
    """−log α · mean (log π + H*): α grows while the entropy is below H*.  Shapes: (B,) -> ()."""
    return -log_coef * jnp.mean(jax.lax.stop_gradient(log_prob) + target_entropy)


def log_softplus(z: Array) -> Array:
    """log log(1 + eᶻ), the logarithm of a ratio whose network ends in a softplus.

    Far below zero log(1 + eᶻ) = eᶻ − e²ᶻ/2 + …, so that its logarithm is z − eᶻ/2, where the
    softplus itself would round to 0 and its logarithm to −∞.

    Paper: x:discriminator.
    """
    far = z < -15.0
    near_z, far_z = jnp.where(far, 0.0, z), jnp.where(far, z, -15.0)
    return jnp.where(far, far_z - 0.5 * jnp.exp(far_z), jnp.log(jax.nn.softplus(near_z)))


def ratio_loss(
    recent: Array, replayed: Array, recent_weight: Array, replayed_weight: Array
) -> Array:
    """−E_f log(w/(1+w)) + E_μ log(1+w), smallest at w = f/μ; the samples hold log w.

    Each expectation is a separate mean, over weights that add up to 1: samples of unequal size
    in one mean would scale the ratio.

    Paper: x:discriminator.  Shapes: (R,), (B,), (R,), (B,) -> ().
    """
    of_recent = jnp.sum(recent_weight * jax.nn.softplus(-recent))
    return of_recent + jnp.sum(replayed_weight * jax.nn.softplus(replayed))


def age_weights(step: Array, gamma_prime: float) -> Array:
    """γ'^t/Σγ'^t over a sample of states of ages t: 1/R at γ' = 1.

    Computed relative to the youngest, so that weights of old samples do not underflow.

    Paper: x:discounted-ratio.  Shapes: (R,) -> (R,).
    """
    return jax.nn.softmax((step - step.min()) * math.log(gamma_prime))


def tempered_weights(log_ratio: Array, inverse_temperature: float) -> Array:
    """w̃_i = w_iᵗ/Σ_j w_jᵗ with t the inverse temperature: 0 is uniform, 1 is self-normalised
    importance sampling.

    Paper: x:temper.  Shapes: (B,) -> (B,).
    """
    return jax.nn.softmax(inverse_temperature * log_ratio)
