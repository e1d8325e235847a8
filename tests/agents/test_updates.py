"""What an update does with a batch: what it sees, what it tells."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agents.rollouts import POLICY, made_up
from gammaprime.agents import PG, PPO, PRESETS, TRPO, CriticFit, TaylorWeight, Uniform, ppo
from gammaprime.agents.on_policy import (
    Inputs,
    learn_statistics,
    observe,
    prepare,
    standardiser,
)
from gammaprime.networks import Standardiser

pytestmark = pytest.mark.usefixtures("quick_compile")

SMALL = {"num_envs": 2, "num_steps": 16, "hidden": (5,)}
FIT = CriticFit(epochs=2, minibatches=2)
AGENTS = [PPO(**SMALL, minibatches=4), TRPO(**SMALL, critic=FIT), PG(**SMALL, critic=FIT)]


@pytest.fixture(params=AGENTS, ids=lambda agent: type(agent).__name__)
def agent(request):
    return request.param


@pytest.mark.paper("algo:weight-onpolicy")
def test_update__does_not_see_actions_of_no_weight(agent, rng):
    """With γ = 0, order 0 keeps the first step of an episode and nothing else."""
    rollout, state = made_up(rng), agent.init(jax.random.key(0), POLICY, 3)
    later = (rollout.step > 0)[..., None]
    other = rollout._replace(action=np.where(later, rollout.action + 1.0, rollout.action))

    def learn(weighting, rollout):
        learner = dataclasses.replace(agent, gamma=0.0, weighting=weighting)
        after, _ = learner.update(state, POLICY, rollout, np.random.default_rng(1), 1.0)
        return jax.tree.leaves(after.params)

    first = TaylorWeight(0.5, 0)
    for x, y in zip(learn(first, rollout), learn(first, other), strict=True):
        np.testing.assert_array_equal(x, y)
    assert any(
        (x != y).any()
        for x, y in zip(learn(Uniform(), rollout), learn(Uniform(), other), strict=True)
    )


def test_prepare__knows_the_likelihood_with_which_each_action_was_drawn(rng):
    """The acting policy, in NumPy, and the update see the same observations."""
    agent, rollout = PPO(**SMALL, minibatches=4), made_up(rng)
    state = agent.init(jax.random.key(0), POLICY, 3)
    state = learn_statistics(agent, state, rollout._replace(obs=3.0 + 2.0 * rollout.obs))
    inputs = Inputs(rollout, np.ones((16, 2)), standardiser(agent, state), 1.0)
    batch = jax.jit(prepare, static_argnums=(0, 1))(agent, POLICY, state.params, inputs)
    center = agent.actor(state).center(rollout.obs.reshape(32, 3))
    noise = (rollout.action.reshape(32, 2) - center) / np.exp(-0.5)
    expected = -0.5 * (noise**2).sum(axis=1) + 1.0 - np.log(2 * np.pi)
    np.testing.assert_allclose(batch.old_log_prob, expected, rtol=1e-4)
    assert np.abs(state.obs_statistics.mean - 3.0).max() < 1.5


def test_update__sees_observations_as_the_policy_saw_them_and_rewards_as_known_now(
    rng, monkeypatch
):
    agent, rollout = AGENTS[0], made_up(rng)
    state = agent.init(jax.random.key(0), POLICY, 3)
    used = []
    monkeypatch.setattr(ppo, "_learn", lambda *args: (*args[2:4], used.append(args[4]) or {}))
    after, _ = agent.update(state, POLICY, rollout, np.random.default_rng(0), 1.0)
    (inputs,) = used
    np.testing.assert_array_equal(inputs.standardise.mean, agent.actor(state).standardise.mean)
    assert (agent.actor(after).standardise.mean != inputs.standardise.mean).all()
    np.testing.assert_allclose(after.obs_statistics.mean, rollout.obs.mean(axis=(0, 1)), 1e-3, 1e-3)
    assert inputs.reward_scale == after.return_statistics.scale != state.return_statistics.scale


def test_observe__scales_and_clips_rewards_and_leaves_the_stored_ones_alone(rng):
    agent, rollout = PPO(**SMALL, minibatches=4, reward_limit=1.5), made_up(rng)
    stored = rollout.reward.copy()
    critic = agent.init(jax.random.key(0), POLICY, 3).params.critic
    obs = jnp.asarray(rollout.obs, jnp.float32)
    seen = observe(agent, critic, Inputs(rollout, None, None, 2.0), obs)
    np.testing.assert_allclose(seen.reward, np.clip(2.0 * stored, -1.5, 1.5), rtol=1e-6)
    np.testing.assert_array_equal(rollout.reward, stored)
    raw = dataclasses.replace(agent, scale_rewards=False)
    seen = observe(raw, critic, Inputs(rollout, None, None, 2.0), obs)
    np.testing.assert_allclose(seen.reward, stored, rtol=1e-6)


def test_observe__at_a_limit_without_bootstrap_sees_a_termination(rng):
    agent, rollout = PPO(**SMALL, minibatches=4), made_up(rng)
    critic = agent.init(jax.random.key(0), POLICY, 3).params.critic
    obs = jnp.asarray(rollout.obs, jnp.float32)
    seen = observe(agent, critic, Inputs(rollout, None, None, 1.0), obs)
    np.testing.assert_array_equal(seen.terminated, rollout.terminated)
    old = dataclasses.replace(agent, bootstrap_at_limit=False)
    seen = observe(old, critic, Inputs(rollout, None, None, 1.0), obs)
    np.testing.assert_array_equal(seen.terminated, rollout.terminated | rollout.truncated)


def test_reward_scale__is_that_of_returns_at_its_own_discount(rng):
    agent = PPO(**SMALL, minibatches=4, gamma=0.5, return_discount=0.9)
    state, rollout = agent.init(jax.random.key(0), POLICY, 3), made_up(rng)
    rollout = rollout._replace(terminated=np.zeros_like(rollout.terminated))
    rollout = rollout._replace(truncated=np.zeros_like(rollout.truncated))
    after = learn_statistics(agent, state, rollout)
    ages = np.arange(16)
    powers = np.tril(0.9 ** np.clip(ages[:, None] - ages, 0, None))
    returns = powers @ rollout.reward
    np.testing.assert_allclose(after.return_statistics.scale, 1 / returns.std(), rtol=1e-4)
    np.testing.assert_allclose(after.running_return, returns[-1])


@pytest.mark.parametrize("scale_rewards", [False, True])
@pytest.mark.parametrize("normalise_obs", [False, True])
def test_statistics__are_kept_of_what_is_scaled_by_them(rng, normalise_obs, scale_rewards):
    agent = PPO(**SMALL, minibatches=4, normalise_obs=normalise_obs, scale_rewards=scale_rewards)
    state = agent.init(jax.random.key(0), POLICY, 3)
    after = learn_statistics(agent, state, made_up(rng))
    assert (after.obs_statistics is not state.obs_statistics) == normalise_obs
    assert (after.return_statistics is not state.return_statistics) == scale_rewards
    assert (after.running_return != state.running_return).any() == scale_rewards


def test_update__tells_of_gradients_that_are_not_finite(agent, rng):
    rollout = made_up(rng)
    state = agent.init(jax.random.key(0), POLICY, 3)
    _, metrics = agent.update(state, POLICY, rollout, np.random.default_rng(0), 1.0)
    assert all(np.isfinite(float(x)) for x in metrics.values())
    assert metrics["train/grad_norm"] > 0
    rollout.reward[5, 0] = np.nan
    _, metrics = agent.update(state, POLICY, rollout, np.random.default_rng(0), 1.0)
    assert np.isnan(metrics["train/grad_norm"])
    assert np.isnan(metrics["train/value_loss"])


def test_update__is_a_function_of_its_arguments(agent, rng):
    rollout, state = made_up(rng), agent.init(jax.random.key(0), POLICY, 3)
    first, second = (
        agent.update(state, POLICY, rollout, np.random.default_rng(4), 0.5) for _ in "12"
    )
    for x, y in zip(*map(jax.tree.leaves, (first, second)), strict=True):
        np.testing.assert_array_equal(x, y)
    assert first[0].num_updates == 1
    assert state.num_updates == 0


def test_ppo__anneals_its_learning_rate_or_does_not(rng):
    rollout = made_up(rng)
    for anneal, expected in [(True, 3e-5), (False, 3e-4)]:
        agent = PPO(**SMALL, minibatches=4, anneal=anneal)
        state = agent.init(jax.random.key(0), POLICY, 3)
        after, metrics = agent.update(state, POLICY, rollout, np.random.default_rng(0), 0.1)
        np.testing.assert_allclose(metrics["train/learning_rate"], expected, rtol=1e-6)
        change = jnp.abs(after.params.policy.log_std - state.params.policy.log_std).max()
        # Each of Adam's first steps is as long as its rate.
        assert 0 < change <= 1.01 * expected * 40


def test_standardiser__is_that_of_the_agents_own_limit(rng):
    agent = dataclasses.replace(PRESETS["trpo_baselines"], **SMALL, critic=FIT)
    state = agent.init(jax.random.key(0), POLICY, 3)
    state = learn_statistics(agent, state, made_up(rng))
    standardise = standardiser(agent, state)
    assert isinstance(standardise, Standardiser)
    assert standardise(np.full(3, 1e6)).max() == 5.0
