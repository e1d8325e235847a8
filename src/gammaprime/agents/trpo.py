"""TRPO: one step along the natural gradient, as far as a bound on the divergence allows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gammaprime.agents.on_policy import (
    Batch,
    CriticFit,
    Inputs,
    OnPolicy,
    Params,
    State,
    check_minibatches,
    describe,
    init_params,
    init_state,
    prepare,
    read_rollout,
)
from gammaprime.lazy import jax, jit, jnp
from gammaprime.losses import normalise, surrogate_loss
from gammaprime.networks import PolicyHead, PolicyParams, evaluate_policy
from gammaprime.trust_region import conjugate_gradient, fisher_product, line_search, step_length
from gammaprime.types import Trajectory, check_count, check_fraction, check_positive
from gammaprime.typing import Array, Metrics, PyTree


@dataclass(frozen=True)
class TRPO(OnPolicy):
    """Trust region policy optimisation.

    The defaults are Spinning Up's, but for the critic's target, which is the λ-return here as for
    every agent.  Weights multiply the surrogate, not the divergence that bounds it.
    """

    lam: float = 0.97
    """λ of GAE, from 0 (one-step) to 1 (Monte-Carlo); usually 0.9 to 1."""
    num_steps: int = 4000
    """Steps of each environment between two updates; usually 1000 to 5000."""
    initial_log_std: float = -0.5
    """log σ of the Gaussian policy before any update; usually -1 to 0."""
    normalise_obs: bool = False
    """Standardise observations by their running mean and deviation."""
    scale_rewards: bool = False
    """Divide rewards by the running deviation of the discounted return."""
    max_kl: float = 0.01
    """Bound on the mean divergence of one step, in nats; usually 0.001 to 0.05."""
    damping: float = 0.1
    """Multiple of the identity added to the Fisher matrix; usually 0.01 to 0.1."""
    cg_iterations: int = 10
    """Iterations of the conjugate gradient; usually 10 to 20."""
    backtrack_ratio: float = 0.8
    """Factor by which the line search shrinks the step, between 0 and 1."""
    backtracks: int = 10
    """Steps that the line search tries before it gives up."""
    critic: CriticFit = field(default_factory=CriticFit)
    """Fit of the critic after the policy's step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("max_kl", self.max_kl)
        check_positive("damping", self.damping, zero_allowed=True)
        check_count("cg_iterations", self.cg_iterations)
        if not 0.0 < check_fraction("backtrack_ratio", self.backtrack_ratio) < 1.0:
            raise ValueError(f"backtrack_ratio={self.backtrack_ratio!r}: must lie in (0, 1)")
        check_count("backtracks", self.backtracks)
        check_minibatches(self.critic.minibatches, self.rollout_size)

    def init(self, key: Array, policy: PolicyHead, num_inputs: int) -> State:
        """State before any experience."""
        params = init_params(self, key, policy, num_inputs)
        return init_state(self, key, params, self.critic.init(params.critic), num_inputs)

    def update(
        self,
        state: State,
        policy: PolicyHead,
        rollout: Trajectory,
        rng: np.random.Generator,
        remaining: float,
    ) -> tuple[State, Metrics]:
        """Learn from one rollout, at any ``remaining`` share of the training."""
        state, inputs = read_rollout(self, state, rollout)
        rows = self.critic.draw_minibatches(rng, self.rollout_size)
        params, moments, metrics = _learn(self, policy, state.params, state.optimiser, inputs, rows)
        number = state.num_updates + 1
        return state._replace(params=params, optimiser=moments, num_updates=number), metrics


@jit(static_argnames=("agent", "policy"))
def _learn(
    agent: TRPO, policy: PolicyHead, params: Params, moments: PyTree, inputs: Inputs, rows: Array
) -> tuple[Params, PyTree, Metrics]:
    """Values, advantages, the policy's step and the critic's fit, in one compiled call."""
    batch = prepare(agent, policy, params, inputs)
    improved, metrics = improve(agent, policy, params.policy, batch)
    critic, moments, fitted = agent.critic.fit(params.critic, moments, batch, rows)
    return Params(improved, critic), moments, metrics | fitted | describe(batch, improved)


def improve(
    agent: TRPO, policy: PolicyHead, params: PolicyParams, batch: Batch
) -> tuple[PolicyParams, Metrics]:
    """Policy after its step, and metrics of the step."""
    vector, as_params = jax.flatten_util.ravel_pytree(params)
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
