"""Array libraries: the functions that differ between NumPy, JAX and torch."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import array_api_compat as compat
import numpy as np

from gammaprime.typing import Array

Algebra = Callable[..., tuple[Array, Array]]


def discounted_sum(x: Array, decay: Array | float) -> Array:
    """Sum backwards over time: y_t = x_t + decay_t · y_{t+1}, with nothing after the last row.

    Returns, advantages and every Taylor order are elementwise algebra around this function: a
    loop that works in place in NumPy, a loop that autograd can follow in torch, a reverse scan
    in JAX.  Values are not inspected: a NaN reaches every row before it, through a zero decay too.

    Args:
        x: What is added up, time first.
        decay: Factor of the sum that follows each row, or one number for all rows.

    Returns:
        The sums, in the library and dtype of the arrays.

    Example:
        >>> discounted_sum([1.0, 1.0, 1.0], 0.5)
        array([1.75, 1.5 , 1.  ])

    Shapes: x (T, ...), decay (T, ...) or one number -> (T, ...).
    """
    xp = namespace(x, decay)
    x = as_array(xp, "x", x)
    decay = as_array(xp, "decay", decay)
    dtype = float_dtype(xp, x, decay) if decay.ndim else float_dtype(xp, x)
    x, decay = (xp.astype(array, dtype, copy=False) for array in (x, decay))
    if x.ndim == 0 or x.shape[0] == 0:
        raise ValueError(f"x has shape {tuple(x.shape)}: must have time first, at least one row")
    if decay.ndim and decay.shape != x.shape:
        shapes = tuple(decay.shape), tuple(x.shape)
        raise ValueError("decay has shape {}: must be one number or {}, as x".format(*shapes))
    if not decay.ndim:
        decay = xp.zeros_like(x) + decay
    if compat.is_jax_array(x):
        return _jax_scan()(x, decay)
    return _torch_scan(x, decay) if compat.is_torch_array(x) else _numpy_scan(x, decay)


def discounted_sum_of(algebra: Algebra, *arrays: Array) -> Array:
    """Return `discounted_sum` of (x, decay) = algebra(*arrays), which must be elementwise.

    Where JAX traces, the algebra runs inside the scan, one row at a time, so that x and decay
    are never written to memory: see `make bench CONTESTS=jax`.

    Shapes: all (T, ...) -> (T, ...).
    """
    if not is_traced(*arrays):
        return discounted_sum(*algebra(*arrays))
    import jax

    def step(following: Array, row: tuple[Array, ...]) -> tuple[Array, Array]:
        x, decay = algebra(*row)
        total = x + decay * following
        return total, total

    return jax.lax.scan(step, jax.numpy.zeros_like(arrays[0][0]), arrays, reverse=True)[1]


UNROLLED = 32
"""Longest loop that is unrolled where JAX traces; longer ones would take minutes to compile."""


def repeat(count: int, step: Callable[..., Any], *carry: Any) -> Any:
    """Return the carry after ``count`` times ``carry = step(*carry)``."""
    if count > UNROLLED and is_traced(*carry):
        import jax

        return jax.lax.fori_loop(0, count, lambda _, carried: step(*carried), carry)
    for _ in range(count):
        carry = step(*carry)
    return carry


def _numpy_scan(x: Array, decay: Array) -> Array:
    total, flat = x.copy(), (len(x), math.prod(x.shape[1:]))
    rows = list(total.reshape(flat))
    following = rows.pop()
    product = np.empty_like(following)
    decays = list(decay.reshape(flat))[-2::-1]
    # Positional out: on short rows the cost of the keyword itself shows.
    for row, factor in zip(reversed(rows), decays, strict=True):
        np.multiply(factor, following, product)
        np.add(row, product, row)
        following = row
    return total


def _torch_scan(x: Array, decay: Array) -> Array:
    rows = list(x.unbind(0))
    decays = list(decay.unbind(0))[-2::-1]
    total = [rows.pop()]
    for row, factor in zip(reversed(rows), decays, strict=True):
        total.append(row.addcmul(factor, total[-1]))
    return namespace(x).stack(total[::-1])


@functools.cache
def _jax_scan() -> Callable[[Array, Array], Array]:
    """Return the compiled scan; an eager scan over a new function is traced at every call."""
    import jax

    def step(following: Array, row: tuple[Array, Array]) -> tuple[Array, Array]:
        total = row[0] + row[1] * following
        return total, total

    # Unrolling was measured and only slows this body down.
    def scan(x: Array, decay: Array) -> Array:
        return jax.lax.scan(step, jax.numpy.zeros_like(x[0]), (x, decay), reverse=True)[1]

    return jax.jit(scan)  # type: ignore[no-any-return, unused-ignore]


def namespace(*arrays: Any) -> Any:
    """Return the array-API namespace of the arrays; NumPy, lists and numbers join JAX or torch."""
    ours: list[Any] = [a for a in arrays if compat.is_jax_array(a) or compat.is_torch_array(a)]
    try:
        return compat.array_namespace(*(ours or [np.empty(0)]))
    except TypeError:
        raise ValueError("arrays of JAX and of torch: must be of one library") from None


def as_array(xp: Any, name: str, value: Any) -> Array:
    """Return the value as an array of this library, if it holds real numbers."""
    if compat.is_jax_array(value) or compat.is_torch_array(value):
        array = value
    else:
        array = _from_host(xp, name, value)
    if not xp.isdtype(array.dtype, ("bool", "integral", "real floating")):
        raise ValueError(f"{name} has dtype {array.dtype}: must be real numbers")
    return array


def _from_host(xp: Any, name: str, value: Any) -> Array:
    try:
        array = np.asarray(value)
        # A copy, because torch warns about memory it may not write.
        return array if xp is namespace(array) else xp.asarray(np.array(array))
    except (TypeError, ValueError):
        raise ValueError(f"{name} of type {type(value).__name__}: must be a real array") from None


def float_dtype(xp: Any, *arrays: Array) -> Any:
    """Return the float dtype that the arrays share; integers and flags are ignored."""
    floats = [a.dtype for a in arrays if xp.isdtype(a.dtype, "real floating")]
    return xp.result_type(*floats) if floats else xp.asarray(0.0).dtype


def is_traced(*arrays: Any) -> bool:
    """Return whether JAX is tracing (jit, grad, vmap), so that values are not known."""
    seen = [a for a in arrays if compat.is_jax_array(a)]
    if not seen:
        return False
    import jax

    return any(isinstance(a, jax.core.Tracer) for a in seen)


def any_seen(mask: Array) -> bool:
    """Return whether an entry is set, False where JAX traces and it cannot be known.

    The answer is tested, not the mask: under jit the answer is traced even for a constant.
    """
    answer = namespace(mask).any(mask)
    return not is_traced(answer) and bool(answer)
