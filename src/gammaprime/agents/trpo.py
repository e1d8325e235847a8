"""TRPO: one step along the natural gradient, as far as a bound on the divergence allows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from gammaprime.agents.checks import check_positive
from gammaprime.agents.descent import CriticFit
from gammaprime.agents.on_policy import Batch, Learned, Metrics, OnPolicy, Params, evaluate_policy
from gammaprime.losses import normalise, surrogate_loss
from gammaprime.nets import Policy, PolicyParams
from gammaprime.trust_region import conjugate_gradient, fisher_product, line_search, step_length
from gammaprime.types import check_count, check_fraction

Array: TypeAlias = Any


@dataclass(frozen=True)
class TRPO(OnPolicy):
    """Trust region policy optimisation.

    The defaults are Spinning Up's, but for the critic's target, which is the λ-return here as for
    every agent.  Weights multiply the surrogate, not the divergence that bounds it.
    """

    lam: float = 0.97
    num_steps: int = 4000
    initial_log_std: float = -0.5
    normalise_obs: bool = False
    scale_rewards: bool = False
    max_kl: float = 0.01
    damping: float = 0.1
    cg_iterations: int = 10
    backtrack_ratio: float = 0.8
    backtracks: int = 10
    critic: CriticFit = field(default_factory=CriticFit)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("max_kl", self.max_kl)
        check_positive("damping", self.damping, zero_allowed=True)
        check_count("cg_iterations", self.cg_iterations)
        if not 0.0 < check_fraction("backtrack_ratio", self.backtrack_ratio) < 1.0:
            raise ValueError(f"backtrack_ratio={self.backtrack_ratio!r}: must lie in (0, 1)")
        check_count("backtracks", self.backtracks)
        self.critic.check(self.rollout_size)

    def init_optimiser(self, params: Params) -> Any:
        return self.critic.init_optimiser(params.critic)

    def draw_minibatches(self, rng: np.random.Generator) -> np.ndarray:
        return self.critic.draw_minibatches(rng, self.rollout_size)

    def learn(
        self, policy: Policy, learned: Learned, batch: Batch, rows: Array, remaining: Array
    ) -> tuple[Learned, Metrics]:
        params, moments = learned
        improved, metrics = improve(self, policy, params.policy, batch)
        critic, moments, fitted = self.critic.fit(params.critic, moments, batch, rows)
        return Learned(Params(improved, critic), moments), metrics | fitted


def improve(
    agent: TRPO, policy: Policy, params: PolicyParams, batch: Batch
) -> tuple[PolicyParams, Metrics]:
    """The policy after its step, and what to report of it."""
    vector, as_params = ravel_pytree(params)
    old = evaluate_policy(params, batch.obs)
    advantage = normalise(batch.advantage)

    def surrogate(vector: Array) -> Array:
        new = evaluate_policy(as_params(vector), batch.obs)
        log_ratio = policy.log_prob(new, batch.action) - batch.old_log_prob
        return surrogate_loss(log_ratio, advantage, batch.weight)

    def divergence(vector: Array) -> Array:
        return policy.divergence(old, evaluate_policy(as_params(vector), batch.obs)).mean()

    gradient = jax.grad(surrogate)(vector)
    product = fisher_product(divergence, vector, agent.damping)
    direction = conjugate_gradient(product, -gradient, agent.cg_iterations)
    step = step_length(direction, product, agent.max_kl) * direction
    bounds = agent.max_kl, agent.backtrack_ratio, agent.backtracks
    found = line_search(surrogate, divergence, vector, step, *bounds)
    return as_params(found.params), {
        "train/policy_objective": -found.loss,
        "train/kl_divergence_loss": found.divergence,
        "train/is_line_search_success": found.accepted.astype(jnp.float32),
        "train/entropy_loss": -policy.entropy(old).mean(),
        "train/grad_norm": jnp.linalg.norm(gradient),
    }


SPINNING_UP = TRPO()

BASELINES = TRPO(
    lam=0.98,
    num_steps=1024,
    hidden=(32, 32),
    initial_log_std=0.0,
    normalise_obs=True,
    obs_limit=5.0,
    scale_rewards=True,
    backtrack_ratio=0.5,
    critic=CriticFit(epochs=5, minibatches=16),
)
"""OpenAI Baselines' MuJoCo settings: both normalisations, critic minibatches of 64."""
