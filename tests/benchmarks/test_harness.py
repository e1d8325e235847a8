"""The rules by which speed is judged, with contenders that move a clock instead of working."""

import json
import os
import sys
import types

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import estimators, harness, registry, tabular


class FakeTime:
    """A clock that only contenders move, and a record of who moved it."""

    def __init__(self):
        self.now = 0.0
        self.calls = []

    def __call__(self):
        return self.now

    def contender(self, name, *costs):
        """Takes the first cost until round one, then one cost per round (the last one stays)."""

        def setup():
            def run():
                self.calls.append(name)
                done = self.calls.count(name) - warm
                self.now += costs[min(max(done - 1, 0), len(costs) - 1)]
                return np.zeros(3)

            warm = harness.WARM_UPS + 1  # costs above half a second: calibrated by one run
            return run

        return harness.Contender(name, setup)


@pytest.fixture
def clock():
    return FakeTime()


def missing(name, module):
    def setup():
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    return harness.Contender(name, setup)


def contest(contenders, *limits):
    return harness.Contest("fake", "a claim", tuple(contenders), limits)


def test_race__contenders_alternate_after_their_warm_up(clock):
    entrants = [clock.contender("a", 0.6), clock.contender("b", 0.7)]
    harness.race(contest(entrants), 5, clock)
    warm_up, calibration, rounds = clock.calls[:4], clock.calls[4:6], clock.calls[6:]
    assert warm_up == ["a", "a", "b", "b"]
    assert calibration == ["a", "b"]
    assert rounds == ["a", "b"] * 5


def test_race__ratios_are_of_the_same_round(clock):
    # The machine is twice as slow in every later round; the ratio of each round is still 2.
    slow = [2.0**k for k in range(5)]
    entrants = [
        clock.contender("ours", *(2.0 * s for s in slow)),
        clock.contender("peer", *slow),
    ]
    result = harness.race(contest(entrants, harness.Limit("ours", "peer", 2.5)), 5, clock)
    (outcome,) = result["outcomes"]
    assert outcome["samples"] == pytest.approx([2.0] * 5)
    assert outcome["verdict"] == harness.MET
    assert result["contenders"]["ours"]["seconds"] == pytest.approx([2.0 * s for s in slow])
    assert result["contenders"]["peer"]["median_seconds"] == pytest.approx(4.0)


def test_race__short_runs_are_repeated_until_the_clock_can_resolve_them(clock):
    result = harness.race(contest([clock.contender("a", 0.001)]), 5, clock)
    timed = result["contenders"]["a"]
    assert harness.REPETITION_SECONDS <= timed["runs"] * 0.001 <= 2 * harness.REPETITION_SECONDS
    assert timed["seconds"] == pytest.approx([0.001] * 5)


def test_race__a_missing_peer_is_skipped_and_the_others_run(clock):
    entrants = [clock.contender("ours", 0.2), missing("rlax", "rlax.sub"), clock.contender("b", 1)]
    limits = harness.Limit("ours", "rlax", 1.0), harness.Limit("ours", "b", 1.0)
    result = harness.race(contest(entrants, *limits), 5, clock)
    assert result["contenders"]["rlax"] == {"skipped": "not installed: pip install rlax"}
    assert result["outcomes"][0]["verdict"] == "not installed: pip install rlax"
    assert "median" not in result["outcomes"][0]
    assert result["outcomes"][1]["verdict"] == harness.MET


def test_race__a_missing_room_of_ours_is_a_crash(clock):
    with pytest.raises(ModuleNotFoundError):
        harness.race(contest([missing("ours", "gammaprime.nowhere")]), 5, clock)


def test_race__peers_that_compute_something_else_are_refused(clock):
    other = harness.Contender("peer", lambda: lambda: np.ones(3))
    entrants = [clock.contender("ours", 0.2), other]
    with pytest.raises(AssertionError, match="ours and peer lie 1"):
        harness.race(contest(entrants, harness.Limit("ours", "peer", 1.0, agree=0.5)), 5, clock)


def test_contest__limits_name_contenders(clock):
    with pytest.raises(ValueError, match="'pear'"):
        contest([clock.contender("ours", 0.2)], harness.Limit("ours", "pear", 1.0))


@pytest.mark.parametrize(
    ("samples", "verdict"),
    [
        ([0.7, 0.8, 0.8, 0.9, 1.0], harness.MET),
        ([0.7, 0.8, 0.8, 0.9, 1.1], harness.UNDECIDED),
        ([0.9, 1.1, 1.2, 1.3, 1.4], harness.UNDECIDED),
        ([1.1, 1.1, 1.2, 1.3, 1.4], harness.MISSED),
        # Nine rounds forgive one outlier on either side, never two.
        ([0.1, 1.1, 1.1, 1.2, 1.2, 1.2, 1.3, 1.3, 9.0], harness.MISSED),
        ([0.1, 0.8, 0.8, 0.8, 0.9, 0.9, 0.9, 0.9, 9.0], harness.MET),
        ([0.8, 0.8, 0.8, 0.8, 0.9, 0.9, 0.9, 9.0, 9.0], harness.UNDECIDED),
    ],
)
def test_judge__no_verdict_where_the_spread_hides_it(samples, verdict):
    assert harness.judge("ratio", samples[::-1], 1.0)["verdict"] == verdict


@pytest.mark.parametrize("n", [5, 6, 8, 9, 12, 20])
def test_median_interval__holds_the_true_median_as_often_as_it_says(n):
    # The number of samples below the median of 0 is Bin(n, 1/2), whatever the distribution.
    draws = np.random.default_rng(n).standard_cauchy((4000, n))
    ends = np.array([harness.median_interval(list(row)) for row in draws])
    held = np.mean((ends[:, 0] <= 0.0) & (ends[:, 1] >= 0.0))
    assert held >= harness.CONFIDENCE - 3 * np.sqrt(0.07 * 0.93 / 4000)


def test_measure__each_quantity_is_judged_by_its_own_limit():
    seconds = iter([1.0, 2.0, 3.0, 4.0, 5.0])
    fake = harness.Measurement(
        "fake",
        "a claim",
        lambda: lambda: {"seconds": next(seconds), "GiB": 3.0},
        {"seconds": 5.0, "GiB": 2.0},
    )
    outcomes = {o["quantity"]: o for o in harness.measure(fake, 5)["outcomes"]}
    assert outcomes["seconds"]["verdict"] == harness.MET
    assert outcomes["seconds"]["median"] == 3.0
    assert outcomes["GiB"]["verdict"] == harness.MISSED


def test_run__fewer_than_five_repetitions_are_refused(clock):
    with pytest.raises(ValueError, match="repeats=4"):
        harness.run(contest([clock.contender("a", 0.2)]), 4)


def test_run__a_contest_that_needs_more_cores_than_there_are_says_so(monkeypatch):
    if sys.platform != "linux":
        pytest.skip("a process cannot be pinned here")
    pinned = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 1, 2})
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cores: pinned.append(cores))
    assert harness.pin_to_cores(2) == [2, 3]
    assert pinned == [[2, 3]]
    with pytest.raises(RuntimeError, match="needs 4 cores, and this process has 3"):
        harness.pin_to_cores(4)


def test_one_thread_pools__more_than_one_thread_is_refused(monkeypatch):
    pools = [{"prefix": "libopenblas", "num_threads": 1}]
    fake = types.SimpleNamespace(threadpool_info=lambda: pools)
    monkeypatch.setitem(sys.modules, "threadpoolctl", fake)
    assert harness.one_thread_pools() == ["libopenblas"]
    pools.append({"prefix": "libgomp", "num_threads": 2})
    with pytest.raises(RuntimeError, match="libgomp: 2"):
        harness.one_thread_pools()


@pytest.fixture
def result(clock, monkeypatch):
    entrants = [clock.contender("ours", 0.2), clock.contender("slow", 0.1), missing("c", "c")]
    limits = harness.Limit("ours", "slow", 1.5), harness.Limit("ours", "c", 1.0)
    raced = harness.race(contest(entrants, *limits), 5, clock)
    monkeypatch.setattr(harness, "race", lambda *_: raced)
    monkeypatch.setattr(harness, "pin_to_cores", lambda count: [7])
    monkeypatch.setattr(harness, "one_thread_pools", lambda: ["libopenblas"])
    return harness.run(contest(entrants, *limits), 5)


def test_run__result_is_json_and_says_where_it_was_measured(result):
    stored = json.loads(json.dumps(result, allow_nan=False))
    assert stored.keys() == {
        *("contest", "claim", "repeats", "contenders", "outcomes"),
        *("load_before", "load_after", "processor_share", "machine"),
    }
    assert stored["machine"]["pinned_to_cores"] == [7]
    assert stored["machine"]["versions"]["numpy"] == np.__version__
    judged, skipped = stored["outcomes"]
    assert judged.keys() == {"quantity", "limit", "median", "low", "high", "samples", "verdict"}
    assert skipped.keys() == {"quantity", "limit", "verdict"}


def test_table__shows_medians_ratios_and_what_is_missing(result):
    lines = command.table(result).splitlines()
    assert [" ".join(line.split()) for line in lines[2:]] == [
        "ours 200.000 ms",
        "slow 100.000 ms",
        "c not installed: pip install c",
        "ours / slow 2 [2, 2] limit 1.5 missed",
        "ours / c limit 1 not installed: pip install c",
    ]


@pytest.mark.parametrize(
    ("arguments", "code"), [([], 0), (["--strict"], 1), (["crash", "start-up"], 1)]
)
def test_command__fails_on_a_crash_and_when_strict_on_a_missed_limit(
    arguments, code, result, monkeypatch, tmp_path
):
    monkeypatch.setattr(command, "CONTESTS", dict.fromkeys(["start-up", "crash"]))
    monkeypatch.setattr(command, "find_spec", lambda _: True)
    crashing = "crash" in arguments
    monkeypatch.setattr(
        command, "run_apart", lambda name, *_: None if crashing and name == "crash" else result
    )
    assert command.main([*arguments, "--out", str(tmp_path)]) == code


def test_command__an_unknown_name_is_answered_with_those_that_exist(capsys):
    with pytest.raises(SystemExit):
        command.main(["tabularr"])
    assert "tabular-dense" in capsys.readouterr().err


def test_run_apart__threads_are_limited_before_the_worker_starts(monkeypatch, tmp_path):
    seen = {}

    def run(arguments, *, env, check):
        seen.update(env)
        raise KeyboardInterrupt

    monkeypatch.setattr(command.subprocess, "run", run)
    with pytest.raises(KeyboardInterrupt):
        command.run_apart("tabular-dense", 5, tmp_path / "x.json")
    assert {seen[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC")} == {"1"}
    assert "multi_thread_eigen=false" in seen["XLA_FLAGS"]


def test_registry__names_are_unique():
    assert len(registry.CONTESTS) == sum(len(m.CONTESTS) for m in registry.MODULES)


@pytest.mark.parametrize(
    "peer", [estimators.rlax_gae, estimators.rlax_gae_ready, estimators.rollout_buffer]
)
def test_peers__that_are_not_installed_say_so_before_anything_is_timed(peer, monkeypatch):
    # With what another test may have imported of them.
    for package in ("rlax", "stable_baselines3"):
        for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
            monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError):
        peer((4, 2))


def test_sum_of_rewards__is_the_order_recursion():
    # V_K = r + P(γ V_K + δ V_{K−1}) with V_{−1} = 0 (theory, section 1).
    rng = np.random.default_rng(3)
    P, r = rng.dirichlet(np.ones(6), size=6), rng.random(6)
    value = np.zeros(6)
    for order in range(4):
        value = np.linalg.solve(np.eye(6) - 0.9 * P, r + 0.09 * P @ value)
        total = tabular.sum_of_rewards(P, r, 0.9, 0.99, order)
        np.testing.assert_allclose(total, value, rtol=1e-10)
