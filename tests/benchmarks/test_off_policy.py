"""The off-policy contests: that they time the same work, and judge it by the numbers asked for."""

import sys

import jax
import numpy as np
import pytest
from jax.extend.core import ClosedJaxpr

from benchmarks import off_policy
from gammaprime.agents import SAC, TD3

LIMITS = {
    "off-policy-TD3": {("ours", "SBX"): 1.2, ("ours", "SB3"): 2.3},
    "off-policy-SAC": {("ours", "SBX"): 1.3, ("ours", "SB3"): 2.8},
    "off-policy-products": {("update", "products"): 0.75},
    "off-policy-ratio": {("update", "plain"): 1 / 1.7, ("policy_update", "plain"): 1 / 1.35},
}


def test_limits__are_those_asked_for():
    found = {
        contest.name: {(limit.ours, limit.peer): 1 / limit.ratio for limit in contest.limits}
        for contest in off_policy.CONTESTS
    }
    assert found.keys() == LIMITS.keys()
    for name, limits in LIMITS.items():
        assert found[name] == pytest.approx(limits)


@pytest.mark.parametrize("kind", [TD3, SAC])
def test_peers__are_given_the_same_work(kind):
    agent, theirs = kind(), off_policy.SETTINGS
    assert agent.rollout_size == agent.updates == theirs["train_freq"] == theirs["gradient_steps"]
    assert (agent.batch_size, agent.learning_rate) == (
        theirs["batch_size"],
        theirs["learning_rate"],
    )
    assert list(agent.hidden) == theirs["policy_kwargs"]["net_arch"]
    assert agent.polyak == 1 - theirs["tau"]
    assert agent.replay_size == theirs["buffer_size"]


def test_peers__have_the_entropy_coefficient_of_ours():
    assert SAC().entropy.entropy_coef == off_policy.OF_ALGORITHM["SAC"]["ent_coef"]


def test_products__are_those_that_the_update_multiplies():
    """Counted in the jaxpr of an update: two critic updates and one of the policy."""
    agent = TD3(hidden=(5, 5), batch_size=3)
    rng = np.random.default_rng(0)
    batch = off_policy_batch(rng, updates=2, size=3)
    state = agent.init(jax.random.key(0), Bounds(), 4)
    text = jax.make_jaxpr(lambda s, b, k: agent.update(s, b, None, k)[0].learned)(
        state, batch, jax.random.key(1)
    )
    multiplied = sorted(dot_sizes(text.jaxpr))
    wanted = off_policy.products_of_td3(num_inputs=4, num_actions=2, batch=3, width=5)
    assert sorted(size(*product) for product in wanted) == multiplied


class Bounds:
    low, high = -np.ones(2, np.float32), np.ones(2, np.float32)


def off_policy_batch(rng, updates, size):
    from gammaprime.agents.off_policy import Batch

    def normal(*shape):
        return rng.normal(size=(updates, size, *shape)).astype(np.float32)

    ended, step = np.zeros((updates, size), bool), np.zeros((updates, size), np.int32)
    return Batch(normal(4), normal(2), normal(), normal(4), ended, step)


def size(left, right, axes):
    """Multiplications of a product."""
    (summed,), _ = axes
    return int(np.prod(left)) * int(np.prod(right)) // left[summed]


def dot_sizes(jaxpr, times=1):
    """Multiplications of every product in a program, scans as often as they run."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            left, right = (v.aval.shape for v in equation.invars)
            (summed, _), _ = equation.params["dimension_numbers"]
            yield from [size(left, right, (summed, None))] * times
        inner = times * equation.params.get("length", 1)
        for value in equation.params.values():
            if isinstance(value, ClosedJaxpr):
                yield from dot_sizes(value.jaxpr, inner)


@pytest.mark.parametrize("peer", [off_policy.stable_baselines, off_policy.sbx])
def test_peers__that_are_not_installed_say_so_before_anything_is_timed(peer, monkeypatch):
    for package in ("stable_baselines3", "sbx"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError):
        peer("TD3")
