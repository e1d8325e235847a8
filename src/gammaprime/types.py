"""The words every room shares: discounts, orders, transitions, and the rules they obey."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

Order = int | float
"""The order K of an expansion: an integer 0, 1, 2, ... or ``math.inf``."""


class Transition(NamedTuple):
    """What a batch of N environments answers to N actions.

    ``terminated``: the end is real, everything after it is worth 0.  ``truncated``: the future
    was cut off, the successor's value stands in for it.  Both may be true: terminated wins.
    """

    next_obs: Any
    """(N, ...) the TRUE successor, before any reset."""
    reward: Any
    """(N,) raw: never scaled, never topped up with a value."""
    terminated: Any
    """(N,) bool."""
    truncated: Any
    """(N,) bool."""
    step: Any
    """(N,) age of the state that was acted in: 0 for a reset state."""
    obs: Any
    """(N, ...) what to act on next: the successor, or a reset observation where one ended."""


class Trajectory(NamedTuple):
    """T steps of N environments, time first: what a rollout is made of."""

    obs: Any
    """(T, N, ...)."""
    next_obs: Any
    """(T, N, ...) the TRUE successors, before any reset."""
    action: Any
    """(T, N, ...) as the policy chose them, before any clipping by the environment."""
    reward: Any
    """(T, N) raw."""
    terminated: Any
    """(T, N) bool."""
    truncated: Any
    """(T, N) bool."""
    step: Any
    """(T, N) age inside the episode, carried across rollouts."""


def check_discount(name: str, value: float, *, one_allowed: bool = False) -> float:
    """The discount as a float, if it lies in [0, 1), or in [0, 1] where one is allowed."""
    number = _as_float(name, value)
    if not (0.0 <= number < 1.0 or (one_allowed and number == 1.0)):
        raise ValueError(f"{name}={value!r}: must lie in [0, 1{']' if one_allowed else ')'}")
    return number


def check_discounts(gamma: float, gamma_prime: float) -> tuple[float, float]:
    """The pair as floats, if 0 ≤ γ ≤ γ' ≤ 1 and γ < 1.

    γ' = γ is valid: every expansion is then its base quantity.  γ' < γ is refused,
    although the series may converge: its signs alternate and the weights w_K(t)
    lose their meaning as probabilities.
    """
    gamma = check_discount("gamma", gamma)
    target = _as_float("gamma_prime", gamma_prime)
    if not gamma <= target <= 1.0:
        raise ValueError(f"gamma_prime={gamma_prime!r}: must lie in [gamma, 1] = [{gamma!r}, 1]")
    return gamma, target


def check_order(order: Order, *, infinite_allowed: bool = True) -> Order:
    """The order as an int, or ``math.inf`` where that is allowed."""
    if isinstance(order, float) and math.isinf(order) and order > 0:
        if infinite_allowed:
            return math.inf
        raise ValueError(f"order={order!r}: must be finite here, one term for each order")
    whole = int(order) if isinstance(order, float) and order.is_integer() else order
    try:
        index = operator.index(whole)  # type: ignore[arg-type]
    except TypeError:
        index = -1
    if index < 0 or isinstance(order, bool):
        rule = "an integer >= 0 or math.inf" if infinite_allowed else "an integer >= 0"
        raise ValueError(f"order={order!r}: must be {rule}")
    return index


def check_fraction(name: str, value: float) -> float:
    """The number as a float, if it lies in [0, 1]."""
    if not 0.0 <= (number := _as_float(name, value)) <= 1.0:
        raise ValueError(f"{name}={value!r}: must lie in [0, 1]")
    return number


def check_count(name: str, value: int) -> int:
    """The number as an int, if it is whole and at least 1."""
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    if count < 1 or isinstance(value, bool):
        raise ValueError(f"{name}={value!r}: must be an integer >= 1")
    return count


def check_positive(name: str, value: float, *, zero_allowed: bool = False) -> float:
    """The number as a float, if it is finite and above 0, or at 0 where that is allowed."""
    number = check_real(name, value)
    if not (0.0 < number < math.inf or (zero_allowed and number == 0.0)):
        raise ValueError(f"{name}={value!r}: must be finite and {'>=' if zero_allowed else '>'} 0")
    return number


def check_real(name: str, value: Any) -> float:
    """The number as a float, if it is finite and neither a text nor true or false."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name}={value!r}: must be a finite number")
    return float(value)


def check_whole(name: str, value: int) -> int:
    """The number as an int, if it is whole and at least 0."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{name}={value!r}: must be an integer >= 0")
    return value


def check_choice(name: str, value: str, choices: Sequence[str]) -> str:
    """The word, if it is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name}={value!r}: must be one of {', '.join(map(repr, choices))}")
    return value


def check_sizes(name: str, value: Any) -> tuple[int, ...]:
    """The sizes of hidden layers as a tuple: files give lists, which cannot be hashed."""
    if not isinstance(value, tuple | list):
        raise ValueError(f"{name}={value!r}: must be the sizes of the hidden layers, or ()")
    return tuple(check_count(f"{name}[{i}]", size) for i, size in enumerate(value))


def taylor_ratio(gamma: float, gamma_prime: float) -> float:
    """c = (γ'−γ)/(1−γ) in [0, 1], the factor by which each order shrinks the error.

    Paper: prop:kth-expansion.
    """
    return (gamma_prime - gamma) / (1.0 - gamma)


def _as_float(name: str, value: float) -> float:
    try:
        if isinstance(value, str | bool):  # "0.5" and True would pass for numbers
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name}={value!r}: must be a real number") from None


def unknown(what: str, name: object, known: Iterable[str]) -> str:
    """The message for a name that does not exist: the nearest one, or else all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(names)}"
    return f"unknown {what} {name!r}: {hint}"


def check_keys(
    table: Mapping[str, Any], required: Iterable[str], optional: Iterable[str] = ()
) -> None:
    """Raise a `ValueError` if a table lacks a required key or has an unknown one."""
    allowed = (*required, *optional)
    for key in table:
        if key not in allowed:
            raise ValueError(unknown("key", key, allowed))
    for key in required:
        if key not in table:
            raise ValueError(f"key {key!r} is missing")
