"""On the probes, through environment, replay and loop, critics and policies reach what is known."""

import numpy as np
import pytest

pytest.importorskip("jax")

from gammaprime.agents import SAC, TD3, FixedEntropy
from gammaprime.agents.off_policy import evaluate_critics
from gammaprime.envs import probes
from gammaprime.envs.finite import FiniteEnv
from gammaprime.loops.off_policy_loop import OffPolicyLoop

pytestmark = pytest.mark.usefixtures("quick_compile")

GAMMA = 0.9
SMALL = {
    "gamma": GAMMA,
    "num_envs": 4,
    "num_steps": 25,
    "updates_per_step": 1.0,
    "hidden": (32,),
    "batch_size": 64,
    "learning_rate": 3e-3,
    "polyak": 0.98,
    "random_steps": 1_000,
    "learning_starts": 100,
}
AGENTS = {
    "td3": TD3(**SMALL),
    "ddpg": TD3(**SMALL, num_critics=1, policy_delay=1, target_noise=0.0),
    "sac": SAC(**SMALL, entropy=FixedEntropy(0.002)),
}


def train(agent, env, steps):
    loop = OffPolicyLoop(agent, env, steps, seed=0, gamma_prime=0.99)
    while not loop.done:
        loop.advance()
    return loop


def values(loop, num_states):
    """The first critic's of every state but the absorbing one, at the policy's own action."""
    obs = np.eye(loop.env.observation.shape[0], dtype=np.float32)[:num_states]
    action = loop.state.bounds.to_unit(loop.actor()(obs))
    return np.asarray(evaluate_critics(loop.state.learned.critics.params, obs, action))[0]


@pytest.mark.parametrize("name", AGENTS)
def test_value_of_a_delayed_reward__is_discounted_once_for_each_step(name):
    probe = probes.delayed_reward(delay=2)
    env = probe.env(AGENTS[name].num_envs, continuous=True)
    found = values(train(AGENTS[name], env, 3_000), 3)
    np.testing.assert_allclose(found, probe.value(GAMMA)[:3], atol=0.06)


class ForEver:
    """One state that pays 1 at every step and never ends."""

    transition, reward = np.ones((1, 2, 1)), np.ones((1, 2))


@pytest.mark.parametrize("name", AGENTS)
def test_time_limit__is_no_end_of_the_task(name):
    """V = 1/(1 − γ) = 10; with an end after three steps it could not exceed 2.71."""
    env = FiniteEnv(ForEver(), AGENTS[name].num_envs, time_limit=3, continuous=True)
    loop = train(AGENTS[name], env, 4_000)
    assert loop.replay.fields["truncated"].any()
    assert not loop.replay.fields["terminated"].any()
    np.testing.assert_allclose(values(loop, 1), 10.0, rtol=0.1)


@pytest.mark.parametrize("name", AGENTS)
def test_policy__finds_the_actions_that_pay(name):
    probe = probes.action_reward()
    loop = train(AGENTS[name], probe.env(AGENTS[name].num_envs, continuous=True), 4_000)
    action = loop.actor()(np.eye(3, dtype=np.float32)[:2])[:, 0]
    np.testing.assert_array_equal(action > 0, probe.action(GAMMA)[:2] == 1)
    np.testing.assert_allclose(values(loop, 2), probe.value(GAMMA)[:2], atol=0.15)
