"""What settings may be: refused where they are made, so that no run starts on a wrong one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real

from gammaprime.types import check_count


def check_positive(name: str, value: float, *, zero_allowed: bool = False) -> float:
    """The number as a float, if it is finite and above 0, or at 0 where that is allowed."""
    number = check_real(name, value)
    if not (0.0 < number < math.inf or (zero_allowed and number == 0.0)):
        raise ValueError(f"{name}={value!r}: must be finite and {'>=' if zero_allowed else '>'} 0")
    return number


def check_real(name: str, value: float) -> float:
    """The number as a float, if it is one: neither a text nor true or false."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name}={value!r}: must be a finite number")
    return float(value)


def check_whole(name: str, value: int) -> int:
    """The number as an int, if it is whole and at least 0."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{name}={value!r}: must be an integer >= 0")
    return value


def check_choice(name: str, value: str, choices: Sequence[str]) -> str:
    """The word, if it is one of these."""
    if value not in choices:
        raise ValueError(f"{name}={value!r}: must be one of {', '.join(map(repr, choices))}")
    return value


def check_sizes(name: str, value: Sequence[int]) -> tuple[int, ...]:
    """The sizes of hidden layers as a tuple: a list comes from a file, and cannot be hashed."""
    if not isinstance(value, tuple | list):
        raise ValueError(f"{name}={value!r}: must be the sizes of the hidden layers, or ()")
    return tuple(check_count(f"{name}[{i}]", size) for i, size in enumerate(value))


def check_divides(name: str, minibatches: int, batch_size: int) -> None:
    """Minibatches must all have the same size."""
    if batch_size % check_count(name, minibatches):
        raise ValueError(
            f"{name}={minibatches!r}: must divide num_envs*num_steps={batch_size} samples"
        )
