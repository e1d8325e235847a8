"""Lines of proofs that fail as printed, and hold as corrected: the P rows of docs/errata.md."""

import math

import numpy as np
import pytest
from numpy.linalg import inv, matrix_power, norm
from numpy.testing import assert_allclose

from gammaprime import tabular
from oracles import brute_value, softmax, value_weight_curve, weighted_sum

GAMMA, GAMMA_PRIME = 0.7, 0.9
DELTA = GAMMA_PRIME - GAMMA
RATIO = DELTA / (1 - GAMMA)
START = 0


@pytest.fixture
def exact(ergodic):
    """(P, r, R, M): the chain, (I−γP)⁻¹ and M = (γ'−γ)(I−γP)⁻¹P."""
    P, r = ergodic
    R = inv(np.eye(len(P)) - GAMMA * P)
    return P, r, R, DELTA * R @ P


def geometric(M, order):
    """Σ_{k≤K} M^k."""
    return sum(matrix_power(M, k) for k in range(order + 1))


def target_resolvent(P):
    return inv(np.eye(len(P)) - GAMMA_PRIME * P)


@pytest.mark.errata("P1")
@pytest.mark.paper("prop:kth-expansion")
def test_norms__are_attained_so_no_bound_is_strict(exact):
    P, _, R, M = exact
    assert norm(P, np.inf) == pytest.approx(1.0)
    assert norm(R, np.inf) == pytest.approx(1 / (1 - GAMMA))
    assert norm(M, np.inf) == pytest.approx(RATIO)
    for order in (0, 3):
        gap = tabular.residual(P, np.ones(len(P)), GAMMA, GAMMA_PRIME, order).max()
        assert gap == pytest.approx(tabular.error_bound(GAMMA, GAMMA_PRIME, order, 1.0))


@pytest.mark.errata("P3")
@pytest.mark.paper("lemma:1")
def test_visits_before_absorption__are_the_inverse_and_not_the_matrix(absorbing):
    P, _ = absorbing
    inner = P[:-2, :-2]
    visits = geometric(inner, 600)
    assert_allclose(visits, inv(np.eye(4) - inner), atol=1e-12)
    assert np.abs(visits - (np.eye(4) - inner)).max() > 0.1
    # Visits to a state: a reward of 1 there and nowhere else, undiscounted.
    for y in range(4):
        assert_allclose(visits[:, y], tabular.solve_value(P, np.eye(6)[y], 1.0)[:4], atol=1e-12)


@pytest.mark.errata("P6")
@pytest.mark.paper("lemma:4", "x:rate-at-one")
def test_residual_at_one__vanishes_for_high_orders_and_not_for_low(absorbing):
    P, r = absorbing
    r = np.abs(r)
    gaps = [tabular.residual(P, r, GAMMA, 1.0, order).max() for order in (0, 20, 21, 60)]
    assert gaps[0] > 0.2 * tabular.solve_value(P, r, 1.0).max()
    assert gaps[3] < 1e-9 * gaps[0]
    inner = np.linalg.eigvals(P[:-2, :-2])
    rate = np.abs((1 - GAMMA) * inner / (1 - GAMMA * inner)).max()
    assert gaps[2] / gaps[1] == pytest.approx(rate, rel=1e-3)


@pytest.mark.errata("P7")
@pytest.mark.paper("lemma:value-mixture")
def test_mixture_proof__sums_from_order_zero(exact):
    P, _, R, M = exact
    true = target_resolvent(P)
    ours = R + DELTA * geometric(M, 200) @ R @ P @ R
    printed = ours - DELTA * R @ P @ R
    assert_allclose(ours, true, atol=1e-11)
    assert norm(printed - true, np.inf) > 0.2 * norm(true, np.inf)


@pytest.mark.errata("P9")
@pytest.mark.paper("prop:partial-grad")
def test_partial_gradient_proof__needs_the_base_resolvent(mdp, logits):
    pi = softmax(logits)
    P, _ = tabular.chain(mdp, pi)
    Q = tabular.solve_q(mdp, pi, GAMMA)
    x, a = 1, 2  # the logit θ; G is the local gradient of every state with respect to it
    G = np.eye(5)[x] * pi[x, a] * (Q[x, a] - pi[x] @ Q[x])
    printed = (np.eye(5) - GAMMA * P) @ target_resolvent(P) @ G
    ours = [tabular.first_partial(mdp, logits, y, GAMMA, GAMMA_PRIME)[x, a] for y in range(5)]
    assert_allclose(ours, target_resolvent(P) @ G, atol=1e-12)
    assert np.abs(printed - ours).max() > 0.2 * np.abs(ours).max()


@pytest.mark.errata("P10")
@pytest.mark.paper("pro:rho")
def test_mixture_error__is_bounded_in_the_one_norm_and_not_the_other():
    # A funnel: six states that all lead to the first, so the column of that state sums to 6.
    P = np.zeros((6, 6))
    P[:, 0] = 1.0
    order = 1
    M = DELTA * inv(np.eye(6) - GAMMA * P) @ P
    rest = (inv(np.eye(6) - M) - geometric(M, order)).T @ inv(np.eye(6) - GAMMA * P).T
    printed = RATIO ** (order + 1) / (1 - GAMMA_PRIME)
    assert norm(rest, np.inf) > 5 * printed
    assert norm(rest, 1) == pytest.approx(printed)
    rho, rho_K = (tabular.expand_mixture(P, 3, GAMMA, GAMMA_PRIME, k) for k in (math.inf, order))
    assert np.abs(rho - rho_K).sum() == pytest.approx((1 - GAMMA) * printed)


@pytest.mark.errata("P11", "P13")
@pytest.mark.paper("eq:k-expansion", "eq:visitation-value")
def test_visitation__needs_the_transpose(exact):
    P, _, R, M = exact
    e = np.eye(len(P))[START]
    ours = tabular.visitation(P, START, GAMMA)
    assert_allclose(ours, (1 - GAMMA) * R.T @ e, atol=1e-12)
    assert abs(((1 - GAMMA) * R @ e).sum() - 1.0) > 0.05

    order, share = 2, (1 - GAMMA_PRIME) / (1 - GAMMA)
    ours_K = tabular.expand_visitation(P, START, GAMMA, GAMMA_PRIME, order)
    assert_allclose(ours_K, share * geometric(M, order).T @ ours, atol=1e-12)
    assert ours_K.sum() == pytest.approx(1 - RATIO ** (order + 1))
    printed = share * geometric(M, order) @ ours
    assert np.abs(printed - ours_K).sum() > 0.05


@pytest.mark.errata("P12")
@pytest.mark.paper("prop:taylor-expansion-dual", "eq:fundamental-taylor-dual")
@pytest.mark.parametrize("order", [1, 3])
def test_dual_residual__has_exponent_k_plus_one_and_no_factor(exact, order):
    P, _, _, M = exact
    target = tabular.visitation(P, START, GAMMA_PRIME)
    lacks = target - tabular.expand_visitation(P, START, GAMMA, GAMMA_PRIME, order)
    assert_allclose(lacks, matrix_power(M.T, order + 1) @ target, atol=1e-12)
    printed = (1 - GAMMA_PRIME) * matrix_power(M.T, order) @ target
    assert np.abs(printed - lacks).max() > 0.5 * np.abs(lacks).max()
    # Where nothing moves, the whole lack sits in one state and exceeds the printed bound.
    still = np.eye(3)
    lack = 1.0 - tabular.expand_visitation(still, START, GAMMA, GAMMA_PRIME, order)[START]
    assert lack == pytest.approx(RATIO ** (order + 1))
    assert lack > 5 * (1 - GAMMA_PRIME) * RATIO ** (order + 1)


@pytest.mark.errata("P14")
@pytest.mark.paper("prop:dual", "eq:primal-dual")
def test_dual_proof__needs_the_chain_inside_the_powers(exact):
    P, r, R, M = exact
    order, share = 2, (1 - GAMMA_PRIME) / (1 - GAMMA)
    d = tabular.visitation(P, START, GAMMA)
    ours = tabular.expand_visitation(P, START, GAMMA, GAMMA_PRIME, order)
    assert_allclose(ours, share * d @ geometric(M, order), atol=1e-12)
    value = tabular.expand_value(P, r, GAMMA, GAMMA_PRIME, order)[START]
    assert ours @ r / (1 - GAMMA_PRIME) == pytest.approx(value, rel=1e-10)
    printed = share * d @ geometric(DELTA * R, order)
    assert np.abs(printed - ours).sum() > 0.05


@pytest.mark.errata("P15")
@pytest.mark.paper("lemma:com2")
def test_power_series_of_a_term__diverges_without_gamma(exact):
    P, r, _, _ = exact
    order = 1
    head = DELTA ** (order + 1) * matrix_power(P, order + 1) @ tabular.solve_value(P, r, GAMMA)
    counts = np.array([math.comb(t + order, order) for t in range(400)], dtype=float)
    term = tabular.value_terms(P, r, GAMMA, GAMMA_PRIME, order + 1)[-1]
    assert_allclose(weighted_sum(P, head, counts * GAMMA ** np.arange(400)), term, atol=1e-12)
    printed = [np.abs(weighted_sum(P, head, counts[:n])).max() for n in (100, 200, 400)]
    assert printed[2] > 3 * printed[1] > 9 * printed[0] > 900 * np.abs(term).max()


@pytest.mark.errata("P16")
@pytest.mark.paper("prop:kvalue")
def test_value_weights__need_no_negative_power_at_gamma_zero(exact):
    P, r, _, _ = exact
    order = 3
    f = np.concatenate([[1.0], value_weight_curve(50, 0.0, GAMMA_PRIME, order)])
    # V_0 = r at γ = 0, so V_K is the sum of the first K+1 rewards discounted by γ'.
    first = np.where(np.arange(51) <= order, GAMMA_PRIME ** np.arange(51), 0.0)
    assert_allclose(f, first, atol=1e-15)
    expanded = tabular.expand_value(P, r, 0.0, GAMMA_PRIME, order)
    assert_allclose(expanded, weighted_sum(P, r, first), rtol=1e-11)
    assert_allclose(expanded, brute_value(P, r, 0.0, GAMMA_PRIME, order), rtol=1e-11)
