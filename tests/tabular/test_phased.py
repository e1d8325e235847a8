"""Appendix E, corrected: the K-th order estimate of phased TD and what bounds its error."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gammaprime import tabular

GAMMA, GAMMA_PRIME, FAILURE, SAMPLES = 0.7, 0.9, 0.1, 50


def deviation(count):
    """Hoeffding for a mean of n samples in [0, V_max], union over ``count`` events."""
    return math.sqrt(math.log(2 * count / FAILURE) / (2 * SAMPLES)) / (1 - GAMMA)


def phased_td_iteration(P, r, value, rng):
    """TD(0) with fresh samples: r(x) + γ·mean V(y_i);  Δ_t ≤ A + γΔ_{t−1} by Hoeffding."""
    counts = rng.multinomial(SAMPLES, P)
    return r + GAMMA * counts @ value / SAMPLES


@pytest.mark.paper("prop:error", "eq:value-error", "eq:error-decomposition")
@pytest.mark.parametrize("order", [0, 1, 4])
def test_phased_td_bound__covers_the_error_of_phased_td(order):
    # 300 runs of 15 phases; the bound may fail with probability 2·0.1 at the most, and holds
    # with room to spare because Hoeffding's inequality and the union bound are loose.
    num_runs, num_states = 300, 6
    rng = np.random.default_rng(3)
    base_noise = GAMMA * deviation(num_states)
    covered = base_covered = 0
    for _ in range(num_runs):
        P = rng.dirichlet(np.full(num_states, 0.3), size=num_states)
        r = rng.uniform(0, 1, num_states)
        V, target = (tabular.solve_value(P, r, g) for g in (GAMMA, GAMMA_PRIME))
        value = rng.uniform(0, 1 / (1 - GAMMA), num_states)
        for _ in range(15):
            before = np.abs(V - value).max()
            value = phased_td_iteration(P, r, value, rng)
        base_error = base_noise + GAMMA * before
        estimate = tabular.phased_td_estimate(P, value, GAMMA, GAMMA_PRIME, order, SAMPLES, rng)
        bound = tabular.phased_td_bound(
            GAMMA, GAMMA_PRIME, order, base_error, SAMPLES, num_states, FAILURE, 1.0
        )
        base_covered += np.abs(V - value).max() <= base_error
        covered += np.abs(target - estimate).max() <= bound.total
    assert base_covered / num_runs >= 1 - FAILURE
    assert covered / num_runs >= 1 - 2 * FAILURE


@pytest.mark.paper("eq:kth-order-estimator")
@pytest.mark.parametrize("order", [0, 1, 3])
def test_phased_td_estimate__is_unbiased_for_the_expansion_of_its_base(rng, order):
    P = rng.dirichlet(np.full(5, 0.4), size=5)
    value = rng.uniform(0, 3, 5)
    draws = np.array(
        [
            tabular.phased_td_estimate(P, value, GAMMA, GAMMA_PRIME, order, 20, rng)
            for _ in range(4000)
        ]
    )
    # The expansion of V̂ is that of the reward V̂ − γPV̂ whose value it is.
    expected = tabular.expand_value(P, value - GAMMA * P @ value, GAMMA, GAMMA_PRIME, order)
    error = draws.std(axis=0, ddof=1) / math.sqrt(len(draws))
    assert_allclose(draws.mean(axis=0), expected, atol=4.5 * error.max() + 1e-12)


@pytest.mark.paper("prop:error")
def test_phased_td_bound__has_the_parts_of_the_corrected_statement():
    c = (GAMMA_PRIME - GAMMA) / (1 - GAMMA)
    bound = tabular.phased_td_bound(GAMMA, GAMMA_PRIME, 2, 0.25, SAMPLES, 6, FAILURE, 1.0)
    growth = 1 + c + c**2
    assert bound.growth == pytest.approx(growth)
    assert bound.base == pytest.approx(growth * 0.25)
    assert bound.sampling == pytest.approx((growth - 1) * deviation(2 * 6))
    assert bound.gap == pytest.approx(c**3 / (1 - GAMMA_PRIME))
    assert bound.total == pytest.approx(bound.base + bound.sampling + bound.gap)


@pytest.mark.paper("prop:error")
def test_phased_td_bound__limits():
    zero = tabular.phased_td_bound(GAMMA, GAMMA_PRIME, 0, 0.25, SAMPLES, 6, FAILURE, 1.0)
    assert (zero.growth, zero.sampling, zero.base) == (1.0, 0.0, 0.25)
    same = tabular.phased_td_bound(GAMMA, GAMMA, 3, 0.25, SAMPLES, 6, FAILURE, 1.0)
    assert same.total == pytest.approx(0.25)
    one = tabular.phased_td_bound(GAMMA, 1.0, 3, 0.25, SAMPLES, 6, FAILURE, 1.0)
    assert one.growth == 4.0
    assert one.total == math.inf


@pytest.mark.errata("S11")
@pytest.mark.paper("prop:error")
def test_phased_td_bound__amplifies_rather_than_contracts():
    # K = 1, γ = .99, γ' = .999, B = γ: εB = 1.9·.99 = 1.88 (theory: (1 + c)·γ with c = .9).
    bound = tabular.phased_td_bound(0.99, 0.999, 1, 1.0, SAMPLES, 6, FAILURE, 1.0)
    assert bound.growth * 0.99 == pytest.approx(1.881)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_samples": 0}, "num_samples=0"),
        ({"num_states": 0}, "num_states=0"),
        ({"failure": 1.0}, r"failure=1.0: must lie in \(0, 1\)"),
        ({"base_error": -1.0}, "base_error=-1.0"),
        ({"base_error": math.nan}, "base_error=nan"),
        ({"order": math.inf}, "order=inf: must be finite"),
        ({"reward_max": -1.0}, "reward_max=-1.0"),
    ],
)
def test_phased_td_bound__refuses(changed, message):
    arguments = {
        "gamma": 0.5,
        "gamma_prime": 0.9,
        "order": 1,
        "base_error": 0.1,
        "num_samples": 5,
        "num_states": 3,
        "failure": 0.1,
        "reward_max": 1.0,
    }
    with pytest.raises(ValueError, match=message):
        tabular.phased_td_bound(**(arguments | changed))
