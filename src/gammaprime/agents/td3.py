"""TD3: a deterministic policy, the smaller of two critics, a smoothed and a delayed target.

Defaults: Spinning Up's.  DDPG is TD3 without what the T and the D stand for; TD3(γ) is
``TD3(weighting=DensityRatio())``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from gammaprime.acting import Network, NoisyActor, apply_network
from gammaprime.agents.checks import check_positive
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
from gammaprime.losses import bellman_target, weighted_policy_loss
from gammaprime.nets import init_uniform

Array: TypeAlias = Any


@dataclass(frozen=True)
class TD3(OffPolicy):
    """Twin delayed deterministic policy gradient; all noise is in half-widths of the action's box.

    Paper: algo:off, appendix:exp.
    """

    policy_delay: int = 2
    act_noise: float = 0.1
    target_noise: float = 0.2
    noise_clip: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("act_noise", "target_noise", "noise_clip"):
            check_positive(name, vars(self)[name], zero_allowed=True)

    def start(self, key: Array, num_inputs: int, num_actions: int) -> Learned:
        policy_key, critics_key = jax.random.split(key)
        policy = init_uniform(policy_key, (num_inputs, *self.hidden, num_actions))
        critics = self.init_critics(critics_key, num_inputs + num_actions)
        return Learned(Trained.start(policy), Trained.start(critics), policy, critics, None, None)

    def actor(self, state: State) -> NoisyActor:
        policy = jax.device_get(state.learned.policy.params)
        return NoisyActor(policy, state.bounds, self.act_noise)

    def target(self, learned: Learned, batch: Batch, noise: Array) -> Array:
        """r + γ min_c Q'_c(x', clip(π'(x') + clip(σε, ±c), ±1))."""
        action = evaluate_policy(learned.target_policy, batch.next_obs)
        jitter = jnp.clip(self.target_noise * noise, -self.noise_clip, self.noise_clip)
        smoothed = jnp.clip(action + jitter, -1.0, 1.0)
        values = evaluate_critics(learned.target_critics, batch.next_obs, smoothed)
        return bellman_target(batch.reward, values.min(axis=0), batch.terminated, self.gamma)

    def learn_policy(
        self, learned: Learned, obs: Array, weight: Array, noise: Array
    ) -> tuple[Learned, Metrics]:
        def loss(policy: Network) -> Array:
            return td3_policy_loss(policy, learned.critics.params, obs, weight)

        value, gradient = jax.value_and_grad(loss)(learned.policy.params)
        policy = learned.policy.descend(gradient, self.learning_rate)
        target_policy = follow(learned.target_policy, policy.params, self.polyak)
        target_critics = follow(learned.target_critics, learned.critics.params, self.polyak)
        learned = learned._replace(
            policy=policy, target_policy=target_policy, target_critics=target_critics
        )
        return learned, {"train/actor_loss": value}


DDPG = TD3(num_critics=1, policy_delay=1, target_noise=0.0, learning_rate=1e-4)
"""With the learning rate that the paper states."""

DDPG_SPINNING_UP = TD3(num_critics=1, policy_delay=1, target_noise=0.0, learning_rate=1e-3)
"""With the rate of the code that the paper's scores come from."""


def evaluate_policy(policy: Network, obs: Array) -> Array:
    """π(x) in units of the action's box.  Shapes: (..., O) -> (..., A)."""
    return jnp.tanh(apply_network(policy, obs, jax.nn.relu))


def td3_policy_loss(
    policy: Network, critics: tuple[Network, ...], obs: Array, weight: Array
) -> Array:
    """−Σ w̃_i Q_1(x_i, π(x_i)).  Shapes: (B, O), (B,) -> ()."""
    value = evaluate_critics(critics[:1], obs, evaluate_policy(policy, obs))[0]
    return weighted_policy_loss(value, weight)
