"""Every agent and every slot on problems whose value and best action are known."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest

from gammaprime.agents import (
    GAE,
    PG,
    PPO,
    TRPO,
    Adam,
    CriticFit,
    TaylorCritic,
    TaylorGradient,
    TaylorQ,
    TaylorWeight,
    TDDelta,
)
from gammaprime.envs import probes
from gammaprime.estimators import update_weights
from gammaprime.loops.loop import OnPolicyLoop
from gammaprime.networks import evaluate_critic

pytestmark = pytest.mark.usefixtures("quick_compile")

GAMMA, GAMMA_PRIME = 0.9, 0.99
SMALL = {
    "gamma": GAMMA,
    "num_envs": 16,
    "num_steps": 32,
    "hidden": (16,),
    "normalise_obs": False,
    "scale_rewards": False,
}
FIT = CriticFit(1e-2, epochs=20)
AGENTS = {
    "ppo": PPO(**SMALL, epochs=5, minibatches=4, learning_rate=1e-2, value_clip=None),
    "trpo": TRPO(**SMALL, critic=FIT),
    "pg": PG(**SMALL, optimiser=Adam(2e-2), critic=FIT),
}
SLOTS = {
    "gae": {"advantage": GAE()},
    "window": {"advantage": TaylorQ.paper(GAMMA_PRIME)},
    "taylor_q": {"advantage": TaylorQ(GAMMA_PRIME, math.inf)},
    "taylor_gradient": {"advantage": TaylorGradient(GAMMA_PRIME, 3)},
    "taylor_critic": {"advantage": TaylorCritic(GAMMA_PRIME, 3)},
    "td_delta": {"gamma": GAMMA_PRIME, "advantage": TDDelta((0.5, GAMMA, GAMMA_PRIME))},
    "taylor_weight": {"weighting": TaylorWeight(GAMMA_PRIME, 3)},
    "normalised_weight": {"weighting": TaylorWeight(GAMMA_PRIME, 0, normalise=True)},
}


def trained(agent, env, num_updates):
    steps = num_updates * agent.rollout_size
    loop = OnPolicyLoop(agent, env, steps, seed=0, gamma_prime=GAMMA_PRIME)
    while not loop.done:
        loop.advance()
    return loop


def train(agent, probe, num_updates):
    """The values of every state, head by head, and the action preferred in it."""
    loop = trained(agent, probe.env(agent.num_envs), num_updates)
    states = np.eye(len(probe.start), dtype=np.float32)
    heads = evaluate_critic(loop.state.params.critic, jnp.asarray(states))
    return np.asarray(heads), agent.actor(loop.state)(states)


def assert_acts(found, best):
    matters = best >= 0
    assert matters.any()
    np.testing.assert_array_equal(found[matters], best[matters])


def grid(quick, rows, columns):
    """All pairs; those that are not quick are for the slow tests."""
    pairs = [(row, column) for row in rows for column in columns]
    slow = pytest.mark.slow
    return [pytest.param(*pair, marks=[] if pair in quick else slow) for pair in pairs]


VALUES = {
    "constant": probes.constant_reward(),
    "observation": probes.observation_reward(),
    "delayed": probes.delayed_reward(3),
}


@pytest.mark.parametrize(
    ("name", "probe"),
    grid([("ppo", "observation"), ("trpo", "delayed")], AGENTS, VALUES),
)
def test_critic__learns_the_value_at_gamma(name, probe):
    probe = VALUES[probe]
    values, _ = train(AGENTS[name], probe, 40)
    # The end itself is never looked at.
    np.testing.assert_allclose(values[:-1, 0], probe.value(GAMMA)[:-1], atol=0.05)


@pytest.mark.paper("x:learned-terms", "x:td-delta")
@pytest.mark.parametrize(("slot", "lowest"), [("taylor_critic", GAMMA), ("td_delta", 0.5)])
def test_heads__add_up_to_the_value_at_gamma_prime(slot, lowest):
    """Order 3 is exact for a reward three steps ahead: w_3(3) = γ'³."""
    probe = probes.delayed_reward(3)
    agent = dataclasses.replace(AGENTS["ppo"], **SLOTS[slot])
    values, _ = train(agent, probe, 60)
    np.testing.assert_allclose(values[:-1].sum(axis=1), probe.value(GAMMA_PRIME)[:-1], atol=0.05)
    np.testing.assert_allclose(values[:-1, 0], probe.value(lowest)[:-1], atol=0.05)


@pytest.mark.parametrize(
    ("name", "slot"),
    grid([("ppo", "window"), ("trpo", "taylor_weight"), ("pg", "td_delta")], AGENTS, SLOTS),
)
def test_every_slot__finds_the_action_that_pays(name, slot):
    probe = probes.action_reward()
    agent = dataclasses.replace(AGENTS[name], **SLOTS[slot])
    _, actions = train(agent, probe, 30)
    assert_acts(actions, probe.action(GAMMA))


# The chain of eight steps: 1 now, or 1.5 after waiting.
DELAY, LATE = 8, 1.5
WAITS = {"taylor_q", "taylor_gradient", "taylor_critic", "td_delta"}


@pytest.mark.paper("algo:k-adv", "algo:weight-onpolicy", "x:true-gradient")
@pytest.mark.parametrize(
    ("name", "slot"),
    grid(
        [
            ("ppo", "gae"),
            ("ppo", "taylor_q"),
            ("pg", "taylor_gradient"),
        ],
        AGENTS,
        SLOTS,
    ),
)
def test_every_slot__optimises_the_discount_it_says(name, slot):
    """Waiting is worth 1.5 w_K(8): .65 at γ = .9, above 1.3 from order 3 on, 1.38 at γ' = .99.

    Weights change how much a state counts, not what its actions are worth.
    """
    assert LATE * update_weights(DELAY, GAMMA, GAMMA_PRIME, 0) < 0.7
    assert LATE * update_weights(DELAY, GAMMA, GAMMA_PRIME, 3) > 1.3
    probe = probes.discount_chain(DELAY, late=LATE)
    agent = dataclasses.replace(AGENTS[name], **SLOTS[slot])
    _, actions = train(agent, probe, 60)
    assert actions[0] == probe.action(GAMMA_PRIME if slot in WAITS else GAMMA)[0]
    assert probe.action(GAMMA_PRIME)[0] != probe.action(GAMMA)[0]


@pytest.mark.parametrize(
    "name", ["ppo", *(pytest.param(name, marks=pytest.mark.slow) for name in ("trpo", "pg"))]
)
def test_a_gaussian_policy__finds_the_action_that_pays(name):
    probe = probes.action_reward()
    agent = AGENTS[name]
    loop = trained(agent, probe.env(agent.num_envs, continuous=True), 40)
    means = agent.actor(loop.state)(np.eye(3, dtype=np.float32))[:2, 0]
    assert means[0] < -0.5
    assert means[1] > 0.5
