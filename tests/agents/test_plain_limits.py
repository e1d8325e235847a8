"""Without an expansion an agent is the plain one, bit for bit, however long it trains."""

import dataclasses
import sys

import jax
import numpy as np
import pytest

from agents.rollouts import made_up, made_up_experience
from gammaprime.agents import (
    PG,
    PPO,
    TRPO,
    CriticFit,
    TaylorCritic,
    TaylorQ,
    TaylorWeight,
    TDDelta,
)
from gammaprime.envs.probes import discount_chain
from gammaprime.loops.loop import OnPolicyLoop
from gammaprime.networks import Gaussian

SMALL = {"num_envs": 4, "num_steps": 16, "hidden": (8,), "gamma": 0.9}
FIT = CriticFit(epochs=2, minibatches=2)
AGENTS = [
    PPO(**SMALL, epochs=2, minibatches=2),
    TRPO(**SMALL, critic=FIT),
    PG(**SMALL, critic=FIT),
]
NO_EXPANSION = [
    TaylorQ(0.99, 1, eta=0.0),
    TaylorQ(0.99, 0),
    TaylorQ(0.9, 2, eta=0.5),
    TaylorQ.paper(0.99, 1, eta=0.0),
]


def train(agent, num_updates=4):
    """Everything the agent holds after a few rollouts of episodes that end and are cut."""
    env = discount_chain(5).env(agent.num_envs, time_limit=4)
    loop = OnPolicyLoop(agent, env, num_updates * agent.rollout_size, seed=5, gamma_prime=0.99)
    while not loop.done:
        loop.advance()
    return jax.tree.leaves(loop.state)


def name_of(agent):
    return type(agent).__name__


@pytest.fixture(
    scope="module",
    params=[AGENTS[0], *(pytest.param(agent, marks=pytest.mark.slow) for agent in AGENTS[1:])],
    ids=name_of,
)
def plain(request):
    return request.param, train(request.param)


@pytest.mark.paper("algo:k-adv", "x:mixture")
@pytest.mark.parametrize("slot", NO_EXPANSION, ids=str)
def test_taylor_q__without_eta_order_or_distance_is_the_plain_agent(slot, plain):
    agent, state = plain
    for found, expected in zip(
        train(dataclasses.replace(agent, advantage=slot)), state, strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("slot", [TaylorCritic(0.99, 0), TDDelta((0.9,), "unbiased")], ids=name_of)
def test_one_head__is_the_plain_critic(slot, plain):
    agent, state = plain
    for found, expected in zip(
        train(dataclasses.replace(agent, advantage=slot)), state, strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_learned_terms_without_distance__follow_the_head_of_the_base(rng):
    """The other heads are to learn 0, and until they do they must not be followed."""
    experience = made_up_experience(rng, num_heads=3)
    found = TaylorCritic(0.99, order=2).estimate(experience, 0.99, 0.95)
    base = TaylorCritic(0.999, order=2, policy_order=0).estimate(experience, 0.99, 0.95)
    np.testing.assert_array_equal(found.advantage, base.advantage)


@pytest.mark.parametrize(
    "settings",
    [
        {"advantage": TaylorQ.paper(0.99)},
        {"advantage": TaylorQ(0.99, 1, eta=0.01)},
        {"weighting": TaylorWeight(0.99, 1)},
    ],
    ids=str,
)
def test_an_expansion__however_small_is_felt(settings, plain):
    agent, state = plain
    found = train(dataclasses.replace(agent, **settings))
    assert any((x != y).any() for x, y in zip(found, state, strict=True))


@pytest.mark.parametrize("agent", AGENTS, ids=name_of)
def test_update__is_traced_once(agent, monkeypatch):
    """A state that changes its types, such as weak ones, would be compiled again."""
    module = sys.modules[type(agent).__module__]
    traced, prepare = [], module.prepare
    monkeypatch.setattr(module, "prepare", lambda *args: traced.append(1) or prepare(*args))
    agent = dataclasses.replace(agent, lam=0.25)
    policy, rollout = Gaussian(2, -0.5), made_up(np.random.default_rng(0), num_envs=4)
    state = agent.init(jax.random.key(0), policy, 3)
    for number in range(3):
        state, _ = agent.update(state, policy, rollout, np.random.default_rng(number), 0.5)
    assert len(traced) == 1
