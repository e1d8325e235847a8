"""The sampled expansions in expectation, against the exact room.

Where all paths can be listed the expectation is a finite sum and the rooms agree to rounding.
"""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gammaprime import estimators, tabular
from oracles import all_paths, sample_paths

GAMMA, GAMMA_PRIME = 0.8, 0.95
STEPS = 6


def listed(P, r, num_steps=STEPS, grave=None):
    """All paths from state 0: rewards, flags, successors and probabilities, time first.

    A path in its grave keeps terminating there with reward 0: estimates before are unaffected.
    """
    states, probability = all_paths(P, 0, num_steps)
    terminated = states[1:] == grave if grave is not None else np.zeros(states[1:].shape, bool)
    truncated = np.zeros_like(terminated)
    return r[states[:-1]], states, terminated, truncated, probability


def bootstrapped(P, r, value, order, tail, survival=None, grave=None):
    """E of the expansion at row 0, returns of the path as base, ``value`` at the cut."""
    reward, states, terminated, truncated, probability = listed(P, r, grave=grave)
    ends = (value[states[1:]], terminated, truncated)
    base = estimators.discounted_return(reward, *ends, gamma=GAMMA)
    expanded = estimators.expand(base, *ends, GAMMA, GAMMA_PRIME, order, tail, survival)
    return probability @ expanded[0]


def path_weight(j, gamma_prime=GAMMA_PRIME):
    """C(n, j) δ^j γ^{n−j}: how much of V_{K−j} a cut after n steps asks for."""
    return math.comb(STEPS, j) * (gamma_prime - GAMMA) ** j * GAMMA ** (STEPS - j)


def asked_at_cut(P, r, order, tail_values):
    """Σ_j C(n,j) δ^j γ^{n−j} Pⁿ(V_{K−j} − tail value of order K−j), the bias up to its sign."""
    Pn = np.linalg.matrix_power(P, STEPS)[0]
    return sum(
        path_weight(j)
        * Pn
        @ (tabular.expand_value(P, r, GAMMA, GAMMA_PRIME, order - j) - tail_values(order - j))
        for j in range(min(order, STEPS) + 1)
    )


@pytest.mark.paper("x:tails")
@pytest.mark.parametrize("order", [0, 1, 3, 8])
def test_expand__has_the_stated_bias_of_the_zero_tail(ongoing, order):
    P, r = ongoing
    V = tabular.solve_value(P, r, GAMMA)
    exact = tabular.expand_value(P, r, GAMMA, GAMMA_PRIME, order)[0]
    bias = -asked_at_cut(P, r, order, lambda _: V)
    assert bootstrapped(P, r, V, order, "zero") == pytest.approx(exact + bias, abs=1e-11)
    assert order == 0 or abs(bias) > 0.05  # the rule is told apart from an unbiased one


@pytest.mark.paper("x:tails")
@pytest.mark.parametrize("order", [0, 1, 3, 8])
def test_expand__has_the_stated_bias_of_the_constant_tail(ongoing, order):
    P, r = ongoing
    V = tabular.solve_value(P, r, GAMMA)
    c = (GAMMA_PRIME - GAMMA) / (1 - GAMMA)
    exact = tabular.expand_value(P, r, GAMMA, GAMMA_PRIME, order)[0]
    bias = -asked_at_cut(P, r, order, lambda k: V * sum(c**i for i in range(k + 1)))
    assert bootstrapped(P, r, V, order, "constant") == pytest.approx(exact + bias, abs=1e-11)


@pytest.mark.paper("x:survival-tail")
@pytest.mark.parametrize("gamma_prime", [GAMMA_PRIME, 1.0])
@pytest.mark.parametrize("order", [0, 1, 4, math.inf])
def test_expand__survival_tail_is_unbiased_for_constant_reward_and_uniform_killing(
    gamma_prime, order
):
    # Alive with probability q a step, reward 1 while alive: the rule's own assumption.
    q = 0.8
    P = np.array([[q, 1 - q], [0.0, 1.0]])
    r = np.array([1.0, 0.0])
    V = tabular.solve_value(P, r, GAMMA)
    reward, states, terminated, truncated, probability = listed(P, r, grave=1)
    ends = (V[states[1:]], terminated, truncated)
    base = estimators.discounted_return(reward, *ends, gamma=GAMMA)
    exact = tabular.expand_value(P, r, GAMMA, gamma_prime, order)[0]
    estimate = estimators.expand(base, *ends, GAMMA, gamma_prime, order, "survival", q)
    assert probability @ estimate[0] == pytest.approx(exact, abs=1e-11)
    if order:
        wrong = estimators.expand(base, *ends, GAMMA, gamma_prime, order, "zero")
        assert abs(probability @ wrong[0] - exact) > 0.01


@pytest.mark.paper("eq:kth-order-primal", "algo:estimate")
@pytest.mark.parametrize("order", [0, 1, 2, 5, math.inf])
def test_expand__of_exact_values_is_exact_up_to_the_unseen_tail(ongoing, order):
    # Exact base values on every path of 6 steps: the estimate is Σ_s f(K, s) E V(x_s), s ≤ 6,
    # plus the tail; compared with the exact room through the same tail of exact values.
    P, r = ongoing
    V = tabular.solve_value(P, r, GAMMA)
    _, states, terminated, truncated, probability = listed(P, r)
    estimate = estimators.expand(
        V[states[:-1]], V[states[1:]], terminated, truncated, GAMMA, GAMMA_PRIME, order, "zero"
    )
    f = estimators.value_weights(np.arange(1, STEPS + 1), GAMMA, GAMMA_PRIME, order)
    seen = [np.linalg.matrix_power(P, s)[0] @ V for s in range(1, STEPS + 1)]
    assert probability @ estimate[0] == pytest.approx(V[0] + f @ seen, abs=1e-11)


@pytest.mark.paper("eq:kth-order-primal", "lemma:4")
@pytest.mark.parametrize("gamma_prime", [GAMMA_PRIME, 1.0])
@pytest.mark.parametrize("order", [0, 1, 4, math.inf])
def test_expand__of_whole_episodes_is_unbiased(ending, rng, gamma_prime, order):
    P, r = ending
    num_paths = 20_000
    states = sample_paths(P, 0, 80, num_paths, rng)  # survives 80 steps: 0.8^80 < 2e-8
    terminated = states[1:] == 3
    flags = (None, terminated, np.zeros_like(terminated))
    terminated[-1] = True
    base = estimators.discounted_return(r[states[:-1]], *flags, gamma=GAMMA)
    estimate = estimators.expand(base, *flags, GAMMA, gamma_prime, order)[0]
    exact = tabular.expand_value(P, r, GAMMA, gamma_prime, order)[0]
    error = estimate.std(ddof=1) / math.sqrt(num_paths)
    assert abs(estimate.mean() - exact) < 4 * error


@pytest.mark.paper("x:mixture")
def test_lambda_returns_of_a_wrong_critic__bias_the_expansion_as_stated(ongoing, rng):
    # E[Q̂-based V_K] − V_K = Σ_{k≤K} M^k B_λ(V_φ − V_γ), B_λ = (1−λ)γP(I−λγP)⁻¹.  Paths are so
    # long that γ'^300 = 2e-7 is all that the cut can change.
    P, r = ongoing
    lam, order, num_steps, num_paths = 0.5, 2, 300, 4000
    V = tabular.solve_value(P, r, GAMMA)
    critic = V + np.array([0.5, -1.0, 0.25])
    states = sample_paths(P, 0, num_steps, num_paths, rng)
    cut = np.zeros((num_steps, num_paths), dtype=bool)
    ends = (critic[states[1:]], cut, cut)
    base = estimators.lambda_return(r[states[:-1]], *ends, gamma=GAMMA, lam=lam)
    estimate = estimators.expand(base, *ends, GAMMA, GAMMA_PRIME, order)[0]
    B = (1 - lam) * GAMMA * P @ np.linalg.inv(np.eye(3) - lam * GAMMA * P)
    M = (GAMMA_PRIME - GAMMA) * np.linalg.inv(np.eye(3) - GAMMA * P) @ P
    bias = sum(np.linalg.matrix_power(M, k) @ B @ (critic - V) for k in range(order + 1))[0]
    exact = tabular.expand_value(P, r, GAMMA, GAMMA_PRIME, order)[0] + bias
    error = estimate.std(ddof=1) / math.sqrt(num_paths)
    assert abs(estimate.mean() - exact) < 4 * error
    assert abs(bias) > 8 * error


@pytest.mark.paper("x:window")
@pytest.mark.errata("S21")
@pytest.mark.parametrize("lookahead", [3, 10])
def test_expand_window__is_biased_by_near_minus_far(ongoing, lookahead):
    # Bias of the self-normalised window: c γ^H (average over s ≤ H − average over s > H).
    P, r = ongoing
    V = tabular.solve_value(P, r, GAMMA)
    c = (GAMMA_PRIME - GAMMA) / (1 - GAMMA)
    curve = [np.linalg.matrix_power(P, s)[0] @ V for s in range(400)]
    geometric = (1 - GAMMA) * GAMMA ** np.arange(399)
    near = geometric[:lookahead] @ curve[1 : lookahead + 1] / geometric[:lookahead].sum()
    far = geometric[lookahead:] @ curve[lookahead + 1 :] / geometric[lookahead:].sum()
    # The window is linear: apply it to the mean curve itself.
    flags = np.zeros(300, dtype=bool)
    window = estimators.expand_window(
        np.array(curve[:300]),
        np.array(curve[1:301]),
        flags,
        flags,
        GAMMA,
        GAMMA_PRIME,
        1,
        lookahead,
    )
    exact = tabular.expand_value(P, r, GAMMA, GAMMA_PRIME, 1)[0]
    bias = c * GAMMA**lookahead * (near - far)
    assert_allclose(window[0], exact + bias, atol=1e-10)
