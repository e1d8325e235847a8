"""Appendix E as printed fails by a stated margin, ours holds: rows S7 to S11 of docs/errata.md."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gammaprime import tabular
from oracles import softmax

GAMMA, GAMMA_PRIME = 0.7, 0.9
DELTA = GAMMA_PRIME - GAMMA
RATIO = DELTA / (1 - GAMMA)


@pytest.fixture
def chain(mdp, logits):
    """(P, r) with rewards in [0, 1]."""
    return tabular.chain(mdp, softmax(logits))


def relative_error(printed, true):
    return np.abs(printed - true).max() / np.abs(true).max()


@pytest.mark.errata("S7")
@pytest.mark.paper("eq:kth-order-estimator")
def test_phased_estimate__needs_the_ratio_and_not_the_difference(chain):
    P, r = chain
    order, V = 2, tabular.solve_value(P, r, GAMMA)
    J = (1 - GAMMA) * np.linalg.inv(np.eye(len(P)) - GAMMA * P) @ P
    looks = [np.linalg.matrix_power(J, k) @ V for k in range(order + 1)]
    true = tabular.expand_value(P, r, GAMMA, GAMMA_PRIME, order)
    assert_allclose(sum(RATIO**k * x for k, x in enumerate(looks)), true, rtol=1e-12)
    assert relative_error(sum(DELTA**k * x for k, x in enumerate(looks)), true) > 0.3
    # One draw with a million samples: values lie in [0, 3.4], so two terms err by < 0.005.
    drawn = tabular.phased_td_estimate(
        P, V, GAMMA, GAMMA_PRIME, order, 1_000_000, np.random.default_rng(1)
    )
    assert_allclose(drawn, true, atol=0.01)


@pytest.mark.errata("S8")
@pytest.mark.paper("prop:kth-expansion", "prop:error")
@pytest.mark.parametrize("order", [0, 1, 4])
def test_gap__has_the_target_discount_in_its_denominator(chain, order):
    P, _ = chain
    gap = tabular.residual(P, np.ones(len(P)), GAMMA, GAMMA_PRIME, order)
    printed = RATIO ** (order + 1) / (1 - GAMMA)
    assert_allclose(gap, 3 * printed, rtol=1e-11)  # (1−γ)/(1−γ') = 3
    bound = tabular.phased_td_bound(GAMMA, GAMMA_PRIME, order, 0.0, 1, len(P), 0.1, 1.0)
    assert_allclose(gap, bound.gap, rtol=1e-11)


@pytest.mark.errata("S9")
@pytest.mark.paper("prop:error", "eq:error-decomposition")
def test_sampling_error__scales_with_the_largest_value():
    # From state 0 the chain falls into a state worth 0 or one worth 1/(1−γ) = 10, so one
    # sample errs by 5: more than the printed U, made for values of at most 1, can cover.
    gamma, gamma_prime, failure, num_samples, num_runs = 0.9, 0.99, 0.1, 200, 500
    P, r = np.array([[0, 0.5, 0.5], [0, 1, 0], [0, 0, 1]]), np.array([0.0, 0.0, 1.0])
    V, V_1 = tabular.value_terms(P, r, gamma, gamma_prime, 1).cumsum(axis=0)
    rng = np.random.default_rng(9)
    errors = [
        np.abs(
            tabular.phased_td_estimate(P, V, gamma, gamma_prime, 1, num_samples, rng) - V_1
        ).max()
        for _ in range(num_runs)
    ]
    printed = 1.9 * math.sqrt(2 * math.log(2 * 2 / failure) / num_samples)  # ε = 1 + c = 1.9
    ours = tabular.phased_td_bound(gamma, gamma_prime, 1, 0.0, num_samples, 3, failure, 1.0)
    # Standard error of either share: at most sqrt(.25/500) = 0.022.
    assert np.mean(np.array(errors) > printed) > failure + 3 * 0.022
    assert np.mean(np.array(errors) > ours.sampling) < failure


@pytest.mark.errata("S10")
@pytest.mark.paper("prop:error", "eq:value-error")
def test_contraction__multiplies_the_error_before_the_phase(chain):
    # Constant reward and values too low by 1 everywhere: one exact phase leaves γ, every
    # inequality is an equality, and there is nothing to sample.
    P, _ = chain
    order, ones = 2, np.ones(len(P))
    V = tabular.solve_value(P, ones, GAMMA)
    before = V - 1.0
    after = ones + GAMMA * P @ before
    estimate = tabular.phased_td_estimate(
        P, after, GAMMA, GAMMA_PRIME, order, 1, np.random.default_rng(0)
    )
    error = np.abs(tabular.solve_value(P, ones, GAMMA_PRIME) - estimate).max()
    bound = tabular.phased_td_bound(GAMMA, GAMMA_PRIME, order, GAMMA * 1.0, 1, len(P), 0.1, 1.0)
    assert error == pytest.approx(bound.gap + bound.base, rel=1e-10)
    printed = bound.gap + bound.growth * GAMMA * np.abs(V - after).max()
    assert error > printed + 0.4


@pytest.mark.errata("S11")
@pytest.mark.paper("prop:error")
def test_expansion__amplifies_a_base_error_and_need_not_contract(chain):
    # γ = .99, γ' = .999: δ = .009, c = .9.  Printed: (1 + .009)·.99 < 1.  True: 1.9·.99.
    P, r = chain
    gamma, gamma_prime = 0.99, 0.999
    V = tabular.solve_value(P, r, gamma)
    estimates = [
        tabular.phased_td_estimate(P, x, gamma, gamma_prime, 1, 1, np.random.default_rng(0))
        for x in (V, V + 1.0)
    ]
    assert_allclose(estimates[1] - estimates[0], 1.9, rtol=1e-9)
    assert (1 + (gamma_prime - gamma)) * gamma < 1
    for order, amplified in ((1, 1.881), (500, 9.9)):
        bound = tabular.phased_td_bound(gamma, gamma_prime, order, 0.0, 1, len(P), 0.1, 1.0)
        assert bound.growth * gamma == pytest.approx(amplified)
