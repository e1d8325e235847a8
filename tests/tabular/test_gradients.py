"""The gradients of section 4, against complex-step derivatives of sums over time."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from gammaprime import tabular
from oracles import (
    brute_value,
    complex_step_gradient,
    softmax,
    update_weight_curve,
    weighted_sum,
)

GAMMA, GAMMA_PRIME = 0.6, 0.85
ORDERS = [0, 1, 2, 6, math.inf]
STEPS = {GAMMA_PRIME: 300, 1.0: 800}


@pytest.fixture(params=[GAMMA_PRIME, 1.0], ids=["discounted", "undiscounted"])
def problem(request, mdp, dying_mdp, rng):
    """(mdp, logits, γ'): γ' = 1 on an MDP that absorbs."""
    chosen = mdp if request.param < 1 else dying_mdp
    return chosen, rng.normal(size=chosen.reward.shape), request.param


def chain_of(mdp, logits):
    pi = softmax(logits)
    return np.einsum("xa,xay->xy", pi, mdp.transition), (pi * mdp.reward).sum(axis=1)


def value_of(mdp, logits, gamma, gamma_prime, order):
    P, r = chain_of(mdp, logits)
    return brute_value(P, r, gamma, gamma_prime, order, num_steps=STEPS[gamma_prime])


def mixture_of(mdp, logits, gamma, gamma_prime, order, start):
    """ρ_K by its series, transient states only where γ' = 1."""
    P, _ = chain_of(mdp, logits)
    curve = update_weight_curve(STEPS[gamma_prime], gamma, gamma_prime, order - 1)
    weights = np.concatenate([[1.0], (gamma_prime - gamma) * curve])
    rho = weighted_sum(P.T, np.eye(len(P))[start].astype(P.dtype), weights)
    return rho[:-2] if gamma_prime == 1.0 else rho


@pytest.mark.paper("eq:pg", "eq:rl-obj")
@pytest.mark.parametrize("start", [0, 2])
def test_policy_gradient__is_the_gradient_of_the_value(problem, start):
    mdp, logits, gamma_prime = problem
    oracle = complex_step_gradient(
        lambda x: value_of(mdp, x, gamma_prime, gamma_prime, 0)[start], logits
    )
    gradient = tabular.policy_gradient(mdp, logits, start, gamma_prime)
    assert_allclose(gradient, oracle, atol=1e-11)


@pytest.mark.paper("x:true-gradient")
@pytest.mark.parametrize("order", ORDERS)
def test_expand_gradient__is_the_gradient_of_the_expanded_value(problem, order):
    mdp, logits, gamma_prime = problem
    oracle = complex_step_gradient(lambda x: value_of(mdp, x, GAMMA, gamma_prime, order)[1], logits)
    gradient = tabular.expand_gradient(mdp, logits, 1, GAMMA, gamma_prime, order)
    assert_allclose(gradient, oracle, atol=1e-11)


@pytest.mark.paper("eq:state-weight", "pro:rho")
@pytest.mark.parametrize("order", [1, 2, 6])
def test_expand_partial__moves_the_values_and_freezes_the_mixture(problem, order):
    mdp, logits, gamma_prime = problem
    jacobian = complex_step_gradient(lambda x: value_of(mdp, x, GAMMA, gamma_prime, 0), logits)
    rho = mixture_of(mdp, logits, GAMMA, gamma_prime, order, start=1)
    oracle = np.tensordot(rho, jacobian[: len(rho)], axes=1)
    partial = tabular.expand_partial(mdp, logits, 1, GAMMA, gamma_prime, order)
    assert_allclose(partial, oracle, atol=1e-11)


@pytest.mark.paper("eq:state-weight", "eq:first-partial-grad", "eq:undiscounted-first-partial-grad")
@pytest.mark.errata("S3")
@pytest.mark.parametrize("order", ORDERS)
def test_expand_partial__weighs_local_gradients_by_w_k_from_clock_zero(problem, order):
    # E Σ_t w_K(t) Q_γ ∇log π, the expectation over states taken exactly, step by step.
    mdp, logits, gamma_prime = problem
    pi = softmax(logits)
    P, _ = chain_of(mdp, logits)
    Q = tabular.solve_q(mdp, pi, GAMMA)
    local = pi * (Q - (pi * Q).sum(axis=1, keepdims=True))
    weights = update_weight_curve(STEPS[gamma_prime], GAMMA, gamma_prime, order)
    states = weighted_sum(P.T, np.eye(len(P))[0], weights)
    partial = tabular.expand_partial(mdp, logits, 0, GAMMA, gamma_prime, order)
    assert_allclose(partial, states[:, None] * local, atol=1e-11)


@pytest.mark.paper("eq:state-weight", "eq:pg", "prop:partial-grad")
def test_expand_partial__runs_from_vanilla_policy_gradient_to_the_first_partial(mdp, logits):
    ends = [tabular.expand_partial(mdp, logits, 0, GAMMA, GAMMA_PRIME, k) for k in (0, math.inf)]
    assert_allclose(ends[0], tabular.policy_gradient(mdp, logits, 0, GAMMA), rtol=1e-12)
    assert_allclose(ends[1], tabular.first_partial(mdp, logits, 0, GAMMA, GAMMA_PRIME), rtol=1e-12)
    late = tabular.expand_partial(mdp, logits, 0, GAMMA, GAMMA_PRIME, 200)
    assert_allclose(late, ends[1], rtol=1e-10)


@pytest.mark.paper("lemma:grad", "prop:partial-grad", "x:second-term")
@pytest.mark.parametrize("start", [0, 3])
def test_partials__add_up_to_the_full_gradient(problem, start):
    mdp, logits, gamma_prime = problem
    partials = tabular.first_partial(
        mdp, logits, start, GAMMA, gamma_prime
    ) + tabular.second_partial(mdp, logits, start, GAMMA, gamma_prime)
    full = tabular.policy_gradient(mdp, logits, start, gamma_prime)
    assert_allclose(partials, full, atol=1e-11)


@pytest.mark.paper("lemma:grad", "x:second-term")
@pytest.mark.errata("S15")
def test_second_partial__moves_the_mixture_and_freezes_the_values(problem):
    mdp, logits, gamma_prime = problem
    V = value_of(mdp, logits, GAMMA, gamma_prime, 0)

    def rho(x):
        P, _ = chain_of(mdp, x)
        delta = gamma_prime - GAMMA
        weights = [1.0, *(delta * gamma_prime ** np.arange(STEPS[gamma_prime]))]
        mixed = weighted_sum(P.T, np.eye(len(P))[1].astype(P.dtype), weights)
        return mixed[:-2] if gamma_prime == 1.0 else mixed

    moved = complex_step_gradient(rho, logits)
    value = V[: len(moved)]
    second = tabular.second_partial(mdp, logits, 1, GAMMA, gamma_prime)
    assert_allclose(second, np.tensordot(value, moved, axes=1), atol=1e-11)
    # The log form of the lemma: an unnormalised sum under ρ.
    frozen = rho(logits)
    log_form = np.einsum("x,x,xij->ij", frozen, value, moved / frozen[:, None, None])
    assert_allclose(second, log_form, atol=1e-11)


@pytest.mark.parametrize("start", ["state", "distribution"])
def test_gradients__are_linear_in_the_start(mdp, logits, rng, start):
    start = 2 if start == "state" else rng.dirichlet(np.ones(5))
    weights = np.eye(5)[start] if np.ndim(start) == 0 else start
    by_state = [tabular.expand_gradient(mdp, logits, x, GAMMA, GAMMA_PRIME, 2) for x in range(5)]
    gradient = tabular.expand_gradient(mdp, logits, start, GAMMA, GAMMA_PRIME, 2)
    assert_allclose(gradient, np.tensordot(weights, by_state, axes=1), atol=1e-13)


@pytest.mark.parametrize("order", [0, 3, math.inf])
def test_gradients__are_the_same_for_sparse_mdps(mdp, logits, order):
    sparse = tabular.MDP([sp.csr_array(mdp.transition[:, a]) for a in range(3)], mdp.reward)
    for function in (tabular.expand_partial, tabular.expand_gradient):
        expected = function(mdp, logits, 0, GAMMA, GAMMA_PRIME, order)
        assert_allclose(
            function(sparse, logits, 0, GAMMA, GAMMA_PRIME, order), expected, atol=1e-12
        )
    expected = tabular.second_partial(mdp, logits, 0, GAMMA, GAMMA_PRIME)
    second = tabular.second_partial(sparse, logits, 0, GAMMA, GAMMA_PRIME)
    assert_allclose(second, expected, atol=1e-12)


@pytest.mark.parametrize("order", [0, 1, 5, math.inf])
def test_gradients__at_equal_discounts_are_the_base_gradient(mdp, logits, order):
    base = tabular.policy_gradient(mdp, logits, 0, GAMMA)
    for function in (tabular.expand_partial, tabular.expand_gradient):
        assert_allclose(function(mdp, logits, 0, GAMMA, GAMMA, order), base, rtol=1e-12)
    assert not tabular.second_partial(mdp, logits, 0, GAMMA, GAMMA).any()


@pytest.mark.paper("x:true-gradient")
def test_true_gradient__is_neither_algorithm_2_nor_algorithm_3(mdp, logits):
    # Algorithm 2 in expectation: Q_K under uniform weights; Algorithm 3: Q_γ under w_K.
    order = 1
    true = tabular.expand_gradient(mdp, logits, 0, GAMMA, GAMMA_PRIME, order)
    weighted = tabular.expand_partial(mdp, logits, 0, GAMMA, GAMMA_PRIME, order)
    pi = softmax(logits)
    P, _ = chain_of(mdp, logits)
    Q_K = tabular.expand_q(mdp, pi, GAMMA, GAMMA_PRIME, order)
    local = pi * (Q_K - (pi * Q_K).sum(axis=1, keepdims=True))
    states = weighted_sum(P.T, np.eye(5)[0], GAMMA ** np.arange(300.0))
    plugged_in = states[:, None] * local

    def cosine(a, b):
        return (a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b)

    assert cosine(weighted, true) < 0.999
    assert cosine(plugged_in, true) < 0.999
