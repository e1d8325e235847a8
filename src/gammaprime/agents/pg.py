"""Plain policy gradient: one pass over a rollout, no clip, no trust region.

Algorithms 2 and 3 of the paper as they are written: ``PG(advantage=TaylorQ(center=False))`` uses
Q_K instead of Q_γ, ``PG(weighting=TaylorWeight())`` weights each step by w_K(t).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gammaprime.agents.on_policy import (
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
from gammaprime.lazy import jax, jit, optax
from gammaprime.losses import normalise, policy_gradient_loss
from gammaprime.networks import PolicyHead, PolicyParams, evaluate_policy
from gammaprime.types import Trajectory, check_positive
from gammaprime.typing import Array, Metrics, PyTree


@dataclass(frozen=True)
class SGD:
    """θ ← θ + learning_rate · gradient."""

    learning_rate: float = 1e-2
    """Step size; usually 1e-3 to 1e-1."""

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)

    def transform(self) -> Any:
        """Optimiser as optax has it."""
        return optax.sgd(self.learning_rate)


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba, 2015), whose steps do not depend on the gradient's size."""

    learning_rate: float = 3e-4
    """Step size; usually 1e-4 to 1e-2."""

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)

    def transform(self) -> Any:
        """Optimiser as optax has it."""
        return optax.adam(self.learning_rate)


@dataclass(frozen=True)
class PG(OnPolicy):
    """REINFORCE with a fitted critic; with λ = 1 advantages are Monte-Carlo returns minus values.

    The gradient is a mean over steps, the paper's is a sum over those of an episode: they differ
    by the mean length of an episode, which belongs to the learning rate.

    Paper: algo:k-adv (with `TaylorQ`), algo:weight-onpolicy (with `TaylorWeight`).
    """

    lam: float = 1.0
    """λ of GAE, from 0 (one-step) to 1 (Monte-Carlo); usually 0.9 to 1."""
    optimiser: SGD | Adam = field(default_factory=Adam)
    """Optimiser of the policy."""
    normalise_advantage: bool = False
    """Standardise the advantages of each rollout."""
    critic: CriticFit = field(default_factory=CriticFit)
    """Fit of the critic after the policy's step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.optimiser, SGD | Adam):
            raise ValueError(f"optimiser={self.optimiser!r}: must be SGD or Adam")
        check_minibatches(self.critic.minibatches, self.rollout_size)

    def init(self, key: Array, policy: PolicyHead, num_inputs: int) -> State:
        """State before any experience."""
        params = init_params(self, key, policy, num_inputs)
        moments = self.optimiser.transform().init(params.policy), self.critic.init(params.critic)
        return init_state(self, key, params, moments, num_inputs)

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
    agent: PG, policy: PolicyHead, params: Params, moments: PyTree, inputs: Inputs, rows: Array
) -> tuple[Params, PyTree, Metrics]:
    """Values, advantages, the policy's step and the critic's fit, in one compiled call."""
    batch = prepare(agent, policy, params, inputs)
    advantage = normalise(batch.advantage) if agent.normalise_advantage else batch.advantage

    def loss(params: PolicyParams) -> Array:
        log_prob = policy.log_prob(evaluate_policy(params, batch.obs), batch.action)
        return policy_gradient_loss(log_prob, advantage, batch.weight)

    policy_moments, critic_moments = moments
    error, gradient = jax.value_and_grad(loss)(params.policy)
    change, policy_moments = agent.optimiser.transform().update(gradient, policy_moments)
    entropy = policy.entropy(evaluate_policy(params.policy, batch.obs)).mean()
    critic, critic_moments, fitted = agent.critic.fit(params.critic, critic_moments, batch, rows)
    improved = optax.apply_updates(params.policy, change)
    metrics = {
        "train/policy_gradient_loss": error,
        "train/entropy_loss": -entropy,
        "train/grad_norm": optax.tree.norm(gradient),
        "train/learning_rate": agent.optimiser.learning_rate,
    }
    metrics |= fitted | describe(batch, improved)
    return Params(improved, critic), (policy_moments, critic_moments), metrics
