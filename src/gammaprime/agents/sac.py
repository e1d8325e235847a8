"""SAC: a stochastic policy that is paid for its entropy, and the smaller of two critics.

Defaults: Spinning Up's.  SAC(γ) is ``SAC(weighting=DensityRatio())``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from gammaprime.acting import Network, SquashedActor, mean_and_log_std
from gammaprime.agents.checks import check_choice, check_positive, check_real
from gammaprime.agents.density_ratio import Trained
from gammaprime.agents.off_policy import (
    Batch,
    Learned,
    Metrics,
    OffPolicy,
    State,
    evaluate_critics,
    follow,
)
from gammaprime.losses import (
    bellman_target,
    entropy_coef_loss,
    soft_value,
    weighted_policy_loss,
)
from gammaprime.nets import init_uniform, squash

Array: TypeAlias = Any

STD_NETWORKS = ("shared", "own")


@dataclass(frozen=True)
class FixedEntropy:
    """The entropy's coefficient α as it is given."""

    entropy_coef: float = 0.2

    def __post_init__(self) -> None:
        check_positive("entropy_coef", self.entropy_coef, zero_allowed=True)


@dataclass(frozen=True)
class LearnedEntropy:
    """α that keeps the policy's entropy at ``target_entropy``: −1 for each action by default.

    The entropy is that of actions in units of their box.  Its learning rate is the agent's unless
    it has its own.
    """

    initial_coef: float = 1.0
    target_entropy: float | None = None
    learning_rate: float | None = None

    def __post_init__(self) -> None:
        check_positive("initial_coef", self.initial_coef)
        if self.target_entropy is not None:
            check_real("target_entropy", self.target_entropy)
        if self.learning_rate is not None:
            check_positive("learning_rate", self.learning_rate)


class SquashedParams(NamedTuple):
    """A network for μ, and one for log σ or None where the first gives both."""

    network: Network
    std_network: Network | None


@dataclass(frozen=True)
class SAC(OffPolicy):
    """Soft actor-critic.  ``std_network`` "shared": log σ from the trunk of μ, "own": the paper's.

    Paper: algo:off, appendix:exp.
    """

    entropy: FixedEntropy | LearnedEntropy = field(default_factory=FixedEntropy)
    std_network: str = "shared"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.entropy, FixedEntropy | LearnedEntropy):
            raise ValueError(f"entropy={self.entropy!r}: must be FixedEntropy or LearnedEntropy")
        check_choice("std_network", self.std_network, STD_NETWORKS)

    @property
    def policy_delay(self) -> int:
        return 1

    def start(self, key: Array, num_inputs: int, num_actions: int) -> Learned:
        mean_key, std_key, critics_key = jax.random.split(key, 3)
        sizes = (num_inputs, *self.hidden)
        if self.std_network == "shared":
            policy = SquashedParams(init_uniform(mean_key, (*sizes, 2 * num_actions)), None)
        else:
            networks = [init_uniform(k, (*sizes, num_actions)) for k in (mean_key, std_key)]
            policy = SquashedParams(*networks)
        critics = self.init_critics(critics_key, num_inputs + num_actions)
        log_coef = None
        if isinstance(self.entropy, LearnedEntropy):
            initial = jnp.full((), math.log(self.entropy.initial_coef), jnp.float32)
            log_coef = Trained.start(initial)
        return Learned(Trained.start(policy), Trained.start(critics), None, critics, log_coef, None)

    def actor(self, state: State) -> SquashedActor:
        network, std_network = jax.device_get(state.learned.policy.params)
        return SquashedActor(network, state.bounds, std_network)

    def target(self, learned: Learned, batch: Batch, noise: Array) -> Array:
        """r + γ (min_c Q'_c(x', a') − α log π(a'|x')), a' drawn from the policy of today."""
        action, log_prob = draw_action(learned.policy.params, batch.next_obs, noise)
        values = evaluate_critics(learned.target_critics, batch.next_obs, action)
        value = soft_value(values.min(axis=0), log_prob, self.entropy_coef(learned))
        return bellman_target(batch.reward, value, batch.terminated, self.gamma)

    def learn_policy(
        self, learned: Learned, obs: Array, weight: Array, noise: Array
    ) -> tuple[Learned, Metrics]:
        coef = self.entropy_coef(learned)

        def loss(policy: SquashedParams) -> tuple[Array, Array]:
            return sac_policy_loss(policy, learned.critics.params, obs, weight, noise, coef)

        gradient_of = jax.value_and_grad(loss, has_aux=True)
        (value, log_prob), gradient = gradient_of(learned.policy.params)
        policy = learned.policy.descend(gradient, self.learning_rate)
        target_critics = follow(learned.target_critics, learned.critics.params, self.polyak)
        learned = self._learn_entropy(learned, log_prob, noise.shape[-1])
        metrics = {
            "train/actor_loss": value,
            "train/entropy": -log_prob.mean(),
            "train/ent_coef": coef,
        }
        return learned._replace(policy=policy, target_critics=target_critics), metrics

    def entropy_coef(self, learned: Learned) -> Array:
        if isinstance(self.entropy, FixedEntropy):
            return jnp.float32(self.entropy.entropy_coef)
        return jnp.exp(learned.log_entropy_coef.params)

    def _learn_entropy(self, learned: Learned, log_prob: Array, num_actions: int) -> Learned:
        if isinstance(self.entropy, FixedEntropy):
            return learned
        target = self.entropy.target_entropy
        target = -float(num_actions) if target is None else target
        log_coef = learned.log_entropy_coef
        gradient = jax.grad(entropy_coef_loss)(log_coef.params, log_prob, target)
        learning_rate = self.entropy.learning_rate or self.learning_rate
        return learned._replace(log_entropy_coef=log_coef.descend(gradient, learning_rate))


def draw_action(policy: SquashedParams, obs: Array, noise: Array) -> tuple[Array, Array]:
    """An action in units of its box, and its log-likelihood.  Shapes: -> (B, A), (B,)."""
    return squash(*mean_and_log_std(*policy, obs, jax.nn.relu), noise)


def sac_policy_loss(
    policy: SquashedParams,
    critics: tuple[Network, ...],
    obs: Array,
    weight: Array,
    noise: Array,
    entropy_coef: Array,
) -> tuple[Array, Array]:
    """−Σ w̃_i (min_c Q_c(x_i, a_i) − α log π(a_i|x_i)), and log π.  Shapes: (B, ...) -> (), (B,)."""
    action, log_prob = draw_action(policy, obs, noise)
    value = evaluate_critics(critics, obs, action).min(axis=0)
    return weighted_policy_loss(soft_value(value, log_prob, entropy_coef), weight), log_prob
