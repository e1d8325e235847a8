"""Algorithm 1: unbiased with times on {1, 2, …}, and never better than its marginal."""

import math

import numpy as np
import pytest

from gammaprime import estimators, tabular
from oracles import sample_paths

GAMMA, GAMMA_PRIME, STEPS, PATHS = 0.6, 0.9, 100, 20_000


def estimates(P, base, order, rng):
    """Random-time and marginalised estimates at row 0 of the same sampled paths."""
    states = sample_paths(P, 0, STEPS, PATHS, rng)
    flags = np.zeros((STEPS, PATHS), dtype=bool)
    ends = (base[states[1:]], flags, flags)
    jumps = estimators.sample_jumps(order, (STEPS, PATHS), GAMMA, rng)
    random = estimators.expand_random(base[states[:-1]], *ends, GAMMA, GAMMA_PRIME, jumps)[0]
    marginal = estimators.expand(base[states[:-1]], *ends, GAMMA, GAMMA_PRIME, order)[0]
    return random, marginal


def moments(P, V, order):
    """Mean and variance of Algorithm 1 with exact base values, by recursion over orders.

    m1 ← V + c J m1,  m2 ← V² + 2cV∘(J m1) + c² J m2, J the law after one random time.
    """
    c = (GAMMA_PRIME - GAMMA) / (1 - GAMMA)
    J = (1 - GAMMA) * np.linalg.inv(np.eye(len(V)) - GAMMA * P) @ P
    first, second = V, V**2
    for _ in range(order):
        first, second = V + c * J @ first, V**2 + 2 * c * V * (J @ first) + c**2 * J @ second
    return first, second - first**2


@pytest.mark.paper("algo:estimate", "eq:kth-order-primal")
@pytest.mark.parametrize("order", [0, 1, 4])
def test_expand_random__has_the_exact_mean_and_variance(ongoing, rng, order):
    P, r = ongoing
    V = tabular.solve_value(P, r, GAMMA)
    random, marginal = estimates(P, V, order, rng)
    mean, variance = moments(P, V, order)
    assert mean[0] == pytest.approx(tabular.expand_value(P, r, GAMMA, GAMMA_PRIME, order)[0])
    error = math.sqrt(variance[0] / PATHS)
    assert abs(random.mean() - mean[0]) <= 4 * error + 1e-12
    assert abs(marginal.mean() - mean[0]) <= 4 * error + 1e-12
    # The standard error of a sample variance of n draws is about variance·sqrt(2/n)·(kurtosis).
    assert random.var() == pytest.approx(variance[0], rel=0.05, abs=1e-12)
    assert marginal.var() <= random.var()
