"""Plain policy gradient: one pass over a rollout, no clip, no trust region.

Algorithms 2 and 3 of the paper as they are written: ``PG(advantage=TaylorQ(eta=1.0))`` puts Q_K
in the place of Q_γ, ``PG(weighting=TaylorWeight())`` weights each step by w_K(t).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import jax
import numpy as np
import optax

from gammaprime.agents.checks import check_positive
from gammaprime.agents.descent import CriticFit
from gammaprime.agents.on_policy import Batch, Learned, Metrics, OnPolicy, Params, evaluate_policy
from gammaprime.losses import normalise, policy_gradient_loss
from gammaprime.nets import Policy, PolicyParams

Array: TypeAlias = Any


@dataclass(frozen=True)
class SGD:
    """θ ← θ + learning_rate · gradient."""

    learning_rate: float = 1e-2

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)

    def transform(self) -> optax.GradientTransformation:
        return optax.sgd(self.learning_rate)


@dataclass(frozen=True)
class Adam:
    """Steps whose size does not depend on that of the gradient (Kingma and Ba, 2015)."""

    learning_rate: float = 3e-4

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)

    def transform(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate)


@dataclass(frozen=True)
class PG(OnPolicy):
    """REINFORCE with a fitted critic; with λ = 1 advantages are Monte-Carlo returns less it.

    The gradient is a mean over steps, the paper's is a sum over those of an episode: they differ
    by the mean length of an episode, which belongs to the learning rate.

    Paper: algo:k-adv (with `TaylorQ`), algo:weight-onpolicy (with `TaylorWeight`).
    """

    lam: float = 1.0
    optimiser: SGD | Adam = field(default_factory=Adam)
    normalise_advantage: bool = False
    critic: CriticFit = field(default_factory=CriticFit)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.optimiser, SGD | Adam):
            raise ValueError(f"optimiser={self.optimiser!r}: must be SGD or Adam")
        self.critic.check(self.rollout_size)

    def init_optimiser(self, params: Params) -> Any:
        policy = self.optimiser.transform().init(params.policy)
        return policy, self.critic.init_optimiser(params.critic)

    def draw_minibatches(self, rng: np.random.Generator) -> np.ndarray:
        return self.critic.draw_minibatches(rng, self.rollout_size)

    def learn(
        self, policy: Policy, learned: Learned, batch: Batch, rows: Array, remaining: Array
    ) -> tuple[Learned, Metrics]:
        params, (policy_moments, critic_moments) = learned
        advantage = normalise(batch.advantage) if self.normalise_advantage else batch.advantage

        def loss(params: PolicyParams) -> Array:
            log_prob = policy.log_prob(evaluate_policy(params, batch.obs), batch.action)
            return policy_gradient_loss(log_prob, advantage, batch.weight)

        error, gradient = jax.value_and_grad(loss)(params.policy)
        change, policy_moments = self.optimiser.transform().update(gradient, policy_moments)
        entropy = policy.entropy(evaluate_policy(params.policy, batch.obs)).mean()
        critic, critic_moments, fitted = self.critic.fit(params.critic, critic_moments, batch, rows)
        improved = optax.apply_updates(params.policy, change)
        metrics = {
            "train/policy_gradient_loss": error,
            "train/entropy_loss": -entropy,
            "train/grad_norm": optax.tree.norm(gradient),
            "train/learning_rate": self.optimiser.learning_rate,
        }
        moments = policy_moments, critic_moments
        return Learned(Params(improved, critic), moments), metrics | fitted
