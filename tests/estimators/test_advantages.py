"""Mixtures, centred advantages, and the weights of the true gradient."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gammaprime.estimators as est
from oracles import update_weight_curve

GAMMA, GAMMA_PRIME = 0.8, 0.95


@pytest.mark.paper("x:mixture")
def test_eta_zero__is_the_base_bit_for_bit(batch):
    expanded = est.expand(batch.value, *batch.ends, GAMMA, GAMMA_PRIME, 3)
    assert_array_equal(est.mix(batch.value, expanded, 0.0), batch.value)


@pytest.mark.paper("x:mixture")
def test_eta_one__is_the_expansion(batch):
    expanded = est.expand(batch.value, *batch.ends, GAMMA, GAMMA_PRIME, 3)
    assert_allclose(est.mix(batch.value, expanded, 1.0), expanded, rtol=0, atol=1e-14)


@pytest.mark.paper("x:mixture")
@pytest.mark.errata("S22")
@pytest.mark.parametrize("tail", ["zero", "constant"])
@pytest.mark.parametrize(
    ("gamma", "gamma_prime", "eta", "nearer"),
    [(0.8, 0.95, 0.5, 0.875), (0.99, 0.999, 0.01, 0.99009)],
)
def test_first_order_mixture__is_an_expansion_towards_a_nearer_discount(
    batch, gamma, gamma_prime, eta, nearer, tail
):
    """D_1 is proportional to γ'−γ, so η D_1(γ') = D_1(γ + η(γ'−γ)); the second is the paper's."""
    base, ends = batch.value, batch.ends
    mixed = est.mix(base, est.expand(base, *ends, gamma, gamma_prime, 1, tail), eta)
    assert_allclose(mixed, est.expand(base, *ends, gamma, nearer, 1, tail), atol=1e-14)
    window = est.expand_window(base, *ends, gamma, gamma_prime, 1, 4)
    nearer_window = est.expand_window(base, *ends, gamma, nearer, 1, 4)
    assert_allclose(est.mix(base, window, eta), nearer_window, atol=1e-14)


@pytest.mark.paper("x:mixture", "eq:state-weight")
def test_mixture__weighs_rewards_by_the_mixture_of_weights(rng):
    reward, ends = rng.normal(size=9), (None, np.eye(9, dtype=bool)[-1], np.zeros(9, dtype=bool))
    base = est.discounted_return(reward, *ends, GAMMA)
    mixed = est.mix(base, est.expand(base, *ends, GAMMA, GAMMA_PRIME, 2), 0.3)
    w = 0.7 * GAMMA ** np.arange(9) + 0.3 * update_weight_curve(9, GAMMA, GAMMA_PRIME, 2)
    assert mixed[0] == pytest.approx(w @ reward)


@pytest.mark.paper("algo:k-adv")
@pytest.mark.parametrize("lookahead", [None, 4])
@pytest.mark.parametrize(
    ("gamma_prime", "order", "eta"), [(0.95, 3, 0.0), (0.95, 0, 1.0), (0.8, 3, 1.0)]
)
def test_expand_advantage__without_expansion_is_the_advantage_bit_for_bit(
    batch, gamma_prime, order, eta, lookahead
):
    out = est.expand_advantage(
        batch.reward, batch.value, *batch.ends, GAMMA, gamma_prime, order, eta, lookahead=lookahead
    )
    assert out is batch.reward


@pytest.mark.paper("x:centred-advantage")
@pytest.mark.parametrize("order", [1, 4, math.inf])
def test_centring__takes_out_all_that_no_action_changes(order):
    """On a task of one state the value never changes: nothing but the advantage is left."""
    value, never, advantage = np.full(7, 5.0), np.zeros(7, dtype=bool), np.eye(7)[6]
    rest = (value, value, never, never, GAMMA, GAMMA_PRIME, order, 0.5)
    centred = est.expand_advantage(advantage, *rest, tail="constant")
    bare = est.expand_advantage(advantage, *rest, tail="constant", center=False)
    mass = 3.0 if math.isinf(order) else sum(0.75**k for k in range(1, order + 1))
    assert centred[6] == pytest.approx(1.0)
    assert_allclose(bare - centred, 0.5 * mass * value)


@pytest.mark.paper("x:centred-advantage")
def test_centring__at_one_takes_out_the_order_and_infinite_order_is_refused():
    value, dead = np.ones(2), np.ones(2, dtype=bool)
    rest = (value, None, dead, dead, 0.9, 1.0)
    assert_allclose(est.expand_advantage(value, *rest, 6), 1.0 - 6.0)
    assert_allclose(est.expand_advantage(value, *rest, math.inf, center=False), 1.0)
    with pytest.raises(ValueError, match="center=True: must be False with gamma_prime=1"):
        est.expand_advantage(value, *rest, math.inf)


@pytest.mark.paper("x:true-gradient", "algo:weight-onpolicy")
def test_gradient_advantage__order_zero_is_the_vanilla_weight():
    step = np.arange(6)
    out = est.gradient_advantage(np.ones((1, 6)), step, GAMMA, GAMMA_PRIME)
    assert_allclose(out, GAMMA**step, rtol=1e-14)


@pytest.mark.paper("x:true-gradient")
def test_gradient_advantage__weighs_all_rewards_after_t_by_w(rng):
    """Σ_j C(t,j)δ^jγ^{t−j} w_{K−j}(u) = w_K(t+u): a reward counts by its own age alone.

    So on a whole episode with a Monte-Carlo base row t holds Σ_u w_K(t+u) r_{t+u}.
    """
    reward, ends = rng.normal(size=9), (None, np.eye(9, dtype=bool)[-1], np.zeros(9, dtype=bool))
    base = est.discounted_return(reward, *ends, GAMMA)
    for order in (0, 1, 3):
        terms = est.expand_terms(base, *ends, GAMMA, GAMMA_PRIME, order)
        out = est.gradient_advantage(terms, np.arange(9), GAMMA, GAMMA_PRIME)
        w = update_weight_curve(9, GAMMA, GAMMA_PRIME, order)
        assert_allclose(out, np.cumsum((w * reward)[::-1])[::-1], atol=1e-13)


@pytest.mark.paper("x:true-gradient")
def test_gradient_advantage__is_linear_so_baselines_may_be_subtracted_before(rng):
    terms, baselines = rng.normal(size=(2, 4, 5, 2))
    step = np.arange(10).reshape(5, 2)
    whole, part = (est.gradient_advantage(x, step, GAMMA, GAMMA_PRIME) for x in (terms, baselines))
    out = est.gradient_advantage(terms - baselines, step, GAMMA, GAMMA_PRIME)
    assert_allclose(out, whole - part, atol=1e-13)
