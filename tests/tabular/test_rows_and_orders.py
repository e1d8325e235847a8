"""Rows that nearly sum to one, and orders without end: exact, or refused."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from gammaprime import tabular

HUGE = 10**9
ABSORBING = np.array([[0.9, 0.1], [0.0, 1.0]])


def short_rows(missing, kind=np.asarray):
    """A chain of three states that each row leaves with this probability, to nowhere."""
    P = np.array([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0], [0.1, 0.1, 0.8]]) * (1.0 - missing)
    return kind(P)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("short", [1e-7, 1e-9, 1e-12])
def test_rows_within_rounding__do_not_change_values(short, kind):
    """A reward of 1 is worth 1/(1−γ).  With rows 1e-14 short it was 1 % less at γ = 1 − 1e-12."""
    gamma = 1.0 - short
    value = tabular.solve_value(short_rows(1e-14, kind), np.ones(3), gamma)
    # The inverse of I − γP multiplies its rounding errors by 2/(1−γ).
    assert_allclose(value, 1.0 / (1.0 - gamma), rtol=max(1e-8, 4e-16 / short))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("gamma", [1 - 1e-7, 1 - 1e-9])
@pytest.mark.parametrize("missing", [-0.9e-8, 0.9e-8])
def test_rows_that_would_change_values__are_refused(gamma, missing, kind):
    P = short_rows(missing, kind)
    with pytest.raises(ValueError, match=r"P\[0\] sums to .*: must sum to 1 within .* at discount"):
        tabular.solve_value(P, np.ones(3), gamma)
    assert_allclose(tabular.solve_value(P, np.ones(3), 0.9), 10.0, rtol=1e-12)


def test_rows_at_discount_one__must_be_exact_to_rounding():
    steps = tabular.solve_value(ABSORBING * (1 - 1e-15), [1.0, 0.0], 1.0)
    assert_allclose(steps, [10.0, 0.0], rtol=1e-12)
    with pytest.raises(ValueError, match=r"at discount 1\.0"):
        tabular.solve_value(ABSORBING * (1 - 1e-10), [1.0, 0.0], 1.0)


def test_rows__are_measured_by_the_largest_discount_everywhere():
    P, gamma_prime, policy = short_rows(0.9e-8), 1 - 1e-9, np.ones((3, 1))
    mdp, calls = tabular.MDP(P[:, None], np.ones((3, 1))), (0.9, gamma_prime)
    for function, arguments in (
        (tabular.expand_value, (P, np.ones(3), *calls, 1)),
        (tabular.value_terms, (P, np.ones(3), *calls, 1)),
        (tabular.residual, (P, np.ones(3), *calls, 1)),
        (tabular.visitation, (P, 0, gamma_prime)),
        (tabular.expand_visitation, (P, 0, *calls, 1)),
        (tabular.mixture, (P, 0, *calls)),
        (tabular.expand_mixture, (P, 0, *calls, 1)),
        (tabular.solve_q, (mdp, policy, gamma_prime)),
        (tabular.expand_q, (mdp, policy, *calls, 1)),
        (tabular.policy_gradient, (mdp, policy, 0, gamma_prime)),
        (tabular.expand_partial, (mdp, policy, 0, *calls, 1)),
        (tabular.expand_gradient, (mdp, policy, 0, *calls, 1)),
        (tabular.second_partial, (mdp, policy, 0, *calls)),
    ):
        with pytest.raises(ValueError, match=r"P\[0\] sums to"):
            function(*arguments)


def test_policies__are_divided_by_their_sums():
    mdp = tabular.MDP(np.stack([ABSORBING, ABSORBING], axis=1), [[1.0, 1.0], [0.0, 0.0]])
    q = tabular.solve_q(mdp, np.full((2, 2), 0.5 + 4e-9), 1.0)
    assert_allclose(q, [[10.0, 10.0], [0.0, 0.0]], rtol=1e-12)


@pytest.mark.paper("prop:kth-expansion")
@pytest.mark.parametrize("order", [400, HUGE])
def test_orders_that_leave_out_less_than_a_rounding_error__are_order_infinity(order):
    P, r, mdp = ABSORBING, [1.0, 0.5], tabular.MDP(ABSORBING[:, None], [[1.0], [0.5]])
    logits, policy, pair = np.zeros((2, 1)), np.ones((2, 1)), (0.9, 0.99)
    for function, arguments in (
        (tabular.expand_value, (P, r)),
        (tabular.expand_q, (mdp, policy)),
        (tabular.expand_visitation, (P, 0)),
        (tabular.expand_mixture, (P, 0)),
        (tabular.expand_partial, (mdp, logits, 0)),
        (tabular.expand_gradient, (mdp, logits, 0)),
    ):
        exact = function(*arguments, *pair, math.inf)
        assert_allclose(function(*arguments, *pair, order), exact, rtol=1e-14)


def test_orders_without_end__are_refused_with_the_largest():
    """At γ' = 1 a chain may need any number of orders."""
    P, r, mdp = ABSORBING, [1.0, 0.0], tabular.MDP(ABSORBING[:, None], [[1.0], [0.0]])
    logits, policy, pair = np.zeros((2, 1)), np.ones((2, 1)), (0.9, 1.0)
    for function, arguments in (
        (tabular.expand_value, (P, r)),
        (tabular.residual, (P, r)),
        (tabular.expand_q, (mdp, policy)),
        (tabular.expand_mixture, (P, 0)),
        (tabular.expand_partial, (mdp, logits, 0)),
        (tabular.expand_gradient, (mdp, logits, 0)),
    ):
        with pytest.raises(ValueError, match="order=1000000000: must be at most 10000"):
            function(*arguments, *pair, HUGE)
    with pytest.raises(ValueError, match="order=1000000000: must be at most 1000, one term"):
        tabular.value_terms(P, r, *pair, HUGE)
    with pytest.raises(ValueError, match="order=1000000000: must be at most 1000, one term"):
        tabular.phased_td_estimate(P, r, *pair, HUGE, 1, np.random.default_rng(0))


def test_bounds__of_a_huge_order():
    assert tabular.error_bound(0.9, 0.99, HUGE, 1.0) == 0.0
