"""Estimates for γ' from base estimates for γ along trajectories, one order at a time.

Section 3 and appendices C and F of the paper, with the random times marginalised out.
``next_value`` is the base value of each row's true successor, read only where a row is cut.
"""

from __future__ import annotations

import math
from typing import Any

from gammaprime.estimators.backend import (
    any_seen,
    discounted_sum,
    discounted_sum_of,
    is_traced,
    namespace,
)
from gammaprime.estimators.checks import check_finite
from gammaprime.estimators.ends import Ends, as_batch, next_index, shift, stop_at, where_read
from gammaprime.types import Order, check_discounts, check_fraction, check_order
from gammaprime.typing import Array

TAILS = ("zero", "constant", "survival")


def expand_terms(
    base: Array,
    next_value: Array | None,
    terminated: Array,
    truncated: Array,
    gamma: float,
    gamma_prime: float,
    order: int,
    tail: str = "survival",
    survival: float | None = None,
) -> Array:
    """The terms D_0 .. D_K whose sum is `expand`.

        D_0 = y,   D_k(t) = (γ'−γ) D_{k−1}(t+1) + γ D_k(t+1)
                          = (γ'−γ)ᵏ Σ_{s≥k} C(s−1, k−1) γ^{s−k} y_{t+s}

    Every D_k is 0 past a termination.  Past a cut D_0 is V = ``next_value``, and the higher
    terms are not known: D_k = ρᵏ V, ρ = (γ'−γ)q/(1−γq), which is right if the base value stays
    V while a step is survived with probability q.  The tail "zero" is q = 0, "constant" is
    q = 1, and "survival" takes ``survival``, or 1 − terminations/steps of the batch.

    Paper: eq:primal-k-order, prop:adv, x:marginalised, x:tails, x:survival-tail.
    Departs: S1 (times on {1, 2, …}), S5.
    Shapes: all (T, ...) -> (K+1, T, ...).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    order = int(check_order(order, infinite_allowed=False))
    ends, base, boot, death = _checked(base, next_value, terminated, truncated, tail, survival)
    ratio, after = _after_cut(boot, gamma, gamma_prime, death)
    terms, decay = [base], stop_at(ends.either, gamma, base)
    for _ in range(order):
        reward = (gamma_prime - gamma) * next_index(terms[-1], after, ends)
        terms.append(discounted_sum(reward, decay))
        after *= ratio
    return namespace(base).stack(terms)


def expand(
    base: Array,
    next_value: Array | None,
    terminated: Array,
    truncated: Array,
    gamma: float,
    gamma_prime: float,
    order: Order,
    tail: str = "survival",
    survival: float | None = None,
) -> Array:
    """K-th order expansion of the base estimates y towards γ': the sum of `expand_terms`.

        Q_K(t) = y_t + Σ_{s≥1} f(K, s) y_{t+s},   f the `value_weights`

    Order math.inf is a single scan.  With a Monte-Carlo base it is the γ' return itself.

    Paper: algo:estimate, algo:adv, prop:kvalue, x:marginalised, x:infinite-order, x:tails.
    Departs: S1, S4 (the sum of all terms, not the last), S5.
    Shapes: all (T, ...) -> (T, ...).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    order = check_order(order)
    ends, base, boot, death = _checked(base, next_value, terminated, truncated, tail, survival)
    if order == 0 or gamma_prime == gamma:
        return namespace(base).astype(base, base.dtype, copy=True)
    if math.isinf(order):
        return _expand_fully(base, boot, ends, gamma, gamma_prime, death)
    ratio, after = _after_cut(boot, gamma, gamma_prime, death)
    total, decay, tail_sum = base, stop_at(ends.either, gamma, base), 1.0
    # Horner's rule, y + M(y + M(y + …)), in place where the library can: the fewer arrays are
    # alive, the more of their memory stays in the cache and with the allocator.
    for _ in range(int(order)):
        total = discounted_sum((gamma_prime - gamma) * next_index(total, after, ends), decay)
        total += base
        longer = 1.0 + ratio * tail_sum
        after *= longer / tail_sum
        tail_sum = longer
    return total


def _after_cut(boot: Array, gamma: float, gamma_prime: float, death: Any) -> tuple[Any, Array]:
    """ρ, and V/(1−γq), made of ``boot`` itself.

    After a cut (γ'−γ)D_{k−1} + γD_k is (γ'−γ) ρ^{k−1} V/(1−γq), by the tail's D_k = ρᵏ V.
    """
    lost = 1.0 - gamma + gamma * death
    boot /= lost
    return (gamma_prime - gamma) * (1.0 - death) / lost, boot


def _expand_fully(
    base: Array, boot: Array, ends: Ends, gamma: float, gamma_prime: float, death: Any
) -> Array:
    """Order infinity is order 1 with its sum discounted by γ', in the tail too.

    Added up over k, D_k(t) = (γ'−γ)D_{k−1}(t+1) + γD_k(t+1) says for U = D_1 + D_2 + … that
    U_t = (γ'−γ) y_{t+1} + γ' U_{t+1}.
    """
    boot /= _check_lost(1.0 - gamma_prime + gamma_prime * death, ends)
    xp = namespace(base)

    def paid(ahead: Array, after: Array, ended: Array) -> tuple[Array, Array]:
        reward = (gamma_prime - gamma) * xp.where(ended, after, ahead)
        return reward, stop_at(ended, gamma_prime, ahead)

    return base + discounted_sum_of(paid, shift(base), boot, ends.either)


def _check_lost(lost: Any, ends: Ends) -> Any:
    """1 − γ'q, if it is not 0 where a cut row divides by it; 1 where no row does."""
    if is_traced(lost) or lost > 0:
        return lost
    if any_seen(ends.cut):
        raise ValueError(
            "gamma_prime=1.0: with order inf a cut row needs a survival below 1, and no death "
            "was seen or allowed; give survival, a finite order or the zero tail"
        )
    xp = namespace(ends.cut)
    return xp.where(xp.any(ends.cut), 0.0, 1.0) if is_traced(ends.cut) else 1.0


def _checked(
    base: Array,
    next_value: Array | None,
    terminated: Array,
    truncated: Array,
    tail: str,
    survival: float | None,
) -> tuple[Ends, Array, Array, Any]:
    """The ends, the base, the value that stands in at cuts, and the tail's death rate 1 − q."""
    if tail not in TAILS:
        raise ValueError(f"tail={tail!r}: must be one of {', '.join(map(repr, TAILS))}")
    if survival is not None:
        if tail != "survival":
            raise ValueError(f"survival={survival!r}: must be None, the tail {tail!r} has its own")
        survival = check_fraction("survival", survival)
    ends, (base, next_value) = as_batch(terminated, truncated, base=base, next_value=next_value)
    check_finite(base=base)
    boot = where_read(next_value, ends.cut, base)
    q = {"zero": 0.0, "constant": 1.0, "survival": survival}[tail]
    return ends, base, boot, _death_rate(ends, base) if q is None else 1.0 - q


def _death_rate(ends: Ends, base: Array) -> Any:
    """Terminations over steps, truncations not counted; in float64 unless traced."""
    xp = namespace(base)
    # Flattened first: XLA sums one long axis faster than several.
    deaths = xp.sum(xp.astype(xp.reshape(ends.terminated, (-1,)), xp.int32))
    count = xp.astype(deaths, base.dtype) if is_traced(deaths) else int(deaths)
    return count / math.prod(base.shape)
