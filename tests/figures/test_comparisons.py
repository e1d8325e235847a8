"""What `figure` writes beside its picture of who beats whom, and how a sheet is laid out."""

import dataclasses

import numpy as np
import pytest

from figures import fake_runs
from figures.test_sweep_figures import level, rows, share
from gammaprime import figures
from gammaprime.figures import comparisons, curves, options


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    return fake_runs.stored(fake_runs.CURVES, tmp_path_factory.mktemp("runs"), level, share)


def shown(sweep):
    return options.read(sweep[0])


def test_comparisons__store_what_the_report_says(sweep, tmp_path):
    files = {file.name: file for file in figures.draw_sweep(*sweep, tmp_path)}
    stored = rows(files["made_up_comparisons.csv"])
    assert [(r["task"], r["first"], r["second"]) for r in stored] == [
        (task, variant, "PPO")
        for task in ("all", "Hopper-v4", "Walker2d-v4")
        for variant in ("PPO 0.999", "PPO(K)")
    ]
    worse, better = stored[:2]
    assert (float(worse["probability"]), worse["verdict"]) == (0.0, "worse")
    assert (float(better["probability"]), better["verdict"]) == (1.0, "better")
    assert float(better["gain"]) == pytest.approx(np.mean([20 / 102, 19 / 102]))
    assert (better["seeds_first"], better["seeds_second"]) == ("3", "5")
    assert float(better["p_corrected"]) == pytest.approx(float(better["p"]))  # the larger of two
    assert float(worse["p_corrected"]) == pytest.approx(2 * float(worse["p"]))
    assert stored[3]["verdict"] == ""
    page = files["made_up_comparisons.md"].read_text("utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert "| PPO(K) against PPO | 2 | 1.00 [1.00, 1.00] | +19 % [" in page
    assert "| better |" in page
    assert "| Hopper-v4 | PPO 0.999 against PPO | 0.00 [0.00, 0.00] |" in page
    assert "28 of 30 runs are finished" in page


def test_comparisons__of_nothing_finished_say_so(sweep):
    none = [record._replace(done=False) for record in sweep[1]]
    found = comparisons.Findings(none, shown(sweep))
    assert "nothing to compare" in comparisons.markdown(sweep[0], none, found)
    assert set(map(len, comparisons.columns(found).values())) == {0}


@pytest.mark.parametrize("title", ["Short", "A title that needs several lines " * 6])
def test_sheet__title_legend_and_footnote_begin_at_the_same_margin(sweep, title):
    figure = curves.plot(dataclasses.replace(sweep[0], title=title), *sweep[1:], shown(sweep))
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
