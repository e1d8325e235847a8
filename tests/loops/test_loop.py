"""The loop: taken out at any update and put back elsewhere, it goes on with the same bits."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("jax")

from gammaprime.agents import PG, PPO, TRPO, AveragedWeight, CriticFit, TaylorCritic, TaylorWeight
from gammaprime.envs import probes
from gammaprime.loops.loop import OnPolicyLoop
from gammaprime.loops.rollout import BreakdownError

SMALL = {"num_envs": 2, "num_steps": 16, "hidden": (4,)}
AGENTS = [
    PPO(**SMALL, epochs=2, minibatches=2, advantage=TaylorCritic(), weighting=TaylorWeight()),
    TRPO(**SMALL, normalise_obs=True, scale_rewards=True, critic=CriticFit(epochs=2)),
    PG(**SMALL, critic=CriticFit(epochs=2, minibatches=2)),
    PG(**SMALL, critic=CriticFit(epochs=2), weighting=AveragedWeight()),
]
PLAIN = AGENTS[2]


def make(agent, continuous=True, seed=0, steps=32 * 8):
    env = probes.discount_chain(delay=5).env(2, time_limit=7, continuous=continuous)
    return OnPolicyLoop(agent, env, steps, seed, gamma_prime=0.999)


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: type(agent).__name__)
def test_restored_loop__goes_on_bit_for_bit(agent):
    first, second = make(agent), make(agent, seed=99)
    for _ in range(2):
        first.advance()
    taken = {name: x.copy() for name, x in first.snapshot().items()}
    assert any(name.startswith("returns/") for name in taken)
    second.restore(taken)
    # The seed of the minibatches is the configuration's, not the checkpoint's.
    second.learn_seed = first.learn_seed
    assert second.steps == first.steps == 64
    for _ in range(3):
        assert first.advance() == second.advance()
    mine, other = first.snapshot(), second.snapshot()
    assert mine.keys() == other.keys()
    for name, x in mine.items():
        np.testing.assert_array_equal(x, other[name], strict=True)


def test_generator__is_of_the_seed_and_the_rollout():
    loop, other = make(PLAIN), make(PLAIN, seed=1)
    asked = [(loop, 0), (loop, 0), (loop, 1), (other, 0)]
    draws = [asker.generator(number).random() for asker, number in asked]
    assert draws[0] == draws[1]
    assert len(set(draws)) == 3


def test_rollouts__are_each_learned_from_with_a_generator_of_their_own(monkeypatch):
    seen = []
    loop = make(PLAIN)
    update = PG.update

    def watched(self, state, policy, rollout, rng, remaining):
        seen.append(rng.bit_generator.state["state"]["state"])
        return update(self, state, policy, rollout, rng, remaining)

    monkeypatch.setattr(PG, "update", watched)
    for _ in range(3):
        loop.advance()
    assert len(set(seen)) == 3


def test_new_episodes__begin_with_no_return():
    scaled = replace(PLAIN, scale_rewards=True)
    first, second = make(scaled), make(scaled)
    first.state = first.state._replace(running_return=np.ones(2))
    second.env.exact_resume = False
    second.restore(first.snapshot())
    np.testing.assert_array_equal(second.state.running_return, [0.0, 0.0])
    np.testing.assert_array_equal(second.returns.sums, np.zeros((3, 2)))


def test_loop__ends_after_its_steps_and_anneals_to_its_end():
    loop = make(PLAIN, steps=70)
    counts = []
    while not loop.done:
        counts.append(loop.advance().steps)
    assert counts == [32, 64]


def test_seed__decides_everything():
    rows = [make(PLAIN, seed=seed).advance() for seed in (0, 0, 1)]
    assert rows[0] == rows[1]
    assert rows[0] != rows[2]


def test_checkpoint_of_another_agent__is_refused():
    taken = make(PLAIN).snapshot()
    with pytest.raises(ValueError, match="checkpoint and agent differ in"):
        make(PLAIN, continuous=False).restore(taken)
    with pytest.raises(ValueError, match=r"checkpoint holds .* must be float32\(7, 5\)"):
        make(replace(PLAIN, hidden=(5,))).restore(taken)


def test_loop__refuses_rows_and_steps_that_do_not_fit():
    with pytest.raises(ValueError, match=r"steps=31: must be at least one rollout, 32"):
        make(PLAIN, steps=31)
    env = probes.constant_reward().env(3)
    with pytest.raises(ValueError, match="env has 3 rows: must be num_envs=2"):
        OnPolicyLoop(PLAIN, env, 64, 0, 0.999)


def test_update_that_gives_no_numbers__is_a_breakdown_with_the_state_before_it(monkeypatch):
    loop = make(PLAIN)
    loop.advance()
    update = PG.update

    def spoiled(*args):
        state, metrics = update(*args)
        return state, metrics | {"train/grad_norm": float("nan")}

    monkeypatch.setattr(PG, "update", spoiled)
    with pytest.raises(BreakdownError, match="train/grad_norm is not finite") as broken:
        loop.advance()
    arrays = broken.value.arrays
    assert arrays["agent/.num_updates"] == 1
    assert arrays["rollout/reward"].shape == (16, 2)
    assert loop.state.num_updates == 1


def test_parameter_that_is_no_number__is_a_breakdown_though_all_metrics_are(monkeypatch):
    loop = make(PLAIN)
    update = PG.update

    def spoiled(*args):
        state, metrics = update(*args)
        statistics = state.obs_statistics
        bad = statistics._replace(mean=np.full_like(statistics.mean, np.inf))
        return state._replace(obs_statistics=bad), metrics

    monkeypatch.setattr(PG, "update", spoiled)
    with pytest.raises(BreakdownError, match=r"state\.obs_statistics\.mean is not finite"):
        loop.advance()
