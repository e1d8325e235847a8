"""The paper's window and random times: what they keep, and what they do to the weights."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gammaprime.estimators as est

GAMMA, GAMMA_PRIME = 0.8, 0.95
NEVER = np.zeros(6, dtype=bool)


@pytest.mark.paper("x:window")
@pytest.mark.parametrize("lookahead", [1, 3, 100])
def test_window__keeps_constants(lookahead):
    """Full denominators and V past a cut: a base of 1 gives Σ_{k≤K} c^k on every row."""
    ones = np.ones(6)
    out = est.expand_window(ones, ones, NEVER, NEVER, 0.8, 0.95, 3, lookahead)
    assert_allclose(out, 1 + 0.75 + 0.75**2 + 0.75**3, rtol=1e-13)


@pytest.mark.paper("x:window")
def test_window__order_zero_and_equal_discounts_are_the_base(batch):
    for gamma_prime, order in ((0.95, 0), (0.8, 2)):
        out = est.expand_window(batch.value, *batch.ends, 0.8, gamma_prime, order, 3)
        assert_array_equal(out, batch.value)


def window_weights(lookahead, num_steps, gamma=0.99, gamma_prime=0.999):
    """The first row's weight on each base value: the window's answer to impulses."""
    ends = None, np.eye(num_steps, dtype=bool)[-1], np.zeros(num_steps, dtype=bool)
    return np.array(
        [
            est.expand_window(impulse, *ends, gamma, gamma_prime, 1, lookahead)[0]
            for impulse in np.eye(num_steps)
        ]
    )


@pytest.mark.paper("x:window")
@pytest.mark.errata("S21")
def test_window_of_ten__is_too_heavy_by_ten():
    """The mass c = .9 on ten steps that truly carry c(1−γ^10) = .0861: × 1/(1−γ^10) = 10.46."""
    weights = window_weights(10, 30)
    true = est.value_weights(np.arange(30), 0.99, 0.999, 1)
    assert weights[1:].sum() == pytest.approx(0.9)
    assert true[1:11].sum() == pytest.approx(0.9 * (1 - 0.99**10))
    assert true[1:11].sum() == pytest.approx(0.0861, abs=5e-5)
    heavier = weights[1:11] / true[1:11]
    assert_allclose(heavier, 1 / (1 - 0.99**10), rtol=1e-12)
    assert_allclose(heavier, 10.46, atol=5e-3)
    assert_array_equal(weights[11:], 0.0)


@pytest.mark.paper("x:window")
@pytest.mark.errata("S21")
def test_window_of_ten__extends_no_horizon():
    """Reward u ≥ 10 steps ahead: γ^u (1 + c·10γ^{−1}·(1−γ)/(1−γ^10)) = 1.951 γ^u.

    A base value s steps ahead holds that reward with γ^{u−s}; weight γ^{s−1} on it makes
    γ^{u−1} for each of the ten s, so the weight falls like γ^u, as the base's own.
    """
    base_weights = window_weights(10, 60)
    u = np.arange(60)
    rewards = np.array([sum(base_weights[s] * 0.99 ** (v - s) for s in range(v + 1)) for v in u])
    factor = 1 + 0.9 * 10 / 0.99 * 0.01 / (1 - 0.99**10)
    assert factor == pytest.approx(1.951, abs=5e-4)
    assert_allclose(rewards[10:] / 0.99 ** u[10:], factor, rtol=1e-12)
    assert_allclose(rewards[:10] / 0.99 ** u[:10], 1 + (factor - 1) * u[:10] / 10, rtol=1e-12)


@pytest.mark.paper("x:window")
@pytest.mark.errata("S21")
def test_window_longer_than_the_episode__is_still_not_exact(rng):
    """On a terminated episode the factor 1/(1−γ^H) stays; it is gone only at H = ∞."""
    base, ends = rng.normal(size=6), (None, np.eye(6, dtype=bool)[-1], NEVER)
    first_order = est.expand(base, *ends, GAMMA, GAMMA_PRIME, 1) - base
    for lookahead in (6, 12, 10**6):
        term = est.expand_window(base, *ends, GAMMA, GAMMA_PRIME, 1, lookahead) - base
        assert_allclose(term * (1 - GAMMA**lookahead), first_order, atol=1e-13)


@pytest.mark.paper("x:window")
def test_unbounded_window__is_the_expansion_with_constant_tail(batch):
    for order in (1, 3):
        arguments = batch.value, *batch.ends, GAMMA, GAMMA_PRIME, order
        window = est.expand_window(*arguments, 10**6)
        assert_allclose(window, est.expand(*arguments, "constant"), rtol=0, atol=1e-12)


def test_gamma_zero__the_window_is_the_next_step():
    base = np.array([1.0, 10.0, 100.0])
    out = est.expand_window(base, None, np.eye(3, dtype=bool)[-1], NEVER[:3], 0.0, 0.5, 1, 4)
    assert_allclose(out, [6.0, 60.0, 100.0])


@pytest.mark.paper("algo:estimate")
@pytest.mark.errata("S1")
def test_jumps__are_geometric_from_one(rng):
    """Frequencies within 4.5 standard errors of (1−γ)γ^{t−1}, t = 1, 2, …; the mean is 1/(1−γ)."""
    count = 200_000
    jumps = est.sample_jumps(2, (count // 2,), GAMMA, rng)
    assert jumps.shape == (2, count // 2)
    assert jumps.min() == 1
    for t in range(1, 8):
        p = (1 - GAMMA) * GAMMA ** (t - 1)
        assert abs((jumps == t).mean() - p) < 4.5 * np.sqrt(p * (1 - p) / count)
    assert_array_equal(est.sample_jumps(3, 4, 0.0, rng), np.ones((3, 4), dtype=int))


@pytest.mark.paper("algo:estimate", "algo:adv", "x:marginalised")
@pytest.mark.errata("S1", "S4")
def test_random_times__have_the_expansion_as_their_mean_on_a_fixed_path(rng):
    """Past the cut they see V, which is the constant tail; within 4.5 standard errors."""
    base, boot, draws = rng.normal(size=6) + 1, 2.0, 40_000
    ends = np.full(6, boot), NEVER, np.eye(6, dtype=bool)[2]
    jumps = est.sample_jumps(3, (6, draws), GAMMA, rng)
    copies = [np.repeat(x[:, None], draws, axis=1) for x in (base, *ends)]
    out = est.expand_random(*copies, GAMMA, GAMMA_PRIME, jumps)
    error = out.std(axis=1) / np.sqrt(draws)
    mean = est.expand(base, *ends, GAMMA, GAMMA_PRIME, 3, "constant")
    assert error.max() > 0
    assert (np.abs(out.mean(axis=1) - mean) <= 4.5 * error + 1e-12).all()


def test_very_long_jumps__land_past_the_end(batch):
    jumps = np.full((2, 9, 6), np.iinfo(np.int64).max)
    out = est.expand_random(batch.value, *batch.ends, GAMMA, GAMMA_PRIME, jumps)
    past = est.expand_random(batch.value, *batch.ends, GAMMA, GAMMA_PRIME, np.full((2, 9, 6), 9))
    assert_array_equal(out, past)
