"""Weights against mpmath: 1e-11 wherever w is a normal float, and log w everywhere."""

import itertools
import math
import sys

import mpmath
import numpy as np
import pytest

from gammaprime.estimators.weights import log_update_weights, update_weights, value_weights

TOLERANCE = 1e-11
LARGEST_STEP = 10**6


def reference(t, gamma, gamma_prime, order):
    """w_K(t) and its logarithm, in 60 digits, from the binomial terms around K.

    The terms fall from k = K downwards where K is below the mean, and from k = K + 1 upwards
    where it is not; each sum stops at a term that adds nothing to 40 digits.
    """
    low, high = mpmath.mpf(gamma), mpmath.mpf(gamma_prime)
    if t == 0:
        return mpmath.mpf(1), mpmath.mpf(0)
    if order >= t or low == high:
        return high**t, (t * mpmath.log(high) if high else -mpmath.inf)
    if low == 0:
        return mpmath.mpf(0), -mpmath.inf
    odds = (high - low) / low
    log_target = t * mpmath.log(high)
    below = order < t * (high - low) / high
    k = order if below else order + 1
    term = mpmath.binomial(t, k) * ((high - low) / high) ** k * (low / high) ** (t - k)
    tail = mpmath.mpf(0)
    while 0 <= k <= t and term > tail * mpmath.mpf(10) ** -40:
        tail += term
        term *= k / ((t - k + 1) * odds) if below else (t - k) * odds / (k + 1)
        k += -1 if below else 1
    log_tail = mpmath.log(tail) if below else mpmath.log1p(-tail)
    return mpmath.exp(log_target) * (tail if below else 1 - tail), log_target + log_tail


def hard_steps(gamma, gamma_prime, order):
    """Both sides of t = K, powers of ten, and −8 to 40 deviations around the mean t = K/p."""
    steps = {0, 1, order - 1, order, order + 1, order + 2, 2 * order, 10**3, 10**4, 10**5, 10**6}
    if gamma < gamma_prime:
        jump = (gamma_prime - gamma) / gamma_prime
        for deviations in (-8, -3, -1, -0.1, 0, 0.1, 1, 3, 8, 20, 32, 40):
            steps.add(int(min((order + deviations * math.sqrt(order)) / jump, LARGEST_STEP)))
    return np.array(sorted(t for t in steps if 0 <= t <= LARGEST_STEP))


def hard_pairs(bases):
    for gamma in bases:
        above = {math.nextafter(gamma, 1.0) if gamma else 1e-12, gamma + (1 - gamma) * 1e-6}
        between = {gamma + (1 - gamma) * 0.1, 0.8, 0.999, 1 - 1e-6, 1.0, gamma}
        for gamma_prime in sorted(g for g in above | between if g >= gamma):
            yield gamma, gamma_prime


def relative(value, exact):
    return abs(mpmath.mpf(float(value)) - exact) / abs(exact)


def check(steps, gamma, gamma_prime, order):
    case = (gamma, gamma_prime, order)
    delta = mpmath.mpf(gamma_prime) - mpmath.mpf(gamma)
    weights = update_weights(steps, *case)
    values = value_weights(steps + 1, gamma, gamma_prime, order + 1)
    for t, weight, value, log_weight in zip(
        steps.tolist(), weights, values, log_update_weights(steps, *case), strict=True
    ):
        exact, log_exact = reference(t, *case)
        for number, truth in ((weight, exact), (value, delta * exact)):
            if truth > sys.float_info.min:
                assert relative(number, truth) < TOLERANCE, (t, case)
            else:
                assert 0 <= number < 1.01 * sys.float_info.min, (t, case)
        if mpmath.isinf(log_exact):
            assert log_weight == -math.inf, (t, case)
        else:
            # Below 1e-200 a logarithm has no digits that could matter.
            error = abs(mpmath.mpf(float(log_weight)) - log_exact)
            assert error < max(TOLERANCE * abs(log_exact), mpmath.mpf("1e-200")), (t, case)


@pytest.fixture(autouse=True)
def sixty_digits():
    with mpmath.workdps(60), np.errstate(all="raise"):
        yield


@pytest.mark.paper("eq:state-weight", "prop:kvalue")
@pytest.mark.parametrize("order", [0, 1, 10, 100, 1000, 10_000])
def test_weights__agree_with_mpmath(order):
    for gamma, gamma_prime in hard_pairs([0.0, 1e-12, 0.2, 0.99, 0.999]):
        check(hard_steps(gamma, gamma_prime, order), gamma, gamma_prime, order)


@pytest.mark.slow
@pytest.mark.parametrize("order", [0, 1, 2, 5, 10, 38, 39, 40, 100, 1000, 10_000])
def test_weights__agree_with_mpmath_on_the_whole_grid(order):
    for gamma, gamma_prime in hard_pairs([0.0, 1e-300, 1e-12, 1e-3, 0.2, 0.5, 0.9, 0.99, 0.999]):
        check(hard_steps(gamma, gamma_prime, order), gamma, gamma_prime, order)


@pytest.mark.slow
def test_weights__agree_with_mpmath_at_random(rng):
    for _ in range(8_000):
        gamma = float(
            rng.choice([rng.random(), 1 - 10 ** rng.uniform(-8, 0), 10 ** rng.uniform(-40, 0)])
        )
        gap = (1 - gamma) * float(rng.choice([1.0, rng.random(), 10 ** rng.uniform(-12, 0)]))
        gamma_prime, order = min(gamma + gap, 1.0), int(10 ** rng.uniform(0, 4))
        jump = max((gamma_prime - gamma) / gamma_prime, 1e-9)
        around = (order + abs(rng.normal(0, 20)) * math.sqrt(order)) / jump
        t = int(
            min(rng.choice([10 ** rng.uniform(0, 6), order + 10 ** rng.uniform(0, 3), around]), 1e6)
        )
        check(np.array([t]), gamma, gamma_prime, order)


def test_log_update_weights__keep_ratios_where_the_weights_underflow():
    t = np.arange(10**6 - 100, 10**6 + 1)
    assert not update_weights(t, 0.9, 0.99, 10).any()
    log_weight = log_update_weights(t, 0.9, 0.99, 10)
    ratio = np.exp(log_weight - log_weight.max())
    _, first = reference(int(t[0]), 0.9, 0.99, 10)
    for s, r in itertools.islice(zip(t.tolist(), ratio, strict=True), 0, None, 20):
        exact = mpmath.exp(reference(s, 0.9, 0.99, 10)[1] - first)
        # The logarithms are near −1e5, whose last digit is 1.5e-11.
        assert relative(r, exact) < 1e-9


def test_weights__where_the_incomplete_beta_function_underflows_early():
    """P[Bin(n, q) ≥ a] with q^a below the smallest float, although the sum over C(n, a) is not."""
    for t, gamma, order in ((866, 0.4175, 23), (860, 0.43, 35), (10_000, 0.93, 39)):
        weight = update_weights(t, gamma, 1.0, order)
        exact, log_exact = reference(t, gamma, 1.0, order)
        assert exact > sys.float_info.min
        assert gamma ** (t - order) < 1e-300
        assert relative(weight, exact) < TOLERANCE
        assert relative(log_update_weights(t, gamma, 1.0, order), log_exact) < TOLERANCE
