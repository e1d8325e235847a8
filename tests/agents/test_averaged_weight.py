"""Weights averaged over the visits to a state: their limits, and the update they give."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agents.rollouts import POLICY, made_up, play
from gammaprime import tabular
from gammaprime.agents import PG, PPO, SGD, TRPO, AveragedWeight, CriticFit, TaylorWeight
from gammaprime.agents.on_policy import Params, read_rollout
from gammaprime.envs.finite import FiniteEnv
from gammaprime.networks import Categorical, Layer, PolicyParams
from oracles import softmax, update_weight_curve

pytestmark = pytest.mark.usefixtures("quick_compile")

GAMMA, GAMMA_PRIME, ORDER = 0.6, 0.9, 1
SLOT = AveragedWeight(GAMMA_PRIME, ORDER, learning_rate=0.03, gradient_steps=400)


def fit(slot, obs, step, times):
    """The weights after the slot has seen the same rollout so many times."""
    weight = slot.weights(step, GAMMA)
    fitted = slot.init(jax.random.key(0), obs.shape[-1])
    for _ in range(times):
        fitted, averaged = slot.average(fitted, obs, None, weight)
    return fitted, np.asarray(averaged)


@pytest.mark.paper("x:averaged-weights")
def test_one_state__has_the_mean_weight(rng):
    step = rng.integers(0, 12, (64, 2))
    _, averaged = fit(SLOT, np.ones((64, 2, 3)), step, times=3)
    mean = update_weight_curve(12, GAMMA, GAMMA_PRIME, ORDER)[step].mean()
    # The last steps saw an eighth each, whose mean is not quite that of all.
    np.testing.assert_allclose(averaged, np.full((64, 2), averaged[0, 0]), rtol=1e-6)
    np.testing.assert_allclose(averaged, mean, atol=0.03)


@pytest.mark.paper("x:averaged-weights")
def test_age_in_the_observation__gives_the_weights_themselves(rng):
    step = rng.integers(0, 12, (64, 2))
    _, averaged = fit(SLOT, step[..., None] / 6.0 - 1.0, step, times=12)
    exact = update_weight_curve(12, GAMMA, GAMMA_PRIME, ORDER)[step]
    np.testing.assert_allclose(averaged, exact, atol=0.02)


def test_at_one_and_infinite_order__every_weight_is_one():
    slot, step = AveragedWeight(1.0, math.inf), np.arange(32).reshape(16, 2)
    _, averaged = fit(slot, np.ones((16, 2, 1)), step, times=1)
    np.testing.assert_array_equal(averaged, np.ones((16, 2)))


NUM_STATES, ACTIONS, ROWS, STEPS, BATCHES = 4, 2, 20, 50, 60
AGENT = PG(
    gamma=GAMMA,
    num_envs=ROWS,
    num_steps=STEPS,
    hidden=(),
    normalise_obs=False,
    scale_rewards=False,
    optimiser=SGD(1.0),
    critic=CriticFit(epochs=1),
)


@pytest.fixture(scope="module")
def world():
    """Three states that are met at any age, and the end, which comes with a chance of 0.2."""
    rng = np.random.default_rng(11)
    kernel = np.zeros((NUM_STATES, ACTIONS, NUM_STATES))
    kernel[:3, :, :3] = 0.8 * rng.dirichlet(np.ones(3), size=(3, ACTIONS))
    kernel[:3, :, 3], kernel[3, :, 3] = 0.2, 1.0
    reward = np.zeros((NUM_STATES, ACTIONS))
    reward[:3] = rng.uniform(-1, 2, (3, ACTIONS))
    return tabular.MDP(kernel, reward), rng.normal(size=(NUM_STATES, ACTIONS))


def initial_state(agent, world):
    """A table as policy, the exact values as critic."""
    mdp, logits = world
    value = tabular.solve_value(*tabular.chain(mdp, softmax(logits)), agent.gamma)
    policy = Layer(jnp.asarray(logits, jnp.float32), jnp.zeros(ACTIONS))
    critic = Layer(jnp.asarray(value[:, None], jnp.float32), jnp.zeros(1))
    state = agent.init(jax.random.key(0), Categorical(ACTIONS), NUM_STATES)
    return state._replace(params=Params(PolicyParams((policy,), None), (critic,)))


@pytest.fixture(scope="module")
def rollouts(world):
    env, rng = FiniteEnv(world[0], ROWS), np.random.default_rng(12)
    actor, obs, found = AGENT.actor(initial_state(AGENT, world)), env.reset(13), []
    for _ in range(BATCHES):
        rollout, obs = play(env, actor, STEPS, rng, obs)
        found.append(rollout)
    return found


def updates(weighting, world, rollouts, fitted=None):
    """Update of each rollout as a sum over an episode: the mean over steps, times its length."""
    agent = dataclasses.replace(AGENT, weighting=weighting)
    state = initial_state(agent, world)._replace(weighting=fitted)
    found = []
    for rollout in rollouts:
        after, _ = agent.update(state, Categorical(ACTIONS), rollout, np.random.default_rng(0), 1.0)
        change = after.params.policy.network[0].weight - state.params.policy.network[0].weight
        found.append(np.asarray(change, float) / 0.2)
    return np.array(found)


@pytest.mark.paper("x:averaged-weights", "algo:weight-onpolicy")
def test_exact_regression__follows_the_expanded_partial_with_less_variance(world, rollouts):
    mdp, logits = world
    table = dataclasses.replace(SLOT, hidden=(), gradient_steps=2000, learning_rate=0.003)
    obs, step = (np.concatenate([x._asdict()[name] for x in rollouts]) for name in ("obs", "step"))
    fitted, averaged = fit(table, obs, step, times=2)
    np.testing.assert_allclose(averaged, mean_weights(world)[obs.argmax(axis=-1)], atol=0.02)

    still = dataclasses.replace(table, learning_rate=1e-9, gradient_steps=1)
    smooth = updates(still, world, rollouts, fitted)
    raw = updates(TaylorWeight(GAMMA_PRIME, ORDER), world, rollouts)
    exact = tabular.expand_partial(mdp, logits, 0, GAMMA, GAMMA_PRIME, ORDER)
    for sample in (smooth, raw):
        error = sample.std(axis=0, ddof=1) / math.sqrt(BATCHES)
        assert (np.abs(sample.mean(axis=0) - exact) <= 4.5 * error + 1e-3).all()
        assert np.linalg.norm(exact) > 10 * error.max()
    assert smooth.var(axis=0).sum() < raw.var(axis=0).sum()


def mean_weights(world):
    """Σ_t w(t) P(x_t = x) / Σ_t P(x_t = x) from state 0."""
    mdp, logits = world
    P, _ = tabular.chain(mdp, softmax(logits))
    curve, here = update_weight_curve(200, GAMMA, GAMMA_PRIME, ORDER), np.eye(NUM_STATES)[0]
    weighted = visits = np.zeros(3)
    for weight in curve:
        weighted, visits = weighted + weight * here[:3], visits + here[:3]
        here = here @ P
    return weighted / visits


SMALL = {"num_envs": 2, "num_steps": 16, "hidden": (5,)}
FIT = CriticFit(epochs=2)
AGENTS = [PPO(**SMALL, minibatches=4), TRPO(**SMALL, critic=FIT), PG(**SMALL, critic=FIT)]


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: type(agent).__name__)
def test_regression__is_a_part_of_the_state_and_of_no_other_weighting(agent, rng):
    rollout = made_up(rng)
    plain = agent.init(jax.random.key(0), POLICY, 3)
    assert plain.weighting is None
    agent = dataclasses.replace(agent, weighting=AveragedWeight())
    state = agent.init(jax.random.key(0), POLICY, 3)
    jax.tree.map(np.testing.assert_array_equal, plain.params, state.params)
    read, inputs = read_rollout(agent, state, rollout)
    assert inputs.weight.shape == (16, 2)
    assert ((inputs.weight > 0) & (inputs.weight < 1)).all()
    after, _ = agent.update(state, POLICY, rollout, np.random.default_rng(1), 1.0)
    jax.tree.map(np.testing.assert_array_equal, after.weighting, read.weighting)
    changes = jax.tree.map(lambda x, y: bool((x != y).any()), state.weighting, after.weighting)
    assert all(jax.tree.leaves(changes))
