"""Performance profiles, PDF of pictures and LaTeX of tables."""

import csv
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures import fake_runs
from gammaprime import figures
from gammaprime.figures import options, profiles, statistics, tables
from gammaprime.figures.tables import Cell, Table

LEVELS = {"PPO": 100.0, "PPO 0.999": 60.0, "PPO(K)": 120.0}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    def level(planned):
        return LEVELS[planned.variant] + 10.0 * planned.seed

    return fake_runs.stored(fake_runs.CURVES, tmp_path_factory.mktemp("runs"), level)


def shares(strata, thresholds):
    return statistics.performance_profile(strata, thresholds)


seeds = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=4)


@given(st.lists(seeds, min_size=1, max_size=3), st.integers(-6, 6).map(float))
def test_profile__is_the_mean_over_tasks_of_the_share_above(strata, threshold):
    _, (value,), _ = shares(strata, [threshold])
    each = [sum(x > threshold for x in task) / len(task) for task in strata]
    assert value == pytest.approx(sum(each) / len(each))


@given(st.lists(seeds, min_size=1, max_size=3))
def test_profile__falls_from_one_to_zero_and_its_band_holds_it(strata):
    grid = np.arange(-6.0, 7.0)
    low, value, high = shares(strata, grid)
    assert (value[0], value[-1]) == (1.0, 0.0)
    assert (np.diff(value) <= 0).all()
    assert (low <= value + 1e-12).all()
    assert (value <= high + 1e-12).all()


def test_profile__of_one_task_has_the_binomial_band():
    """At a share of 1/2 of 100 seeds, a bootstrap share has a deviation of 0.05."""
    (low,), (value,), (high,) = shares([np.arange(100.0)], [49.5])
    assert value == 0.5
    assert high - low == pytest.approx(2 * 1.96 * 0.05, rel=0.1)


def test_area_under_a_profile__is_the_mean_score():
    """∫_0^∞ P(X > τ) dτ = E X for X ≥ 0."""
    strata = [np.random.default_rng(0).uniform(0, 2, 7), np.random.default_rng(1).uniform(0, 2, 5)]
    grid = np.linspace(0.0, 2.0, 20_001)
    area = np.trapezoid(shares(strata, grid)[1], grid)
    assert area == pytest.approx(np.mean([x.mean() for x in strata]), abs=1e-3)


def test_scores__are_in_units_of_the_first_variant(sweep):
    shown = options.read(sweep[0])
    found, tasks = profiles.profiles(sweep[1], shown)
    assert tasks == ("Hopper-v4", "Walker2d-v4")
    assert [(profile.variant, profile.seeds) for profile in found] == [
        ("PPO", 10),
        ("PPO 0.999", 10),
        ("PPO(K)", 10),
    ]
    mean = 120.0  # of 100, 110, .. 140
    for profile in found:
        ends = (LEVELS[profile.variant] + 10.0 * np.arange(5)) / mean
        expected = [(ends > score).mean() for score in profile.scores]
        np.testing.assert_allclose(profile.shares[1], expected)


def test_figure__writes_profiles_and_only_where_seeds_can_differ(sweep, tmp_path):
    shown = options.read(sweep[0])
    files = figures.draw_sweep(shown, sweep[1], tmp_path)
    names = [file.name for file in files]
    assert names[3:6] == [f"made_up_profiles.{kind}" for kind in ("png", "svg", "csv")]
    with (tmp_path / "made_up_profiles.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 3 * profiles.NUM_POINTS
    alone = [result for result in sweep[1] if result.seed == 0]
    assert profiles.draw(shown, alone, tmp_path / "none") == []


def test_footnote__says_what_share_and_band_are(sweep):
    shown = options.read(sweep[0])
    found, tasks = profiles.profiles(sweep[1], shown)
    figure = profiles.plot(shown, found, tasks)
    text = figure.get_supxlabel().replace("\n", " ")
    assert "95 % bootstrap intervals, seeds resampled inside each task; 10 runs" in text


def test_formats__add_pdf_of_pictures_and_latex_of_tables(sweep, tmp_path):
    plain = figures.draw_sweep(options.read(sweep[0]), sweep[1], tmp_path / "plain")
    assert {file.suffix for file in plain} == {".png", ".svg", ".md", ".csv"}
    shown = options.read(sweep[0], None, ("pdf", "tex"))
    files = figures.draw_sweep(shown, sweep[1], tmp_path / "a")
    again = figures.draw_sweep(shown, sweep[1], tmp_path / "b")
    for kind, source in ((".pdf", ".png"), (".tex", ".md")):
        made = {file.stem for file in files if file.suffix == kind}
        assert made == {file.stem for file in files if file.suffix == source}
    for one, two in zip(files, again, strict=True):
        assert one.read_bytes() == two.read_bytes(), one.name
    (pdf,) = [file for file in files if file.name == "made_up.pdf"]
    assert pdf.read_bytes()[:5] == b"%PDF-"


def test_unknown_format__is_refused(sweep):
    with pytest.raises(ValueError, match=r"formats: unknown format 'pfd': did you mean 'pdf'\?"):
        options.read(sweep[0], None, ("pfd",))


def test_latex__has_rules_bold_and_nothing_that_latex_would_misread():
    rows = [
        [Cell("A_b & 50 %"), Cell("1 ± 2", "(3)", best=True)],
        [Cell("γ' = $\\gamma'$"), Cell()],
    ]
    text = Table("all_of it", ("task", "TD3(γ)"), rows).latex()
    assert text.splitlines() == [
        r"% all_of it",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"task & TD3($\gamma$) \\",
        r"\midrule",
        r"A\_b \& 50 \% & \textbf{1 $\pm$ 2 (3)} \\",
        r"γ' = $\gamma'$ &  \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_latex_of_a_sweep__is_ascii_outside_of_comments(sweep):
    shown = replace(options.read(sweep[0]), formats=("tex",))
    found = tables.return_tables(tables.final_returns(sweep[1], shown), shown)
    body = re.sub(r"(?m)^%.*$", "", "\n".join(table.latex() for table in found))
    assert body.isascii()
