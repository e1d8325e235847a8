"""w_K(t) and f(K, t) against exact rationals, against chains, and at every edge."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gammaprime.estimators.weights import (
    effective_horizon,
    log_update_weights,
    update_weights,
    value_weights,
)

PAIRS = [(0.0, 0.3), (0.2, 0.8), (0.5, 0.5), (0.9, 0.99), (0.99, 0.999), (0.9, 1.0), (0.0, 1.0)]
ORDERS = [0, 1, 2, 7, 30, math.inf]


def exact_update_weight(t, gamma, gamma_prime, order):
    """Σ_{k ≤ min(K, t)} C(t, k) δᵏ γ^{t−k}, as printed, in rationals."""
    gamma, gamma_prime = Fraction(gamma), Fraction(gamma_prime)
    return sum(
        math.comb(t, k) * (gamma_prime - gamma) ** k * gamma ** (t - k)
        for k in range(int(min(order, t)) + 1)
    )


def exact_value_weight(t, gamma, gamma_prime, order):
    """Σ_{1 ≤ u ≤ min(K, t)} C(t−1, t−u) δᵘ γ^{t−u}, as printed, in rationals."""
    gamma, gamma_prime = Fraction(gamma), Fraction(gamma_prime)
    return sum(
        math.comb(t - 1, t - u) * (gamma_prime - gamma) ** u * gamma ** (t - u)
        for u in range(1, int(min(order, t)) + 1)
    )


def relative_error(value, exact):
    return float(abs(Fraction(float(value)) - exact) / exact) if exact else abs(float(value))


@st.composite
def discounts(draw):
    """0 ≤ γ ≤ γ' ≤ 1 and γ < 1, the ends and equality among them."""
    some = st.one_of(
        st.sampled_from([0.0, 1e-3, 0.5, 0.99, 1.0]),
        st.integers(0, 1000).map(lambda n: n / 1000),
        st.floats(1e-6, 1.0),
    )
    low, high = sorted((draw(some), draw(some)))
    return min(low, math.nextafter(1.0, 0.0)), high


steps = st.integers(0, 40)
orders = st.one_of(st.integers(0, 45), st.just(math.inf))


@pytest.mark.paper("eq:state-weight", "appendix:kweight")
@pytest.mark.errata("S2")
@given(t=steps, pair=discounts(), order=orders)
def test_update_weights__are_the_binomial_sum(t, pair, order):
    exact = exact_update_weight(t, *pair, order)
    assert relative_error(update_weights(t, *pair, order), exact) < 1e-13


@pytest.mark.paper("prop:kvalue")
@given(t=st.integers(1, 40), pair=discounts(), order=orders)
def test_value_weights__are_the_printed_sum(t, pair, order):
    exact = exact_value_weight(t, *pair, order)
    assert relative_error(value_weights(t, *pair, order), exact) < 1e-13


@given(t=steps, pair=discounts(), order=orders)
def test_log_update_weights__are_the_logarithm(t, pair, order):
    exact = exact_update_weight(t, *pair, order)
    log_weight = float(log_update_weights(t, *pair, order))
    if exact == 0:
        assert log_weight == -math.inf
    else:
        # log(n/d) as a difference of two logarithms, each of at most about 40 · 53 bits.
        expected = math.log(exact.numerator) - math.log(exact.denominator)
        assert abs(log_weight - expected) < 1e-12


@pytest.mark.paper("lemma:com1")
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_value_weights__grow_with_the_order_by_the_ways_to_place_the_jumps(order):
    gamma, gamma_prime = 0.8, 0.95
    for t in range(order, 9):
        # Compositions of the t − K steps without a jump into the K gaps before a jump.
        ways = sum(sum(gaps) == t - order for gaps in itertools.product(range(t + 1), repeat=order))
        assert ways == math.comb(t - order + order - 1, order - 1)
        pair = (t, gamma, gamma_prime)
        increment = value_weights(*pair, order) - value_weights(*pair, order - 1)
        assert math.isclose(
            increment, ways * (gamma_prime - gamma) ** order * gamma ** (t - order), rel_tol=1e-12
        )


@pytest.mark.paper("prop:kvalue")
@given(t=st.integers(1, 400), pair=discounts(), order=st.integers(1, 30))
def test_value_weights__are_delta_times_the_lower_order_a_step_earlier(t, pair, order):
    gamma, gamma_prime = pair
    expected = (gamma_prime - gamma) * update_weights(t - 1, gamma, gamma_prime, order - 1)
    assert value_weights(t, gamma, gamma_prime, order) == expected


@pytest.mark.paper("eq:state-weight", "prop:kvalue")
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("order", ORDERS)
def test_update_weights__are_the_rewards_collected_by_weighted_base_values(pair, order):
    """w_K(t) = γ^t + Σ_{s=1}^t f(K, s) γ^{t−s}."""
    gamma, t = pair[0], np.arange(200)
    powers = gamma**t
    through_values = powers + np.convolve(value_weights(t, *pair, order), powers)[: t.size]
    np.testing.assert_allclose(update_weights(t, *pair, order), through_values, rtol=1e-12)


@pytest.mark.parametrize("pair", PAIRS)
def test_update_weights__obey_pascals_recursion(pair):
    """w_K(t+1) = γ w_K(t) + δ w_{K−1}(t)."""
    gamma, gamma_prime = pair
    t = np.arange(300)
    curves = [np.zeros(t.size), *(update_weights(t, *pair, order) for order in range(12))]
    for lower, curve in itertools.pairwise(curves):
        step_back = gamma * curve[:-1] + (gamma_prime - gamma) * lower[:-1]
        np.testing.assert_allclose(curve[1:], step_back, rtol=1e-12)


@given(t=st.integers(0, 30), u=st.integers(0, 300), pair=discounts(), order=st.integers(0, 12))
def test_update_weights__split_a_path_at_any_time(t, u, pair, order):
    """w_K(t+u) = Σ_{j ≤ min(K, t)} C(t, j) δʲ γ^{t−j} w_{K−j}(u)."""
    gamma, gamma_prime = pair
    parts = [
        math.comb(t, j)
        * (gamma_prime - gamma) ** j
        * gamma ** (t - j)
        * update_weights(u, *pair, order - j)
        for j in range(min(order, t) + 1)
    ]
    whole = update_weights(t + u, *pair, order)
    assert math.isclose(whole, math.fsum(parts), rel_tol=1e-12, abs_tol=1e-300)


@pytest.mark.paper("eq:state-weight")
@given(t=st.integers(0, 3000), pair=discounts(), order=st.integers(0, 40))
def test_update_weights__rise_with_the_order_from_gamma_to_gamma_prime(t, pair, order):
    gamma, gamma_prime = pair
    low, lower, upper, high = (
        update_weights(t, gamma, gamma_prime, k) for k in (0, order, order + 1, math.inf)
    )
    slack = 1 + 1e-12
    assert low <= lower * slack <= upper * slack**2
    assert upper <= high


@pytest.mark.paper("eq:state-weight", "prop:kvalue")
@pytest.mark.parametrize("order", [0, 1, 4, math.inf])
def test_weights__carry_rewards_and_base_values_to_v_k(order, rng):
    """V_K = Σ_k (δ(I−γP)⁻¹P)ᵏ V_γ = Σ_t w_K(t) Pᵗ r = V_γ + Σ_t f(K, t) Pᵗ V_γ."""
    gamma, gamma_prime, steps = 0.6, 0.85, np.arange(400)
    chain, reward = rng.dirichlet(np.ones(5), size=5), rng.normal(size=5)
    base = np.linalg.solve(np.eye(5) - gamma * chain, reward)
    taylor = (gamma_prime - gamma) * np.linalg.solve(np.eye(5) - gamma * chain, chain)
    powers = [np.linalg.matrix_power(taylor, k) for k in range(int(min(order, 200)) + 1)]
    expanded = sum(powers) @ base
    ahead = np.stack([np.linalg.matrix_power(chain, t) for t in steps])
    by_rewards = np.einsum(
        "t,txy,y->x", update_weights(steps, gamma, gamma_prime, order), ahead, reward
    )
    by_values = base + np.einsum(
        "t,txy,y->x", value_weights(steps, gamma, gamma_prime, order), ahead, base
    )
    np.testing.assert_allclose(by_rewards, expanded, rtol=1e-12)
    np.testing.assert_allclose(by_values, expanded, rtol=1e-12)


@pytest.mark.paper("eq:state-weight", "x:effective-horizon")
@pytest.mark.parametrize("pair", [(0.0, 0.3), (0.2, 0.8), (0.5, 0.5), (0.9, 0.99), (0.9, 1.0)])
@pytest.mark.parametrize("order", [0, 1, 5, 40])
def test_effective_horizon__is_the_sum_of_the_weights(pair, order):
    gamma, gamma_prime = pair
    t = np.arange(20_000)
    weight = update_weights(t, *pair, order)
    # Past the last step n, w_K(n+u) ≤ w_K(n) · w_K(u): a path with at most K jumps has at most
    # K of them on either side.  So what is left out is at most w_K(n) of the whole.
    assert weight[-1] < 1e-100
    assert math.isclose(effective_horizon(*pair, order), math.fsum(weight), rel_tol=1e-12)
    ratio = (Fraction(gamma_prime) - Fraction(gamma)) / (1 - Fraction(gamma))
    exact = sum(ratio**k for k in range(order + 1)) / (1 - Fraction(gamma))
    assert relative_error(effective_horizon(*pair, order), exact) < 1e-14


def test_effective_horizon__limits():
    assert effective_horizon(0.99, 1.0, 9) == 10 / (1 - 0.99)
    assert effective_horizon(0.9, 0.99, math.inf) == 1 / (1 - 0.99)
    assert effective_horizon(0.9, 1.0, math.inf) == math.inf
    assert effective_horizon(0.9, 0.9, math.inf) == effective_horizon(0.9, 0.95, 0) == 1 / (1 - 0.9)
    # 1 − c = 3e-15: every power of c up to K = 1000 is 1 but for 3e-12.
    near_one = effective_horizon(0.7, 1 - 2.0**-50, 1000)
    assert math.isclose(near_one, 1001 / (1 - 0.7), rel_tol=1e-11)
    assert effective_horizon(0.0, 1e-17, 3) == 1.0


def assert_same(actual, expected):
    np.testing.assert_array_equal(actual, expected, strict=True)


@pytest.mark.paper("eq:state-weight")
@pytest.mark.parametrize("pair", PAIRS)
def test_weights__are_exact_at_the_edges(pair):
    gamma, gamma_prime = pair
    t = np.arange(2000)
    base, target = gamma**t, gamma_prime**t
    assert_same(update_weights(t, *pair, 0), base)
    assert_same(value_weights(t, *pair, 0), np.zeros(t.size))
    for order in (5, 1999, 10**400, math.inf):
        early = t <= order
        assert_same(update_weights(t, *pair, order)[early], target[early])
    assert_same(update_weights(t, *pair, math.inf), target)
    assert_same(value_weights(t, *pair, math.inf)[1:], (gamma_prime - gamma) * target[:-1])
    assert value_weights(0, *pair, 3) == 0.0
    assert update_weights(0, *pair, 3) == 1.0
    assert log_update_weights(0, *pair, 3) == 0.0


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.99])
@pytest.mark.parametrize("order", ORDERS)
def test_weights__of_equal_discounts_are_the_base(gamma, order):
    t = np.arange(2000)
    assert_same(update_weights(t, gamma, gamma, order), gamma**t)
    assert_same(value_weights(t, gamma, gamma, order), np.zeros(t.size))


@pytest.mark.parametrize("gamma_prime", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("order", ORDERS)
def test_weights__of_a_myopic_base_stop_after_the_order(gamma_prime, order):
    t = np.arange(50)
    weight = np.where(t <= order, gamma_prime**t, 0.0)
    assert_same(update_weights(t, 0.0, gamma_prime, order), weight)
    log_weight = log_update_weights(t, 0.0, gamma_prime, order)
    assert_same(log_weight == -np.inf, weight == 0.0)
    np.testing.assert_allclose(np.exp(log_weight), weight, rtol=1e-13)


def test_update_weights__undiscounted_target_is_the_binomial_distribution():
    """At γ' = 1, w_1(t) = P[Bin(t, 1−γ) ≤ 1] = γ^t + t(1−γ)γ^{t−1}."""
    t, gamma = np.arange(1, 5000), 0.99
    by_hand = gamma**t + t * (1 - gamma) * gamma ** (t - 1.0)
    np.testing.assert_allclose(update_weights(t, gamma, 1.0, 1), by_hand, rtol=1e-12)
    assert_same(update_weights(t, gamma, 1.0, math.inf), np.ones(t.size))


@pytest.mark.errata("S2")
def test_update_weights__are_not_the_value_weights_of_the_appendix():
    for order in (1, 10, math.inf):
        assert update_weights(1, 0.99, 0.999, order) == 0.999
        assert math.isclose(value_weights(1, 0.99, 0.999, order), 0.009, rel_tol=1e-12)


@pytest.mark.errata("S3")
def test_update_weights__a_clock_that_starts_at_one_is_no_rescaling():
    t = np.arange(5000)
    for order in (0, 1, 10, math.inf):
        weight = update_weights(t, 0.99, 0.999, order)
        spread = np.ptp(update_weights(t + 1, 0.99, 0.999, order) / weight)
        if order in (0, math.inf):
            assert spread < 1e-12
        else:
            # From γ' while t < K towards γ once the jumps are used up.
            assert 0.5 * 0.009 < spread < 0.009


@pytest.mark.errata("S20")
def test_update_weights__order_100_is_the_limit_and_the_limit_is_not_one():
    t = np.arange(1001)
    limit = update_weights(t, 0.99, 0.999, math.inf)
    assert_same(update_weights(t, 0.99, 0.999, 100), limit)
    assert round(float(limit[1000]), 3) == 0.368
    assert round(float(update_weights(1000, 0.99, 0.999, 10) / limit[1000]), 1) == 0.7
    # 1 − w_100(t)/γ'^t depends on γ/γ' alone, so it may be read off at γ' = 1.
    gap = -float(log_update_weights(1000, 0.99 / 0.999, 1.0, 100))
    # Pascal's recursion in whole numbers: 1000^t w_0(t), ..., 1000^t w_100(t) up to t = 1000.
    curve = [1] * 101
    for _ in range(1000):
        curve = [990 * same + 9 * lower for same, lower in zip(curve, [0, *curve], strict=False)]
    exact = 1 - Fraction(curve[100], 999**1000)
    assert math.isclose(gap, float(exact), rel_tol=1e-9)
    assert gap < 5e-70
