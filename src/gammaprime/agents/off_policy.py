"""Shared parts of TD3 (with DDPG in it) and SAC: settings, bursts of updates, critics, weights.

The networks see actions in units of their box, [−1, 1] in every direction.  Observations and
rewards are used as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gammaprime.agents.weightings import DensityRatio, Recent, Uniform
from gammaprime.lazy import jax, jnp
from gammaprime.losses import critics_loss, tempered_weights
from gammaprime.networks import Bounds, Network, Trained, apply_network, init_uniform
from gammaprime.types import (
    check_count,
    check_discount,
    check_fraction,
    check_positive,
    check_sizes,
    check_whole,
)
from gammaprime.typing import Array, Metrics, PyTree


class Batch(NamedTuple):
    """Transitions drawn from a replay: U minibatches of B."""

    obs: Array
    """(U, B, O)"""
    action: Array
    """(U, B, A)"""
    reward: Array
    """(U, B) raw."""
    next_obs: Array
    """(U, B, O): the TRUE successor."""
    terminated: Array
    """(U, B): nothing follows.  Truncations are not kept, because they are no end here."""
    step: Array
    """(U, B): age inside the episode."""


class Learned(NamedTuple):
    """Everything that updates change."""

    policy: Trained
    critics: Trained
    """A tuple of networks, each with one output."""
    target_policy: PyTree
    """None for SAC, whose target uses the policy itself."""
    target_critics: tuple[Network, ...]
    log_entropy_coef: Trained | None
    """None where the coefficient is not learned."""
    ratio: Trained | None
    """None with uniform weights."""


class State(NamedTuple):
    """Everything that an agent carries from one burst to the next."""

    learned: Learned
    bounds: Bounds
    num_updates: int


@dataclass(frozen=True)
class OffPolicy:
    """Settings that all off-policy agents share.  Defaults: Spinning Up's.

    Paper: algo:off.
    """

    gamma: float = 0.99
    """Discount γ of the critics; usually 0.9 to 0.999."""
    weighting: Uniform | DensityRatio = field(default_factory=Uniform)
    """Weight of each replayed state in the policy's update."""
    num_envs: int = 1
    """Environments stepped together."""
    num_steps: int = 50
    """Steps of each environment between two bursts of updates; usually 1 to 1000."""
    updates_per_step: float = 1.0
    """Updates of the critics for each environment step; usually 0.1 to 10."""
    hidden: tuple[int, ...] = (256, 256)
    """Units of each hidden layer, of all networks alike."""
    num_critics: int = 2
    """Critics whose smallest value is the target; 1 or 2."""
    batch_size: int = 100
    """Transitions of each update; usually 64 to 256."""
    learning_rate: float = 1e-3
    """Learning rate of Adam, for policy and critics; usually 1e-4 to 1e-3."""
    polyak: float = 0.995
    """Share that a target network keeps of itself in each update; usually 0.99 to 0.999."""
    replay_size: int = 1_000_000
    """Transitions that the replay holds."""
    random_steps: int = 10_000
    """First steps, of all environments, with actions drawn uniformly."""
    learning_starts: int = 1_000
    """Steps, of all environments, before the first update."""

    def __post_init__(self) -> None:
        check_discount("gamma", self.gamma, one_allowed=True)
        if not isinstance(self.weighting, Uniform | DensityRatio):
            raise ValueError(f"weighting={self.weighting!r}: must be one of Uniform, DensityRatio")
        self.weighting.check(self.gamma)
        for name in ("num_envs", "num_steps", "num_critics", "batch_size", "replay_size"):
            check_count(name, vars(self)[name])
        for name in ("random_steps", "learning_starts"):
            check_whole(name, vars(self)[name])
        object.__setattr__(self, "hidden", check_sizes("hidden", self.hidden))
        check_positive("learning_rate", self.learning_rate)
        check_fraction("polyak", self.polyak)
        wanted = check_positive("updates_per_step", self.updates_per_step) * self.rollout_size
        if self.updates < 1 or not math.isclose(self.updates, wanted):
            raise ValueError(
                f"updates_per_step={self.updates_per_step!r}: must give num_envs*num_steps="
                f"{self.rollout_size} steps a whole number of updates"
            )
        recent_size = 0 if isinstance(self.weighting, Uniform) else self.weighting.recent_size
        if recent_size >= self.replay_size:
            raise ValueError(
                f"recent_size={recent_size!r}: must be below replay_size={self.replay_size}, "
                "or the two buffers never differ"
            )

    @property
    def rollout_size(self) -> int:
        """Environment steps between two bursts, of all environments."""
        return self.num_envs * self.num_steps

    @property
    def updates(self) -> int:
        """Updates of a burst."""
        return round(self.updates_per_step * self.rollout_size)


# Before the first burst.


def check_bounds(space: Bounds) -> Bounds:
    """Bounds in float32 of a space with ``low`` and ``high``, if they are finite."""
    low, high = (np.asarray(x, np.float32).reshape(-1) for x in (space.low, space.high))
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError(f"low={low!r}, high={high!r}: must be finite, and low < high")
    return Bounds(low, high)


def init_critics(agent: OffPolicy, key: Array, num_inputs: int) -> tuple[Network, ...]:
    """Critics of observations and actions together."""
    keys = jax.random.split(key, agent.num_critics)
    return tuple(init_uniform(k, (num_inputs, *agent.hidden, 1)) for k in keys)


def init_ratio(agent: OffPolicy, key: Array, num_inputs: int) -> Trained | None:
    """Network of the density ratio; None with uniform weights."""
    if isinstance(agent.weighting, Uniform):
        return None
    return Trained.start(init_uniform(key, (num_inputs, *agent.hidden, 1)))


def check_recent(agent: OffPolicy, recent: Recent | None) -> None:
    """Refuse recent states that no weighting would use."""
    if recent is not None and isinstance(agent.weighting, Uniform):
        raise ValueError("recent: must be None where weights are uniform")


# Inside the compiled burst.


class Drawn(NamedTuple):
    """Data of U updates, or of one."""

    batch: Batch
    """Actions in units of their box."""
    recent: Recent | None
    """None where all weights are equal."""
    target_noise: Array
    """(U, B, A) standard normal, for the actions of the target."""
    policy_noise: Array
    """(U, B, A) standard normal, for the actions of the policy."""


def draw_noise(bounds: Bounds, batch: Batch, recent: Recent | None, key: Array) -> Drawn:
    """Data of a burst together with the noise that its updates need."""
    batch = batch._replace(action=bounds.to_unit(batch.action))
    noises = (jax.random.normal(k, batch.action.shape) for k in jax.random.split(key))
    return Drawn(batch, recent, *noises)


def learn_critics(
    agent: OffPolicy, learned: Learned, batch: Batch, target: Array
) -> tuple[Learned, Metrics]:
    """Take one step of all critics towards the target.  Shapes: batch (B, ...), target (B,)."""

    def loss(critics: tuple[Network, ...]) -> tuple[Array, Array]:
        values = evaluate_critics(critics, batch.obs, batch.action)
        return critics_loss(values, target), values

    (error, values), gradient = jax.value_and_grad(loss, has_aux=True)(learned.critics.params)
    critics = learned.critics.descend(gradient, agent.learning_rate)
    metrics = {"train/critic_loss": error, "train/value": values.mean()}
    return learned._replace(critics=critics), metrics


def learn_ratio(
    agent: OffPolicy, learned: Learned, drawn: Drawn, turns: tuple[str, ...]
) -> tuple[Learned, Metrics, Array | None]:
    """Take one step of the density ratio if it is its turn; return log w of the minibatch too."""
    batch, recent, weighting = drawn.batch, drawn.recent, agent.weighting
    if recent is None or isinstance(weighting, Uniform) or weighting.every not in turns:
        return learned, {}, None
    assert learned.ratio is not None
    ratio, loss, log_ratio = weighting.train(
        learned.ratio, batch.obs, batch.step, recent, agent.learning_rate
    )
    return learned._replace(ratio=ratio), {"train/ratio_loss": loss}, log_ratio


def policy_weights(
    weighting: Uniform | DensityRatio, log_ratio: Array | None, batch_size: int
) -> tuple[Array, Metrics]:
    """Weight of each state of a minibatch in the policy's update, and the effective sample size.

    While the latest states are all there are, the ratio is 1 and every weight exactly 1/B.

    Paper: x:density-weighted-update.  Shapes: (B,) -> (B,).
    """
    weight = jnp.full(batch_size, 1.0 / batch_size, jnp.float32)
    if isinstance(weighting, Uniform):
        return weight, {}
    if log_ratio is not None:
        weight = tempered_weights(log_ratio, weighting.inverse_temperature)
    effective = 1.0 / (batch_size * jnp.sum(weight**2))
    return weighting.rescale(weight), {"train/effective_sample": effective}


def evaluate_critics(critics: tuple[Network, ...], obs: Array, action: Array) -> Array:
    """Q_c(x, a), actions in units of their box.  Shapes: (..., O), (..., A) -> (C, ...)."""
    inputs = jnp.concatenate([obs, action], axis=-1)
    return jnp.stack([apply_network(c, inputs, jax.nn.relu)[..., 0] for c in critics])


def follow(target: PyTree, params: PyTree, polyak: float) -> PyTree:
    """polyak·target + (1 − polyak)·params."""
    return jax.tree.map(lambda old, new: polyak * old + (1.0 - polyak) * new, target, params)
