"""A run is measured as it is for most of its time, not as it begins."""

import pytest

pytest.importorskip("jax")

from gammaprime.sweeps.estimate import kind_of_run, once_under_way


def config(steps=1_000_000, **agent):
    agent = {"kind": "td3", "learning_starts": 1_000, "random_steps": 10_000} | agent
    return {"kind": "train", "settings": {"agent": agent, "task": "Hopper-v4", "steps": steps}}


def starts(config):
    return once_under_way(config)["settings"]["agent"]["learning_starts"]


def test_off_policy_run__learns_when_it_acts_by_its_policy_and_its_ratio_learns():
    assert starts(config()) == 10_000
    # The ratio learns when the replay holds more than the latest states.
    assert starts(config(weighting={"kind": "density_ratio", "recent_size": 20_000})) == 20_001
    assert starts(config(learning_starts=50_000)) == 50_000


def test_run_that_is_mostly_beginning__stays_as_it_is():
    assert once_under_way(config(steps=15_000)) == config(steps=15_000)


def test_on_policy_run__stays_as_it_is():
    plain = {"settings": {"agent": {"kind": "ppo", "weighting": {"kind": "uniform"}}, "steps": 9}}
    assert once_under_way(plain) == plain


def test_kind_of_run__is_the_same_once_under_way():
    run = config()
    assert kind_of_run(once_under_way(run)) == kind_of_run(run)
    assert run == config()
