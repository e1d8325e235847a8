"""The curve from which a user chooses an order."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gammaprime.estimators as est


@pytest.mark.paper("algo:estimate")
def test_curve__falls_short_of_the_target_by_what_the_higher_orders_hold(rng):
    """Reward 1 + noise, each step the last with probability .1: V_K = 10 Σ_{k≤K} … in closed form.

    With q = .9: V_γ = 1/(1−γq) and each order adds ρ = (γ'−γ)q/(1−γq) times the one before.
    """
    gamma, gamma_prime, q, trajectories = 0.8, 1.0, 0.9, 4000
    dead = rng.random((150, trajectories)) > q
    dead[-1] = True
    reward = 1 + rng.normal(size=dead.shape)
    ends = None, dead, np.zeros_like(dead)
    base = est.discounted_return(reward, *ends, gamma)
    curve = est.order_curve(est.expand_terms(base, *ends, gamma, gamma_prime, 30))
    ratio = (gamma_prime - gamma) * q / (1 - gamma * q)
    exact = (1 - ratio ** (np.arange(31) + 1)) / (1 - ratio) / (1 - gamma * q)
    assert exact[-1] == pytest.approx(1 / (1 - q), abs=1e-4)
    assert (np.abs(curve.estimate - exact) < 4.5 * curve.standard_error).all()
    assert (np.diff(curve.standard_error) > 0).all()
    assert list(curve.orders) == list(range(31))


def test_curve__its_last_point_is_the_mean_of_the_expansion(batch):
    terms = est.expand_terms(batch.value, *batch.ends, 0.8, 0.95, 4)
    first = est.expand(batch.value, *batch.ends, 0.8, 0.95, 4)[0]
    curve = est.order_curve(terms)
    assert curve.estimate[-1] == pytest.approx(first.mean())
    assert curve.standard_error[-1] == pytest.approx(first.std(ddof=1) / math.sqrt(6))


def test_curve__with_steps_counts_every_episode_once(batch):
    """Step 0 marks the starts: rows after an end too, and no row of an episode begun before."""
    terms = est.expand_terms(batch.value, *batch.ends, 0.8, 0.95, 2)
    step = np.ones((9, 6), dtype=int)
    step[0, 2], step[4, 2], step[2, 3] = 0, 0, 0
    starts = terms.sum(axis=0)[[0, 4, 2], [2, 2, 3]]
    curve = est.order_curve(terms, step)
    assert curve.estimate[-1] == pytest.approx(starts.mean())
    assert_allclose(curve.standard_error[-1], starts.std(ddof=1) / math.sqrt(3))
