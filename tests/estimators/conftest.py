"""A batch with every kind of end, and the libraries it is tried on."""

import contextlib
from typing import NamedTuple

import numpy as np
import pytest

KINDS = ["numpy", "jax", "jit", "torch"]


class Batch(NamedTuple):
    reward: np.ndarray
    value: np.ndarray
    next_value: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray

    @property
    def cut(self):
        last = np.arange(len(self.reward))[:, None] == len(self.reward) - 1
        return (self.truncated | last) & ~self.terminated

    @property
    def ends(self):
        """What expansions take after the base, with NaN where next_value must not be read."""
        return np.where(self.cut, self.next_value, np.nan), self.terminated, self.truncated

    @property
    def all_next(self):
        """``next_value`` for those who read it at every row that is not terminated."""
        return np.where(self.terminated, np.nan, self.next_value)

    @property
    def survival(self):
        return 1 - self.terminated.sum() / self.terminated.size


@pytest.fixture
def batch(rng):
    """Nine rows, six columns: cut, dead, both at once, at the first row and at the last."""
    terminated, truncated = np.zeros((2, 9, 6), dtype=bool)
    terminated[[8, 3, 6, 1, 8, 2], [1, 2, 2, 3, 5, 4]] = True
    truncated[[6, 0, 8, 4, 8], [2, 3, 3, 4, 5]] = True
    return Batch(*rng.normal(size=(3, 9, 6)), terminated, truncated)


class Library:
    """One array library in one precision: arrays in, a function run on them, NumPy out."""

    def __init__(self, kind, dtype):
        self.kind, self.dtype = kind, dtype
        self.tolerance = 1e-12 if dtype == "float64" else 3e-5

    def array(self, x):
        x = np.asarray(x)
        x = x.astype(self.dtype) if x.dtype.kind == "f" else x
        if self.kind == "numpy":
            return x
        if self.kind == "torch":
            return pytest.importorskip("torch").asarray(x)
        return pytest.importorskip("jax").numpy.asarray(x)

    def run(self, function, *arrays):
        """The function's array, or arrays if it returns a tuple, still of the library."""
        with self.precision():
            arrays = [self.array(x) for x in arrays]
            if self.kind == "jit":
                function = pytest.importorskip("jax").jit(function)
            return function(*arrays)

    def precision(self):
        if self.kind in ("jax", "jit") and self.dtype == "float64":
            return pytest.importorskip("jax").enable_x64(True)
        return contextlib.nullcontext()

    def is_ours(self, x):
        """Same kind of array, same dtype."""
        module = {"numpy": "numpy", "torch": "torch"}.get(self.kind, "jaxlib")
        return type(x).__module__.split(".")[0] == module and str(x.dtype).endswith(self.dtype)


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return request.param


@pytest.fixture(params=KINDS)
def library(request, dtype):
    return Library(request.param, dtype)
