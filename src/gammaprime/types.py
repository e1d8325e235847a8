"""Types and checks shared by the whole package: discounts, orders, transitions."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

Order = int | float
"""The order K of an expansion: an integer 0, 1, 2, ... or ``math.inf``."""

MAX_ORDER = 10_000
"""Largest finite order that is computed by one pass for each order."""

MAX_TERMS = 1_000
"""Largest order for which every term is computed and kept by itself."""


class Transition(NamedTuple):
    """One step of N environments.

    ``terminated``: the episode ended for good, everything after it is worth 0.  ``truncated``:
    the episode was cut off, the value of the successor stands for the rest.  Both may be true;
    terminated wins.
    """

    next_obs: Any
    """(N, ...) the TRUE successor, before any reset."""
    reward: Any
    """(N,) raw: not scaled, no value added to it."""
    terminated: Any
    """(N,) bool."""
    truncated: Any
    """(N,) bool."""
    step: Any
    """(N,) age of the state that was acted in: 0 for a reset state."""
    obs: Any
    """(N, ...) observation to act on next: the successor, or that of a reset after an end."""
    early: Any = None
    """(N,) bool: first episodes that were cut to stagger the ages of the rows; None if none was."""


class Trajectory(NamedTuple):
    """T steps of N environments, time first."""

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
    """Return the discount as a float, if it lies in [0, 1), or [0, 1] where one is allowed."""
    number = _as_float(name, value)
    if not (0.0 <= number < 1.0 or (one_allowed and number == 1.0)):
        raise ValueError(f"{name}={value!r}: must lie in [0, 1{']' if one_allowed else ')'}")
    return number


def check_discounts(gamma: float, gamma_prime: float) -> tuple[float, float]:
    """Return the pair as floats, if 0 ≤ γ ≤ γ' ≤ 1 and γ < 1.

    γ' = γ is valid and expands nothing.  γ' < γ is refused, although the series may converge:
    its signs alternate, and the weights w_K(t) are no longer probabilities.
    """
    gamma = check_discount("gamma", gamma)
    target = _as_float("gamma_prime", gamma_prime)
    if not gamma <= target <= 1.0:
        raise ValueError(f"gamma_prime={gamma_prime!r}: must lie in [gamma, 1] = [{gamma!r}, 1]")
    return gamma, target


def check_order(order: Order, *, infinite_allowed: bool = True) -> Order:
    """Return the order as an int, or ``math.inf`` where that is allowed.

    Where it is not, each order is a term of its own, and orders above MAX_TERMS are refused.
    """
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
    if not infinite_allowed and index > MAX_TERMS:
        raise ValueError(f"order={order!r}: must be at most {MAX_TERMS}, one term for each order")
    return index


def saturate_order(order: Order, gamma: float, gamma_prime: float) -> Order:
    """Return math.inf if the orders above this one add less than a rounding error, else the order.

    What order K leaves out is c^{K+1} of the value at γ', and at most K+2 times that of its
    gradient.

    Paper: prop:kth-expansion.
    """
    if math.isinf(order) or order == 0 or gamma_prime == gamma:
        return order
    left = math.log(order + 2) + (order + 1) * math.log(taylor_ratio(gamma, gamma_prime))
    return math.inf if left < -53 * math.log(2) else order


def check_passes(order: Order) -> int:
    """Return a finite order as an int, if it is not above MAX_ORDER."""
    if order > MAX_ORDER:
        raise ValueError(
            f"order={order!r}: must be at most {MAX_ORDER} at these discounts, or math.inf; "
            "each order is a pass of its own"
        )
    return int(order)


def check_fraction(name: str, value: float) -> float:
    """Return the number as a float, if it lies in [0, 1]."""
    if not 0.0 <= (number := _as_float(name, value)) <= 1.0:
        raise ValueError(f"{name}={value!r}: must lie in [0, 1]")
    return number


def check_count(name: str, value: int) -> int:
    """Return the number as an int, if it is whole and at least 1."""
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
    try:
        is_real = isinstance(value, Real) and not isinstance(value, bool)
        number = float(value) if is_real else math.nan
    except OverflowError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{name}={value!r}: must be a finite number")
    return number


def check_whole(name: str, value: int) -> int:
    """The number as an int, if it is whole and at least 0."""
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if number < 0 or isinstance(value, bool):
        raise ValueError(f"{name}={value!r}: must be an integer >= 0")
    return number


def check_steps(steps: Any, *, text_allowed: bool = False) -> int:
    """The number of steps as an int, if it is whole and at least 1; it may be written 1e6."""
    refused = bool if text_allowed else bool | str
    try:
        number = math.nan if isinstance(steps, refused) else float(steps)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not number.is_integer() or number < 1:
        raise ValueError(f"steps={steps!r}: must be a whole number of at least 1")
    return int(number)


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
    """Return c = (γ'−γ)/(1−γ) in [0, 1], the factor by which each order shrinks the error.

    Paper: prop:kth-expansion.
    """
    return (gamma_prime - gamma) / (1.0 - gamma)


def taylor_mass(gamma: float, gamma_prime: float, order: Order) -> float:
    """Return Σ_{k=1}^K c^k, the weight of everything that an expansion adds to its base.

    It is (γ'−γ)/(1−γ') at order math.inf, and K at γ' = 1.

    Paper: prop:kth-expansion.
    """
    if math.isinf(order):
        return (gamma_prime - gamma) / (1.0 - gamma_prime) if gamma_prime < 1.0 else math.inf
    c = taylor_ratio(gamma, gamma_prime)
    if order <= 1000:
        return math.fsum(c**k for k in range(1, int(order) + 1))
    if gamma_prime == 1.0:
        return float(order)
    missing = (1.0 - gamma_prime) / (1.0 - gamma)
    return -math.expm1(order * math.log(c)) * c / missing if c > 0.0 else 0.0


def _as_float(name: str, value: float) -> float:
    try:
        if isinstance(value, str | bool):  # "0.5" and True would pass for numbers
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name}={value!r}: must be a real number") from None


def unknown(what: str, name: object, known: Iterable[str]) -> str:
    """Return the error message for an unknown name: the nearest known one, or all of them."""
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
