"""Figures and tables of sweeps, from run folders in the real formats."""

import csv

import numpy as np
import pytest

from figures import fake_runs
from gammaprime import figures
from gammaprime.figures import ablations, curves, options, tables
from gammaprime.sweeps.spec import load_experiment

COMPARE = 'compare = [["PPO 0.999", "PPO"], ["PPO(K)", "PPO"]]'
LEVELS = {"PPO": 100.0, "PPO 0.999": 60.0, "PPO(K)": 120.0, "η = 0.02": 150.0, "K = ∞": 80.0}


def level(planned):
    if planned.task == "Swimmer-v4":
        return -10.0
    return LEVELS[planned.variant] + planned.seed


def share(planned):
    """One run of PPO(K) on Walker2d stopped half way, one has not begun."""
    if (planned.variant, planned.task) != ("PPO(K)", "Walker2d-v4"):
        return 1.0
    return {3: 0.5, 4: 0.0}.get(planned.seed, 1.0)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    return fake_runs.stored(fake_runs.CURVES, tmp_path_factory.mktemp("runs"), level, share)


@pytest.fixture(scope="module")
def ablated(tmp_path_factory):
    return fake_runs.stored(fake_runs.ABLATION, tmp_path_factory.mktemp("ablated"), level)


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def draw(sweep, results, folder):
    return figures.draw_sweep(options.read(sweep), results, folder)


def texts(figure):
    words = [text.get_text() for axes in figure.axes for text in axes.texts]
    return " ".join([*words, figure.get_suptitle(), figure.get_supxlabel()]).replace("\n", " ")


@pytest.mark.paper("fig:onpolicy", "fig:onpolicy-state", "fig:separating", "fig:td3", "fig:sac")
def test_curves__have_a_panel_for_each_task_and_a_line_for_each_variant(sweep):
    figure = curves.plot(options.read(sweep[0]), sweep[1])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Hopper-v4", "Walker2d-v4"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["PPO", "PPO 0.999", "PPO(K)"]
    solid = [line for line in figure.axes[0].lines if line.get_linestyle() == "-"]
    drawn = [line.get_ydata() for line in solid if len(line.get_ydata())]
    expected = [x.three[1] for x in curves.lines(sweep[1], options.read(sweep[0]))][::2]
    np.testing.assert_array_equal(drawn, expected)


def test_curves__of_a_finished_run_end_at_its_level(sweep):
    lines = curves.lines(sweep[1], options.read(sweep[0]))
    low, middle, high = lines[0].three[:, -1]
    assert middle == pytest.approx(102.0)
    np.testing.assert_allclose([high - middle, middle - low], np.std(np.arange(5)))


def test_curves__are_dotted_where_seeds_are_missing(sweep):
    axes = curves.plot(options.read(sweep[0]), sweep[1]).axes[1]
    solid = [line.get_ydata() for line in axes.lines if line.get_linestyle() == "-"]
    missing = [np.isnan(y).sum() for y in solid if len(y)]
    assert missing[2] == len(solid[-1])  # one seed of PPO(K) has not begun
    dotted = [line.get_ydata() for line in axes.lines if line.get_linestyle() == ":"]
    assert not np.isnan(dotted[2][-1])
    assert np.isnan(dotted[0]).all()  # no seed of PPO is missing


def test_panel_of_a_task_that_has_not_begun__says_so(tmp_path):
    on_hopper = {"Hopper-v4": 1.0}
    sweep, results = fake_runs.stored(
        fake_runs.CURVES, tmp_path, level, lambda planned: on_hopper.get(planned.task, 0.0)
    )
    begun, empty = curves.plot(options.read(sweep), results).axes
    assert [text.get_text() for text in empty.texts] == ["no run yet"]
    assert [text.get_text() for text in begun.texts] == []


def test_curves__say_how_many_seeds_they_have_and_what_was_changed(sweep):
    told = texts(curves.plot(options.read(sweep[0]), sweep[1]))
    assert "28 of 30 runs are finished (seeds: PPO(K) on Walker2d-v4 3 of 5)" in told
    assert "median ± standard deviation over 5 seeds" in told
    changed = sweep[0].change(seeds=[0, 1])
    records = [record for record in sweep[1] if record.seed < 2]
    told = texts(curves.plot(options.read(changed, "iqm"), records))
    assert "Changed on the command line: seeds 0, 1." in told
    assert "Incomplete" not in told
    assert "interquartile mean with its 95 % bootstrap interval" in told


def test_curves__of_variants_with_other_numbers_of_seeds_tell_each(sweep):
    few = [r for r in sweep[1] if r.variant == "PPO" or (r.seed < 2 and r.task == "Hopper-v4")]
    told = texts(curves.plot(options.read(sweep[0]), [r._replace(done=True) for r in few]))
    assert "over seeds (5 of PPO; 2 of PPO 0.999, PPO(K));" in told


def test_draw_sweep__writes_pictures_and_numbers_that_repeat(sweep, tmp_path):
    first = draw(*sweep, tmp_path / "a")
    endings = (".png", ".svg", ".csv", "_profiles.png", "_profiles.svg", "_profiles.csv")
    endings += ("_table.md", "_table.csv", "_comparisons.md", "_comparisons.csv", "_seeds.md")
    assert [file.name for file in first] == [f"made_up{ending}" for ending in endings]
    for file in draw(*sweep, tmp_path / "b"):
        assert file.read_bytes() == (tmp_path / "a" / file.name).read_bytes()


def test_draw_sweep__stores_every_point_it_draws(sweep, tmp_path):
    files = draw(*sweep, tmp_path)
    stored = [r for r in rows(files[2]) if (r["task"], r["variant"]) == ("Walker2d-v4", "PPO(K)")]
    assert {row["seeds"] for row in stored[:50]} == {"4"}
    assert {row["seeds"] for row in stored[50:]} == {"3"}
    assert {row["seeds_asked"] for row in stored} == {"5"}
    assert float(stored[-1]["middle"]) == pytest.approx(121.0)
    assert float(stored[-1]["step"]) == 100_000


@pytest.mark.paper("fig:ablation", "x:normalised-score")
def test_ablation__divides_by_the_mean_of_the_baseline_on_the_task(ablated, tmp_path):
    files = draw(*ablated, tmp_path)
    stored = {(r["label"], r["variant"], r["task"]): r for r in rows(files[2])}
    assert float(stored["η", "PPO", "Hopper-v4"]["mean"]) == pytest.approx(1.0)
    assert float(stored["η", "η = 0.02", "Hopper-v4"]["mean"]) == pytest.approx(151 / 101)
    average = stored["η", "η = 0.02", "average"]
    assert float(average["mean"]) == pytest.approx(151 / 101)
    assert average["seeds"] == "6"
    low, high = float(average["interval_low"]), float(average["interval_high"])
    assert 150 / 101 <= low < 151 / 101 < high <= 152 / 101


def test_ablation__draws_tasks_and_average_along_each_axis(ablated):
    figure = ablations.plot(options.read(ablated[0]), ablated[1])
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["(a) η, each task", "(b) η, average", "(c) K, each task", "(d) K, average"]
    assert [tick.get_text() for tick in figure.axes[3].get_xticklabels()] == ["0", "∞"]
    lines = {line.get_label(): line.get_ydata() for line in figure.axes[2].lines}
    np.testing.assert_allclose(lines["Walker2d-v4"], [1.0, 81 / 101])


def test_ablation__tells_tasks_of_one_colour_apart_where_no_line_is_drawn(tmp_path):
    sweep = fake_runs.load(fake_runs.ABLATION.replace("Walker2d-v4", "HopperBulletEnv-v0"))
    fake_runs.write(sweep, tmp_path, lambda run: 100.0 + run.seed)
    panel, *_ = ablations.plot(options.read(sweep), sweep.results(tmp_path)).axes
    lines = {line.get_label(): line for line in panel.lines}
    mujoco, bullet = lines["Hopper-v4"], lines["HopperBulletEnv-v0"]
    assert mujoco.get_color() == bullet.get_color() == mujoco.get_markerfacecolor()
    assert bullet.get_markerfacecolor() == "white"


def test_ablation__leaves_out_tasks_without_a_positive_baseline_and_says_so(ablated):
    figure = ablations.plot(options.read(ablated[0]), ablated[1])
    assert "Swimmer-v4" not in [line.get_label() for line in figure.axes[0].lines]
    assert "Left out, because PPO has no positive mean there: Swimmer-v4." in texts(figure)


def averages(found, label):
    return [p for p in found if (p.label, p.task) == (label, ablations.AVERAGE)]


def test_ablation__by_interquartile_mean_pools_tasks_and_seeds(ablated):
    found = ablations.points(ablated[1], options.read(ablated[0], "iqm"))
    assert averages(found, "η")[1].interval.value == pytest.approx(151 / 101)


def skewed(planned):
    """One seed of η = 0.02 is far off: a mean goes with it, a middle does not."""
    return level(planned) + 600.0 * ((planned.variant, planned.seed) == ("η = 0.02", 2))


@pytest.mark.parametrize("band", ["median_std", "iqm"])
def test_ablation__stores_each_centre_under_its_own_name(tmp_path, band):
    sweep = fake_runs.load(fake_runs.ABLATION)
    fake_runs.write(sweep, tmp_path, skewed)
    shown = options.read(sweep, band)
    point = averages(ablations.points(sweep.results(tmp_path), shown), "η")[1]
    seeds = np.array([150.0, 151.0, 752.0]) / 101  # the same on both tasks
    assert point.mean == point.median == pytest.approx(seeds.mean())
    middle = np.mean([seeds[0], seeds[1], seeds[1], seeds[2]])  # of six, one is cut at each end
    assert point.interquartile_mean == pytest.approx(middle)
    assert point.interval_of == {"median_std": "mean", "iqm": "interquartile_mean"}[band]
    centre = {"median_std": seeds.mean(), "iqm": middle}[band]
    assert point.interval.value == pytest.approx(centre)
    assert point.interval.low < centre < point.interval.high


def test_ablation__averages_over_the_tasks_that_all_points_have_and_says_so(tmp_path):
    sweep = fake_runs.load(fake_runs.ABLATION)

    def easier(planned):
        return (5.0 if planned.task == "Hopper-v4" else 1.0) * LEVELS[planned.variant] + (
            planned.task == "Hopper-v4" and planned.variant == "η = 0.02"
        ) * 500.0

    missing = ("η = 0.02", "Walker2d-v4")
    fake_runs.write(sweep, tmp_path, easier, lambda p: 1.0 * ((p.variant, p.task) != missing))
    records, shown = sweep.results(tmp_path), options.read(sweep)
    found = ablations.points(records, shown)
    by_eta, by_order = averages(found, "η"), averages(found, "K")
    assert [point.over for point in by_eta] == [("Hopper-v4", "Swimmer-v4")] * 2
    assert [point.over for point in by_order] == [sweep.tasks] * 2
    assert [point.seeds for point in by_eta] == [6, 6]
    assert [point.mean for point in by_eta] == pytest.approx([1.0, (2.5 + 1.5) / 2])
    figure = ablations.plot(shown, records)
    (line,) = [line for line in figure.axes[1].lines if line.get_label() == "mean"]
    np.testing.assert_allclose(line.get_ydata(), [1.0, 2.0])
    told = "Averages along η are over the tasks that all their points have: Hopper-v4, Swimmer-v4."
    assert told in texts(figure)
    assert "Averages along K" not in texts(figure)


def test_ablation__point_that_has_not_begun_takes_no_task_from_the_others(tmp_path):
    sweep = fake_runs.load(fake_runs.ABLATION)
    fake_runs.write(sweep, tmp_path, level, lambda planned: 1.0 * (planned.variant != "K = ∞"))
    shown = options.read(sweep)
    begun, waiting = averages(ablations.points(sweep.results(tmp_path), shown), "K")
    assert begun.over == ("Hopper-v4", "Walker2d-v4")
    assert begun.mean == pytest.approx(1.0)
    assert waiting.over == ()
    assert np.isnan(waiting.mean)


def markdown(shown, results, folder):
    page, _ = tables.draw(shown, results, folder)
    return page.read_text("utf-8")


def cells(results, shown):
    return {(row.variant, row.task): row for row in tables.final_returns(results, shown)}


@pytest.mark.paper("table:td3")
def test_table__has_mean_and_one_standard_deviation_and_bold_ties(sweep, tmp_path):
    text = markdown(options.read(sweep[0]), sweep[1], tmp_path)
    one = np.std(np.arange(5))
    row = f"| Hopper-v4 | 102 ± {one:.3g} (5) | 62 ± {one:.3g} (5) | **122 ± {one:.3g} (5)** |"
    assert row in text
    assert "**121 ± 0.816 (3 of 5)**" in text
    assert "mean ± one standard deviation over seeds" in text
    assert options.read(load_experiment("table_td3")).spread == 0.5  # as the paper's
    assert "every mean that is not below the best's own lower end" in text
    assert "28 of 30 runs are finished" in text


@pytest.mark.paper("table:td3")
def test_table__of_evaluations_takes_the_last_ten_and_keeps_groups_apart(sweep, tmp_path):
    asked = 'returns = "evaluations"\ncompare = [["PPO(K)", "PPO"]]'
    text = fake_runs.CURVES.replace(COMPARE, asked).replace('"curves"', '"table"')
    shown = options.read(fake_runs.load(text))
    found = cells(sweep[1], shown)
    record = next(r for r in sweep[1] if r.variant == "PPO" and r.task == "Hopper-v4")
    seeds = [r.evaluations[-10:, 1].mean() for r in sweep[1][:5]]
    assert len(record.evaluations) == 10
    assert found["PPO", "Hopper-v4"].mean == pytest.approx(np.mean(seeds))
    assert found["PPO(K)", "Hopper-v4"].best
    assert not found["PPO 0.999", "Hopper-v4"].best  # alone in the second table
    assert markdown(shown, sweep[1], tmp_path).count("| task |") == 2


def test_table__of_one_seed_has_no_spread_and_alone_in_a_row_is_not_best(sweep):
    alone = [record for record in sweep[1] if record.variant == "PPO" and record.seed == 0]
    found = cells(alone, options.read(sweep[0]))["PPO", "Hopper-v4"]
    assert found.cell() == ("100", "(1)", False, None)
    assert not found.best
    assert (found.mean_gamma, found.mean_gamma_prime) == pytest.approx((10.0, 60.0))


def test_table__counts_the_seeds_of_each_cell_and_those_above_the_level(sweep, tmp_path):
    text = fake_runs.CURVES.replace(COMPARE, 'levels = { "Hopper-v4" = 102.5 }')
    few = [r for r in sweep[1] if r.variant == "PPO" or r.seed < 2]
    text = markdown(options.read(fake_runs.load(text)), few, tmp_path)
    assert "| 102 ± 1.41 (5; 2 high) | 60.5 ± 0.5 (2; 0 high) | **120 ± 0.5 (2; 2 high)** |" in text
    assert "and of those that end high, above 102 on Hopper-v4." in text
    (stored,) = [
        r
        for r in rows(tmp_path / "made_up_table.csv")
        if (r["task"], r["variant"]) == ("Hopper-v4", "PPO")
    ]
    assert (float(stored["level"]), float(stored["above"])) == (102.5, 0.4)


@pytest.mark.parametrize("kind", ["curves", "ablation", "table"])
def test_draw_sweep__of_nothing_finished_still_draws(tmp_path, kind):
    text = fake_runs.ABLATION
    if kind != "ablation":
        text = text[: text.index("[figure]")] + f'[figure]\nkind = "{kind}"\n'
    sweep = fake_runs.load(text)
    fake_runs.write(sweep, tmp_path, level, lambda planned: 0.2 * (planned.seed == 0))
    files = draw(sweep, sweep.results(tmp_path), tmp_path / "out")
    assert all(file.stat().st_size > 50 for file in files)
    assert "0 of 27 runs are finished" in (tmp_path / "out/made_up_table.md").read_text("utf-8")
