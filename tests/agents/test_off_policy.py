"""What all off-policy agents share: settings, ends, bounds, delays, and solved problems."""

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agents.replays import NUM_INPUTS, SPACE, Space, made_up, made_up_recent
from gammaprime import losses
from gammaprime.agents import (
    DDPG,
    PRESETS,
    SAC,
    TD3,
    DensityRatio,
    FixedEntropy,
    LearnedEntropy,
    TaylorWeight,
)
from gammaprime.agents.off_policy import Batch, evaluate_critics, follow
from gammaprime.agents.sac import sac_target
from gammaprime.agents.td3 import td3_target
from gammaprime.networks import init_uniform

pytestmark = pytest.mark.usefixtures("quick_compile")

SMALL = {"hidden": (8,), "num_steps": 4}
KEY = jax.random.key(3)

WRONG = [
    (TD3, {"gamma": 1.1}, r"gamma=1.1"),
    (TD3, {"weighting": TaylorWeight()}, r"weighting=TaylorWeight.*: must be one of Uniform, Dens"),
    (TD3, {"learning_rate": "1e-3"}, r"learning_rate='1e-3': must be a finite number"),
    (TD3, {"learning_rate": True}, r"learning_rate=True: must be a finite number"),
    (TD3, {"updates_per_step": "1"}, r"updates_per_step='1': must be a finite number"),
    (LearnedEntropy, {"target_entropy": "x"}, r"target_entropy='x': must be a finite number"),
    (TD3, {"num_envs": 0}, r"num_envs=0"),
    (TD3, {"num_steps": 1.5}, r"num_steps=1.5"),
    (TD3, {"num_critics": 0}, r"num_critics=0"),
    (TD3, {"batch_size": -1}, r"batch_size=-1"),
    (TD3, {"replay_size": 0}, r"replay_size=0"),
    (TD3, {"random_steps": -1}, r"random_steps=-1: must be an integer >= 0"),
    (TD3, {"learning_starts": 0.5}, r"learning_starts=0.5: must be an integer >= 0"),
    (TD3, {"hidden": (0,)}, r"hidden\[0\]=0"),
    (TD3, {"learning_rate": 0.0}, r"learning_rate=0.0"),
    (TD3, {"polyak": 1.1}, r"polyak=1.1: must lie in \[0, 1\]"),
    (TD3, {"policy_delay": 0}, r"policy_delay=0"),
    (TD3, {"policy_delay": 3}, r"updates_per_step=1.0: must .* a multiple of policy_delay=3"),
    (TD3, {"updates_per_step": 0.03}, r"updates_per_step=0.03: must give num_envs\*num_steps=50"),
    (TD3, {"updates_per_step": 0.001}, r"updates_per_step=0.001"),
    (TD3, {"updates_per_step": 0.0}, r"updates_per_step=0.0: must be finite and > 0"),
    (TD3, {"act_noise": -0.1}, r"act_noise=-0.1: must be finite and >= 0"),
    (TD3, {"target_noise": math.nan}, r"target_noise=nan"),
    (TD3, {"noise_clip": -1.0}, r"noise_clip=-1.0"),
    (
        TD3,
        {"replay_size": 10_000, "weighting": DensityRatio()},
        r"recent_size=10000: must be below",
    ),
    (TD3, {"weighting": DensityRatio(gamma_prime=0.9)}, r"gamma_prime=0.9: must lie in \[gamma"),
    (SAC, {"entropy": 0.2}, r"entropy=0.2: must be FixedEntropy or LearnedEntropy"),
    (SAC, {"std_network": "none"}, r"std_network='none': must be one of 'shared', 'own'"),
    (FixedEntropy, {"entropy_coef": -1.0}, r"entropy_coef=-1.0"),
    (LearnedEntropy, {"initial_coef": 0.0}, r"initial_coef=0.0"),
    (LearnedEntropy, {"target_entropy": math.inf}, r"target_entropy=inf: must be a finite number"),
    (LearnedEntropy, {"learning_rate": -1.0}, r"learning_rate=-1.0"),
    (DensityRatio, {"inverse_temperature": -0.1}, r"inverse_temperature=-0.1"),
    (DensityRatio, {"scale": "mean"}, r"scale='mean': must be one of 'sum', 'paper'"),
    (DensityRatio, {"gamma_prime": 0.0}, r"gamma_prime=0.0: must be finite and > 0"),
    (DensityRatio, {"gamma_prime": 1.5}, r"gamma_prime=1.5"),
    (DensityRatio, {"recent_size": 0}, r"recent_size=0"),
    (DensityRatio, {"batch_size": 0}, r"batch_size=0"),
    (DensityRatio, {"learning_rate": 0.0}, r"learning_rate=0.0"),
    (DensityRatio, {"every": "step"}, r"every='step': must be one of 'update', 'policy_update'"),
]


@pytest.mark.parametrize(("kind", "settings", "message"), WRONG)
def test_settings__that_cannot_work_are_refused(kind, settings, message):
    with pytest.raises(ValueError, match=message):
        kind(**settings)


@pytest.mark.parametrize(
    "agent",
    [TD3(hidden=[32]), DDPG(), SAC(entropy=LearnedEntropy()), TD3(weighting=DensityRatio())],
    ids=str,
)
def test_agents__are_values_that_can_be_told_apart(agent):
    assert dataclasses.replace(agent) == agent
    assert hash(dataclasses.replace(agent)) == hash(agent)
    assert dataclasses.replace(agent, num_envs=3) != agent


def test_presets__are_what_they_say():
    ddpg = DDPG()
    assert PRESETS["ddpg"] == ddpg
    assert ddpg.learning_rate == 1e-4
    assert DDPG(learning_rate=1e-3) == PRESETS["ddpg_spinning_up"]
    assert (ddpg.num_critics, ddpg.policy_delay, ddpg.target_noise) == (1, 1, 0.0)
    assert DDPG(gamma=0.98) == dataclasses.replace(ddpg, gamma=0.98)
    assert type(ddpg) is TD3
    assert TD3(num_envs=4, num_steps=10).updates == 40
    assert TD3(num_steps=10, updates_per_step=0.6).updates == 6


@pytest.mark.parametrize("space", [Space(*SPACE[::-1]), Space(np.zeros(2), np.full(2, np.inf))])
def test_space__without_room_or_bounds_is_refused(space):
    with pytest.raises(ValueError, match="must be finite, and low < high"):
        TD3(**SMALL).init(KEY, space, NUM_INPUTS)


def test_update__refuses_what_it_cannot_use(rng):
    agent = TD3(**SMALL)
    state = agent.init(KEY, SPACE, NUM_INPUTS)
    with pytest.raises(ValueError, match="batch of 3 updates: must be a multiple of policy_delay"):
        agent.update(state, made_up(rng, updates=3), None, KEY)
    with pytest.raises(ValueError, match="recent: must be None where weights are uniform"):
        agent.update(state, made_up(rng), made_up_recent(rng), KEY)


def test_bellman_target__ends_where_the_episode_terminated():
    target = losses.bellman_target(
        jnp.ones(2), jnp.array([5.0, np.nan]), jnp.array([False, True]), 0.9
    )
    np.testing.assert_allclose(target, [5.5, 1.0], rtol=1e-6)


def test_batch__knows_no_truncation():
    """So no target can take it for an end."""
    assert "truncated" not in Batch._fields


@pytest.mark.parametrize(
    ("agent", "target_of"),
    [(TD3(**SMALL), td3_target), (SAC(**SMALL), sac_target)],
    ids=["td3", "sac"],
)
def test_target__of_terminated_steps_is_the_reward_and_nothing_else(agent, target_of, rng):
    learned = agent.init(KEY, SPACE, NUM_INPUTS).learned
    batch = jax.tree.map(lambda x: x[0], made_up(rng))
    noise = rng.normal(size=batch.action.shape).astype(np.float32)
    target = np.asarray(target_of(agent, learned, batch, noise))
    ended = batch.terminated
    assert 0 < ended.sum() < len(ended)
    np.testing.assert_array_equal(target[ended], batch.reward[ended])
    assert (target[~ended] != batch.reward[~ended]).all()


def test_update__sees_actions_in_units_of_their_box(rng):
    """The same experience in another box is the same experience."""
    agent, batch = TD3(**SMALL), made_up(rng)
    low, high = np.array([-3.0, 10.0]), np.array([5.0, 30.0])
    unit = 2 * (batch.action - SPACE.low) / (SPACE.high - SPACE.low) - 1
    moved = batch._replace(action=(low + (unit + 1) / 2 * (high - low)).astype(np.float32))
    states = [agent.init(KEY, space, NUM_INPUTS) for space in (SPACE, Space(low, high))]
    one, other = (
        agent.update(state, b, None, KEY)[0]
        for state, b in zip(states, (batch, moved), strict=True)
    )
    compare = lambda x, y: np.testing.assert_allclose(x, y, atol=1e-4)  # noqa: E731
    jax.tree.map(compare, one.learned.policy.params, other.learned.policy.params)
    obs = rng.normal(size=(5, NUM_INPUTS))
    first, second = (agent.actor(state)(obs) for state in states)
    share = (first - SPACE.low) / (SPACE.high - SPACE.low)
    np.testing.assert_allclose((second - low) / (high - low), share, atol=1e-6)


def test_update__leaves_the_state_it_came_from_as_it_was(rng):
    agent = TD3(**SMALL)
    state = agent.init(KEY, SPACE, NUM_INPUTS)
    kept = jax.tree.map(np.array, state)
    after, metrics = agent.update(state, made_up(rng), None, KEY)
    again, _ = agent.update(kept, made_up(np.random.default_rng(20210718)), None, KEY)
    jax.tree.map(np.testing.assert_array_equal, kept, jax.tree.map(np.array, state))
    jax.tree.map(np.testing.assert_array_equal, after, again)
    assert after.num_updates == 4
    assert type(after.num_updates) is int
    assert all(np.isfinite(float(x)) for x in metrics.values())


def test_follow__keeps_the_given_share():
    np.testing.assert_allclose(follow(jnp.array(2.0), jnp.array(10.0), 0.75), 4.0)


def test_init_uniform__spreads_weights_and_biases_over_one_over_root_inputs():
    network = init_uniform(KEY, (25, 400, 30))
    for layer, rows in zip(network, (25, 400), strict=True):
        for x in layer:
            limit = rows**-0.5
            assert np.abs(x).max() <= limit
            np.testing.assert_allclose(np.abs(x).max(), limit, rtol=0.15)
            np.testing.assert_allclose(np.std(x), limit / 3**0.5, rtol=0.3)
    assert [layer.weight.shape for layer in network] == [(25, 400), (400, 30)]


class Problem(NamedTuple):
    """States e_x (the last one ends all), actions in [−1, 1]; a successor and a reward for each."""

    next_state: list
    reward: object
    value: list
    """At γ = 0.9 under the best actions."""
    action: list


GAMMA = 0.9
# Reward 1 − (a − a*)²; state 0 leads on to state 1, which terminates.
TWO_STEPS = Problem(
    [1, 2], lambda x, a: (x == 1) * (1 - (a + 0.5) ** 2), [GAMMA, 1.0], [None, -0.5]
)
# Two states that end at once, and want different actions.
CHOICE = Problem([2, 2], lambda x, a: 1 - (a - (x - 0.5)) ** 2, [1.0, 1.0], [-0.5, 0.5])
# Two states for ever, cut off by a time limit that no flag tells of: V = 1/(1 − γ).
FOR_EVER = Problem([1, 0], lambda x, a: 1 - (a - 0.4) ** 2, [10.0, 10.0], [0.4, 0.4])
PROBLEMS = {"two_steps": TWO_STEPS, "choice": CHOICE, "for_ever": FOR_EVER}


def draw(problem, rng, updates, size=32):
    """Transitions under uniform actions, as a replay would give them."""
    count = len(problem.next_state)
    eye = np.eye(count + 1, dtype=np.float32)
    state = rng.integers(0, count, (updates, size))
    action = rng.uniform(-1, 1, (updates, size, 1)).astype(np.float32)
    successor = np.array(problem.next_state)[state]
    reward = problem.reward(state, action[..., 0]).astype(np.float32)
    ended = successor == count
    return Batch(eye[state], action, reward, eye[successor], ended, np.zeros_like(state))


FAST = {
    "gamma": GAMMA,
    "hidden": (32,),
    "num_steps": 100,
    "learning_rate": 1e-2,
    "polyak": 0.95,
}
AGENTS = {
    "td3": TD3(**FAST, target_noise=0.05),
    "ddpg": DDPG(**FAST),
    "sac": SAC(**FAST, entropy=FixedEntropy(0.01)),
}


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_critics_and_policies__reach_the_known_values(name, problem, rng):
    """Values to within 4 %: the best there is, less what smoothing, noise and entropy cost."""
    agent, problem = AGENTS[name], PROBLEMS[problem]
    count = len(problem.next_state)
    state = agent.init(KEY, Space(np.array([-1.0]), np.array([1.0])), count + 1)
    for burst in range(30):
        batch = draw(problem, rng, agent.updates)
        state, _ = agent.update(state, batch, None, jax.random.fold_in(KEY, burst))
    obs = np.eye(count + 1, dtype=np.float32)[:count]
    action = agent.actor(state)(obs)
    values = evaluate_critics(state.learned.critics.params, obs, action)
    np.testing.assert_allclose(values.min(axis=0), problem.value, rtol=0.04)
    for found, best in zip(action[:, 0], problem.action, strict=True):
        assert best is None or found == pytest.approx(best, abs=0.15)
