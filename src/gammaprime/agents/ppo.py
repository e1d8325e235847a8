"""PPO: several epochs of minibatches on a clipped surrogate.  Defaults: OpenAI Baselines' MuJoCo.

PPO(K) is ``PPO(advantage=TaylorQ())``, PPO with update weighting ``PPO(weighting=TaylorWeight())``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
import optax

from gammaprime.agents.checks import check_divides, check_positive
from gammaprime.agents.descent import descend, init_moments
from gammaprime.agents.on_policy import (
    Batch,
    Learned,
    Metrics,
    OnPolicy,
    Params,
    draw_minibatches,
    evaluate_critic,
    evaluate_policy,
)
from gammaprime.losses import (
    clipped_surrogate_loss,
    clipped_value_loss,
    normalise,
    value_loss,
)
from gammaprime.nets import Policy
from gammaprime.types import check_count

Array: TypeAlias = Any


@dataclass(frozen=True)
class PPO(OnPolicy):
    """Proximal policy optimisation.

    Paper: appendix:exp, algo:k-adv (with `TaylorQ`), algo:weight-onpolicy (with `TaylorWeight`).
    """

    epochs: int = 10
    minibatches: int = 32
    learning_rate: float = 3e-4
    anneal: bool = True
    clip_eps: float = 0.2
    value_clip: float | None = 0.2
    value_coef: float = 0.5
    entropy_coef: float = 0.0
    max_grad_norm: float = 0.5
    adam_eps: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("epochs", self.epochs)
        check_divides("minibatches", self.minibatches, self.rollout_size)
        for name in ("learning_rate", "clip_eps", "max_grad_norm", "adam_eps"):
            check_positive(name, vars(self)[name])
        for name in ("value_coef", "entropy_coef"):
            check_positive(name, vars(self)[name], zero_allowed=True)
        if self.value_clip is not None:
            check_positive("value_clip", self.value_clip)

    def init_optimiser(self, params: Params) -> Any:
        return init_moments(self._optimiser(self.learning_rate), params)

    def draw_minibatches(self, rng: np.random.Generator) -> np.ndarray:
        return draw_minibatches(rng, self.rollout_size, self.epochs, self.minibatches)

    def learn(
        self, policy: Policy, learned: Learned, batch: Batch, rows: Array, remaining: Array
    ) -> tuple[Learned, Metrics]:
        learning_rate = self.learning_rate * (remaining if self.anneal else 1.0)
        optimiser = self._optimiser(learning_rate)
        loss = partial(ppo_loss, self, policy)
        params, moments, metrics = descend(loss, *learned, batch, rows, optimiser)
        return Learned(params, moments), metrics | {"train/learning_rate": learning_rate}

    def _optimiser(self, learning_rate: Array) -> optax.GradientTransformation:
        return optax.chain(
            optax.clip_by_global_norm(self.max_grad_norm),
            optax.scale_by_adam(eps=self.adam_eps),
            optax.scale(-learning_rate),
        )


def ppo_loss(agent: PPO, policy: Policy, params: Params, batch: Batch) -> tuple[Array, Metrics]:
    """Clipped surrogate, critic and entropy of a minibatch, and what to report of them."""
    distribution = evaluate_policy(params.policy, batch.obs)
    log_ratio = policy.log_prob(distribution, batch.action) - batch.old_log_prob
    surrogate = clipped_surrogate_loss(
        log_ratio, normalise(batch.advantage), batch.weight, agent.clip_eps
    )
    value = evaluate_critic(params.critic, batch.obs)
    if agent.value_clip is None:
        critic = value_loss(value, batch.target)
    else:
        critic = clipped_value_loss(value, batch.target, batch.old_value, agent.value_clip)
    entropy = policy.entropy(distribution).mean()
    loss = surrogate + agent.value_coef * critic - agent.entropy_coef * entropy
    ratio = jnp.exp(log_ratio)
    return loss, {
        "train/loss": loss,
        "train/policy_gradient_loss": surrogate,
        "train/value_loss": critic,
        "train/entropy_loss": -entropy,
        "train/approx_kl": jnp.mean(ratio - 1.0 - log_ratio),
        "train/clip_fraction": jnp.mean(jnp.abs(ratio - 1.0) > agent.clip_eps),
    }
