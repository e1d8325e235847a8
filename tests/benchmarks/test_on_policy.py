"""The on-policy contests: that they time the same work, and judge it by the issue's numbers."""

import sys

import numpy as np
import pytest

from benchmarks import harness, on_policy, on_policy_peers, on_policy_slots
from gammaprime.agents import GAE, PPO, Uniform


@pytest.fixture
def agent():
    return PPO(num_envs=2, num_steps=64, minibatches=2, epochs=1, hidden=(8,))


def test_replay__is_the_physics_of_the_run_bit_for_bit(agent):
    # A hopper that has learned nothing falls every 20 steps or so: both rows are reset.
    trained = on_policy.train(agent, "Hopper-v4", warm=1, timed=2)
    replayed = on_policy.replay(agent, "Hopper-v4", warm=1, timed=2)
    stepped = on_policy.step(agent, "Hopper-v4", warm=1, timed=2)
    assert trained().shape == (2, 12)
    np.testing.assert_array_equal(replayed(), trained())
    np.testing.assert_array_equal(replayed(), trained())  # and again: all go back to the start
    np.testing.assert_array_equal(stepped(), trained())
    np.testing.assert_array_equal(stepped(), trained())


def test_recorder__remembers_what_happened_since_it_began(agent):
    loop = on_policy.make_loop(agent, "Hopper-v4", 1, on_policy.Recorder)
    record = loop.env.begin()
    episodes = loop.advance().episodes
    assert len(record.actions) == agent.num_steps
    assert sum(len(states) for states in record.resets.values()) == len(episodes) > 2
    assert [row for row, _ in record.start] == [0, 1]


def test_train__does_the_same_work_each_time(agent):
    run = on_policy.train(agent, "Hopper-v4", warm=0, timed=1)
    first = run()
    np.testing.assert_array_equal(run(), first)


def test_physics_contests__hold_ours_to_half_or_seven_tenths_of_physics():
    contests = {c.name: c for c in on_policy.CONTESTS if isinstance(c, harness.Contest)}
    ratios = {name: contest.limits[0].ratio for name, contest in contests.items()}
    assert ratios == pytest.approx(
        {
            "on-policy-physics-HalfCheetah-v4": 2.0,
            "on-policy-physics-Walker2d-v4": 1.0 / 0.7,
            "on-policy-physics-Ant-v4": 1.0 / 0.7,
            "on-policy-physics-Hopper-v4": 1.0 / 0.7,
            "on-policy-one-row-HalfCheetah-v4": 110 / 36 / 1.15,
        }
    )
    assert {contest.limits[0].agree for contest in contests.values()} == {0.0}


@pytest.mark.parametrize("num_envs", [1, 16])
def test_make_agent__peers_are_given_the_same_work(num_envs):
    agent = on_policy.make_agent(num_envs)
    assert agent.rollout_size == on_policy.BATCH == 2048
    assert agent.rollout_size // agent.minibatches == on_policy_peers.SETTINGS["batch_size"] == 64
    assert agent.epochs == on_policy_peers.SETTINGS["n_epochs"] == 10
    assert [list(agent.hidden)] * 2 == list(on_policy_peers.LAYERS.values())


def test_peers__ours_must_beat_each_of_their_sizes():
    (contest,) = on_policy_peers.CONTESTS
    speed_ups = {(limit.ours, limit.peer): 1 / limit.ratio for limit in contest.limits}
    assert speed_ups == pytest.approx(
        {("ours 16x128", f"SB3 {shape}"): 7.0 for shape in ("1x2048", "8x256", "16x128")}
        | {("ours 16x128", f"SBX {shape}"): 3.8 for shape in ("1x2048", "8x256", "16x128")}
        | {("ours 1x2048", "SB3 1x2048"): 5.0, ("ours 1x2048", "SBX 1x2048"): 3.5}
    )


@pytest.mark.parametrize("peer", [on_policy_peers.stable_baselines, on_policy_peers.sbx])
def test_peers__that_are_not_installed_say_so_before_anything_is_timed(peer, monkeypatch):
    for package in ("stable_baselines3", "sbx"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError):
        peer(1)


def test_peers__each_call_is_one_iteration(monkeypatch):
    calls = []

    class Model:
        def __init__(self, policy, env, **settings):
            self.num_envs, self.num_steps = len(env), settings["n_steps"]

        def learn(self, steps, **options):
            calls.append((steps, options.get("reset_num_timesteps", True)))
            assert steps == self.num_envs * self.num_steps
            assert options["log_interval"] is None

    vec_env = type(sys)("vec_env")
    vec_env.DummyVecEnv = list
    monkeypatch.setitem(sys.modules, "stable_baselines3", type(sys)("stable_baselines3"))
    monkeypatch.setitem(sys.modules, "stable_baselines3.common", type(sys)("common"))
    monkeypatch.setitem(sys.modules, "stable_baselines3.common.vec_env", vec_env)
    run = on_policy_peers.iterations(Model, 8, None)
    assert calls == [(2048, True)]
    run()
    assert calls[1:] == [(2048, False)]


def test_relative_iterations__what_an_update_takes_more_is_set_against_the_iteration():
    # Round by round 1 + (7 − 5)/100, 1 + (10 − 5)/200, 1 + (11 − 10)/100: the middle is 1.02.
    rounds = [
        on_policy_slots.Times(100.0, {"plain": 5.0, "slot": 7.0}),
        on_policy_slots.Times(200.0, {"plain": 5.0, "slot": 10.0}),
        on_policy_slots.Times(100.0, {"plain": 10.0, "slot": 11.0}),
    ]
    assert on_policy_slots.relative_iterations(rounds) == pytest.approx({"slot / plain": 1.02})


def test_slots__are_variants_without_heads_and_each_is_judged():
    from gammaprime import agents

    for slots in on_policy_slots.SLOTS.values():
        agent = on_policy.make_agent(16, **slots(agents))
        assert agent.advantage.num_heads == 1
        assert (agent.advantage, agent.weighting) != (GAE(), Uniform())
    for measurement in on_policy_slots.CONTESTS:
        *plain, learned = on_policy_slots.SLOTS
        expected = {f"{name} / plain": 1.03 for name in plain} | {f"{learned} / plain": 1.06}
        assert learned == "AveragedWeight(100)"
        assert measurement.limits == expected


def test_measure_slots__reports_every_quantity_that_has_a_limit(monkeypatch):
    def small(num_envs, **slots):
        return PPO(num_envs=num_envs, num_steps=32, minibatches=1, epochs=1, hidden=(), **slots)

    two = ("TaylorQ(inf), centred", "AveragedWeight(100)")
    slots = {name: on_policy_slots.SLOTS[name] for name in two}
    monkeypatch.setattr(on_policy_slots, "make_agent", small)
    monkeypatch.setattr(on_policy_slots, "SLOTS", slots)
    sample = on_policy_slots.measure_slots(2)()
    assert list(sample) == [f"{name} / plain" for name in two]
    assert all(0.0 < value < 100.0 for value in sample.values())


def test_train_command__is_one_rollout_without_evaluation(tmp_path):
    from gammaprime.cli.options import parse

    script, verb, *words = on_policy.train_command(tmp_path)
    agent, asked = parse(words)
    assert (script.endswith("gammaprime"), verb) == (True, "train")
    assert asked.steps == agent.rollout_size == on_policy.BATCH
    assert asked.evaluation.every == 0
    assert asked.compilation_cache
    assert asked.out == tmp_path


def test_second_start__later_starts_find_what_the_first_compiled(monkeypatch):
    starts = []

    def run(command, *, env, check, capture_output, text):
        starts.append((env["XDG_CACHE_HOME"], command[-1]))
        return type("Done", (), {"returncode": len(starts) == 3, "stderr": "no room"})

    monkeypatch.setattr(on_policy.subprocess, "run", run)
    start = on_policy.second_start()
    assert start().keys() == {"seconds of the process"}
    caches, folders = zip(*starts, strict=True)
    assert len(set(caches)) == 1
    assert len(set(folders)) == 2  # a finished run would not train again
    with pytest.raises(RuntimeError, match="no room"):
        start()
