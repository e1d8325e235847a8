"""Ends: a batch is the same episodes one by one, and nothing leaks across or past an end."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

import gammaprime.estimators as est
from estimators.brute import episodes

GAMMA, GAMMA_PRIME, LAM = 0.8, 0.95, 0.6
GARBAGE = 1e9


def returned(y, next_value, dead, cut):
    return est.discounted_return(y, next_value, dead, cut, GAMMA)


def lambda_returned(y, next_value, dead, cut):
    return est.lambda_return(y, next_value, dead, cut, GAMMA, LAM)


def advantage(y, next_value, dead, cut):
    return est.gae(y, 2 * y, next_value, dead, cut, GAMMA, LAM)


def expanded(order, tail, survival=None):
    def of(y, next_value, dead, cut):
        return est.expand(y, next_value, dead, cut, GAMMA, GAMMA_PRIME, order, tail, survival)

    return of


def windowed(y, next_value, dead, cut):
    return est.expand_window(y, next_value, dead, cut, GAMMA, GAMMA_PRIME, 2, 3)


def at_random(y, next_value, dead, cut):
    jumps = np.broadcast_to(np.array([1, 3]).reshape(2, *(1,) * y.ndim), (2, *y.shape))
    return est.expand_random(y, next_value, dead, cut, GAMMA, GAMMA_PRIME, jumps)


READ_AT_CUTS = {
    "returns": returned,
    "order 2, constant": expanded(2, "constant"),
    "order 3, survival": expanded(3, "survival", 0.9),
    "order inf, zero": expanded(math.inf, "zero"),
    "order inf, constant": expanded(math.inf, "constant"),
    "window": windowed,
    "random times": at_random,
}
READ_WHERE_ALIVE = {"lambda returns": lambda_returned, "gae": advantage}
every_estimator = pytest.mark.parametrize("name", [*READ_AT_CUTS, *READ_WHERE_ALIVE])


@st.composite
def batches(draw):
    shape = draw(st.tuples(st.integers(1, 12), st.integers(1, 3)))
    numbers = st.floats(-10, 10, width=32)
    y, next_value = (draw(hnp.arrays(float, shape, elements=numbers)) for _ in range(2))
    dead, cut = (draw(hnp.arrays(bool, shape)) for _ in range(2))
    return y, next_value, dead, cut


@every_estimator
@given(batch=batches())
def test_batch_with_mixed_ends__is_its_episodes_one_by_one(name, batch):
    estimate = {**READ_AT_CUTS, **READ_WHERE_ALIVE}[name]
    y, next_value, dead, cut = batch
    whole = estimate(*batch)
    for n in range(y.shape[1]):
        for rows, died in episodes(dead[:, n], cut[:, n]):
            part = slice(rows.start, rows.stop)
            alone = np.zeros(len(rows), dtype=bool)
            alone[-1] = died
            of_one = estimate(y[part, n], next_value[part, n], alone, np.zeros(len(rows), bool))
            assert_allclose(of_one, whole[part, n], rtol=1e-12, atol=1e-12)


@every_estimator
@given(batch=batches())
def test_terminated__wins_over_truncated(name, batch):
    estimate = {**READ_AT_CUTS, **READ_WHERE_ALIVE}[name]
    y, next_value, dead, cut = batch
    assert_array_equal(estimate(*batch), estimate(y, next_value, dead, cut & ~dead))
    assert_array_equal(estimate(*batch), estimate(y, next_value, dead, cut | dead))


@every_estimator
@given(batch=batches(), garbage=st.sampled_from([np.nan, np.inf, GARBAGE]))
def test_next_value__is_read_only_where_it_is_said_to_be(name, batch, garbage):
    estimate = {**READ_AT_CUTS, **READ_WHERE_ALIVE}[name]
    y, next_value, dead, cut = batch
    last = np.arange(len(y))[:, None] == len(y) - 1
    read = (cut | last) & ~dead if name in READ_AT_CUTS else ~dead
    poisoned = np.where(read, next_value, garbage)
    assert_array_equal(estimate(y, poisoned, dead, cut), estimate(*batch))


@every_estimator
def test_last_row__is_cut_unless_terminated(name, batch):
    estimate = {**READ_AT_CUTS, **READ_WHERE_ALIVE}[name]
    y, _, next_value, dead, cut = batch
    flagged, moved = cut.copy(), next_value.copy()
    flagged[-1] = True
    moved[-1] += 1.0
    before = estimate(y, next_value, dead, cut)
    assert_array_equal(estimate(y, next_value, dead, flagged), before)
    changed = estimate(y, moved, dead, cut)[-1] != before[-1]
    assert_array_equal(changed, ~dead[-1])


@pytest.mark.parametrize("name", READ_AT_CUTS)
def test_next_value__may_be_missing_where_no_row_is_cut(name, batch):
    estimate = READ_AT_CUTS[name]
    dead = batch.terminated.copy()
    dead[-1] = True
    none_cut = batch.truncated & dead
    full = estimate(batch.value, batch.next_value, dead, none_cut)
    assert_array_equal(estimate(batch.value, None, dead, none_cut), full)
    with pytest.raises(ValueError, match=r"^next_value=None: must be given"):
        estimate(batch.value, None, batch.terminated, batch.truncated)


@pytest.mark.paper("x:survival-tail")
def test_survival__is_read_off_the_batch_and_truncations_are_not_deaths(batch):
    flags = batch.terminated, batch.truncated
    assert batch.terminated.sum() == 6
    for order in (1, 4, math.inf):
        arguments = batch.value, batch.next_value, *flags, GAMMA, GAMMA_PRIME, order, "survival"
        given = est.expand(*arguments, 1 - 6 / 54)
        assert_allclose(est.expand(*arguments), given, rtol=1e-12, atol=1e-13)


@pytest.mark.paper("x:tails", "x:survival-tail")
def test_survival__has_the_other_two_tails_as_its_ends(batch):
    for order in (1, 4, math.inf):
        arguments = batch.value, *batch.ends, GAMMA, GAMMA_PRIME, order
        for q, tail in ((0.0, "zero"), (1.0, "constant")):
            with_q = est.expand(*arguments, "survival", q)
            assert_allclose(with_q, est.expand(*arguments, tail), rtol=1e-14)


@pytest.mark.paper("x:tails")
def test_termination__is_known_zeros_not_unknown_steps():
    """γ = .9, γ' = .99 and one surviving step of base 1: the true first term is .09·1.

    Dividing by the weight of the steps that survive, .1 of 1, would say .9.
    """
    ends = None, [0, 1], [0, 0]
    terms = est.expand_terms([0.0, 1.0], *ends, 0.9, 0.99, 1)
    assert terms[1, 0] == pytest.approx(0.09)
    window = est.expand_window([0.0, 1.0], *ends, 0.9, 0.99, 1, 50)
    assert window[0] == pytest.approx(0.09 / (1 - 0.9**50))
