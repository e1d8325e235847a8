"""The curves behind the docs pictures, against the reference recursion."""

import numpy as np
import pytest

from gammaprime.experiments import weights
from gammaprime.sweeps import spec
from oracles import update_weight_curve

SETTINGS = spec.load_experiment("weights").settings


@pytest.fixture(scope="module")
def curves():
    return weights.run(SETTINGS, lambda done, total: None)


@pytest.mark.paper("eq:state-weight")
def test_curves__are_those_of_each_order_and_infinity(curves):
    for order, curve in zip([*SETTINGS.orders, np.inf], curves["by_order"], strict=True):
        expected = update_weight_curve(SETTINGS.num_steps, 0.99, 0.999, order)
        np.testing.assert_allclose(curve, expected, rtol=1e-9)


@pytest.mark.paper("x:window")
@pytest.mark.errata("S21")
def test_window__is_the_base_scaled_from_its_last_step_on(curves):
    """γ^u + c Σ_s share_s γ^{u−s} over the steps s ≤ min(u, 10): a factor of γ^u once u ≥ 10."""
    step = curves["step"]
    shares = 0.99 ** np.arange(10) / (0.99 ** np.arange(10)).sum()
    factor = 1 + 0.9 * (shares / 0.99 ** np.arange(1, 11)).sum()
    assert factor == pytest.approx(1.951, abs=5e-4)
    np.testing.assert_allclose(curves["window"][10:], factor * 0.99 ** step[10:])
    # Before that the window has seen only part of the way, and the true weights never exceed 1.
    partial = [1 + 0.9 * (shares[:u] / 0.99 ** np.arange(1, u + 1)).sum() for u in range(10)]
    np.testing.assert_allclose(curves["window"][:10], partial * 0.99 ** step[:10])
