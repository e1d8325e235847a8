"""The smaller pictures: discount curves, and the curve by which a user chooses an order."""

import numpy as np
import pytest

from gammaprime import figures
from gammaprime.estimators import OrderCurve
from gammaprime.experiments import weights as computed_weights
from gammaprime.figures import order, weights
from gammaprime.sweeps import spec

SPEC = spec.load_experiment("weights")


@pytest.fixture(scope="module")
def data():
    return computed_weights.run(SPEC.settings, lambda done, total: None)


def test_weights__draw_two_pictures_that_repeat(data, tmp_path):
    first = figures.draw_computed(SPEC.config, data, tmp_path / "a", "weights")
    names = [
        f"weights_{which}.{kind}" for which in ("by_order", "window") for kind in ("png", "svg")
    ]
    assert [file.name for file in first] == names
    for file in figures.draw_computed(SPEC.config, data, tmp_path / "b", "weights"):
        assert file.read_bytes() == (tmp_path / "a" / file.name).read_bytes()


@pytest.mark.errata("S21")
def test_window_picture__shows_the_window_beside_the_first_order(data):
    (axes,) = weights.plot_window(SPEC.config["settings"], data).axes
    lines = {line.get_label(): line.get_ydata() for line in axes.get_lines()}
    np.testing.assert_array_equal(lines["order 1, $w_1(t)$"], data["by_order"][1])
    np.testing.assert_array_equal(lines["order 1 by a window of 10 steps"], data["window"])
    assert any("1.951 times" in text.get_text() for text in axes.texts)


def curve():
    return OrderCurve(np.arange(4), np.array([1.0, 2.0, 2.5, 2.6]), np.array([0.1, 0.2, 0.3, 0.4]))


@pytest.mark.parametrize("name", ["choice", "choice.png", "choice.svg"])
def test_order_curve__is_written_as_png_and_svg(tmp_path, name):
    files = order.plot_order_curve(curve(), tmp_path / "new" / name)
    assert [file.name for file in files] == ["choice.png", "choice.svg"]
    assert all(file.stat().st_size > 1000 for file in files)


@pytest.mark.paper("x:order-curve")
def test_order_curve__shows_two_standard_errors():
    (axes,) = order.plot(curve()).axes
    (container,) = axes.containers
    _, _, (bars,) = container
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends, [[0.8, 1.2], [1.6, 2.4], [1.9, 3.1], [1.8, 3.4]])
