"""What the array libraries have in common: gradients, mixtures of kinds, tracing, absence."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gammaprime.estimators as est

GAMMA, GAMMA_PRIME = 0.8, 0.95


@pytest.mark.paper("prop:kvalue")
@pytest.mark.parametrize("order", [1, 4, math.inf])
def test_expand__has_the_value_weights_as_its_gradient(order, rng):
    """Q_K is linear in the base, so autograd must find f(K, s) s rows ahead."""
    jax, torch = pytest.importorskip("jax"), pytest.importorskip("torch")
    base, ends = rng.normal(size=8), (None, np.eye(8, dtype=bool)[7], np.zeros(8, dtype=bool))

    def first(y):
        return est.expand(y, *ends, GAMMA, GAMMA_PRIME, order)[0]

    weights = est.value_weights(np.arange(8.0), GAMMA, GAMMA_PRIME, order) + np.eye(8)[0]
    for gradient in (jax.grad(first), jax.jit(jax.grad(first))):
        assert_allclose(gradient(jax.numpy.asarray(base)), weights, rtol=1e-5)
    leaf = torch.tensor(base, requires_grad=True)
    first(leaf).backward()
    assert_allclose(leaf.grad, weights, rtol=1e-12)


def test_gae__lets_gradients_of_values_through():
    jax, torch = pytest.importorskip("jax"), pytest.importorskip("torch")
    reward, next_value, flags = np.ones(3), np.ones(3), np.zeros(3, dtype=bool)

    def first(value):
        return est.gae(reward, value, next_value, flags, flags, 0.9, 0.5)[0]

    weights = [-1.0, -0.45, -(0.45**2)]
    assert_allclose(jax.grad(first)(jax.numpy.zeros(3)), weights, rtol=1e-6)
    leaf = torch.zeros(3, requires_grad=True)
    first(leaf).backward()
    assert_allclose(leaf.grad, weights, rtol=1e-6)


def test_mixed_libraries__numpy_joins_the_other(batch):
    jax, torch = pytest.importorskip("jax"), pytest.importorskip("torch")
    arrays = batch.reward, batch.value, batch.all_next, batch.terminated, batch.truncated
    expected = est.gae(*arrays, 0.9, 0.5)
    for make, kind in ((jax.numpy.asarray, jax.Array), (torch.asarray, torch.Tensor)):
        for i in range(5):
            mixed = [make(x) if i == j else x for j, x in enumerate(arrays)]
            out = est.gae(*mixed, 0.9, 0.5)
            assert isinstance(out, kind)
            assert_allclose(np.asarray(out), expected, atol=1e-5)
    with pytest.raises(ValueError, match="must be of one library"):
        est.gae(jax.numpy.asarray(batch.reward), torch.asarray(batch.value), *arrays[2:], 0.9, 0.5)


def test_constants_under_jit__are_not_looked_at(batch):
    """A batch that is closed over is known, but what is asked about it is traced all the same."""
    jax = pytest.importorskip("jax")
    constants = [jax.numpy.asarray(x) for x in (batch.reward, *batch.ends)]

    @jax.jit
    def scaled(factor):
        y = est.discounted_return(*constants, GAMMA)
        return factor * est.expand(y, *constants[1:], GAMMA, 1.0, math.inf)

    y = est.discounted_return(batch.reward, *batch.ends, GAMMA)
    expected = est.expand(y, *batch.ends, GAMMA, 1.0, math.inf)
    assert_allclose(scaled(1.0), expected, rtol=1e-4, atol=1e-4)


def test_integers_and_flags__are_promoted_to_the_default_float():
    jax, torch = pytest.importorskip("jax"), pytest.importorskip("torch")
    reward, dead, cut = [[3], [0], [1]], [[0.0], [0.0], [1.0]], [[False], [False], [True]]
    for array, dtype in (
        (np.asarray, np.float64),
        (jax.numpy.asarray, jax.numpy.zeros(()).dtype),
        (torch.asarray, torch.get_default_dtype()),
    ):
        y = est.discounted_return(array(reward), None, array(dead), array(cut), 0.5)
        assert y.dtype == dtype
        assert_allclose(np.asarray(y), [[3.25], [0.5], [1.0]])
    single = np.ones((3, 1), dtype=np.float32)
    assert est.gae(np.asarray(reward), single, single, dead, cut, 0.5, 0.5).dtype == np.float32


def test_inputs__are_left_as_they_were(batch):
    arrays = [np.array(x) for x in (batch.value, *batch.ends)]
    kept = [x.copy() for x in arrays]
    for order in (0, 3, math.inf):
        out = est.expand(*arrays, GAMMA, GAMMA_PRIME, order)
        assert not np.shares_memory(out, arrays[0])
    out = est.expand_random(*arrays, GAMMA, GAMMA_PRIME, np.ones((0, 9, 6), dtype=int))
    assert not np.shares_memory(out, arrays[0])
    est.expand_terms(*arrays, GAMMA, GAMMA_PRIME, 3)
    est.expand_window(*arrays, GAMMA, GAMMA_PRIME, 2, 3)
    est.discounted_return(*arrays, GAMMA)
    for array, before in zip(arrays, kept, strict=True):
        np.testing.assert_array_equal(array, before)


def test_no_columns__give_no_columns():
    empty = np.ones((4, 0))
    assert est.gae(empty, empty, empty, empty, empty, 0.9, 0.5).shape == (4, 0)


def test_anything_may_follow_time(batch):
    """One trajectory alone, and a batch of batches, are the columns of a batch."""
    whole = est.expand(batch.value, *batch.ends, GAMMA, GAMMA_PRIME, 2, survival=0.9)
    folded = [x.reshape(9, 2, 3) for x in (batch.value, *batch.ends)]
    out = est.expand(*folded, GAMMA, GAMMA_PRIME, 2, survival=0.9)
    assert_allclose(out.reshape(9, 6), whole, rtol=1e-15)
    for n in range(6):
        column = [x[:, n] for x in (batch.value, *batch.ends)]
        out = est.expand(*column, GAMMA, GAMMA_PRIME, 2, survival=0.9)
        assert_allclose(out, whole[:, n], rtol=1e-15)
