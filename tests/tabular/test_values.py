"""V_K and Q_K: the expansions of section 3, their residual and their bound."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal

from gammaprime import tabular
from oracles import brute_value, pair_chain, weighted_sum

PAIRS = [(0.0, 0.7), (0.3, 0.3), (0.3, 0.8), (0.6, 0.9), (0.9, 0.97)]
ORDERS = [0, 1, 2, 5, 30, math.inf]


@pytest.mark.paper("eq:primal-bellman", "eq:primal-start-expansion")
@pytest.mark.parametrize("gamma", [0.0, 0.4, 0.95])
def test_solve_value__is_the_discounted_sum_of_rewards(ergodic, kind, gamma):
    P, r = ergodic
    V = tabular.solve_value(kind(P), r, gamma)
    assert_allclose(V, brute_value(P, r, gamma, gamma, 0), atol=1e-12)
    assert_allclose(V, r + gamma * P @ V, atol=1e-12)


@pytest.mark.paper("eq:kth-order-primal", "prop:taylor-expansion", "eq:primal-expansion")
@pytest.mark.parametrize(("gamma", "gamma_prime"), PAIRS)
@pytest.mark.parametrize("order", ORDERS)
def test_expand_value__is_the_sum_of_rewards_weighted_by_w_k(
    ergodic, kind, gamma, gamma_prime, order
):
    P, r = ergodic
    V_K = tabular.expand_value(kind(P), r, gamma, gamma_prime, order)
    assert_allclose(V_K, brute_value(P, r, gamma, gamma_prime, order), rtol=1e-10, atol=1e-11)


@given(
    num_states=st.integers(1, 6),
    seed=st.integers(0, 10_000),
    gamma=st.floats(0.0, 0.9),
    share=st.floats(0.0, 1.0),
    order=st.integers(0, 12),
    sparse=st.booleans(),
)
@pytest.mark.paper("eq:kth-order-primal")
def test_expand_value__agrees_with_brute_force_on_any_chain(
    num_states, seed, gamma, share, order, sparse
):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(num_states, 0.3), size=num_states)
    r = rng.normal(size=num_states)
    gamma_prime = gamma + share * (0.95 - gamma)
    V_K = tabular.expand_value(sp.csr_array(P) if sparse else P, r, gamma, gamma_prime, order)
    assert_allclose(V_K, brute_value(P, r, gamma, gamma_prime, order), rtol=1e-10, atol=1e-10)


@pytest.mark.paper("eq:zeroth-order-primal", "eq:primal-first-order", "eq:primal-k-order")
@pytest.mark.parametrize(("gamma", "gamma_prime"), [(0.3, 0.6), (0.6, 0.75)])
def test_value_terms__are_the_taylor_coefficients_of_the_value_in_its_discount(
    ergodic, kind, gamma, gamma_prime
):
    # Cauchy's integral on a circle around γ: the k-th coefficient of γ ↦ (I−γP)⁻¹r, with
    # aliasing of (radius/distance to the pole at 1/ρ(P) = 1)^64 < 1e-19.
    P, r = ergodic
    num_points, radius, order = 64, 0.2 * (1 - gamma), 6
    angles = np.exp(2j * np.pi * np.arange(num_points) / num_points)
    on_circle = [np.linalg.solve(np.eye(len(r)) - (gamma + radius * z) * P, r) for z in angles]
    coefficients = np.fft.fft(on_circle, axis=0)[: order + 1].real / num_points
    scale = ((gamma_prime - gamma) / radius) ** np.arange(order + 1)
    terms = tabular.value_terms(kind(P), r, gamma, gamma_prime, order)
    assert terms.shape == (order + 1, len(r))
    assert_allclose(terms, coefficients * scale[:, None], atol=1e-10)
    assert_allclose(terms.sum(axis=0), tabular.expand_value(P, r, gamma, gamma_prime, order))


@pytest.mark.paper("x:order-recursion")
@pytest.mark.parametrize("order", [1, 2, 7])
def test_expand_value__obeys_the_order_recursion(ergodic, order):
    P, r = ergodic
    gamma, gamma_prime = 0.8, 0.95
    V_K = tabular.expand_value(P, r, gamma, gamma_prime, order)
    lower = tabular.expand_value(P, r, gamma, gamma_prime, order - 1)
    assert_allclose(V_K, r + P @ (gamma * V_K + (gamma_prime - gamma) * lower), atol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_expand_value__at_equal_discounts_is_the_base_value(ergodic, kind, order):
    P, r = ergodic
    assert_array_equal(
        tabular.expand_value(kind(P), r, 0.7, 0.7, order), tabular.solve_value(kind(P), r, 0.7)
    )


@pytest.mark.paper("prop:taylor-expansion", "eq:fundamental-taylor")
@pytest.mark.parametrize(("gamma", "gamma_prime"), PAIRS)
@pytest.mark.parametrize("order", [0, 1, 4, math.inf])
def test_residual__is_what_the_expansion_lacks(ergodic, kind, gamma, gamma_prime, order):
    P, r = ergodic
    lacks = tabular.solve_value(P, r, gamma_prime) - tabular.expand_value(
        P, r, gamma, gamma_prime, order
    )
    assert_allclose(tabular.residual(kind(P), r, gamma, gamma_prime, order), lacks, atol=1e-11)


def test_residual__keeps_its_digits_where_a_difference_would_have_none(ergodic):
    P, r = ergodic
    r = np.abs(r) + 0.1
    gamma, gamma_prime, order = 0.3, 0.5, 60
    rest = tabular.residual(P, r, gamma, gamma_prime, order)
    # Brute force: γ'^t − w_K(t) is Σ_{k>K} C(t,k) δ^k γ^{t−k}, all positive.
    weights = [
        sum(math.comb(t, k) * 0.2**k * 0.3 ** (t - k) for k in range(order + 1, t + 1))
        for t in range(300)
    ]
    assert rest.max() < 1e-30
    assert_allclose(rest, weighted_sum(P, r, weights), rtol=1e-10)


@pytest.mark.paper("prop:kth-expansion")
@given(
    seed=st.integers(0, 10_000),
    gamma=st.floats(0.0, 0.95),
    share=st.floats(0.0, 0.99),
    order=st.integers(0, 20),
)
def test_error_bound__holds(seed, gamma, share, order):
    rng = np.random.default_rng(seed)
    gamma_prime = gamma + share * (1 - gamma)
    P = rng.dirichlet(np.full(4, 0.2), size=4)
    r = rng.uniform(0, 2, 4)
    error = np.abs(tabular.residual(P, r, gamma, gamma_prime, order)).max()
    assert error <= tabular.error_bound(gamma, gamma_prime, order, r.max()) * (1 + 1e-9)


@pytest.mark.paper("prop:kth-expansion")
@pytest.mark.errata("P1")
@pytest.mark.parametrize("order", [0, 1, 6])
def test_error_bound__is_attained_by_constant_rewards(ergodic, order):
    P, _ = ergodic
    error = tabular.residual(P, np.full(len(P), 3.0), 0.9, 0.99, order)
    assert_allclose(error, tabular.error_bound(0.9, 0.99, order, 3.0), rtol=1e-10)


def test_error_bound__limits():
    assert tabular.error_bound(0.9, 0.9, 0, 1.0) == 0.0
    assert tabular.error_bound(0.9, 0.99, math.inf, 1.0) == 0.0
    assert tabular.error_bound(0.9, 1.0, 5, 1.0) == math.inf
    assert tabular.error_bound(0.9, 1.0, math.inf, 1.0) == 0.0
    assert tabular.error_bound(0.9, 1.0, 5, 0.0) == 0.0


# γ' = 1 on absorbing chains.


@pytest.mark.paper("lemma:1", "lemma:3", "eq:rl-obj")
def test_solve_value__undiscounted_is_the_sum_of_rewards_until_absorption(absorbing, kind):
    P, r = absorbing
    summed = weighted_sum(P, r, np.ones(600))  # dies with probability ≥ 0.1 a step
    assert_allclose(tabular.solve_value(kind(P), r, 1.0), summed, atol=1e-12)


@pytest.mark.paper("lemma:4", "eq:k-expansion-undiscounted")
@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("order", [0, 1, 3, 50, math.inf])
def test_expand_value__towards_no_discount_on_absorbing_chains(absorbing, kind, gamma, order):
    P, r = absorbing
    V_K = tabular.expand_value(kind(P), r, gamma, 1.0, order)
    assert_allclose(V_K, brute_value(P, r, gamma, 1.0, order, num_steps=800), atol=1e-11)
    rest = tabular.residual(kind(P), r, gamma, 1.0, order)
    assert_allclose(V_K + rest, tabular.solve_value(P, r, 1.0), atol=1e-11)


@pytest.mark.paper("lemma:4")
@pytest.mark.errata("P6")
def test_residual__towards_no_discount_falls_at_the_rate_of_the_transient_block(absorbing):
    P, r = absorbing
    gamma = 0.8
    inner = P[:-2, :-2]
    roots = np.linalg.eigvals(inner)
    rate = np.abs((1 - gamma) * roots / (1 - gamma * roots)).max()
    sizes = [np.abs(tabular.residual(P, r, gamma, 1.0, order)).max() for order in (20, 40)]
    assert (sizes[1] / sizes[0]) ** (1 / 20) == pytest.approx(rate, rel=1e-3)


@pytest.mark.paper("lemma:2")
@pytest.mark.errata("P4")
def test_polynomials_of_an_absorbing_chain__keep_its_blocks():
    # f(A, B) = A²B + 3B: the transient block is f of the transient block, and the corner of
    # the absorbing state is f(1, 1/(1−γ)), not the 1 that the paper prints.
    rng = np.random.default_rng(0)
    inner = 0.9 * rng.dirichlet(np.ones(3), size=3)
    P = np.block(
        [[inner, 1 - inner.sum(axis=1, keepdims=True)], [np.zeros((1, 3)), np.ones((1, 1))]]
    )
    gamma = 0.7

    def f(A):
        B = np.linalg.inv(np.eye(len(A)) - gamma * A)
        return A @ A @ B + 3 * B

    assert_allclose(f(P)[:3, :3], f(inner), atol=1e-13)
    assert_allclose(f(P)[3], [0, 0, 0, 4 / (1 - gamma)], atol=1e-13)


# Q-functions.


@pytest.mark.paper("prop:adv")
@pytest.mark.parametrize(("gamma", "gamma_prime"), PAIRS)
@pytest.mark.parametrize("order", ORDERS)
def test_expand_q__is_the_expansion_over_state_action_pairs(mdp, rng, gamma, gamma_prime, order):
    policy = rng.dirichlet(np.ones(3), size=5)
    P_bar, r_bar = pair_chain(mdp.transition, mdp.reward, policy)
    Q_K = tabular.expand_q(mdp, policy, gamma, gamma_prime, order)
    oracle = brute_value(P_bar, r_bar, gamma, gamma_prime, order)
    assert_allclose(Q_K.reshape(-1), oracle, rtol=1e-10)
    P, r = tabular.chain(mdp, policy)
    V_K = tabular.expand_value(P, r, gamma, gamma_prime, order)
    assert_allclose((policy * Q_K).sum(axis=1), V_K, rtol=1e-11)


@pytest.mark.paper("prop:adv")
@pytest.mark.parametrize("order", [0, 2, math.inf])
def test_expand_q__towards_no_discount(dying_mdp, rng, order):
    policy = rng.dirichlet(np.ones(3), size=6)
    P_bar, r_bar = pair_chain(dying_mdp.transition, dying_mdp.reward, policy)
    Q_K = tabular.expand_q(dying_mdp, policy, 0.8, 1.0, order)
    oracle = brute_value(P_bar, r_bar, 0.8, 1.0, order, num_steps=800)
    assert_allclose(Q_K.reshape(-1), oracle, atol=1e-11)


def test_solve_q__is_the_expansion_of_order_zero_and_the_same_for_sparse_mdps(mdp, rng):
    policy = rng.dirichlet(np.ones(3), size=5)
    kernel = [sp.csr_array(mdp.transition[:, a]) for a in range(3)]
    Q = tabular.solve_q(mdp, policy, 0.9)
    assert_allclose(Q, tabular.expand_q(mdp, policy, 0.9, 0.99, 0), rtol=1e-13)
    assert_allclose(Q, tabular.solve_q(tabular.MDP(kernel, mdp.reward), policy, 0.9), rtol=1e-12)


# The linear programs whose solutions the expansions interpolate.


@pytest.mark.paper("eq:primal-lp")
def test_solve_value__solves_the_primal_linear_program(ergodic):
    P, r = ergodic
    gamma, start = 0.85, np.eye(len(r))[2]
    program = scipy.optimize.linprog(
        -start, A_eq=np.eye(len(r)) - gamma * P, b_eq=r, bounds=(None, None)
    )
    assert_allclose(program.x, tabular.solve_value(P, r, gamma), atol=1e-9)


@pytest.mark.paper("eq:dual-lp", "eq:visitation-value")
def test_visitation__solves_the_dual_linear_program_with_the_same_optimum(ergodic):
    P, r = ergodic
    gamma, start = 0.85, np.eye(len(r))[2]
    program = scipy.optimize.linprog(
        r / (1 - gamma), A_eq=np.eye(len(r)) - gamma * P.T, b_eq=(1 - gamma) * start
    )
    assert_allclose(program.x, tabular.visitation(P, 2, gamma), atol=1e-9)
    assert program.fun == pytest.approx(tabular.solve_value(P, r, gamma)[2])
