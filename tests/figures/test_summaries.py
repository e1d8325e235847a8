"""Returns of runs: final returns, lines that count their seeds, and what is missing."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from figures import fake_runs
from gammaprime.figures import curves, options, summaries
from gammaprime.runs.results import Result as Record


def shown(**changes):
    read = options.read(fake_runs.load(fake_runs.CURVES))
    return dataclasses.replace(read, **changes)


def record(values=(), evaluations=(), steps=1000, **changes):
    """A run whose episodes end at equal distances and have these returns."""
    ends = np.linspace(steps / max(len(values), 1), steps, len(values))
    pairs = zip(ends, values, strict=True)
    episodes = [[end, 1, value, 0.1 * value, 0.5 * value] for end, value in pairs]
    judged = [[100 * i, value, 0.1 * value, 0.5 * value] for i, value in enumerate(evaluations)]
    about = {
        "variant": "PPO",
        "task": "Hopper-v4",
        "seed": 0,
        "path": Path("run"),
        "steps": steps,
        "reached": steps,
        "done": True,
        "gamma_prime": 0.999,
        "episodes": np.array(episodes).reshape(-1, 5),
        "evaluations": np.array(judged).reshape(-1, 4),
        "manifest": {},
        "config": {},
    }
    return Record(**about | changes)


@pytest.mark.paper("fig:ablation")
def test_final_return__in_training_is_of_episodes_that_ended_in_the_last_tenth():
    run = record(values=np.arange(20.0))  # one ends every 50 steps
    assert summaries.final_return(run, shown()) == 18.5
    at_gamma_prime = summaries.final_return(run, shown(), summaries.J_GAMMA_PRIME)
    assert at_gamma_prime == 0.5 * np.mean([18.0, 19.0])


@pytest.mark.paper("table:td3")
def test_final_return__of_evaluations_is_over_the_last_ten():
    run = record(values=[7.0], evaluations=np.arange(25.0))
    assert summaries.final_return(run, shown(returns="evaluations")) == np.mean(np.arange(15, 25))
    assert summaries.final_return(run, shown(returns="evaluations", last=1)) == 24.0


def test_finals__need_finished_runs_that_told_something():
    runs = [
        record(values=[1.0]),
        record(values=[2.0], seed=1, done=False),
        record(values=[], seed=2),
        record(values=[4.0], seed=3),
    ]
    assert summaries.finals(runs, shown())["PPO", "Hopper-v4"].tolist() == [1.0, 4.0]


def test_lines__count_the_seeds_that_got_to_each_point():
    whole = record(values=np.full(20, 1.0))
    part = record(values=np.full(20, 3.0), seed=1, done=False, reached=500)
    waiting = record(seed=2, done=False, reached=0)
    (line,) = curves.lines([whole, part, waiting], shown())
    assert line.asked == 3
    np.testing.assert_array_equal(line.seeds[line.grid < 50], 0)
    np.testing.assert_array_equal(line.seeds[(line.grid >= 50) & (line.grid <= 500)], 2)
    np.testing.assert_array_equal(line.seeds[line.grid > 500], 1)
    low, middle, high = line.three[:, line.grid == 500].ravel()
    assert (low, middle, high) == (1.0, 2.0, 3.0)
    assert line.three[:, -1].tolist() == [1.0, 1.0, 1.0]
    assert np.isnan(line.three[:, 0]).all()


def test_lines__end_where_steps_do_though_the_last_rollout_ends_before():
    run = record(values=np.arange(20.0), reached=980)
    (line,) = curves.lines([run], shown())
    assert line.seeds[-1] == 1


def test_lines__by_interquartile_mean_leave_out_the_extremes():
    runs = [record(values=np.full(20, level), seed=i) for i, level in enumerate([0, 1, 2, 3, 99])]
    (line,) = curves.lines(runs, shown(band="iqm"))
    low, middle, high = line.three[:, -1]
    assert middle == 2.0
    assert low <= middle <= high


def test_notes__tell_what_changed_and_what_is_missing():
    runs = [record(), record(seed=1, done=False)]
    changed, missing = summaries.notes(shown(changed={"steps": 20_000, "seeds": (0, 1)}), runs)
    assert changed == "Changed on the command line: steps 20,000; seeds 0, 1."
    assert "1 of 2 runs are finished (seeds: PPO on Hopper-v4 1 of 2)" in missing
    assert summaries.notes(shown(), runs[:1]) == []


def test_count_seeds__tells_each_variant_where_they_differ():
    both = [record(seed=seed, task=task) for seed in range(3) for task in ("a", "b")]
    assert summaries.count_seeds(both) == "3 seeds"
    assert summaries.count_seeds(both[:2]) == "one seed"
    assert summaries.count_seeds(both[:5]) == "seeds (2 to 3 of PPO)"
    other = [record(seed=seed, variant="TRPO") for seed in range(5)]
    assert summaries.count_seeds([*both, *other]) == "seeds (3 of PPO; 5 of TRPO)"
    third = [record(seed=seed, variant="PG") for seed in range(3)]
    told = "seeds (3 of PPO, PG; 5 of TRPO)"
    assert summaries.count_seeds([*both, *other, *third]) == told
