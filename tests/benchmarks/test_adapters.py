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


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(adapters.time, "perf_counter", lambda: now[0])
    return now


def test_stopwatch__counts_a_call_inside_another_once(clock):
    class Adapter:
        def outer(self):
            clock[0] += 1.0
            self.inner()

        def inner(self):
            clock[0] += 2.0

    adapter, watch = Adapter(), adapters.Stopwatch()
    watch.watch(adapter, "outer", "inner")
    adapter.outer()
    assert watch.seconds == 3.0
    adapter.inner()
    assert watch.seconds == 5.0


def test_measure_share__is_the_time_over_that_without_the_adapter(clock):
    """Of 5 s, 1 is the adapter's: 5/4."""
    spent = [7.0]

    def run():
        clock[0] += 5.0
        spent[0] += 1.0

    assert adapters.measure_share({"ours / plain": (run, lambda: spent[0])})() == {
        "ours / plain": 1.25
    }
