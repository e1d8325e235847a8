"""Visitations d_K and mixture weights ρ_K: appendix B, lemma 1 of section 4, appendix D."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal

from gammaprime import tabular
from oracles import (
    steps_until_negligible,
    update_weight_curve,
    value_weight_curve,
    weighted_sum,
)

PAIRS = [(0.0, 0.7), (0.3, 0.3), (0.3, 0.8), (0.8, 0.95)]
ORDERS = [0, 1, 2, 7, math.inf]


def ratio(gamma, gamma_prime):
    return (gamma_prime - gamma) / (1 - gamma)


@pytest.fixture(params=["state", "distribution"])
def start(request, ergodic, rng):
    num_states = len(ergodic[1])
    return 3 if request.param == "state" else rng.dirichlet(np.ones(num_states))


def as_vector(start, num_states):
    return np.eye(num_states)[start] if np.ndim(start) == 0 else start


@pytest.mark.paper("eq:visitation-value")
@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.95])
def test_visitation__is_the_discounted_sum_of_occupancies(ergodic, kind, start, gamma):
    P, r = ergodic
    d = tabular.visitation(kind(P), start, gamma)
    weights = (1 - gamma) * gamma ** np.arange(steps_until_negligible(gamma))
    assert_allclose(d, weighted_sum(P.T, as_vector(start, len(r)), weights), atol=1e-13)
    assert d.sum() == pytest.approx(1.0, abs=1e-12)
    value = as_vector(start, len(r)) @ tabular.solve_value(P, r, gamma)
    assert d @ r / (1 - gamma) == pytest.approx(value, rel=1e-11)


@pytest.mark.paper("eq:k-expansion", "eq:expansion", "prop:taylor-expansion-dual")
@pytest.mark.parametrize(("gamma", "gamma_prime"), PAIRS)
@pytest.mark.parametrize("order", ORDERS)
def test_expand_visitation__is_occupancy_weighted_by_w_k(
    ergodic, kind, start, gamma, gamma_prime, order
):
    P, r = ergodic
    d_K = tabular.expand_visitation(kind(P), start, gamma, gamma_prime, order)
    curve = update_weight_curve(steps_until_negligible(gamma_prime), gamma, gamma_prime, order)
    oracle = weighted_sum(P.T, as_vector(start, len(r)), (1 - gamma_prime) * curve)
    assert_allclose(d_K, oracle, atol=1e-12)
    mass = 1.0 if math.isinf(order) else 1 - ratio(gamma, gamma_prime) ** (order + 1)
    assert d_K.sum() == pytest.approx(mass, abs=1e-12)


@pytest.mark.paper("prop:dual", "eq:primal-dual")
@pytest.mark.parametrize("order", ORDERS)
def test_expand_visitation__is_dual_to_the_expanded_value(ergodic, kind, start, order):
    P, r = ergodic
    d_K = tabular.expand_visitation(kind(P), start, 0.8, 0.95, order)
    V_K = as_vector(start, len(r)) @ tabular.expand_value(P, r, 0.8, 0.95, order)
    assert d_K @ r / (1 - 0.95) == pytest.approx(V_K, rel=1e-10)


@pytest.mark.paper("prop:taylor-expansion-dual", "eq:fundamental-taylor-dual")
@pytest.mark.errata("P12")
@pytest.mark.parametrize("order", [0, 1, 4])
def test_expand_visitation__lacks_the_dual_residual_of_exponent_k_plus_one(ergodic, order):
    P, r = ergodic
    gamma, gamma_prime = 0.8, 0.95
    target = tabular.visitation(P, 1, gamma_prime)
    lacks = target - tabular.expand_visitation(P, 1, gamma, gamma_prime, order)
    M = (gamma_prime - gamma) * np.linalg.inv(np.eye(len(r)) - gamma * P) @ P
    assert_allclose(lacks, np.linalg.matrix_power(M.T, order + 1) @ target, atol=1e-13)
    assert lacks.sum() == pytest.approx(ratio(gamma, gamma_prime) ** (order + 1), rel=1e-10)


@pytest.mark.paper("lemma:value-mixture", "eq:undiscounted-rewards")
@pytest.mark.parametrize(("gamma", "gamma_prime"), PAIRS)
def test_mixture__turns_base_values_into_target_values(ergodic, kind, start, gamma, gamma_prime):
    P, r = ergodic
    rho = tabular.mixture(kind(P), start, gamma, gamma_prime)
    e = as_vector(start, len(r))
    times = np.arange(1, steps_until_negligible(gamma_prime))
    weights = np.concatenate([[1.0], (gamma_prime - gamma) * gamma_prime ** (times - 1)])
    assert_allclose(rho, weighted_sum(P.T, e, weights), atol=1e-12)
    assert rho @ tabular.solve_value(P, r, gamma) == pytest.approx(
        e @ tabular.solve_value(P, r, gamma_prime), rel=1e-10
    )
    assert rho.sum() == pytest.approx((1 - gamma) / (1 - gamma_prime), rel=1e-11)


@pytest.mark.paper("pro:rho")
@pytest.mark.parametrize(("gamma", "gamma_prime"), PAIRS)
@pytest.mark.parametrize("order", ORDERS)
def test_expand_mixture__turns_base_values_into_expanded_values(
    ergodic, kind, start, gamma, gamma_prime, order
):
    P, r = ergodic
    rho_K = tabular.expand_mixture(kind(P), start, gamma, gamma_prime, order)
    V_K = tabular.expand_value(P, r, gamma, gamma_prime, order)
    value = rho_K @ tabular.solve_value(P, r, gamma)
    assert value == pytest.approx(as_vector(start, len(r)) @ V_K, rel=1e-10)


@pytest.mark.paper("prop:kvalue", "lemma:com2")
@pytest.mark.parametrize(("gamma", "gamma_prime"), PAIRS)
@pytest.mark.parametrize("order", [0, 1, 2, 5])
def test_expand_mixture__weighs_states_by_f(ergodic, gamma, gamma_prime, order):
    P, _ = ergodic
    num_steps = steps_until_negligible(gamma_prime)
    f = value_weight_curve(num_steps, gamma, gamma_prime, order)
    oracle = weighted_sum(P.T, np.eye(len(P))[2], np.concatenate([[1.0], f]))
    assert_allclose(tabular.expand_mixture(P, 2, gamma, gamma_prime, order), oracle, atol=1e-12)


@pytest.mark.paper("lemma:com2")
@pytest.mark.errata("P15")
@pytest.mark.parametrize("order", [0, 1, 4])
def test_value_increment__counts_paths_by_stars_and_bars(ergodic, order):
    # V_{K+1} − V_K = δ^{K+1} Σ_t F(t, K+1) (γP)^t P^{K+1} V_γ, F(n, k) = C(n+k−1, k−1); the
    # printed series has P^t for (γP)^t and diverges.
    P, r = ergodic
    gamma, gamma_prime = 0.6, 0.9
    counts = [math.comb(t + order, order) * gamma**t for t in range(250)]
    head = np.linalg.matrix_power(P, order + 1) @ tabular.solve_value(P, r, gamma)
    increment = (gamma_prime - gamma) ** (order + 1) * weighted_sum(P, head, counts)
    terms = tabular.value_terms(P, r, gamma, gamma_prime, order + 1)
    assert_allclose(terms[-1], increment, atol=1e-12)


@pytest.mark.paper("lemma:com1")
@pytest.mark.parametrize(("n", "k"), [(0, 1), (3, 1), (4, 2), (5, 3), (6, 4)])
def test_stars_and_bars__counts_the_vectors(n, k):
    vectors = [v for v in np.ndindex(*(n + 1,) * k) if sum(v) == n]
    assert len(vectors) == math.comb(n + k - 1, k - 1)


@pytest.mark.paper("pro:rho")
@pytest.mark.errata("P10")
@given(
    seed=st.integers(0, 10_000),
    gamma=st.floats(0.0, 0.9),
    share=st.floats(0.0, 0.95),
    order=st.integers(0, 8),
)
def test_expand_mixture__misses_a_known_mass(seed, gamma, share, order):
    gamma_prime = gamma + share * (1 - gamma)
    P = np.random.default_rng(seed).dirichlet(np.full(5, 0.3), size=5)
    rho = tabular.mixture(P, 0, gamma, gamma_prime)
    rho_K = tabular.expand_mixture(P, 0, gamma, gamma_prime, order)
    c = ratio(gamma, gamma_prime)
    assert rho_K.min() >= 0
    assert rho_K.sum() == pytest.approx(sum(c**k for k in range(order + 1)), rel=1e-9)
    distance = c ** (order + 1) * (1 - gamma) / (1 - gamma_prime)
    assert np.abs(rho - rho_K).sum() == pytest.approx(distance, rel=1e-7, abs=1e-12)


# γ' = 1.


@pytest.mark.paper("x:rho-at-one", "eq:undiscounted-rewards")
@pytest.mark.parametrize("order", [0, 1, 3, math.inf])
def test_expand_mixture__at_one_lives_on_transient_states(absorbing, kind, order):
    P, r = absorbing
    gamma, num_steps = 0.8, 800
    rho_K = tabular.expand_mixture(kind(P), 0, gamma, 1.0, order)
    if math.isinf(order):
        weights = np.concatenate([[1.0], np.full(num_steps, 1 - gamma)])
    else:
        weights = np.concatenate([[1.0], value_weight_curve(num_steps, gamma, 1.0, order)])
    oracle = weighted_sum(P.T, np.eye(len(r))[0], weights)
    assert_array_equal(rho_K[-2:], 0.0)
    assert_allclose(rho_K[:-2], oracle[:-2], atol=1e-12)
    value = rho_K @ tabular.solve_value(P, r, gamma)
    assert value == pytest.approx(tabular.expand_value(P, r, gamma, 1.0, order)[0], rel=1e-10)


def test_mixture__is_the_expansion_of_order_infinity(ergodic):
    P, _ = ergodic
    near = tabular.expand_mixture(P, 1, 0.8, 0.95, 400)
    assert_allclose(tabular.mixture(P, 1, 0.8, 0.95), near, rtol=1e-11)
