"""The critic in the policy's file: the values that were learned, with NumPy alone."""

from dataclasses import replace

import jax
import numpy as np
import pytest

pytest.importorskip("mujoco")

from gammaprime.agents import TaylorCritic
from gammaprime.agents.off_policy import evaluate_critics
from gammaprime.agents.on_policy import standardiser
from gammaprime.networks import Policy, evaluate_critic
from gammaprime.runs import session
from runs.training_runs import AGENT, OFF_POLICY, StopAt, fingerprint, run

HEADS = replace(AGENT, advantage=TaylorCritic(0.999, order=2))


LOOPS = []


class Watch(session.Session):
    def _end(self):
        LOOPS.append(self.loop)
        return super()._end()


@pytest.fixture
def trained(monkeypatch, tmp_path):
    from gammaprime.runs import training

    monkeypatch.setattr(training, "Session", Watch)

    def train(agent):
        found = run(tmp_path / "run", agent=agent, steps=96 if agent is not OFF_POLICY else 60)
        kept = run(tmp_path / "kept", agent=agent, steps=found.config.steps, keep_critic=True)
        return found, kept, LOOPS[-1]

    return train


@pytest.mark.parametrize("agent", [AGENT, HEADS], ids=["one head", "three heads"])
def test_critic__has_the_values_of_the_update_in_units_of_reward(trained, agent, rng):
    _, kept, loop = trained(agent)
    obs = rng.normal(size=(7, 11)).astype(np.float32)
    seen = standardiser(agent, loop.state)(obs)
    learned = np.asarray(evaluate_critic(loop.state.params.critic, seen))
    deviation = float(np.sqrt(loop.state.return_statistics.variance + 1e-8))
    for policy in (Policy.load(kept.path), kept.policy):
        values = policy.critic(obs)
        assert values.shape == (7, agent.advantage.num_heads)
        np.testing.assert_allclose(values, deviation * learned, rtol=1e-5, atol=1e-6)


def test_critic__off_policy_values_actions(trained, rng):
    _, kept, loop = trained(OFF_POLICY)
    obs = rng.normal(size=(7, 11)).astype(np.float32)
    action = rng.uniform(-1, 1, size=(7, 3)).astype(np.float32)
    critics = loop.state.learned.critics.params
    learned = np.asarray(evaluate_critics(critics, obs, loop.state.bounds.to_unit(action)))
    policy = Policy.load(kept.path)
    np.testing.assert_allclose(policy.critic(obs, action), learned.T, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="action=None: must be given"):
        policy.critic(obs)


def test_option__changes_no_number_and_no_file_of_others(trained):
    found, kept, _ = trained(AGENT)
    mine, other = fingerprint(kept.path), fingerprint(found.path)
    assert {k: x for k, x in mine["arrays"].items() if not k.startswith("best/")} == {
        k: x for k, x in other["arrays"].items() if not k.startswith("best/")
    }
    assert mine["metrics"] == other["metrics"]
    assert kept.config == found.config
    assert Policy.load(found.path).critic is None
    assert jax.tree.all(
        jax.tree.map(
            np.array_equal,
            Policy.load(found.path).actor.network,
            Policy.load(kept.path).actor.network,
        )
    )
    with pytest.raises(ValueError, match="must be None, the critic values states"):
        kept.policy.critic(np.zeros((1, 11)), np.zeros((1, 3)))


def test_stopped_run__keeps_it_too(tmp_path):
    stopped = run(tmp_path / "run", [StopAt(32)], steps=96, keep_critic=True)
    assert Policy.load(stopped.path).critic is not None
