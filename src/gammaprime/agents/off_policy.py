"""What TD3 (and DDPG in it) and SAC share: a burst of updates from a replay, in one compiled call.

Actions are seen by networks in units of their box, [−1, 1] in every direction.  Observations and
rewards are taken as they are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from gammaprime.acting import BoundedActor, Bounds, Network, apply_network
from gammaprime.agents.checks import check_positive, check_sizes, check_whole
from gammaprime.agents.density_ratio import DensityRatio, Recent, Trained
from gammaprime.agents.slots import Uniform
from gammaprime.losses import critics_loss, tempered_weights
from gammaprime.nets import init_uniform
from gammaprime.types import check_count, check_discount, check_fraction

Array: TypeAlias = Any
Metrics: TypeAlias = dict[str, Array]


class Batch(NamedTuple):
    """Transitions drawn from a replay: U minibatches of B."""

    obs: Array
    """(U, B, O)"""
    action: Array
    """(U, B, A)"""
    reward: Array
    """(U, B) raw, as all others."""
    next_obs: Array
    """(U, B, O): the TRUE successor."""
    terminated: Array
    """(U, B): nothing follows.  A truncation is no end here, so none is kept."""
    step: Array
    """(U, B): age inside the episode."""


class Learned(NamedTuple):
    """What updates change."""

    policy: Trained
    critics: Trained
    """A tuple of networks, each with one output."""
    target_policy: Any
    """None where the target asks the policy itself."""
    target_critics: tuple[Network, ...]
    log_entropy_coef: Trained | None
    """None where it is no part of learning."""
    ratio: Trained | None
    """None with uniform weights."""


class State(NamedTuple):
    """All that an agent carries from one burst to the next."""

    learned: Learned
    bounds: Bounds
    num_updates: int


@dataclass(frozen=True)
class OffPolicy(ABC):
    """The settings that all off-policy agents share.  Defaults: Spinning Up's.

    After ``num_steps`` steps of each row come ``updates`` updates at once, as many as steps with
    ``updates_per_step=1``.  Actions are uniform for the first ``random_steps`` steps of all rows;
    nothing is learned before ``learning_starts``.  ``polyak`` is what a target keeps of itself.

    Paper: algo:off.
    """

    gamma: float = 0.99
    weighting: Uniform | DensityRatio = field(default_factory=Uniform)
    num_envs: int = 1
    num_steps: int = 50
    updates_per_step: float = 1.0
    hidden: tuple[int, ...] = (256, 256)
    num_critics: int = 2
    batch_size: int = 100
    learning_rate: float = 1e-3
    polyak: float = 0.995
    replay_size: int = 1_000_000
    random_steps: int = 10_000
    learning_starts: int = 1_000

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
        check_count("policy_delay", self.policy_delay)
        self._check_sizes()

    def _check_sizes(self) -> None:
        wanted = check_positive("updates_per_step", self.updates_per_step) * self.rollout_size
        odd = self.updates % self.policy_delay or self.updates < 1
        if odd or not math.isclose(self.updates, wanted):
            raise ValueError(
                f"updates_per_step={self.updates_per_step!r}: must give num_envs*num_steps="
                f"{self.rollout_size} steps a multiple of policy_delay={self.policy_delay} updates"
            )
        recent_size = 0 if isinstance(self.weighting, Uniform) else self.weighting.recent_size
        if recent_size >= self.replay_size:
            raise ValueError(
                f"recent_size={recent_size!r}: must be below replay_size={self.replay_size}, "
                "or the two buffers never differ"
            )

    @property
    def rollout_size(self) -> int:
        return self.num_envs * self.num_steps

    @property
    def updates(self) -> int:
        """Updates of a burst."""
        return round(self.updates_per_step * self.rollout_size)

    @property
    @abstractmethod
    def policy_delay(self) -> int:
        """The policy learns at every so many updates of the critics."""

    @abstractmethod
    def start(self, key: Array, num_inputs: int, num_actions: int) -> Learned:
        """What is there before any experience, but for the ratio."""

    @abstractmethod
    def actor(self, state: State) -> BoundedActor:
        """The policy as NumPy arrays, to act with until the next burst."""

    @abstractmethod
    def target(self, learned: Learned, batch: Batch, noise: Array) -> Array:
        """What the critics should say of a minibatch.  Shapes: (B, ...), noise (B, A) -> (B,)."""

    @abstractmethod
    def learn_policy(
        self, learned: Learned, obs: Array, weight: Array, noise: Array
    ) -> tuple[Learned, Metrics]:
        """One step of the policy on weighted states, and of the targets."""

    def init(self, key: Array, space: Bounds, num_inputs: int) -> State:
        """The state before any experience; a space is anything with ``low`` and ``high``."""
        low, high = (np.asarray(x, np.float32).reshape(-1) for x in (space.low, space.high))
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise ValueError(f"low={low!r}, high={high!r}: must be finite, and low < high")
        return State(_start(self, key, num_inputs, len(low)), Bounds(low, high), 0)

    def init_critics(self, key: Array, num_inputs: int) -> tuple[Network, ...]:
        """Critics of observations and actions together."""
        keys = jax.random.split(key, self.num_critics)
        return tuple(init_uniform(k, (num_inputs, *self.hidden, 1)) for k in keys)

    def update(
        self, state: State, batch: Batch, recent: Recent | None, key: Array
    ) -> tuple[State, Metrics]:
        """A burst: one update for each minibatch.  Without recent states weights are uniform."""
        updates = len(batch.reward)
        if updates % self.policy_delay:
            raise ValueError(
                f"batch of {updates} updates: must be a multiple of policy_delay="
                f"{self.policy_delay}"
            )
        if recent is not None and isinstance(self.weighting, Uniform):
            raise ValueError("recent: must be None where weights are uniform")
        learned, metrics = _update(self, state.learned, state.bounds, batch, recent, key)
        return State(learned, state.bounds, state.num_updates + updates), metrics


@partial(jax.jit, static_argnames=("agent", "num_inputs", "num_actions"))
def _start(agent: OffPolicy, key: Array, num_inputs: int, num_actions: int) -> Learned:
    """All that is learned, before it is, in one compiled call."""
    key, ratio_key = jax.random.split(key)
    learned = agent.start(key, num_inputs, num_actions)
    if isinstance(agent.weighting, Uniform):
        return learned
    ratio = init_uniform(ratio_key, (num_inputs, *agent.hidden, 1))
    return learned._replace(ratio=Trained.start(ratio))


# The state is not donated: that would save a copy of it for each burst, less than a hundredth of
# the burst, and lose what a loop that breaks down has to show.
@partial(jax.jit, static_argnames=("agent",))
def _update(
    agent: OffPolicy,
    learned: Learned,
    bounds: Bounds,
    batch: Batch,
    recent: Recent | None,
    key: Array,
) -> tuple[Learned, Metrics]:
    """All updates of a burst, in rounds that end with the policy's."""
    batch = batch._replace(action=bounds.to_unit(batch.action))
    updates, delay = len(batch.reward), agent.policy_delay
    noises = tuple(jax.random.normal(k, batch.action.shape) for k in jax.random.split(key))
    rounds = jax.tree.map(
        lambda x: x.reshape(updates // delay, delay, *x.shape[1:]), (batch, recent, noises)
    )
    learned, metrics = jax.lax.scan(partial(_learn_round, agent), learned, rounds)
    return learned, jax.tree.map(jnp.mean, metrics)


Drawn: TypeAlias = tuple[Batch, Recent | None, tuple[Array, Array]]
"""With noise for the target's actions and for the policy's."""


def _learn_round(agent: OffPolicy, learned: Learned, drawn: Drawn) -> tuple[Learned, Metrics]:
    """The critics on each minibatch, then the policy on the last."""
    turn = partial(_learn_values, agent)
    learned, (metrics, logs) = jax.lax.scan(turn, learned, drawn, unroll=True)
    batch, recent, (_, noise), log_ratio = jax.tree.map(lambda x: x[-1], (*drawn, logs))
    if log_ratio is None:
        learned, of_ratio, log_ratio = _learn_ratio(agent, learned, batch, recent, "policy_update")
        metrics |= of_ratio
    weight, of_weight = policy_weights(agent.weighting, log_ratio, len(batch.reward))
    learned, of_policy = agent.learn_policy(learned, batch.obs, weight, noise)
    return learned, metrics | of_weight | of_policy


def _learn_values(
    agent: OffPolicy, learned: Learned, drawn: Drawn
) -> tuple[Learned, tuple[Metrics, Array | None]]:
    batch, recent, (noise, _) = drawn
    learned, metrics = learn_critics(agent, learned, batch, noise)
    learned, of_ratio, log_ratio = _learn_ratio(agent, learned, batch, recent, "update")
    return learned, (metrics | of_ratio, log_ratio)


def learn_critics(
    agent: OffPolicy, learned: Learned, batch: Batch, noise: Array
) -> tuple[Learned, Metrics]:
    """One step of all critics towards the agent's target.  Shapes: (B, ...), noise (B, A)."""
    target = agent.target(learned, batch, noise)

    def loss(critics: tuple[Network, ...]) -> tuple[Array, Array]:
        values = evaluate_critics(critics, batch.obs, batch.action)
        return critics_loss(values, target), values

    (error, values), gradient = jax.value_and_grad(loss, has_aux=True)(learned.critics.params)
    critics = learned.critics.descend(gradient, agent.learning_rate)
    metrics = {"train/critic_loss": error, "train/value": values.mean()}
    return learned._replace(critics=critics), metrics


def _learn_ratio(
    agent: OffPolicy, learned: Learned, batch: Batch, recent: Recent | None, now: str
) -> tuple[Learned, Metrics, Array | None]:
    """One step of the ratio, if it can be learned and it is its turn; and log w of the batch."""
    if recent is None or agent.weighting.every != now:
        return learned, {}, None
    ratio, loss, log_ratio = agent.weighting.train(
        learned.ratio, batch.obs, batch.step, recent, agent.learning_rate
    )
    return learned._replace(ratio=ratio), {"train/ratio_loss": loss}, log_ratio


def policy_weights(
    weighting: Uniform | DensityRatio, log_ratio: Array | None, batch_size: int
) -> tuple[Array, Metrics]:
    """What each state of a minibatch counts in the policy's update, and how unequal that is.

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


def follow(target: Any, params: Any, polyak: float) -> Any:
    """polyak·target + (1 − polyak)·params."""
    return jax.tree.map(lambda old, new: polyak * old + (1.0 - polyak) * new, target, params)
