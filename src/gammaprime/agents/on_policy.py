"""What PPO, TRPO and plain policy gradient share: from a rollout to a batch that can be learned.

The critic's values of states and of true successors are computed here, for the whole rollout at
once; the advantage slot turns them into advantages and targets, the weighting slot ages into
weights.  Stored rewards stay raw: their scale is one number, applied here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from gammaprime.acting import Actor, Network, Standardiser, apply_network
from gammaprime.agents.checks import check_positive, check_sizes
from gammaprime.agents.experience import Experience
from gammaprime.agents.slots import GAE, Advantage, Uniform, Weighting, check_slots
from gammaprime.nets import Distribution, Policy, PolicyParams, init_network, multiply
from gammaprime.statistics import Statistics, discounted_returns, update_statistics
from gammaprime.types import Trajectory, check_count, check_discount, check_fraction

Array: TypeAlias = Any
Metrics: TypeAlias = dict[str, Array]


class Params(NamedTuple):
    """What is learned: a policy, and a critic with one output for each head."""

    policy: PolicyParams
    critic: Network


class Learned(NamedTuple):
    """What an update changes by gradients."""

    params: Params
    optimiser: Any


class State(NamedTuple):
    """All that an agent carries from one update to the next."""

    params: Params
    optimiser: Any
    obs_statistics: Statistics
    return_statistics: Statistics
    running_return: np.ndarray
    """(N,) each row's discounted return so far, which gives rewards their scale."""
    num_updates: int


class Scales(NamedTuple):
    """How observations and rewards look to the networks of one update."""

    standardise: Standardiser | None
    reward: Array


class Batch(NamedTuple):
    """A rollout, flattened to B = T·N samples, with what each should teach."""

    obs: Array
    """(B, O) as networks see it."""
    action: Array
    advantage: Array
    weight: Array
    target: Array
    """(B, H)."""
    old_value: Array
    """(B, H)."""
    old_log_prob: Array


@dataclass(frozen=True)
class OnPolicy(ABC):
    """The settings that all on-policy agents share, and the way from a rollout to an update.

    ``return_discount`` belongs to the reward's scale alone, whatever the agent's γ.
    ``bootstrap_at_limit=False`` treats a time limit as a termination, as older code did.
    """

    gamma: float = 0.99
    lam: float = 0.95
    advantage: Advantage = field(default_factory=GAE)
    weighting: Weighting = field(default_factory=Uniform)
    num_envs: int = 1
    num_steps: int = 2048
    hidden: tuple[int, ...] = (64, 64)
    initial_log_std: float = 0.0
    normalise_obs: bool = True
    obs_limit: float = 10.0
    scale_rewards: bool = True
    reward_limit: float = 10.0
    return_discount: float = 0.99
    bootstrap_at_limit: bool = True

    def __post_init__(self) -> None:
        check_slots(self.gamma, self.advantage, self.weighting)
        check_fraction("lam", self.lam)
        check_count("num_envs", self.num_envs)
        check_count("num_steps", self.num_steps)
        object.__setattr__(self, "hidden", check_sizes("hidden", self.hidden))
        if not np.isfinite(self.initial_log_std):
            raise ValueError(f"initial_log_std={self.initial_log_std!r}: must be finite")
        check_positive("obs_limit", self.obs_limit)
        check_positive("reward_limit", self.reward_limit)
        check_discount("return_discount", self.return_discount)

    @property
    def rollout_size(self) -> int:
        return self.num_envs * self.num_steps

    @abstractmethod
    def init_optimiser(self, params: Params) -> Any:
        """The state of the optimisers before the first update."""

    @abstractmethod
    def draw_minibatches(self, rng: np.random.Generator) -> np.ndarray:
        """Which samples each gradient step of an update sees.  Shapes: -> (steps, size)."""

    @abstractmethod
    def learn(
        self, policy: Policy, learned: Learned, batch: Batch, rows: Array, remaining: Array
    ) -> tuple[Learned, Metrics]:
        """The gradient steps of one update, inside the jitted call."""

    def init(self, key: Array, policy: Policy, num_inputs: int) -> State:
        """The state before any experience."""
        policy_key, critic_key = jax.random.split(key)
        sizes = (num_inputs, *self.hidden)
        critic = init_network(critic_key, (*sizes, self.advantage.num_heads), 1.0)
        params = Params(policy.init(policy_key, sizes), critic)
        seen = Statistics.start((num_inputs,)), Statistics.start(())
        return State(params, self.init_optimiser(params), *seen, np.zeros(self.num_envs), 0)

    def actor(self, state: State) -> Actor:
        """The policy as NumPy arrays, to act with until the next update."""
        network, log_std = jax.tree.map(np.asarray, state.params.policy)
        return Actor(network, log_std, self.standardiser(state), "tanh")

    def standardiser(self, state: State) -> Standardiser | None:
        """How the networks see observations until the next update."""
        if not self.normalise_obs:
            return None
        mean, scale = state.obs_statistics.mean, state.obs_statistics.scale
        return Standardiser(mean.astype(np.float32), scale.astype(np.float32), self.obs_limit)

    def update(
        self,
        state: State,
        policy: Policy,
        rollout: Trajectory,
        rng: np.random.Generator,
        remaining: float,
    ) -> tuple[State, Metrics]:
        """Learn from one rollout; ``remaining`` is the share of training still ahead."""
        # The policy acted on what was known then, so what this rollout adds counts from the next.
        standardise = self.standardiser(state)
        state = self.learn_statistics(state, rollout)
        scale = float(state.return_statistics.scale) if self.scale_rewards else 1.0
        weight = self.weighting.weights(rollout.step, self.gamma)
        rows = self.draw_minibatches(rng)
        learned = Learned(state.params, state.optimiser)
        learned, metrics = _update(
            self, policy, learned, Scales(standardise, scale), rollout, weight, rows, remaining
        )
        return state._replace(**learned._asdict(), num_updates=state.num_updates + 1), metrics

    def learn_statistics(self, state: State, rollout: Trajectory) -> State:
        """The state that has seen what of this rollout it will scale by."""
        if self.normalise_obs:
            obs = rollout.obs.reshape(-1, state.obs_statistics.mean.size)
            state = state._replace(obs_statistics=update_statistics(state.obs_statistics, obs))
        if not self.scale_rewards:
            return state
        ended = rollout.terminated | rollout.truncated
        returns, running = discounted_returns(
            rollout.reward, ended, state.running_return, self.return_discount
        )
        seen = update_statistics(state.return_statistics, returns.reshape(-1))
        return state._replace(return_statistics=seen, running_return=running)


def draw_minibatches(
    rng: np.random.Generator, batch_size: int, epochs: int, minibatches: int
) -> np.ndarray:
    """The samples of every minibatch; each epoch deals all of them out anew.

    On the host: XLA sorts to permute, which takes as long as a fifth of a PPO update.

    Shapes: -> (epochs·minibatches, batch_size/minibatches).
    """
    rows = np.tile(np.arange(batch_size, dtype=np.int32), (epochs, 1))
    if minibatches > 1:
        rng.permuted(rows, axis=1, out=rows)
    return rows.reshape(epochs * minibatches, -1)


@partial(jax.jit, static_argnames=("agent", "policy"))
def _update(
    agent: OnPolicy,
    policy: Policy,
    learned: Learned,
    scales: Scales,
    rollout: Trajectory,
    weight: Array,
    rows: Array,
    remaining: Array,
) -> tuple[Learned, Metrics]:
    """The whole update in one compiled call: values, estimates, every gradient step."""
    batch = prepare(agent, policy, learned.params, scales, rollout, weight)
    learned, metrics = agent.learn(policy, learned, batch, rows, remaining)
    explained = explained_variance(batch.old_value.sum(axis=-1), batch.target.sum(axis=-1))
    metrics |= {"train/explained_variance": explained}
    if learned.params.policy.log_std is not None:
        metrics |= {"train/std": jnp.exp(learned.params.policy.log_std).mean()}
    return learned, metrics


def prepare(
    agent: OnPolicy,
    policy: Policy,
    params: Params,
    scales: Scales,
    rollout: Trajectory,
    weight: Array,
) -> Batch:
    """Values, advantages and targets of a whole rollout, one row for each sample."""
    obs = network_inputs(rollout.obs, scales.standardise)
    experience = observe(agent, params.critic, scales, rollout, obs)
    estimate = agent.advantage.estimate(experience, agent.gamma, agent.lam)
    old_log_prob = policy.log_prob(evaluate_policy(params.policy, obs), rollout.action)
    heads_last = [jnp.moveaxis(x, 0, -1) for x in (estimate.targets, experience.values)]
    batch = Batch(obs, rollout.action, estimate.advantage, weight, *heads_last, old_log_prob)
    return jax.tree.map(lambda x: x.reshape(agent.rollout_size, *x.shape[2:]), batch)


def observe(
    agent: OnPolicy, critic: Network, scales: Scales, rollout: Trajectory, obs: Array
) -> Experience:
    """A rollout under the critic; ``obs`` are its observations as networks see them."""
    next_obs = network_inputs(rollout.next_obs, scales.standardise)
    values, next_values = (jnp.moveaxis(evaluate_critic(critic, x), -1, 0) for x in (obs, next_obs))
    reward = jnp.asarray(rollout.reward, jnp.float32)
    if agent.scale_rewards:
        reward = jnp.clip(reward * scales.reward, -agent.reward_limit, agent.reward_limit)
    terminated, truncated = jnp.asarray(rollout.terminated), jnp.asarray(rollout.truncated)
    if not agent.bootstrap_at_limit:
        terminated = terminated | truncated
    return Experience(reward, values, next_values, terminated, truncated, rollout.step)


def network_inputs(obs: Array, standardise: Standardiser | None) -> Array:
    """Shapes: (T, N, ...) -> (T, N, O) float32."""
    x = jnp.asarray(obs, jnp.float32)
    x = x.reshape(*x.shape[:2], -1)
    return x if standardise is None else standardise(x)


def evaluate_policy(params: PolicyParams, obs: Array) -> Distribution:
    """What the policy says of observations.  Shapes: (..., O) -> (..., A)."""
    return Distribution(apply_network(params.network, obs, jnp.tanh, multiply), params.log_std)


def evaluate_critic(critic: Network, obs: Array) -> Array:
    """Shapes: (..., O) -> (..., H)."""
    return apply_network(critic, obs, jnp.tanh, multiply)


def explained_variance(value: Array, target: Array) -> Array:
    """1 − Var(target − V)/Var(target).  Shapes: (B,) -> ()."""
    return 1.0 - jnp.var(target - value) / (jnp.var(target) + 1e-12)
