"""Shared parts of PPO, TRPO and plain policy gradient: settings, batches, gradient steps.

Values of states and true successors are computed for the whole rollout at once; the advantage
slot turns them into advantages and targets, the weighting slot ages into weights.  Stored
rewards stay raw: their scale is one number, applied in `observe`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, TypeAlias, get_args

import numpy as np

from gammaprime.agents.advantages import (
    GAE,
    Advantage,
    AdvantageSlot,
    Experience,
    TaylorGradient,
)
from gammaprime.agents.weightings import AveragedWeight, TaylorWeight, Uniform, WeightingSlot
from gammaprime.lazy import jax, jnp, optax
from gammaprime.losses import value_loss
from gammaprime.networks import (
    Actor,
    Network,
    PolicyHead,
    PolicyParams,
    Standardiser,
    Trained,
    evaluate_critic,
    evaluate_policy,
    init_network,
)
from gammaprime.statistics import Statistics, discounted_returns, update_statistics
from gammaprime.types import (
    Trajectory,
    check_count,
    check_discount,
    check_fraction,
    check_positive,
    check_real,
    check_sizes,
)
from gammaprime.typing import Array, Metrics, PyTree

Weighting: TypeAlias = Uniform | TaylorWeight | AveragedWeight


class Params(NamedTuple):
    """Policy and critic; the critic has one output for each head."""

    policy: PolicyParams
    critic: Network


class State(NamedTuple):
    """Everything that an agent carries from one update to the next."""

    params: Params
    optimiser: PyTree
    obs_statistics: Statistics
    return_statistics: Statistics
    running_return: Array
    """(N,) each row's discounted return so far, from which the scale of rewards is measured."""
    num_updates: int
    weighting: Trained | None = None
    """Regression of `AveragedWeight`; None with every other weighting."""


class Inputs(NamedTuple):
    """Rollout with the scales and weights of its update."""

    rollout: Trajectory
    weight: Array
    """(T, N)."""
    standardise: Standardiser | None
    reward_scale: Array


class Batch(NamedTuple):
    """Rollout flattened to B = T·N samples, with advantages, weights and targets."""

    obs: Array
    """(B, O) standardised."""
    action: Array
    advantage: Array
    weight: Array
    target: Array
    """(B, H)."""
    old_value: Array
    """(B, H)."""
    old_log_prob: Array


@dataclass(frozen=True)
class OnPolicy:
    """Settings that all on-policy agents share."""

    gamma: float = 0.99
    """Discount γ of values and advantages; usually 0.9 to 0.999."""
    lam: float = 0.95
    """λ of GAE, from 0 (one-step) to 1 (Monte-Carlo); usually 0.9 to 1."""
    advantage: Advantage = field(default_factory=GAE)
    """Advantage estimator: GAE or one of its Taylor variants."""
    weighting: Weighting = field(default_factory=Uniform)
    """Weight of each step in the policy's update."""
    num_envs: int = 1
    """Environments stepped together; usually 1 to 64."""
    num_steps: int = 2048
    """Steps of each environment between two updates; usually 32 to 4096."""
    hidden: tuple[int, ...] = (64, 64)
    """Units of each hidden layer, of policy and critic alike."""
    initial_log_std: float = 0.0
    """log σ of the Gaussian policy before any update; usually -1 to 0."""
    normalise_obs: bool = True
    """Standardise observations by their running mean and deviation."""
    obs_limit: float = 10.0
    """Clip standardised observations to ± this many deviations; usually 5 to 10."""
    scale_rewards: bool = True
    """Divide rewards by the running deviation of the discounted return."""
    reward_limit: float = 10.0
    """Clip scaled rewards to ± this."""
    return_discount: float = 0.99
    """Discount of the return that scales rewards, independent of γ."""
    bootstrap_at_limit: bool = True
    """Bootstrap from the successor's value at truncations; false treats them as terminations."""

    def __post_init__(self) -> None:
        check_slots(self.gamma, self.advantage, self.weighting)
        check_fraction("lam", self.lam)
        check_count("num_envs", self.num_envs)
        check_count("num_steps", self.num_steps)
        object.__setattr__(self, "hidden", check_sizes("hidden", self.hidden))
        check_real("initial_log_std", self.initial_log_std)
        check_positive("obs_limit", self.obs_limit)
        check_positive("reward_limit", self.reward_limit)
        check_discount("return_discount", self.return_discount)

    @property
    def rollout_size(self) -> int:
        """Samples of one rollout, of all environments."""
        return self.num_envs * self.num_steps

    def actor(self, state: State) -> Actor:
        """Policy as NumPy arrays, to act with until the next update."""
        network, log_std = jax.tree.map(np.asarray, state.params.policy)
        return Actor(network, log_std, standardiser(self, state), "tanh")


def check_slots(gamma: float, advantage: Any, weighting: Any) -> None:
    """Refuse a pair of slots that cannot work with this γ, or with each other."""
    check_discount("gamma", gamma, one_allowed=True)
    for name, slot in (("advantage", advantage), ("weighting", weighting)):
        if isinstance(slot, type):
            raise ValueError(f"{name}={slot.__name__}: must be an object, {slot.__name__}()")
    if not isinstance(advantage, AdvantageSlot):
        _refuse_slot("advantage", advantage, Advantage, ("check", "num_heads", "estimate"))
    if not isinstance(weighting, WeightingSlot):
        _refuse_slot("weighting", weighting, Weighting, ("check", "weights"))
    advantage.check(gamma)
    weighting.check(gamma)
    if isinstance(advantage, TaylorGradient) and not isinstance(weighting, Uniform):
        raise ValueError(
            f"weighting={type(weighting).__name__}: must be Uniform beside TaylorGradient, which "
            "carries its own weights over time"
        )


def _refuse_slot(name: str, slot: Any, kinds: Any, members: Sequence[str]) -> NoReturn:
    names = ", ".join(kind.__name__ for kind in get_args(kinds))
    missing = ", ".join(member for member in members if member not in dir(slot))
    raise ValueError(
        f"{name}={slot!r}: must be one of {names}, or have {', '.join(members)}; it lacks {missing}"
    )


def check_minibatches(minibatches: int, batch_size: int) -> None:
    """Refuse minibatches of unequal sizes."""
    if batch_size % check_count("minibatches", minibatches):
        raise ValueError(
            f"minibatches={minibatches!r}: must divide num_envs*num_steps={batch_size} samples"
        )


# Before the first update.


def init_params(agent: OnPolicy, key: Array, policy: PolicyHead, num_inputs: int) -> Params:
    """Initial parameters of the policy and its critic."""
    policy_key, critic_key = jax.random.split(key)
    sizes = (num_inputs, *agent.hidden)
    critic = init_network(critic_key, (*sizes, agent.advantage.num_heads), 1.0)
    return Params(policy.init(policy_key, sizes), critic)


def init_state(
    agent: OnPolicy, key: Array, params: Params, optimiser: PyTree, num_inputs: int
) -> State:
    """State before any experience; ``key`` is the one that `init_params` had."""
    seen, running = Statistics.start((num_inputs,)), np.zeros(agent.num_envs)
    weighting = None
    if isinstance(agent.weighting, AveragedWeight):
        # Folded in, so that policy and critic start alike with every weighting.
        weighting = agent.weighting.init(jax.random.fold_in(key, 2), num_inputs)
    return State(params, optimiser, seen, Statistics.start(()), running, 0, weighting)


# From a rollout to the inputs of an update: NumPy, on the host.


def read_rollout(agent: OnPolicy, state: State, rollout: Trajectory) -> tuple[State, Inputs]:
    """Update the running statistics and learned weights; return the inputs of the update."""
    # Observations are standardised as they were when the policy acted, rewards as known now.
    standardise = standardiser(agent, state)
    state = learn_statistics(agent, state, rollout)
    scale = float(state.return_statistics.scale) if agent.scale_rewards else 1.0
    weight = agent.weighting.weights(rollout.step, agent.gamma)
    if isinstance(agent.weighting, AveragedWeight):
        assert state.weighting is not None, "state of an agent with another weighting"
        fitted, weight = agent.weighting.average(state.weighting, rollout.obs, standardise, weight)
        state = state._replace(weighting=fitted)
    return state, Inputs(rollout, weight, standardise, scale)


def standardiser(agent: OnPolicy, state: State) -> Standardiser | None:
    """Scaling of observations until the next update."""
    if not agent.normalise_obs:
        return None
    mean, scale = state.obs_statistics.mean, state.obs_statistics.scale
    return Standardiser(mean.astype(np.float32), scale.astype(np.float32), agent.obs_limit)


def learn_statistics(agent: OnPolicy, state: State, rollout: Trajectory) -> State:
    """Update the running statistics of observations and returns."""
    if agent.normalise_obs:
        obs = rollout.obs.reshape(-1, state.obs_statistics.mean.size)
        state = state._replace(obs_statistics=update_statistics(state.obs_statistics, obs))
    if not agent.scale_rewards:
        return state
    ended = rollout.terminated | rollout.truncated
    returns, running = discounted_returns(
        rollout.reward, ended, state.running_return, agent.return_discount
    )
    seen = update_statistics(state.return_statistics, returns.reshape(-1))
    return state._replace(return_statistics=seen, running_return=running)


def draw_minibatches(
    rng: np.random.Generator, batch_size: int, epochs: int, minibatches: int
) -> Array:
    """Indices of the samples of every minibatch; each epoch visits all samples once.

    On the host: XLA sorts to permute, which takes as long as a fifth of a PPO update.

    Shapes: -> (epochs·minibatches, batch_size/minibatches).
    """
    rows = np.tile(np.arange(batch_size, dtype=np.int32), (epochs, 1))
    if minibatches > 1:
        rng.permuted(rows, axis=1, out=rows)
    return rows.reshape(epochs * minibatches, -1)


# From inputs to a batch, and gradient steps on it: JAX, inside the compiled update.


def prepare(agent: OnPolicy, policy: PolicyHead, params: Params, inputs: Inputs) -> Batch:
    """Values, advantages and targets of a whole rollout, one row for each sample."""
    rollout = inputs.rollout
    obs = scale_obs(rollout.obs, inputs.standardise)
    experience = observe(agent, params.critic, inputs, obs)
    estimate = agent.advantage.estimate(experience, agent.gamma, agent.lam)
    old_log_prob = policy.log_prob(evaluate_policy(params.policy, obs), rollout.action)
    batch = Batch(
        obs,
        rollout.action,
        estimate.advantage,
        inputs.weight,
        jnp.moveaxis(estimate.targets, 0, -1),
        jnp.moveaxis(experience.values, 0, -1),
        old_log_prob,
    )
    return jax.tree.map(lambda x: x.reshape(agent.rollout_size, *x.shape[2:]), batch)


def observe(agent: OnPolicy, critic: Network, inputs: Inputs, obs: Array) -> Experience:
    """Scale the rewards and evaluate the critic; ``obs`` are standardised (T, N, O)."""
    rollout = inputs.rollout
    next_obs = scale_obs(rollout.next_obs, inputs.standardise)
    values, next_values = (jnp.moveaxis(evaluate_critic(critic, x), -1, 0) for x in (obs, next_obs))
    reward = jnp.asarray(rollout.reward, jnp.float32)
    if agent.scale_rewards:
        reward = jnp.clip(reward * inputs.reward_scale, -agent.reward_limit, agent.reward_limit)
    terminated, truncated = jnp.asarray(rollout.terminated), jnp.asarray(rollout.truncated)
    if not agent.bootstrap_at_limit:
        terminated = terminated | truncated
    return Experience(reward, values, next_values, terminated, truncated, rollout.step)


def scale_obs(obs: Array, standardise: Standardiser | None) -> Array:
    """Shapes: (T, N, ...) -> (T, N, O) float32."""
    x = jnp.asarray(obs, jnp.float32)
    x = x.reshape(*x.shape[:2], -1)
    return x if standardise is None else standardise(x)


Loss: TypeAlias = Callable[[Any, Any], tuple[Array, Metrics]]


def init_moments(optimiser: Any, params: PyTree) -> PyTree:
    """Optimiser state before the first step of `descend`."""
    return optimiser.init(jax.flatten_util.ravel_pytree(params)[0])


def descend(
    loss: Loss, params: PyTree, moments: PyTree, batch: PyTree, rows: Array, optimiser: Any
) -> tuple[PyTree, PyTree, Metrics]:
    """Take one optimiser step for each minibatch; return parameters, moments, mean metrics.

    The reported norm is that of the gradient before the optimiser clips it.  The optimiser sees
    all parameters as one vector: for small layers one by one the overhead exceeds the work.

    Shapes: batch (B, ...), rows (steps, size).
    """
    unravel = jax.flatten_util.ravel_pytree(params)[1]

    def step(carry: tuple[PyTree, PyTree], row: Array) -> tuple[tuple[PyTree, PyTree], Metrics]:
        params, moments = carry
        minibatch = jax.tree.map(lambda x: x[row], batch)
        layers, metrics = jax.grad(loss, has_aux=True)(params, minibatch)
        gradient = jax.flatten_util.ravel_pytree(layers)[0]
        change, moments = optimiser.update(gradient, moments)
        metrics |= {"train/grad_norm": optax.tree.norm(gradient)}
        return (optax.apply_updates(params, unravel(change)), moments), metrics

    (params, moments), metrics = jax.lax.scan(step, (params, moments), rows)
    return params, moments, jax.tree.map(jnp.mean, metrics)


@dataclass(frozen=True)
class CriticFit:
    """Adam on the critic's squared error, between two steps of TRPO's or PG's policy."""

    learning_rate: float = 1e-3
    """Learning rate of Adam; usually 1e-4 to 1e-2."""
    epochs: int = 80
    """Passes over the rollout in each update."""
    minibatches: int = 1
    """Gradient steps in each pass; must divide the samples of a rollout."""

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        check_count("epochs", self.epochs)
        check_count("minibatches", self.minibatches)

    def init(self, critic: Network) -> PyTree:
        """Optimiser state before the first update."""
        return init_moments(optax.adam(self.learning_rate), critic)

    def draw_minibatches(self, rng: np.random.Generator, batch_size: int) -> Array:
        """Indices of the samples of every gradient step.  Shapes: -> (steps, size)."""
        return draw_minibatches(rng, batch_size, self.epochs, self.minibatches)

    def fit(
        self, critic: Network, moments: PyTree, batch: Batch, rows: Array
    ) -> tuple[Network, PyTree, Metrics]:
        """Critic and optimiser state after all steps, with metrics."""

        def loss(critic: Network, minibatch: tuple[Array, Array]) -> tuple[Array, Metrics]:
            obs, target = minibatch
            error = value_loss(evaluate_critic(critic, obs), target)
            return error, {"train/value_loss": error}

        data, optimiser = (batch.obs, batch.target), optax.adam(self.learning_rate)
        critic, moments, metrics = descend(loss, critic, moments, data, rows, optimiser)
        metrics["train/value_grad_norm"] = metrics.pop("train/grad_norm")
        return critic, moments, metrics


def describe(batch: Batch, policy: PolicyParams) -> Metrics:
    """Metrics that every on-policy update reports."""
    value, target = batch.old_value.sum(axis=-1), batch.target.sum(axis=-1)
    metrics = {"train/explained_variance": explained_variance(value, target)}
    if policy.log_std is not None:
        metrics["train/std"] = jnp.exp(policy.log_std).mean()
    return metrics


def explained_variance(value: Array, target: Array) -> Array:
    """1 − Var(target − V)/Var(target).  Shapes: (B,) -> ()."""
    return 1.0 - jnp.var(target - value) / (jnp.var(target) + 1e-12)
