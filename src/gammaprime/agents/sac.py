"""SAC: a stochastic policy with a bonus for its entropy, and the smaller of two critics.

Defaults: Spinning Up's.  SAC(γ) is ``SAC(weighting=DensityRatio())``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
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
from gammaprime.agents.weightings import CADENCES, Recent
from gammaprime.lazy import jax, jit, jnp
from gammaprime.losses import (
    bellman_target,
    entropy_coef_loss,
    soft_value,
    weighted_policy_loss,
)
from gammaprime.networks import (
    Bounds,
    Network,
    SquashedActor,
    SquashedParams,
    Trained,
    init_uniform,
    mean_and_log_std,
    squash,
)
from gammaprime.types import check_choice, check_positive, check_real
from gammaprime.typing import Array, Metrics

STD_NETWORKS = ("shared", "own")


@dataclass(frozen=True)
class FixedEntropy:
    """Constant coefficient α of the entropy."""

    entropy_coef: float = 0.2
    """Coefficient α; usually 0.05 to 0.5."""

    def __post_init__(self) -> None:
        check_positive("entropy_coef", self.entropy_coef, zero_allowed=True)


@dataclass(frozen=True)
class LearnedEntropy:
    """Coefficient α that keeps the policy's entropy at a target.

    The entropy is that of actions in units of their box.
    """

    initial_coef: float = 1.0
    """Coefficient α before any update."""
    target_entropy: float | None = None
    """Entropy to keep, in nats; -1 for each action component by default."""
    learning_rate: float | None = None
    """Learning rate of log α; the agent's by default."""

    def __post_init__(self) -> None:
        check_positive("initial_coef", self.initial_coef)
        if self.target_entropy is not None:
            check_real("target_entropy", self.target_entropy)
        if self.learning_rate is not None:
            check_positive("learning_rate", self.learning_rate)


@dataclass(frozen=True)
class SAC(OffPolicy):
    """Soft actor-critic.

    Paper: algo:off, appendix:exp.
    """

    entropy: FixedEntropy | LearnedEntropy = field(default_factory=FixedEntropy)
    """Coefficient of the entropy, fixed or learned."""
    std_network: str = "shared"
    """Network of log σ: "shared" with that of μ, or its "own", as in the paper."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.entropy, FixedEntropy | LearnedEntropy):
            raise ValueError(f"entropy={self.entropy!r}: must be FixedEntropy or LearnedEntropy")
        check_choice("std_network", self.std_network, STD_NETWORKS)

    def init(self, key: Array, space: Bounds, num_inputs: int) -> State:
        """State before any experience; a space is anything with ``low`` and ``high``."""
        bounds = check_bounds(space)
        return State(_init(self, key, num_inputs, len(bounds.low)), bounds, 0)

    def actor(self, state: State) -> SquashedActor:
        """Policy as NumPy arrays, to act with until the next burst."""
        network, std_network = jax.device_get(state.learned.policy.params)
        return SquashedActor(network, state.bounds, std_network)

    def update(
        self, state: State, batch: Batch, recent: Recent | None, key: Array
    ) -> tuple[State, Metrics]:
        """One update for each minibatch.  Without recent states weights are uniform."""
        check_recent(self, recent)
        learned, metrics = _learn(self, state.learned, state.bounds, batch, recent, key)
        return State(learned, state.bounds, state.num_updates + len(batch.reward)), metrics


@jit(static_argnames=("agent", "num_inputs", "num_actions"))
def _init(agent: SAC, key: Array, num_inputs: int, num_actions: int) -> Learned:
    key, ratio_key = jax.random.split(key)
    mean_key, std_key, critics_key = jax.random.split(key, 3)
    sizes = (num_inputs, *agent.hidden)
    if agent.std_network == "shared":
        policy = SquashedParams(init_uniform(mean_key, (*sizes, 2 * num_actions)), None)
    else:
        mean, std = (init_uniform(k, (*sizes, num_actions)) for k in (mean_key, std_key))
        policy = SquashedParams(mean, std)
    critics = init_critics(agent, critics_key, num_inputs + num_actions)
    log_coef = None
    if isinstance(agent.entropy, LearnedEntropy):
        initial = jnp.full((), math.log(agent.entropy.initial_coef), jnp.float32)
        log_coef = Trained.start(initial)
    ratio = init_ratio(agent, ratio_key, num_inputs)
    return Learned(Trained.start(policy), Trained.start(critics), None, critics, log_coef, ratio)


@jit(static_argnames=("agent",))
def _learn(
    agent: SAC, learned: Learned, bounds: Bounds, batch: Batch, recent: Recent | None, key: Array
) -> tuple[Learned, Metrics]:
    """All updates of a burst, in one compiled call."""
    drawn = draw_noise(bounds, batch, recent, key)
    learned, metrics = jax.lax.scan(partial(_learn_once, agent), learned, drawn)
    return learned, jax.tree.map(jnp.mean, metrics)


def _learn_once(agent: SAC, learned: Learned, drawn: Drawn) -> tuple[Learned, Metrics]:
    """Update critics, density ratio, policy, entropy coefficient and targets on a minibatch."""
    batch, coef = drawn.batch, entropy_coef(agent, learned)
    target = sac_target(agent, learned, batch, drawn.target_noise)
    learned, metrics = learn_critics(agent, learned, batch, target)
    learned, ratio_metrics, log_ratio = learn_ratio(agent, learned, drawn, CADENCES)
    weight, weight_metrics = policy_weights(agent.weighting, log_ratio, len(batch.reward))

    def loss(policy: SquashedParams) -> tuple[Array, Array]:
        critics = learned.critics.params
        return sac_policy_loss(policy, critics, batch.obs, weight, drawn.policy_noise, coef)

    gradient_of = jax.value_and_grad(loss, has_aux=True)
    (value, log_prob), gradient = gradient_of(learned.policy.params)
    policy = learned.policy.descend(gradient, agent.learning_rate)
    policy_metrics = {
        "train/actor_loss": value,
        "train/entropy": -log_prob.mean(),
        "train/ent_coef": coef,
    }
    learned = learned._replace(
        policy=policy,
        target_critics=follow(learned.target_critics, learned.critics.params, agent.polyak),
        log_entropy_coef=_learn_entropy(agent, learned, log_prob, batch.action.shape[-1]),
    )
    return learned, metrics | ratio_metrics | weight_metrics | policy_metrics


def sac_target(agent: SAC, learned: Learned, batch: Batch, noise: Array) -> Array:
    """r + γ (min_c Q'_c(x', a') − α log π(a'|x')), a' drawn from the current policy.

    Shapes: (B, ...) -> (B,).
    """
    action, log_prob = draw_action(learned.policy.params, batch.next_obs, noise)
    values = evaluate_critics(learned.target_critics, batch.next_obs, action)
    value = soft_value(values.min(axis=0), log_prob, entropy_coef(agent, learned))
    return bellman_target(batch.reward, value, batch.terminated, agent.gamma)


def sac_policy_loss(
    policy: SquashedParams,
    critics: tuple[Network, ...],
    obs: Array,
    weight: Array,
    noise: Array,
    entropy_coef: Array,
) -> tuple[Array, Array]:
    """−Σ w̃_i (min_c Q_c(x_i, a_i) − α log π(a_i|x_i)), and log π.  Shapes: (B, ...) -> (), (B,)."""
    action, log_prob = draw_action(policy, obs, noise)
    value = evaluate_critics(critics, obs, action).min(axis=0)
    return weighted_policy_loss(soft_value(value, log_prob, entropy_coef), weight), log_prob


def draw_action(policy: SquashedParams, obs: Array, noise: Array) -> tuple[Array, Array]:
    """Action in units of its box, and its log-likelihood.  Shapes: -> (B, A), (B,)."""
    return squash(*mean_and_log_std(policy, obs, jax.nn.relu), noise)


def entropy_coef(agent: SAC, learned: Learned) -> Array:
    """Current coefficient α."""
    if isinstance(agent.entropy, FixedEntropy):
        return jnp.float32(agent.entropy.entropy_coef)
    assert learned.log_entropy_coef is not None
    return jnp.exp(learned.log_entropy_coef.params)


def _learn_entropy(
    agent: SAC, learned: Learned, log_prob: Array, num_actions: int
) -> Trained | None:
    """Take one step of log α towards the target entropy, if it is learned."""
    log_coef = learned.log_entropy_coef
    if isinstance(agent.entropy, FixedEntropy) or log_coef is None:
        return log_coef
    target = agent.entropy.target_entropy
    target = -float(num_actions) if target is None else target
    gradient = jax.grad(entropy_coef_loss)(log_coef.params, log_prob, target)
    return log_coef.descend(gradient, agent.entropy.learning_rate or agent.learning_rate)
