"""Update directions on an MDP as environment, slot by slot, against the exact gradients.

Episodes of the MDP all have four steps, and rollouts hold whole episodes.  So four times the
mean over steps is a mean over episodes, no row is cut, and with λ = 1 nothing but sampling
separates an update from the exact room.  The policy is a table: a linear network on one-hot
observations.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agents.rollouts import play
from gammaprime import tabular
from gammaprime.agents import (
    PG,
    SGD,
    CriticFit,
    TaylorCritic,
    TaylorGradient,
    TaylorQ,
    TaylorWeight,
    TDDelta,
)
from gammaprime.agents.on_policy import Params
from gammaprime.envs.finite import FiniteEnv
from gammaprime.networks import Categorical, Layer, PolicyParams
from oracles import softmax

pytestmark = pytest.mark.usefixtures("quick_compile")

LENGTH, WIDTH, ACTIONS = 4, 2, 2
NUM_STATES = LENGTH * WIDTH + 1
GAMMA, GAMMA_PRIME = 0.6, 0.9
ROWS, BATCHES = 250, 60

AGENT = PG(
    gamma=GAMMA,
    num_envs=ROWS,
    num_steps=LENGTH,
    hidden=(),
    normalise_obs=False,
    scale_rewards=False,
    optimiser=SGD(1.0),
    critic=CriticFit(epochs=1),
)


@pytest.fixture(scope="module")
def world():
    """Layer after layer of two states, then the end."""
    rng = np.random.default_rng(7)
    kernel = np.zeros((NUM_STATES, ACTIONS, NUM_STATES))
    for layer in range(LENGTH - 1):
        here = slice(WIDTH * layer, WIDTH * (layer + 1))
        there = slice(WIDTH * (layer + 1), WIDTH * (layer + 2))
        kernel[here, :, there] = rng.dirichlet(np.ones(WIDTH), size=(WIDTH, ACTIONS))
    kernel[-1 - WIDTH :, :, -1] = 1.0
    reward = np.zeros((NUM_STATES, ACTIONS))
    reward[:-1] = rng.uniform(-1, 2, (NUM_STATES - 1, ACTIONS))
    return tabular.MDP(kernel, reward), rng.normal(size=(NUM_STATES, ACTIONS))


def initial_state(agent, world):
    """The table as policy, and in every head of the critic the term or value it should hold."""
    mdp, logits = world
    P, r = tabular.chain(mdp, softmax(logits))
    slot = agent.advantage
    if isinstance(slot, TDDelta):
        values = [tabular.solve_value(P, r, gamma) for gamma in slot.gammas]
        heads = np.diff(values, axis=0, prepend=0.0)
    elif isinstance(slot, TaylorCritic):
        heads = tabular.value_terms(P, r, agent.gamma, slot.gamma_prime, slot.order)
    else:
        heads = tabular.solve_value(P, r, agent.gamma)[None]
    policy = Layer(jnp.asarray(logits, jnp.float32), jnp.zeros(ACTIONS))
    critic = Layer(jnp.asarray(heads.T, jnp.float32), jnp.zeros(len(heads)))
    state = agent.init(jax.random.key(0), Categorical(ACTIONS), NUM_STATES)
    return state._replace(params=Params(PolicyParams((policy,), None), (critic,)))


@pytest.fixture(scope="module")
def rollouts(world):
    """Independent batches of 250 episodes under the table."""
    env = FiniteEnv(world[0], ROWS)
    actor, rng, obs = AGENT.actor(initial_state(AGENT, world)), np.random.default_rng(8), None
    obs, found = env.reset(9), []
    for _ in range(BATCHES):
        rollout, obs = play(env, actor, LENGTH, rng, obs)
        found.append(rollout)
    assert all(rollout.terminated[-1].all() for rollout in found)
    return found


def assert_follows(settings, exact, world, rollouts):
    """The mean update lies within 4.5 standard errors of the exact gradient, entry by entry."""
    agent = dataclasses.replace(AGENT, **settings)
    state = initial_state(agent, world)
    updates = []
    for rollout in rollouts:
        after, _ = agent.update(state, Categorical(ACTIONS), rollout, np.random.default_rng(0), 1.0)
        change = after.params.policy.network[0].weight - state.params.policy.network[0].weight
        updates.append(LENGTH * np.asarray(change, float))
    error = np.std(updates, axis=0, ddof=1) / math.sqrt(BATCHES)
    assert (np.abs(np.mean(updates, axis=0) - exact) <= 4.5 * error + 1e-6).all()
    assert np.linalg.norm(exact) > 10 * error.max()  # the direction is really seen


def along_episodes(world, q):
    """E Σ_t q(x_t, a_t) ∇log π(a_t|x_t) from state 0, every step counted alike."""
    mdp, logits = world
    pi = softmax(logits)
    P, _ = tabular.chain(mdp, pi)
    here = visits = np.eye(NUM_STATES)[0]
    for _ in range(LENGTH - 1):
        here = here @ P
        visits = visits + here
    visits[-1] = 0.0
    return visits[:, None] * pi * (q - (pi * q).sum(axis=1, keepdims=True))


@pytest.mark.paper("eq:uniform-gradient", "eq:undiscounted-first-partial-grad")
def test_gae_and_uniform__follow_the_first_partial_at_one(world, rollouts):
    exact = tabular.first_partial(*world, 0, GAMMA, 1.0)
    assert_follows({}, exact, world, rollouts)


@pytest.mark.paper("algo:weight-onpolicy", "eq:state-weight")
@pytest.mark.parametrize(("gamma_prime", "order"), [(0.9, 1), (1.0, 2), (0.9, math.inf)])
def test_taylor_weight__follows_the_expanded_partial(gamma_prime, order, world, rollouts):
    exact = tabular.expand_partial(*world, 0, GAMMA, gamma_prime, order)
    settings = {"weighting": TaylorWeight(gamma_prime, order)}
    assert_follows(settings, exact, world, rollouts)


@pytest.mark.paper("x:true-gradient")
@pytest.mark.parametrize(("gamma_prime", "order"), [(0.9, 1), (1.0, 2)])
def test_taylor_gradient__follows_the_true_gradient_of_v_k(gamma_prime, order, world, rollouts):
    exact = tabular.expand_gradient(*world, 0, GAMMA, gamma_prime, order)
    settings = {"advantage": TaylorGradient(gamma_prime, order)}
    assert_follows(settings, exact, world, rollouts)


@pytest.mark.paper("algo:k-adv", "x:mixture")
@pytest.mark.errata("S5")
@pytest.mark.parametrize(("order", "center"), [(1, False), (2, True), (math.inf, False)])
def test_taylor_q__follows_q_k_mixed_with_q_gamma(order, center, world, rollouts):
    mdp, logits = world
    base = tabular.solve_q(mdp, softmax(logits), GAMMA)
    expanded = tabular.expand_q(mdp, softmax(logits), GAMMA, GAMMA_PRIME, order)
    slot = TaylorQ(GAMMA_PRIME, order, eta=0.7, center=center)
    exact = along_episodes(world, 0.3 * base + 0.7 * expanded)
    assert_follows({"advantage": slot}, exact, world, rollouts)


@pytest.mark.paper("algo:k-adv", "x:learned-terms")
def test_taylor_critic__follows_q_k_at_any_lambda(world, rollouts):
    mdp, logits = world
    expanded = tabular.expand_q(mdp, softmax(logits), GAMMA, GAMMA_PRIME, 2)
    settings = {"advantage": TaylorCritic(GAMMA_PRIME, 2), "lam": 0.5}
    assert_follows(settings, along_episodes(world, expanded), world, rollouts)


@pytest.mark.paper("x:td-delta")
def test_td_delta__follows_the_first_partial_of_its_last_discount(world, rollouts):
    settings = {"gamma": GAMMA_PRIME, "advantage": TDDelta((0.3, GAMMA, GAMMA_PRIME))}
    exact = tabular.first_partial(*world, 0, GAMMA_PRIME, 1.0)
    assert_follows(settings, exact, world, rollouts)
