"""fig:errors as files: pictures that repeat byte for byte, and tables of what was stored."""

import csv
import dataclasses

import numpy as np
import pytest

from gammaprime import figures
from gammaprime.experiments import toy
from gammaprime.figures import errors
from gammaprime.sweeps import spec

SETTINGS = dataclasses.replace(
    spec.load_experiment("fig_errors").settings,
    num_mdps=5,
    repetitions=6,
    order=8,
    base_noise=(0.0, 2.0, 9.0),
)
CONFIG = {"kind": "toy", "settings": dataclasses.asdict(SETTINGS)}


@pytest.fixture(scope="module")
def data():
    return toy.run(SETTINGS, lambda done, total: None)


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures") / "new"
    figures.draw_computed(CONFIG, data, folder, "fig_errors")
    return folder


def columns(path):
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {key: np.array([float(row[key]) for row in rows]) for key in rows[0]}


@pytest.mark.paper("fig:errors")
def test_draw__writes_pictures_and_tables_side_by_side(folder):
    names = [
        "fig_errors.png",
        "fig_errors.svg",
        "fig_errors_by_noise.csv",
        "fig_errors_by_order.csv",
    ]
    assert sorted(file.name for file in folder.iterdir()) == names
    assert (folder / names[0]).read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in (folder / names[1]).read_text()


def test_draw__twice_gives_the_same_bytes(folder, data, tmp_path):
    for file in figures.draw_computed(CONFIG, data, tmp_path, "fig_errors"):
        assert file.read_bytes() == (folder / file.name).read_bytes(), file.name


@pytest.mark.errata("S16")
def test_table_by_order__agrees_with_the_stored_numbers(folder, data):
    table = columns(folder / "fig_errors_by_order.csv")
    np.testing.assert_array_equal(table["order"], np.arange(9))
    np.testing.assert_array_equal(table["bound"], data["bound"])
    expected = data["expected_error"]
    np.testing.assert_array_equal(table["expected_error_median"], np.median(expected, axis=0))
    np.testing.assert_allclose(table["expected_error_p90"], np.quantile(expected, 0.9, axis=0))
    relative = expected / data["target"][:, None]
    np.testing.assert_allclose(table["expected_relative_error_median"], np.median(relative, axis=0))
    rmse = np.sqrt(np.mean(data["sampled_error"] ** 2, axis=1))
    np.testing.assert_allclose(table["rmse_sampled_p10"], np.quantile(rmse, 0.1, axis=0))
    runs = np.abs(data["sampled_error"]).reshape(30, 9)
    np.testing.assert_allclose(table["one_run_median"], np.median(runs, axis=0))


def test_table_by_noise__agrees_with_the_stored_numbers(folder, data):
    table = columns(folder / "fig_errors_by_noise.csv")
    np.testing.assert_array_equal(table["base_noise"], SETTINGS.base_noise)
    per_mdp = data["realised_order"].mean(axis=1)
    np.testing.assert_allclose(table["realised_order_median"], np.median(per_mdp, axis=0))
    np.testing.assert_array_equal(table["rmse_order_median"], np.median(data["rmse_order"], axis=0))


@pytest.mark.errata("S17")
def test_plot__says_in_words_what_each_curve_is(data):
    left, right = errors.plot(CONFIG["settings"], data).axes
    labels = [text.get_text() for text in left.get_legend().get_texts()]
    lines = {line.get_label(): line for line in left.get_lines()}
    assert set(labels) <= set(lines)
    by_name = {label.partition(":")[0]: lines[label] for label in labels}
    median = np.median(data["expected_error"], axis=0)
    np.testing.assert_array_equal(by_name["expected error"].get_ydata(), median)
    assert "sampled error" in by_name
    assert left.get_yscale() == "log"
    for axes in (left, right):
        assert all([axes.get_xlabel(), axes.get_ylabel(), axes.get_title(loc="left")])
    assert "5 random MDPs" in left.figure.get_suptitle()
