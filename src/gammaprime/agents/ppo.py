"""PPO: several epochs of minibatches on a clipped surrogate.  Defaults: OpenAI Baselines' MuJoCo.

PPO(K) is ``PPO(advantage=TaylorQ.paper())``, PPO with update weighting
``PPO(weighting=TaylorWeight())``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gammaprime.agents.on_policy import (
    Batch,
    Inputs,
    OnPolicy,
    Params,
    State,
    check_minibatches,
    descend,
    describe,
    draw_minibatches,
    init_moments,
    init_params,
    init_state,
    prepare,
    read_rollout,
)
from gammaprime.lazy import jit, jnp, optax
from gammaprime.losses import clipped_surrogate_loss, clipped_value_loss, normalise, value_loss
from gammaprime.networks import PolicyHead, evaluate_critic, evaluate_policy
from gammaprime.types import Trajectory, check_count, check_positive
from gammaprime.typing import Array, Metrics, PyTree


@dataclass(frozen=True)
class PPO(OnPolicy):
    """Proximal policy optimisation.

    Paper: appendix:exp, algo:k-adv (with `TaylorQ`), algo:weight-onpolicy (with `TaylorWeight`).
    """

    epochs: int = 10
    """Passes over each rollout; usually 3 to 20."""
    minibatches: int = 32
    """Gradient steps in each pass; must divide num_envs*num_steps."""
    learning_rate: float = 3e-4
    """Learning rate of Adam at the start; usually 1e-4 to 1e-3."""
    anneal: bool = True
    """Lower the learning rate linearly to 0 over the training."""
    clip_eps: float = 0.2
    """Clip range of the probability ratio; usually 0.1 to 0.3."""
    value_clip: float | None = 0.2
    """Clip range of the change of values, in units of scaled rewards; none for no clipping."""
    value_coef: float = 0.5
    """Coefficient of the critic's loss; usually 0.25 to 1."""
    entropy_coef: float = 0.0
    """Coefficient of the entropy bonus; usually 0 to 0.01."""
    max_grad_norm: float = 0.5
    """Clip the gradient to this norm; usually 0.5 to 1."""
    adam_eps: float = 1e-5
    """ε in the denominator of Adam."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("epochs", self.epochs)
        check_minibatches(self.minibatches, self.rollout_size)
        if self.rollout_size == self.minibatches:
            raise ValueError(
                f"minibatches={self.minibatches!r}: must leave each of them 2 or more of the "
                f"num_envs*num_steps={self.rollout_size} samples, or normalised advantages are 0"
            )
        for name in ("learning_rate", "clip_eps", "max_grad_norm", "adam_eps"):
            check_positive(name, vars(self)[name])
        for name in ("value_coef", "entropy_coef"):
            check_positive(name, vars(self)[name], zero_allowed=True)
        if self.value_clip is not None:
            check_positive("value_clip", self.value_clip)

    def init(self, key: Array, policy: PolicyHead, num_inputs: int) -> State:
        """State before any experience."""
        params = init_params(self, key, policy, num_inputs)
        moments = init_moments(_optimiser(self, self.learning_rate), params)
        return init_state(self, key, params, moments, num_inputs)

    def update(
        self,
        state: State,
        policy: PolicyHead,
        rollout: Trajectory,
        rng: np.random.Generator,
        remaining: float,
    ) -> tuple[State, Metrics]:
        """Learn from one rollout; ``remaining`` is the share of training still ahead."""
        state, inputs = read_rollout(self, state, rollout)
        rows = draw_minibatches(rng, self.rollout_size, self.epochs, self.minibatches)
        params, moments, metrics = _learn(
            self, policy, state.params, state.optimiser, inputs, rows, remaining
        )
        number = state.num_updates + 1
        return state._replace(params=params, optimiser=moments, num_updates=number), metrics


@jit(static_argnames=("agent", "policy"))
def _learn(
    agent: PPO,
    policy: PolicyHead,
    params: Params,
    moments: PyTree,
    inputs: Inputs,
    rows: Array,
    remaining: float,
) -> tuple[Params, PyTree, Metrics]:
    """Values, advantages and every gradient step of an update, in one compiled call."""
    batch = prepare(agent, policy, params, inputs)
    learning_rate = agent.learning_rate * (remaining if agent.anneal else 1.0)
    loss, optimiser = partial(ppo_loss, agent, policy), _optimiser(agent, learning_rate)
    params, moments, metrics = descend(loss, params, moments, batch, rows, optimiser)
    metrics |= {"train/learning_rate": learning_rate} | describe(batch, params.policy)
    return params, moments, metrics


def _optimiser(agent: PPO, learning_rate: float) -> Any:
    return optax.chain(
        optax.clip_by_global_norm(agent.max_grad_norm),
        optax.scale_by_adam(eps=agent.adam_eps),
        optax.scale(-learning_rate),
    )


def ppo_loss(agent: PPO, policy: PolicyHead, params: Params, batch: Batch) -> tuple[Array, Metrics]:
    """Clipped surrogate, critic and entropy losses of a minibatch, and their metrics."""
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
