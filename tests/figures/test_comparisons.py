"""Comparisons of variants, their verdicts, and the layout of a sheet."""

import dataclasses
import math

import numpy as np
import pytest

from figures import fake_runs
from figures.test_sweep_figures import draw, level, rows, share
from gammaprime.figures import comparisons, curves, options, statistics
from gammaprime.figures.comparisons import Comparison
from gammaprime.figures.statistics import Interval


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    return fake_runs.stored(fake_runs.CURVES, tmp_path_factory.mktemp("runs"), level, share)


def shown(sweep):
    return options.read(sweep[0])


def compare(returns, *tasks):
    return comparisons.compare_pair(returns, ("A", "B"), tasks, statistics.LEVEL)


def test_compare__uses_the_tasks_that_both_have():
    returns = {
        ("A", "x"): np.array([3.0, 4.0]),
        ("B", "x"): np.array([1.0, 2.0]),
        ("A", "y"): np.array([1.0]),
        ("B", "y"): np.empty(0),
    }
    found = compare(returns, "x", "y", "z")
    assert found.tasks == 1
    assert found.seeds_first == found.seeds_second == (2,)
    assert found.probability.value == 1.0
    assert found.difference.value == pytest.approx((3.5 - 1.5) / 1.5)
    assert found.p == found.p_least == pytest.approx(1 / 3)
    assert compare(returns, "y") is None


def test_compare__counts_the_seeds_of_each_task_and_variant():
    returns = {
        ("A", "x"): np.arange(10.0) + 1,
        ("B", "x"): np.arange(5.0) + 1,
        ("A", "y"): np.arange(4.0) + 1,
        ("B", "y"): np.arange(3.0) + 1,
    }
    found = compare(returns, "x", "y")
    assert (found.seeds_first, found.seeds_second) == ((10, 4), (5, 3))
    floor = 2 / (math.comb(15, 5) * math.comb(7, 3))
    assert found.p_least == pytest.approx(floor)
    (row,) = comparisons.overall_table(comparisons.Comparisons(comparisons.judge([found]), [])).rows
    assert row[3].text == "4 to 10 and 3 to 5".replace(" ", "\N{NO-BREAK SPACE}")


def comparison(low, high, p_value, floor=0.001):
    probability = Interval(low, 0.5 * (low + high), high)
    numbers = (probability, probability, p_value, floor, 0.2)
    return Comparison("all", "A", "B", 1, (5,), (5,), *numbers)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (comparison(0.6, 0.9, 0.01), "better"),
        (comparison(0.1, 0.4, 0.01), "worse"),
        (comparison(0.4, 0.9, 0.01), "undecided"),
        (comparison(0.6, 0.9, 0.06), "undecided"),
        (comparison(1.0, 1.0, 0.1, floor=0.1), "impossible"),
    ],
)
def test_judge__needs_both_the_interval_and_the_relabelling(found, verdict):
    assert comparisons.judge([found])[0].verdict == verdict


def test_judge__adjusts_for_the_number_of_comparisons():
    many = comparisons.judge([comparison(0.6, 0.9, 0.02) for _ in range(3)])
    assert [c.verdict for c in many] == ["undecided"] * 3
    assert many[0].p_holm == pytest.approx(0.06)
    few = comparisons.judge([comparison(1.0, 1.0, 0.02, floor=0.02) for _ in range(3)])
    assert {c.verdict for c in few} == {"impossible"}
    assert few[0].p_holm_least == pytest.approx(0.06)


@pytest.mark.parametrize("seeds", [2, 3])
def test_judge__two_or_three_seeds_of_one_task_never_decide(seeds):
    apart = {("A", "x"): np.arange(seeds) + 100.0, ("B", "x"): np.arange(seeds) + 1.0}
    found = compare(apart, "x")
    assert found.probability == (1.0, 1.0, 1.0)
    assert comparisons.judge([found])[0].verdict == "impossible"
    assert found.detectable == math.inf


def test_sentences__of_an_undecided_comparison_tell_what_could_have_been_found():
    (told,) = comparisons.sentences(
        comparisons.Comparisons(comparisons.judge([comparison(0.4, 0.9, 0.2)]), [])
    )
    assert told[0] == "undecided"
    assert told[1].endswith("find a difference of 20\N{NO-BREAK SPACE}% with a power of 80 %.")


def test_comparisons__store_what_the_report_says(sweep, tmp_path):
    files = {file.name: file for file in draw(*sweep, tmp_path)}
    stored = rows(files["made_up_comparisons.csv"])
    assert [(r["task"], r["first"], r["second"]) for r in stored] == [
        (task, variant, "PPO")
        for task in ("all", "Hopper-v4", "Walker2d-v4")
        for variant in ("PPO 0.999", "PPO(K)")
    ]
    worse, better = stored[:2]
    assert (float(worse["probability"]), worse["verdict"]) == (0.0, "worse")
    assert (float(better["probability"]), better["verdict"]) == (1.0, "better")
    assert float(better["difference"]) == pytest.approx(np.mean([20 / 102, 19 / 102]))
    assert (better["seeds_first"], better["seeds_second"]) == ("5 3", "5 5")
    assert float(better["p_holm"]) == pytest.approx(float(better["p"]))  # the larger of two
    assert float(worse["p_holm"]) == pytest.approx(2 * float(worse["p"]))
    assert 0.0 < float(better["detectable"]) < 0.05
    assert stored[3]["verdict"] == ""
    page = files["made_up_comparisons.md"].read_text("utf-8").replace("\N{NO-BREAK SPACE}", " ")
    head = "| PPO(K) against PPO | better | 2 | 3 to 5 and 5 | 1.00 [1.00, 1.00] | +19 % ["
    assert head in page
    assert "| Hopper-v4 | PPO 0.999 against PPO | 5 and 5 | 0.00 [0.00, 0.00] |" in page
    assert "28 of 30 runs are finished" in page


def test_comparisons__of_nothing_finished_say_so(sweep, tmp_path):
    none = [record._replace(done=False) for record in sweep[1]]
    page, table = comparisons.draw(shown(sweep), none, tmp_path)
    assert "nothing to compare" in page.read_text("utf-8")
    assert len(table.read_text("utf-8").splitlines()) == 1
    assert "probability_low,probability,probability_high" in table.read_text("utf-8")


@pytest.mark.parametrize("title", ["Short", "A title that needs several lines " * 6])
def test_sheet__title_legend_and_footnote_begin_at_the_same_margin(sweep, title):
    figure = curves.plot(dataclasses.replace(shown(sweep), title=title), sweep[1])
    figure.draw_without_rendering()
    (legend,) = figure.legends
    margin = 0.012 * figure.bbox.width
    line, above = legend.get_lines()[0], figure._suptitle
    for part in (line, above, figure._supxlabel):
        assert part.get_window_extent().x0 == pytest.approx(margin, abs=2.0)
    # Between the letters of the title, whose last line is blank, and the panels.
    box, lines = above.get_window_extent(), above.get_text().split("\n")
    assert lines[-1] == " "
    letters = box.y1 - box.height * (len(lines) - 1) / len(lines)
    assert legend.get_window_extent().y1 < letters + 3.0
    assert legend.get_window_extent().y0 > max(a.get_tightbbox().y1 for a in figure.axes)
