"""Checks of the arrays that callers pass in, and the ends of the trajectories in a batch.

A termination is followed by zeros.  A cut, which is a truncation or the end of the batch, is
followed by the value of the true successor.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gammaprime.estimators.backend import (
    any_seen,
    as_array,
    discounted_sum,
    float_dtype,
    namespace,
)
from gammaprime.typing import Array


class Ends(NamedTuple):
    """Flags of the rows that are the last of their trajectory."""

    terminated: Array
    cut: Array
    """Cut and not terminated: by a truncation, or in the last row of the batch."""
    either: Array
    """Terminated or cut."""
    truncated: Array
    """As given by the caller: False in the last row unless set, True beside a termination."""


def as_ends(xp: Any, terminated: Any, truncated: Any) -> Ends:
    """Return the ends of a batch.

    Terminated wins over truncated, and the last row is a cut unless it is terminated.

    Shapes: (T, ...).
    """
    terminated = _as_flags(xp, "terminated", terminated)
    truncated = _as_flags(xp, "truncated", truncated)
    _check_shapes(terminated=terminated, truncated=truncated)
    stopped = xp.concat([truncated[:-1], xp.ones_like(truncated[-1:])])
    return Ends(terminated, stopped & ~terminated, stopped | terminated, truncated)


def as_batch(terminated: Any, truncated: Any, **arrays: Any) -> tuple[Ends, list[Array]]:
    """Return the ends of a batch and its arrays, all of one library, dtype and shape.

    Shapes: all (T, ...).
    """
    xp = namespace(terminated, truncated, *arrays.values())
    floats = as_floats(xp, **arrays)
    flags = {"terminated": terminated, "truncated": truncated}
    flags = {name: _as_flags(xp, name, value) for name, value in flags.items()}
    _check_shapes(**{next(iter(arrays)): floats[0]}, **flags)
    return as_ends(xp, **flags), floats


def as_floats(xp: Any, **arrays: Any) -> list[Array]:
    """Return the arrays as floats of one library, dtype and shape (T, ...), in the order given.

    The first array sets the shape.  Values are not inspected.  ``next_value`` may be None.
    """
    given = {
        name: as_array(xp, name, x)
        for name, x in arrays.items()
        if not (name == "next_value" and x is None)
    }
    _check_shapes(**given)
    dtype = float_dtype(xp, *given.values())
    floats = {name: xp.astype(array, dtype, copy=False) for name, array in given.items()}
    return [floats.get(name) for name in arrays]


def as_terms(xp: Any, terms: Any) -> Array:
    """Return the terms D_0 .. D_K as floats, if they are finite and of shape (K+1, T, ...)."""
    terms = as_array(xp, "terms", terms)
    if terms.ndim < 2 or 0 in terms.shape[:2]:
        raise ValueError(f"terms has shape {tuple(terms.shape)}: must be (K+1, T, ...)")
    terms = xp.astype(terms, float_dtype(xp, terms), copy=False)
    check_finite(terms=terms)
    return terms


def as_steps(xp: Any, name: str, value: Any, least: int, shape: tuple[int, ...]) -> Array:
    """Return whole numbers of this shape, not below ``least``; whole floats are accepted."""
    steps = as_array(xp, name, value)
    if tuple(steps.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(steps.shape)}: must be {shape}")
    if xp.isdtype(steps.dtype, "bool"):
        raise ValueError(f"{name} has dtype {steps.dtype}: must be whole numbers")
    whole = steps >= least
    if xp.isdtype(steps.dtype, "real floating"):
        whole = whole & (steps == xp.floor(steps)) & xp.isfinite(steps)
    _refuse_where(name, steps, ~whole, f"must be a whole number >= {least}")
    return steps


def check_finite(**arrays: Array) -> None:
    """Refuse NaN and infinity."""
    for name, array in arrays.items():
        _refuse_where(name, array, ~namespace(array).isfinite(array), "must be finite")


def where_read(
    next_value: Array | None, read: Array, like: Array, name: str = "next_value"
) -> Array:
    """Return ``next_value`` where it is read and 0 elsewhere.  None is refused if a row reads it.

    Shapes: (T, ...) -> (T, ...).
    """
    xp = namespace(like)
    if next_value is None:
        if any_seen(read):
            raise ValueError(f"{name}=None: must be given, a row is cut and not terminated")
        return xp.zeros_like(like)
    value = xp.where(read, next_value, 0.0)
    check_finite(**{name: value})
    return value


def shift(x: Array) -> Array:
    """Return x_{t+1}.  The last row is always an end, so its entry is never read.

    Shapes: (T, ...) -> (T, ...).
    """
    return namespace(x).concat([x[1:], x[-1:]])


def next_index(x: Array, after: Array, ends: Ends) -> Array:
    """Return x_{t+1}, or ``after`` at an end.

    Shapes: x (T, ...), after (T, ...) -> (T, ...).
    """
    return namespace(x).where(ends.either, after, shift(x))


def stop_at(ended: Array, decay: float, like: Array) -> Array:
    """Return the decay, or 0 at ends.  Shapes: (T, ...) -> (T, ...)."""
    return decay * namespace(like).astype(~ended, like.dtype)


def until_end(boot: Array, ends: Ends) -> tuple[Array, Array]:
    """Return the number of later rows of each row's trajectory, and ``boot`` at its end.

    Shapes: (T, ...) -> (T, ...), (T, ...).
    """
    xp = namespace(boot)
    wide = xp.zeros_like(boot, dtype=float_dtype(xp))
    going = stop_at(ends.either, 1.0, wide)
    left = xp.astype(discounted_sum(going, going), xp.asarray(0).dtype)
    return left, discounted_sum(boot, stop_at(ends.either, 1.0, boot))


def _as_flags(xp: Any, name: str, value: Any) -> Array:
    """Return the flags as booleans; 0 and 1 of any dtype are accepted."""
    flags = as_array(xp, name, value)
    if xp.isdtype(flags.dtype, "bool"):
        return flags
    _refuse_where(name, flags, (flags != 0) & (flags != 1), "must be 0 or 1")
    return flags != 0


def _check_shapes(**arrays: Array) -> None:
    """Refuse arrays without rows, and shapes that differ from that of the first array."""
    first, *others = ((name, tuple(array.shape)) for name, array in arrays.items())
    if len(first[1]) == 0 or first[1][0] == 0:
        raise ValueError(f"{first[0]} has shape {first[1]}: must be (T, ...) with T >= 1")
    for name, shape in others:
        if shape != first[1]:
            raise ValueError(f"{name} has shape {shape}: must be {first[1]}, as {first[0]}")


def _refuse_where(name: str, array: Array, wrong: Array, rule: str) -> None:
    xp = namespace(array)
    if not any_seen(wrong):
        return
    first = int(xp.argmax(xp.astype(xp.reshape(wrong, (-1,)), xp.int32)))
    at = [int(i) for i in np.unravel_index(first, tuple(array.shape))]
    raise ValueError(f"{name}{at}={float(xp.reshape(array, (-1,))[first])}: {rule}")
