"""TD3: a deterministic policy, the smaller of two critics, a smoothed and a delayed target.

Defaults: Spinning Up's.  `DDPG` is TD3 with one critic, no delay and no smoothing; TD3(γ) is
``TD3(weighting=DensityRatio())``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from gammaprime.agents.off_policy import (
    Batch,
    Drawn,
    Learned,
    OffPolicy,
    State,
    check_bounds,
    check_recent,
    draw_noise,
    evaluate_critics,
    follow,
    init_critics,
    init_ratio,
    learn_critics,
    learn_ratio,
    policy_weights,
)
from gammaprime.agents.weightings import Recent
from gammaprime.lazy import jax, jit, jnp
from gammaprime.losses import bellman_target, weighted_policy_loss
from gammaprime.networks import Bounds, Network, NoisyActor, Trained, apply_network, init_uniform
from gammaprime.types import check_count, check_positive
from gammaprime.typing import Array, Metrics


@dataclass(frozen=True)
class TD3(OffPolicy):
    """Twin delayed deterministic policy gradient.

    Paper: algo:off, appendix:exp.
    """

    policy_delay: int = 2
    """Updates of the critics for each update of the policy and the targets; usually 1 or 2."""
    act_noise: float = 0.1
    """Deviation of the exploration noise, in half-widths of the action's box; usually 0.1."""
    target_noise: float = 0.2
    """Deviation of the target's smoothing noise, in half-widths of the action's box; about 0.2."""
    noise_clip: float = 0.5
    """Clip the smoothing noise to ± this, in half-widths of the action's box."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.updates % check_count("policy_delay", self.policy_delay):
            raise ValueError(
                f"updates_per_step={self.updates_per_step!r}: must give num_envs*num_steps="
                f"{self.rollout_size} steps a multiple of policy_delay={self.policy_delay} updates"
            )
        for name in ("act_noise", "target_noise", "noise_clip"):
            check_positive(name, vars(self)[name], zero_allowed=True)

    def init(self, key: Array, space: Bounds, num_inputs: int) -> State:
        """State before any experience; a space is anything with ``low`` and ``high``."""
        bounds = check_bounds(space)
        return State(_init(self, key, num_inputs, len(bounds.low)), bounds, 0)

    def actor(self, state: State) -> NoisyActor:
        """Policy as NumPy arrays, to act with until the next burst."""
        policy = jax.device_get(state.learned.policy.params)
        return NoisyActor(policy, state.bounds, self.act_noise)

    def update(
        self, state: State, batch: Batch, recent: Recent | None, key: Array
    ) -> tuple[State, Metrics]:
        """One update for each minibatch.  Without recent states weights are uniform."""
        check_recent(self, recent)
        if (updates := len(batch.reward)) % self.policy_delay:
            raise ValueError(
                f"batch of {updates} updates: must be a multiple of policy_delay="
                f"{self.policy_delay}"
            )
        learned, metrics = _learn(self, state.learned, state.bounds, batch, recent, key)
        return State(learned, state.bounds, state.num_updates + updates), metrics


@jit(static_argnames=("agent", "num_inputs", "num_actions"))
def _init(agent: TD3, key: Array, num_inputs: int, num_actions: int) -> Learned:
    key, ratio_key = jax.random.split(key)
    policy_key, critics_key = jax.random.split(key)
    policy = init_uniform(policy_key, (num_inputs, *agent.hidden, num_actions))
    critics = init_critics(agent, critics_key, num_inputs + num_actions)
    ratio = init_ratio(agent, ratio_key, num_inputs)
    return Learned(Trained.start(policy), Trained.start(critics), policy, critics, None, ratio)


# The state is not donated: that would save one copy of it per burst, less than a hundredth of
# the burst, and lose the state that a report of a failed update shows.
@jit(static_argnames=("agent",))
def _learn(
    agent: TD3, learned: Learned, bounds: Bounds, batch: Batch, recent: Recent | None, key: Array
) -> tuple[Learned, Metrics]:
    """All updates of a burst in one compiled call, in rounds that end with the policy's."""
    drawn = draw_noise(bounds, batch, recent, key)
    rounds = jax.tree.map(
        lambda x: x.reshape(len(x) // agent.policy_delay, agent.policy_delay, *x.shape[1:]), drawn
    )
    learned, metrics = jax.lax.scan(partial(_learn_round, agent), learned, rounds)
    return learned, jax.tree.map(jnp.mean, metrics)


def _learn_round(agent: TD3, learned: Learned, drawn: Drawn) -> tuple[Learned, Metrics]:
    """Update the critics on each minibatch, then the policy on the last one."""
    values_step = partial(_learn_values, agent)
    learned, (metrics, logs) = jax.lax.scan(values_step, learned, drawn, unroll=True)
    last, log_ratio = jax.tree.map(lambda x: x[-1], (drawn, logs))
    if log_ratio is None:
        learned, ratio_metrics, log_ratio = learn_ratio(agent, learned, last, ("policy_update",))
        metrics |= ratio_metrics
    weight, weight_metrics = policy_weights(agent.weighting, log_ratio, len(last.batch.reward))
    learned, policy_metrics = _learn_policy(agent, learned, last.batch.obs, weight)
    return learned, metrics | weight_metrics | policy_metrics


def _learn_values(
    agent: TD3, learned: Learned, drawn: Drawn
) -> tuple[Learned, tuple[Metrics, Array | None]]:
    """Update the critics, and the density ratio if it is its turn."""
    target = td3_target(agent, learned, drawn.batch, drawn.target_noise)
    learned, metrics = learn_critics(agent, learned, drawn.batch, target)
    learned, ratio_metrics, log_ratio = learn_ratio(agent, learned, drawn, ("update",))
    return learned, (metrics | ratio_metrics, log_ratio)


def td3_target(agent: TD3, learned: Learned, batch: Batch, noise: Array) -> Array:
    """r + γ min_c Q'_c(x', clip(π'(x') + clip(σε, ±c), ±1)).  Shapes: (B, ...) -> (B,)."""
    action = choose_action(learned.target_policy, batch.next_obs)
    jitter = jnp.clip(agent.target_noise * noise, -agent.noise_clip, agent.noise_clip)
    smoothed = jnp.clip(action + jitter, -1.0, 1.0)
    values = evaluate_critics(learned.target_critics, batch.next_obs, smoothed)
    return bellman_target(batch.reward, values.min(axis=0), batch.terminated, agent.gamma)


def _learn_policy(
    agent: TD3, learned: Learned, obs: Array, weight: Array
) -> tuple[Learned, Metrics]:
    """Take one step of the policy on weighted states, and move all targets."""

    def loss(policy: Network) -> Array:
        return td3_policy_loss(policy, learned.critics.params, obs, weight)

    value, gradient = jax.value_and_grad(loss)(learned.policy.params)
    policy = learned.policy.descend(gradient, agent.learning_rate)
    learned = learned._replace(
        policy=policy,
        target_policy=follow(learned.target_policy, policy.params, agent.polyak),
        target_critics=follow(learned.target_critics, learned.critics.params, agent.polyak),
    )
    return learned, {"train/actor_loss": value}


def td3_policy_loss(
    policy: Network, critics: tuple[Network, ...], obs: Array, weight: Array
) -> Array:
    """−Σ w̃_i Q_1(x_i, π(x_i)).  Shapes: (B, O), (B,) -> ()."""
    value = evaluate_critics(critics[:1], obs, choose_action(policy, obs))[0]
    return weighted_policy_loss(value, weight)


def choose_action(policy: Network, obs: Array) -> Array:
    """π(x) in units of the action's box.  Shapes: (..., O) -> (..., A)."""
    return jnp.tanh(apply_network(policy, obs, jax.nn.relu))


DDPG = partial(TD3, num_critics=1, policy_delay=1, target_noise=0.0, learning_rate=1e-4)
"""DDPG, with the learning rate that the paper states: ``DDPG()``, ``DDPG(gamma=0.98)``."""
