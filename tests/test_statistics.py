"""Running statistics against the statistics of everything at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gammaprime.statistics import Statistics, discounted_returns, update_statistics


@given(sizes=st.lists(st.integers(1, 7), min_size=1, max_size=5), shift=st.floats(-1e3, 1e3))
def test_update_statistics__in_parts_are_those_of_the_whole(sizes, shift):
    rng = np.random.default_rng(sum(sizes))
    parts = [shift + rng.normal(size=(size, 2)) * [1.0, 30.0] for size in sizes]
    # A prior that counts next to nothing: what is left of it is below the tolerance.
    seen = Statistics.start((2,))._replace(size=np.array(1e-12))
    for part in parts:
        seen = update_statistics(seen, part)
    whole = np.concatenate(parts)
    np.testing.assert_allclose(seen.mean, whole.mean(axis=0), rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(seen.variance, whole.var(axis=0), rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(seen.size, len(whole))


def test_update_statistics__begin_as_a_standard_normal_that_hardly_counts():
    start = Statistics.start(())
    np.testing.assert_allclose(start.scale, 1.0, rtol=1e-7)
    after = update_statistics(start, np.full(100, 5.0))
    np.testing.assert_allclose(after.mean, 5.0, rtol=1e-5)
    assert np.isfinite(after.scale)
    assert after.scale > 100


def test_discounted_returns__begin_anew_after_an_end_and_go_on_after_a_rollout(rng):
    reward = rng.normal(size=(7, 2))
    ended = np.zeros((7, 2), bool)
    ended[[2, 6], [0, 1]] = True
    whole, last = discounted_returns(reward, ended, np.zeros(2), 0.9)
    # The definition, by hand: powers of the discount since the last end.
    np.testing.assert_allclose(whole[2, 0], reward[:3, 0] @ 0.9 ** np.arange(2, -1, -1))
    np.testing.assert_allclose(whole[4, 0], reward[4, 0] + 0.9 * reward[3, 0])
    np.testing.assert_allclose(whole[6, 1], reward[:, 1] @ 0.9 ** np.arange(6, -1, -1))
    assert last[1] == 0.0
    assert last[0] == whole[6, 0]
    first, between = discounted_returns(reward[:4], ended[:4], np.zeros(2), 0.9)
    second, again = discounted_returns(reward[4:], ended[4:], between, 0.9)
    np.testing.assert_array_equal(np.vstack([first, second]), whole)
    np.testing.assert_array_equal(again, last)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_discounted_returns__are_float64_whatever_the_rewards(dtype):
    returns, last = discounted_returns(
        np.ones((3, 1), dtype), np.zeros((3, 1), bool), np.zeros(1), 0.5
    )
    assert returns.dtype == last.dtype == np.float64
    np.testing.assert_array_equal(returns[:, 0], [1.0, 1.5, 1.75])
