"""What the sampled room accepts: shapes, flags and numbers, looked at before any work."""

from __future__ import annotations

from typing import Any

import numpy as np

from gammaprime.estimators.backend import any_seen, as_array, float_dtype, namespace
from gammaprime.typing import Array

MAY_BE_NONE = ("next_value", "baseline")


def as_floats(xp: Any, **arrays: Any) -> list[Array]:
    """The arrays as floats of one library, dtype and shape (T, ...), in the order given.

    The first one names the shape that the others must have.  Values are left alone, and None
    stays None where it has a meaning.
    """
    missing = {name for name in MAY_BE_NONE if arrays.get(name) is None}
    given = {name: as_array(xp, name, x) for name, x in arrays.items() if name not in missing}
    check_shapes(**given)
    dtype = float_dtype(xp, *given.values())
    floats = {name: xp.astype(array, dtype, copy=False) for name, array in given.items()}
    return [floats.get(name) for name in arrays]


def check_shapes(**arrays: Array) -> None:
    """Time comes first, with at least one row, and all shapes are that of the first array."""
    first, *others = ((name, tuple(array.shape)) for name, array in arrays.items())
    if len(first[1]) == 0 or first[1][0] == 0:
        raise ValueError(f"{first[0]} has shape {first[1]}: must be (T, ...) with T >= 1")
    for name, shape in others:
        if shape != first[1]:
            raise ValueError(f"{name} has shape {shape}: must be {first[1]}, as {first[0]}")


def check_finite(**arrays: Array) -> None:
    """No NaN and no infinity."""
    for name, array in arrays.items():
        _refuse_where(name, array, ~namespace(array).isfinite(array), "must be finite")


def as_flags(xp: Any, name: str, value: Any) -> Array:
    """The flags as booleans; 0 and 1 of any dtype will do."""
    flags = as_array(xp, name, value)
    if xp.isdtype(flags.dtype, "bool"):
        return flags
    _refuse_where(name, flags, (flags != 0) & (flags != 1), "must be 0 or 1")
    return flags != 0


def as_steps(xp: Any, name: str, value: Any, least: int, shape: tuple[int, ...]) -> Array:
    """Whole numbers of this shape, not below ``least``; whole floats will do."""
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


def _refuse_where(name: str, array: Array, wrong: Array, rule: str) -> None:
    xp = namespace(array)
    if not any_seen(wrong):
        return
    first = int(xp.argmax(xp.astype(xp.reshape(wrong, (-1,)), xp.int32)))
    at = [int(i) for i in np.unravel_index(first, tuple(array.shape))]
    raise ValueError(f"{name}{at}={float(xp.reshape(array, (-1,))[first])}: {rule}")
