"""A policy as a torch module acts as the policy does."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("jax")

import jax
import torch

from gammaprime.agents import PPO, SAC, TD3
from gammaprime.integrations.export import to_torch
from gammaprime.networks import Bounds, Categorical, Gaussian, Policy, Standardiser

LOW, HIGH = np.array([-1.0, -0.5], np.float32), np.array([1.0, 1.5], np.float32)


def on_policy(head, **bounds):
    agent = PPO(hidden=(8, 8))
    actor = agent.actor(agent.init(jax.random.key(0), head, 3))
    mean, scale = np.array([0.1, -0.2, 3.0], np.float32), np.array([1.0, 2.0, 30.0], np.float32)
    loud = [layer._replace(weight=30 * layer.weight) for layer in actor.network]
    actor = type(actor)(tuple(loud), actor.log_std, Standardiser(mean, scale, 10.0), "tanh")
    return Policy(actor, **bounds)


def off_policy(agent):
    actor = agent.actor(agent.init(jax.random.key(0), Bounds(LOW, HIGH), 3))
    return Policy(actor, LOW, HIGH)


POLICIES = {
    "gaussian": lambda: on_policy(Gaussian(2), low=LOW, high=HIGH),
    "categorical": lambda: on_policy(Categorical(4), low=None, high=None, start=5),
    "td3": lambda: off_policy(TD3(hidden=(8,))),
    "sac": lambda: off_policy(SAC(hidden=(8,))),
    "sac with a network for log σ": lambda: off_policy(SAC(hidden=(8,), std_network="own")),
}


@pytest.mark.parametrize("name", POLICIES)
def test_torch_module__acts_as_the_policy(name, rng):
    policy = POLICIES[name]()
    obs = rng.normal(size=(200, 3)).astype(np.float32)
    found = to_torch(policy)(torch.as_tensor(obs)).detach().numpy()
    assert len(np.unique(policy(obs), axis=0)) > 1
    np.testing.assert_allclose(found, policy(obs), atol=1e-6)


def test_predict__is_that_of_stable_baselines(rng):
    policy, obs = POLICIES["gaussian"](), rng.normal(size=(50, 3))
    action, state = policy.predict(obs, deterministic=True)
    assert state is None
    np.testing.assert_array_equal(action, policy(obs))
    drawn, _ = policy.predict(obs)
    assert (drawn != action).any()
    assert ((drawn >= LOW) & (drawn <= HIGH)).all()
