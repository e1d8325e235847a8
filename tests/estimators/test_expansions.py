"""The limits and closed forms of sampled expansions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import gammaprime.estimators as est
from oracles import update_weight_curve, value_weight_curve

GAMMA, GAMMA_PRIME = 0.8, 0.95
TAILS = ["zero", "constant", "survival"]
every_tail = pytest.mark.parametrize("tail", TAILS)


def never(num_steps):
    return np.zeros(num_steps, dtype=bool)


def at_last(num_steps):
    return np.eye(num_steps, dtype=bool)[-1]


def bits(x):
    return np.ascontiguousarray(x).view(np.uint64)


@every_tail
@pytest.mark.paper("eq:zeroth-order-primal")
def test_order_zero_and_equal_discounts__are_the_base_bit_for_bit(batch, tail):
    base = batch.value.copy()
    base[0, 0] = -0.0
    for gamma_prime, order in ((0.95, 0), (1.0, 0), (0.8, 3), (0.8, math.inf)):
        out = est.expand(base, *batch.ends, 0.8, gamma_prime, order, tail)
        assert_array_equal(bits(out), bits(base))


@pytest.mark.paper("algo:estimate", "x:infinite-order")
@pytest.mark.parametrize("gamma_prime", [0.9, 0.99, 1.0])
@pytest.mark.parametrize("order", [19, 20, 50, math.inf])
def test_monte_carlo_base_on_a_whole_episode__high_orders_are_the_target_return(
    rng, gamma_prime, order
):
    """From t the last reward is T−1−t steps ahead, and w_K(s) = γ'^s for all s ≤ K."""
    reward, ends = rng.normal(size=20), (None, at_last(20), never(20))
    base = est.discounted_return(reward, *ends, GAMMA)
    target = est.discounted_return(reward, *ends, gamma_prime)
    out = est.expand(base, *ends, GAMMA, gamma_prime, order)
    assert_allclose(out, target, rtol=0, atol=1e-13)
    short = est.expand(base, *ends, GAMMA, gamma_prime, 18)
    missing = (gamma_prime - GAMMA) ** 19 * reward[19]
    assert short[0] == pytest.approx(target[0] - missing, abs=1e-13)


@pytest.mark.paper("eq:state-weight", "x:tails")
@pytest.mark.parametrize("order", [0, 1, 2, 5, math.inf])
def test_monte_carlo_base_with_zero_tail__weighs_rewards_and_the_cut_by_w(rng, order):
    reward, boot = rng.normal(size=12), rng.normal()
    ends = np.full(12, boot), never(12), never(12)
    base = est.discounted_return(reward, *ends, GAMMA)
    out = est.expand(base, *ends, GAMMA, GAMMA_PRIME, order, "zero")
    w = update_weight_curve(13, GAMMA, GAMMA_PRIME, order)
    expected = [w[: 12 - t] @ reward[t:] + w[12 - t] * boot for t in range(12)]
    assert_allclose(out, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.paper("prop:kvalue", "x:tails")
@pytest.mark.parametrize("order", [1, 2, 6])
def test_constant_tail__is_a_toeplitz_product_and_the_rest_of_the_mass(rng, order):
    """Row t: Σ_{s<n−t} f(K,s) y_{t+s} + V(Σ_{1≤k≤K} c^k − Σ_{s<n−t} f(K,s))."""
    n, boot = 10, 1.7
    base = rng.normal(size=n)
    f = np.concatenate([[0.0], value_weight_curve(n, GAMMA, GAMMA_PRIME, order)])
    toeplitz = np.array([[f[u - t] if u >= t else 0.0 for u in range(n)] for t in range(n)])
    mass = sum(0.75**k for k in range(1, order + 1))
    expected = base + toeplitz @ base + boot * (mass - toeplitz.sum(axis=1))
    out = est.expand(base, np.full(n, boot), never(n), never(n), 0.8, 0.95, order, "constant")
    assert_allclose(out, expected, rtol=1e-12)


@pytest.mark.paper("x:tails", "x:survival-tail", "x:infinite-order")
@pytest.mark.parametrize("q", [0.0, 0.6, 1.0])
def test_order_infinity__multiplies_the_cut_value_by_the_tail_sum(rng, q):
    """Monte-Carlo base: Σγ'^l r_l + γ'^n V (1−γq)/(1−γ'q)."""
    reward, boot, n = rng.normal(size=7), 2.5, 7
    ends = np.full(n, boot), never(n), never(n)
    base = est.discounted_return(reward, *ends, GAMMA)
    out = est.expand(base, *ends, GAMMA, GAMMA_PRIME, math.inf, survival=q)
    kept = boot * (1 - GAMMA * q) / (1 - GAMMA_PRIME * q)
    target = est.discounted_return(reward, np.full(n, kept), *ends[1:], GAMMA_PRIME)
    assert_allclose(out, target, rtol=1e-12)


@pytest.mark.paper("x:tails")
def test_constant_tail__keeps_constants():
    """A base of 1 everywhere and for ever has D_k = c^k on every row."""
    ones = np.ones(6)
    terms = est.expand_terms(ones, ones, never(6), never(6), 0.8, 0.95, 5, "constant")
    assert_allclose(terms, np.full((6, 6), 0.75) ** np.arange(6)[:, None], rtol=1e-13)


@given(
    gamma=st.floats(0.0, 0.99),
    share=st.floats(0.0, 1.0),
    order=st.integers(0, 12),
    tail=st.sampled_from(TAILS),
)
@pytest.mark.paper("eq:primal-k-order", "x:marginalised")
def test_expand__is_the_sum_of_its_terms_for_all_discounts(gamma, share, order, tail):
    base, next_value = np.random.default_rng(3).normal(size=(2, 15, 2))
    dead, cut = np.zeros((2, 15, 2), dtype=bool)
    dead[4, 0] = cut[9, 1] = True
    gamma_prime = gamma + share * (1.0 - gamma)
    arguments = base, next_value, dead, cut, gamma, gamma_prime, order, tail
    terms = est.expand_terms(*arguments)
    scale = 1 + np.abs(terms).sum()
    assert_allclose(est.expand(*arguments), terms.sum(axis=0), rtol=0, atol=1e-13 * scale)


def test_high_orders__approach_order_infinity_and_never_overflow(batch):
    arguments = batch.value, *batch.ends, 0.99, 0.999
    high = est.expand(*arguments, 400)
    assert_allclose(high, est.expand(*arguments, math.inf), rtol=0, atol=1e-12)
    single = [x.astype(np.float32) for x in (batch.value, batch.next_value)]
    terms = est.expand_terms(*single, batch.terminated, batch.truncated, 0.99, 1.0, 300)
    assert np.isfinite(terms).all()


def test_gamma_zero__each_order_looks_one_step_further():
    """f(K, s) = γ'^s up to K: with γ = 0 nothing carries a base value further than its order."""
    base = np.array([1.0, 10.0, 100.0, 1000.0])
    terms = est.expand_terms(base, None, at_last(4), never(4), 0.0, 0.5, 3)
    expected = [[1, 10, 100, 1000], [5, 50, 500, 0], [25, 250, 0, 0], [125, 0, 0, 0]]
    assert_allclose(terms, expected)


@pytest.mark.paper("x:infinite-order", "x:survival-tail")
def test_at_one__a_constant_reward_with_steady_deaths_is_worth_its_lifetime():
    """Reward 1 and survival q: V_γ = 1/(1−γq), and V_1 = 1/(1−q) however early the cut."""
    q, gamma = 0.9, 0.8
    value = np.full(5, 1 / (1 - gamma * q))
    out = est.expand(value, value, never(5), never(5), gamma, 1.0, math.inf, survival=q)
    # The rows seen did not die, so row t counts 5−t sure steps and 1/(1−q) beyond.
    reward_to_go = np.arange(5, 0, -1) + 1 / (1 - q)
    base = est.discounted_return(np.ones(5), value, never(5), never(5), gamma)
    returns = est.expand(base, value, never(5), never(5), gamma, 1.0, math.inf, survival=q)
    assert_allclose(returns, reward_to_go, rtol=1e-13)
    assert out[-1] == pytest.approx(value[0] + (1 - gamma) * value[0] / (1 - q))


@pytest.mark.paper("x:gae")
@pytest.mark.parametrize("lam", [0.0, 0.4, 1.0])
def test_gae_plus_value__is_the_lambda_return(batch, lam):
    """Where one critic gives both: inside a segment next_value[t] is value[t+1]."""
    inside = ~(batch.terminated | batch.cut)
    next_value = np.where(inside, np.roll(batch.value, -1, axis=0), batch.next_value)
    ends = next_value, batch.terminated, batch.truncated
    advantage = est.gae(batch.reward, batch.value, *ends, GAMMA, lam)
    returns = est.lambda_return(batch.reward, *ends, GAMMA, lam)
    assert_allclose(advantage + batch.value, returns, rtol=0, atol=1e-13)


def test_lambda_one__is_the_discounted_return(batch):
    ends = batch.next_value, batch.terminated, batch.truncated
    full = est.discounted_return(batch.reward, *ends, GAMMA)
    assert_allclose(est.lambda_return(batch.reward, *ends, GAMMA, 1.0), full, rtol=1e-13)


@pytest.mark.paper("x:gae", "x:marginalised")
@pytest.mark.parametrize("order", [0, 1, 3])
def test_expansion_of_lambda_returns__has_the_impulse_response_of_its_filter(order):
    """Σ_k (δz/(1−γz))^k (1−γλz)⁻¹ [r + γ(1−λ) z V], as power series in the shift z."""
    n, lam, delta = 16, 0.6, GAMMA_PRIME - GAMMA
    geometric = np.polynomial.polynomial.polypow
    z_over = np.concatenate([[0.0], delta * GAMMA ** np.arange(n - 1)])
    sums = sum(geometric(z_over, k)[:n] if k else np.eye(n)[0] for k in range(order + 1))
    response = np.convolve(sums, (GAMMA * lam) ** np.arange(n))[:n]
    of_value = GAMMA * (1 - lam) * np.concatenate([[0.0], response[:-1]])

    def first_row(reward, value):
        ends = np.append(value[1:], 0.0), at_last(n), never(n)
        base = est.lambda_return(reward, *ends, GAMMA, lam)
        return est.expand(base, *ends, GAMMA, GAMMA_PRIME, order)[0]

    impulses, silence = np.eye(n), np.zeros(n)
    assert_allclose([first_row(e, silence) for e in impulses], response, atol=1e-14)
    assert_allclose([first_row(silence, e) for e in impulses], of_value, atol=1e-14)


@pytest.mark.paper("x:infinite-order")
def test_order_infinity_of_lambda_returns__is_right_where_lambda_returns_at_the_target_are_not():
    """Reward 1 for ten steps, and a critic that knows V_γ: it is no critic for γ'."""
    left = np.arange(10, 0, -1)
    value, target = ((1 - g**left) / (1 - g) for g in (GAMMA, GAMMA_PRIME))
    ends = np.append(value[1:], 0.0), at_last(10), never(10)
    base = est.lambda_return(np.ones(10), *ends, GAMMA, 0.5)
    expanded = est.expand(base, *ends, GAMMA, GAMMA_PRIME, math.inf)
    assert_allclose(expanded, target, rtol=1e-13)
    at_target = est.lambda_return(np.ones(10), *ends, GAMMA_PRIME, 0.5)
    assert (at_target[:-2] < target[:-2]).all()
    assert at_target[0] < 0.9 * target[0]
