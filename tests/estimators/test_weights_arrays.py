"""The same weights in every kind of array, and what is refused."""

import math
import re

import numpy as np
import pytest

from gammaprime.estimators.weights import (
    effective_horizon,
    log_update_weights,
    update_weights,
    value_weights,
)

WEIGHTS = [update_weights, value_weights, log_update_weights]
DISCOUNTS = (0.99, 0.999)
STEPS = np.array([[0, 1, 9, 10, 11], [100, 1000, 5000, 20_000, 99_999]])
every_weight = pytest.mark.parametrize("weights", WEIGHTS)
every_order = pytest.mark.parametrize("order", [0, 10, math.inf])


@every_weight
def test_numpy__shape_and_type_follow_the_steps(weights):
    expected = weights(STEPS, *DISCOUNTS, 10)
    assert expected.shape == STEPS.shape
    assert expected.dtype == np.float64
    for dtype in (np.int32, np.uint64, np.float64):
        np.testing.assert_array_equal(weights(STEPS.astype(dtype), *DISCOUNTS, 10), expected)
    single = weights(STEPS.astype(np.float32), *DISCOUNTS, 10)
    np.testing.assert_array_equal(single, expected.astype(np.float32), strict=True)
    assert weights(np.empty((0, 3), dtype=int), *DISCOUNTS, 10).shape == (0, 3)


@every_weight
def test_numpy__one_step_many_steps_and_repeated_steps_agree(weights):
    at_once = weights(STEPS, *DISCOUNTS, 10)
    one_by_one = [[weights(int(t), *DISCOUNTS, 10) for t in row] for row in STEPS]
    np.testing.assert_array_equal(at_once, one_by_one)
    # More steps than there are different ones are read from one curve.
    short = np.arange(50).reshape(5, 10)
    repeated = weights(np.stack([short] * 3), *DISCOUNTS, 10)
    np.testing.assert_array_equal(repeated, np.stack([weights(short, *DISCOUNTS, 10)] * 3))
    assert isinstance(weights(3, *DISCOUNTS, 10), np.float64)
    assert weights([3, 4], *DISCOUNTS, 10).shape == (2,)


@every_weight
@every_order
def test_jax__gives_the_numpy_numbers(weights, order):
    jnp = pytest.importorskip("jax.numpy")
    expected = weights(STEPS, *DISCOUNTS, order)
    actual = weights(jnp.asarray(STEPS), *DISCOUNTS, order)
    assert actual.dtype == jnp.result_type(float)
    np.testing.assert_array_equal(np.asarray(actual), expected.astype(actual.dtype))
    half = weights(jnp.asarray([0, 7], dtype=jnp.bfloat16), *DISCOUNTS, order)
    assert half.dtype == jnp.bfloat16


@every_weight
@every_order
def test_jax__under_jit_gives_the_numpy_numbers(weights, order):
    jax = pytest.importorskip("jax")
    expected = weights(STEPS, *DISCOUNTS, order)
    traced = jax.jit(lambda step: weights(step, *DISCOUNTS, order))
    for dtype in (np.int32, np.uint32, np.float32):
        actual = traced(jax.numpy.asarray(STEPS.astype(dtype)))
        assert actual.dtype == jax.numpy.result_type(float)
        np.testing.assert_array_equal(np.asarray(actual), expected.astype(actual.dtype))
    small = traced(jax.numpy.asarray([0, 100], dtype=jax.numpy.int8))
    np.testing.assert_array_equal(np.asarray(small), expected[:, 0].astype(small.dtype))
    mapped = jax.vmap(lambda step: weights(step, *DISCOUNTS, order))(STEPS)
    np.testing.assert_array_equal(np.asarray(mapped), expected.astype(mapped.dtype))


@every_weight
def test_jax__in_double_precision_is_the_float64_table(weights):
    jax = pytest.importorskip("jax")
    expected = weights(STEPS, *DISCOUNTS, 10)
    with jax.enable_x64(True):
        step = jax.numpy.asarray(STEPS)
        for actual in (
            weights(step, *DISCOUNTS, 10),
            jax.jit(lambda step: weights(step, *DISCOUNTS, 10))(step),
        ):
            np.testing.assert_array_equal(np.asarray(actual), expected, strict=True)


@every_weight
def test_jax__a_step_that_is_not_in_the_table_is_nan_and_never_another_weight(weights):
    jax = pytest.importorskip("jax")
    outside = [-1.0, 6.0, 2.5, math.nan, math.inf, 2.0**24]
    traced = jax.jit(lambda step: weights(step, *DISCOUNTS, 10, max_step=5))
    assert np.isnan(traced(jax.numpy.asarray(outside))).all()
    assert np.isnan(traced(jax.numpy.asarray([-1, -6, 6, 2**31 - 1]))).all()
    assert not np.isnan(traced(jax.numpy.arange(6))).any()
    # Where the steps are known there is no table, and max_step plays no part.
    known = weights(jax.numpy.asarray([6]), *DISCOUNTS, 10, max_step=5)
    np.testing.assert_array_equal(known, weights(np.array([6], np.float32), *DISCOUNTS, 10))


@every_weight
@every_order
def test_torch__gives_the_numpy_numbers(weights, order):
    torch = pytest.importorskip("torch")
    expected = weights(STEPS, *DISCOUNTS, order)
    actual = weights(torch.asarray(STEPS), *DISCOUNTS, order)
    assert actual.dtype == torch.get_default_dtype()
    np.testing.assert_array_equal(actual.numpy(), expected.astype(np.float32))
    double = weights(torch.asarray(STEPS, dtype=torch.float64), *DISCOUNTS, order)
    np.testing.assert_array_equal(double.numpy(), expected, strict=True)
    half = weights(torch.tensor([0.0, 7.0], dtype=torch.bfloat16), *DISCOUNTS, order)
    assert half.dtype == torch.bfloat16
    followed = torch.tensor([3.0], requires_grad=True)
    assert not weights(followed, *DISCOUNTS, order).requires_grad


@every_weight
@pytest.mark.parametrize("wrong", [-1, 2.5, math.nan, math.inf, 2.0**54])
def test_steps__must_be_whole_and_not_negative(weights, wrong):
    with pytest.raises(
        ValueError, match=re.escape(f"step={float(wrong)!r}: must be a whole number")
    ):
        weights(np.array([[0, 1], [wrong, 2]]), *DISCOUNTS, 3)


@pytest.mark.parametrize("library", ["jax.numpy", "torch"])
def test_steps__are_checked_in_every_kind_of_array(library):
    xp = pytest.importorskip(library)
    with pytest.raises(ValueError, match=r"^step=-2\.0: must be a whole number from 0"):
        update_weights(xp.asarray([0, -2]), *DISCOUNTS, 3)
    with pytest.raises(ValueError, match=r"^step=.*must hold whole numbers, not .*bool"):
        update_weights(xp.asarray([True, False]), *DISCOUNTS, 3)


@every_weight
@pytest.mark.parametrize("wrong", [True, 1j, "3", None])
def test_steps__must_be_numbers(weights, wrong):
    with pytest.raises(ValueError, match=r"^step=.*must hold whole numbers, not"):
        weights(wrong, *DISCOUNTS, 3)


@pytest.mark.parametrize(
    ("discounts", "order", "named"),
    [
        ((1.0, 1.0), 1, "gamma=1.0"),
        ((-0.1, 0.9), 1, "gamma=-0.1"),
        ((0.9, 0.8), 1, "gamma_prime=0.8"),
        ((0.9, 1.1), 1, "gamma_prime=1.1"),
        ((0.9, math.nan), 1, "gamma_prime=nan"),
        ((0.9, 0.99), -1, "order=-1"),
        ((0.9, 0.99), 1.5, "order=1.5"),
    ],
)
def test_discounts_and_order__are_checked_everywhere(discounts, order, named):
    for weights in WEIGHTS:
        with pytest.raises(ValueError, match=f"^{named}: must"):
            weights(np.arange(3), *discounts, order)
    with pytest.raises(ValueError, match=f"^{named}: must"):
        effective_horizon(*discounts, order)


@every_weight
@pytest.mark.parametrize("wrong", [-1, 1.5, 2**24, None])
def test_max_step__must_be_a_size_that_a_table_can_have(weights, wrong):
    with pytest.raises(ValueError, match=rf"^max_step={wrong!r}: must be an integer from 0"):
        weights(np.arange(3), *DISCOUNTS, 3, max_step=wrong)
