"""Final returns of many variants: a row for each, a dot for each seed."""

import csv

import numpy as np
import pytest

from figures import fake_runs
from gammaprime.figures import finals, options, summaries
from gammaprime.figures.report import page

LEVELS = {"PPO": 100.0, "PPO 0.999": 60.0, "PPO(K)": 120.0}
TEXT = fake_runs.CURVES.replace('kind = "curves"', 'kind = "finals"\nlevels = { "Hopper-v4" = 90 }')


def stored(folder, share=lambda planned: 1.0):
    def level(planned):
        return LEVELS[planned.variant] + 10.0 * planned.seed

    return fake_runs.stored(TEXT, folder, level, share)


def dots(axes):
    """Places of the dots of each row."""
    found = {}
    for line in axes.get_lines():
        if line.get_marker() == "o":
            for x, row in zip(line.get_xdata(), line.get_ydata(), strict=True):
                found.setdefault(int(row), []).append(float(x))
    return {row: sorted(places) for row, places in found.items()}


def test_each_task__has_a_dot_for_every_seed_and_a_bar_at_the_mean(tmp_path):
    sweep, results = stored(tmp_path)
    figure = finals.plot(options.read(sweep), results)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [*sweep.tasks, "average"]
    for axes in figure.axes[:-1]:
        expected = [[level + 10.0 * seed for seed in range(5)] for level in LEVELS.values()]
        found = dots(axes)
        assert list(found) == [0, 1, 2]
        np.testing.assert_allclose(list(found.values()), expected)
        bars = [line.get_xdata()[0] for line in axes.get_lines() if line.get_marker() == "|"]
        np.testing.assert_allclose(bars, [120.0, 80.0, 140.0])
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == list(LEVELS)


def test_lines__are_at_the_mean_of_the_first_variant_and_between_levels(tmp_path):
    sweep, results = stored(tmp_path)
    with_levels, without, average = finals.plot(options.read(sweep), results).axes

    def verticals(axes):
        lines = [line for line in axes.get_lines() if line.get_marker() == "None"]
        return sorted(line.get_xdata()[0] for line in lines if len(set(line.get_xdata())) == 1)

    assert verticals(with_levels) == pytest.approx([90.0, 120.0])
    assert verticals(without) == pytest.approx([120.0])
    assert verticals(average) == [1.0]


def test_average__is_in_units_of_the_first_variant(tmp_path):
    sweep, results = stored(tmp_path)
    average = finals.plot(options.read(sweep), results).axes[-1]
    np.testing.assert_allclose(list(dots(average).values()), [[1.0], [80 / 120], [140 / 120]])


def test_average__is_over_the_tasks_that_all_variants_have(tmp_path):
    def share(planned):
        return 0.5 if (planned.variant, planned.task) == ("PPO(K)", "Hopper-v4") else 1.0

    sweep, results = stored(tmp_path, share)
    shown = options.read(sweep)
    assert "over Walker2d-v4, in units" in finals.describe(shown, results)
    hopper, _, average = finals.plot(shown, results).axes
    assert list(dots(hopper)) == [0, 1]
    assert list(dots(average)) == [0, 1, 2]


def test_without_the_first_variant__there_is_no_average(tmp_path):
    sweep, results = stored(tmp_path, lambda planned: 0.5 if planned.variant == "PPO" else 1.0)
    shown = options.read(sweep)
    assert summaries.scores(results, shown) == {}
    *tasks, average = finals.plot(shown, results).axes
    assert [list(dots(axes)) for axes in tasks] == [[1, 2], [1, 2]]
    assert dots(average) == {}
    assert [text.get_text() for text in average.texts] == ["no run yet"]


def test_task_without_runs__says_so(tmp_path):
    sweep, results = stored(tmp_path, lambda planned: float(planned.task != "Hopper-v4"))
    hopper, walker, _ = finals.plot(options.read(sweep), results).axes
    assert [text.get_text() for text in hopper.texts] == ["no run yet"]
    assert not hopper.get_xticks().size
    assert not walker.texts


def test_files__are_the_picture_and_every_dot(tmp_path):
    sweep, results = stored(tmp_path)
    files = sweep.figure(tmp_path, tmp_path / "out")
    names = [file.name for file in files]
    assert names[:3] == ["made_up.png", "made_up.svg", "made_up.csv"]
    assert not any("profiles" in name for name in names)
    with files[2].open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(results)
    seed = next(
        r for r in rows if (r["task"], r["variant"], r["seed"]) == ("Hopper-v4", "PPO", "3")
    )
    assert float(seed["final_return"]) == pytest.approx(130.0)


def test_report__shows_the_rows(tmp_path):
    pytest.importorskip("jinja2")
    sweep, results = stored(tmp_path)
    text = page([(options.read(sweep), results)])
    assert 'aria-label="Hopper-v4: rows for PPO, PPO 0.999, PPO(K)"' in text
    assert "Dots: the final return of a seed" in text
