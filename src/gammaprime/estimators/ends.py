"""Where a row has no next row, and what stands there instead.

A termination is followed by zeros.  A cut, which is a truncation or the end of the batch, is
followed by a future that was not seen, for which the value of the true successor stands in.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gammaprime.estimators.backend import any_seen, namespace
from gammaprime.estimators.checks import as_flags, as_floats, check_finite, check_shapes
from gammaprime.typing import Array


class Ends(NamedTuple):
    """The two ways in which a row can be the last of its segment, never both."""

    terminated: Array
    cut: Array
    either: Array
    truncated: Array
    """As it was given: the last row's flag is not set by force, and both flags may be."""


def as_batch(terminated: Any, truncated: Any, **arrays: Any) -> tuple[Ends, list[Array]]:
    """The ends of a batch and its arrays, all of one library and shape.

    Terminated wins over truncated, and the last row is a cut unless it is terminated.

    Shapes: all (T, ...).
    """
    xp = namespace(terminated, truncated, *arrays.values())
    floats = as_floats(xp, **arrays)
    first = next(iter(arrays))
    terminated = as_flags(xp, "terminated", terminated)
    truncated = as_flags(xp, "truncated", truncated)
    check_shapes(**{first: floats[0]}, terminated=terminated, truncated=truncated)
    stopped = xp.concat([truncated[:-1], xp.ones_like(truncated[-1:])])
    return Ends(terminated, stopped & ~terminated, stopped | terminated, truncated), floats


def where_read(
    next_value: Array | None, read: Array, like: Array, name: str = "next_value"
) -> Array:
    """``next_value`` where it is read, 0 elsewhere whatever stood there; None if never read.

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
    """x_{t+1}.  The last row, which is always an end, keeps a number that is never read.

    Shapes: (T, ...) -> (T, ...).
    """
    return namespace(x).concat([x[1:], x[-1:]])


def next_index(x: Array, after: Array, ends: Ends) -> Array:
    """b_t = x_{t+1}, and at an end what comes after it.

    Shapes: x (T, ...), after (T, ...) -> (T, ...).
    """
    return namespace(x).where(ends.either, after, shift(x))


def stop_at(ended: Array, decay: float, like: Array) -> Array:
    """The decay, but 0 at ends.  Shapes: (T, ...) -> (T, ...)."""
    return decay * namespace(like).astype(~ended, like.dtype)
