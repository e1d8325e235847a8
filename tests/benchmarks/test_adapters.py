"""The contests of adapters: that they measure what they have limits for."""

import math

import pytest

from benchmarks import adapters

CONTESTS = {contest.name: contest for contest in adapters.CONTESTS}
SMALL = {
    "adapters-sb3-8x256": lambda: adapters.measure_sb3(2, 64),
    "adapters-torchrl-8x256": lambda: adapters.measure_torchrl(2, 64),
    "adapters-sb3-density-ratio": lambda: adapters.measure_density_ratio(320),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SMALL)
def test_contests__measure_what_they_have_limits_for(name):
    found = SMALL[name]()()
    assert found.keys() == CONTESTS[name].limits.keys()
    assert all(math.isfinite(x) and x > 0.0 for x in found.values())


def test_take_turns__compares_the_least_times(monkeypatch):
    """Of the rounds 2 and 1 s, plain, and 3 and 5 s, ours, 3 s is compared with 1 s."""
    now = [0.0]
    seconds = {"plain": iter([9.0, 2.0, 1.0]), "ours": iter([9.0, 3.0, 5.0])}

    def spend(name):
        now[0] += next(seconds[name])

    monkeypatch.setattr(adapters.time, "perf_counter", lambda: now[0])
    runs = {name: lambda name=name: spend(name) for name in seconds}
    assert adapters.take_turns(runs)() == {"ours / plain": 3.0}
