"""Running statistics are those of all samples at once; the reward scale is Baselines'."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from gammaprime.envs.statistics import (
    RunningStatistics,
    init_returns,
    init_statistics,
    normalise,
    reward_scale,
    update_returns,
    update_statistics,
)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8), st.integers(0, 1000))
def test_update_statistics__is_the_mean_and_variance_of_all_samples(sizes, seed):
    rng = np.random.default_rng(seed)
    batches = [rng.normal(3.0, 50.0, (size, 3)) for size in sizes]
    empty = RunningStatistics(np.zeros(3), np.zeros(3), np.array(0.0))
    statistics = empty
    for batch in batches:
        statistics = update_statistics(statistics, batch)
    samples = np.concatenate(batches)
    assert statistics.count == len(samples)
    if len(samples):
        assert_allclose(statistics.mean, samples.mean(axis=0), rtol=1e-10, atol=1e-10)
        assert_allclose(statistics.var, samples.var(axis=0), rtol=1e-10, atol=1e-10)


def test_init_statistics__is_forgotten_after_a_few_samples(rng):
    samples = rng.normal(5.0, 2.0, (50, 4))
    statistics = update_statistics(init_statistics((4,)), samples)
    # Mean 0 and variance 1 with the weight 1e-4 of a sample, against 50 samples.
    assert_allclose(statistics.mean, samples.mean(axis=0), rtol=1e-4 / 50 * 2)
    assert_allclose(statistics.var, samples.var(axis=0), rtol=1e-4)
    assert statistics.count == pytest.approx(50.0001)


def test_update_statistics__takes_rollouts_and_leaves_the_old_alone(rng):
    start = init_statistics((4,))
    rollout = rng.normal(size=(7, 3, 4))
    both = update_statistics(start, rollout)
    flat = update_statistics(start, rollout.reshape(21, 4))
    assert all((a == b).all() for a, b in zip(both, flat, strict=True))
    assert (start.mean == 0).all()
    assert both.mean.dtype == both.var.dtype == both.count.dtype == np.float64


def test_update_statistics__stays_exact_far_from_zero(rng):
    # Sums of squares would lose every digit here: 1e8² + 1 is 1e8² in float64.
    samples = 1e8 + rng.normal(size=(1000, 1))
    statistics = RunningStatistics(np.zeros(1), np.zeros(1), np.array(0.0))
    for batch in np.split(samples, 10):
        statistics = update_statistics(statistics, batch)
    assert_allclose(statistics.var, samples.var(axis=0), rtol=1e-6)


def test_normalise__centres_scales_and_clips(rng):
    samples = rng.normal(5.0, 2.0, (1000, 3))
    statistics = update_statistics(init_statistics((3,)), samples)
    x = normalise(statistics, samples)
    assert_allclose(x.mean(axis=0), 0.0, atol=1e-5)
    assert_allclose(x.std(axis=0), 1.0, atol=1e-5)
    assert (normalise(statistics, np.full((2, 3), 1e9)) == 10.0).all()
    assert (normalise(statistics, np.full((2, 3), -1e9), clip=5.0) == -5.0).all()
    constant = RunningStatistics(np.ones(1), np.zeros(1), np.array(9.0))
    assert normalise(constant, np.array([[1.0 + 1e-4]])) == pytest.approx(1.0, rel=1e-8)
    on_device = normalise(statistics, jnp.asarray(samples, jnp.float32))
    assert_allclose(np.asarray(on_device), x, rtol=1e-4, atol=1e-5)


def scale_step_by_step(reward, ended, gamma):
    """What Baselines' VecNormalize keeps: one update for each step, returns reset at ends."""
    so_far, statistics = np.zeros(reward.shape[1]), init_statistics()
    for r, end in zip(reward, ended, strict=True):
        so_far = so_far * gamma + r
        statistics = update_statistics(statistics, so_far)
        so_far[end] = 0.0
    return 1.0 / np.sqrt(statistics.var + 1e-8)


@pytest.mark.parametrize("splits", [1, 4])
def test_reward_scale__is_that_of_baselines(splits, rng):
    reward = rng.normal(1.0, 3.0, (120, 5))
    terminated, truncated = rng.random((2, 120, 5)) < 0.05
    statistics = init_returns(5)
    for part in np.split(np.arange(120), splits):
        statistics = update_returns(
            statistics, reward[part], terminated[part], truncated[part], scale_gamma=0.99
        )
    expected = scale_step_by_step(reward, terminated | truncated, 0.99)
    assert reward_scale(statistics) == pytest.approx(expected, rel=1e-10)


def test_update_returns__leaves_the_rewards_alone_and_has_its_own_discount(rng):
    reward = rng.normal(size=(50, 2))
    kept = reward.copy()
    never = np.zeros((50, 2), bool)
    scales = [
        reward_scale(update_returns(init_returns(2), reward, never, never, scale_gamma))
        for scale_gamma in (0.0, 0.99)
    ]
    assert (reward == kept).all()
    assert scales[0] == pytest.approx(1 / reward.std(), rel=1e-3)
    assert scales[1] < scales[0]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_update_statistics__refuses_what_is_not_finite(value):
    with pytest.raises(ValueError, match=r"batch\[1, 2\]="):
        update_statistics(init_statistics((3,)), [[0.0, 0.0, 0.0], [0.0, 0.0, value]])


def test_update_returns__refuses_shapes_and_discounts():
    never = np.zeros((4, 2), bool)
    with pytest.raises(ValueError, match=r"both must be \(T, 3\)"):
        update_returns(init_returns(3), np.zeros((4, 2)), never, never, 0.99)
    with pytest.raises(ValueError, match=r"the ends \(4, 2\)"):
        update_returns(init_returns(2), np.zeros((3, 2)), never, never, 0.99)
    with pytest.raises(ValueError, match=r"scale_gamma=1\.0"):
        update_returns(init_returns(2), np.zeros((4, 2)), never, never, 1.0)
