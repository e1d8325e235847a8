"""What advantage slots are made of: a rollout seen by its critic, and the recursions over it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp

from gammaprime import estimators

Array: TypeAlias = Any


class Experience(NamedTuple):
    """A rollout as the estimators see it, time first: rewards scaled, values under the critic."""

    reward: Array
    """(T, N)."""
    values: Array
    """(H, T, N): each head's value of the state."""
    next_values: Array
    """(H, T, N): each head's value of the TRUE successor."""
    terminated: Array
    truncated: Array
    step: Array
    """(T, N): age inside the episode."""

    @property
    def ends(self) -> tuple[Array, Array]:
        return self.terminated, self.truncated


class Estimate(NamedTuple):
    """What a policy and its critic learn from."""

    advantage: Array
    """(T, N)."""
    targets: Array
    """(H, T, N): what each head should learn."""


def base_estimate(experience: Experience, gamma: float, lam: float) -> tuple[Array, Array]:
    """GAE at γ on the first head, and the λ-return that is its target."""
    value, next_value = experience.values[0], experience.next_values[0]
    advantage = estimators.gae(
        experience.reward, value, next_value, *experience.ends, gamma=gamma, lam=lam
    )
    return advantage, advantage + value


def head_advantages(
    experience: Experience, rewards: Array, gammas: Sequence[float], lambdas: Sequence[float]
) -> Array:
    """GAE of every head on its own reward, discount and λ, in a single scan.

        A_z(t) = r_z(t) + γ_z W_z(x_{t+1}) − W_z(x_t) + γ_z λ_z A_z(t+1)

    What a head is paid comes from the heads below it, at the true successor: for the terms of an
    expansion and for TD(Δ) alike.  λ_z may exceed 1, γ_z λ_z may not.

    Paper: x:learned-terms, x:td-delta.  Shapes: rewards (H, T, N) -> (H, T, N).
    """
    gamma = jnp.asarray(gammas, rewards.dtype)[:, None, None]
    lam = jnp.asarray(lambdas, rewards.dtype)[:, None, None]
    surprise = rewards + gamma * alive(experience, experience.next_values) - experience.values
    going = ~(experience.terminated | experience.truncated)
    decay = gamma * lam * going
    total = estimators.discounted_sum(jnp.moveaxis(surprise, 1, 0), jnp.moveaxis(decay, 1, 0))
    return jnp.moveaxis(total, 0, 1)


def alive(experience: Experience, next_values: Array) -> Array:
    """Values of successors, 0 after a termination."""
    return jnp.where(experience.terminated, 0.0, next_values)
