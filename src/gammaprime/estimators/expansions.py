"""Estimates for γ' from base estimates for γ along trajectories, one order at a time.

Section 3 and appendices C and F of the paper, with the random times marginalised out.
``next_value`` is the base value of each row's true successor, read only where a row is cut.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gammaprime.estimators.backend import (
    any_seen,
    as_array,
    discounted_sum,
    discounted_sum_of,
    float_dtype,
    is_traced,
    namespace,
    repeat,
)
from gammaprime.estimators.inputs import (
    Ends,
    as_batch,
    as_ends,
    as_steps,
    as_terms,
    check_finite,
    next_index,
    shift,
    stop_at,
    until_end,
    where_read,
)
from gammaprime.estimators.weights import value_weights
from gammaprime.types import (
    Order,
    check_count,
    check_discounts,
    check_fraction,
    check_order,
    check_passes,
    saturate_order,
    taylor_mass,
    taylor_ratio,
)
from gammaprime.typing import Array, FloatArray

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
    """Return the terms D_0 .. D_K whose sum is `expand`.

        D_0 = y,   D_k(t) = (γ'−γ) D_{k−1}(t+1) + γ D_k(t+1)
                          = (γ'−γ)ᵏ Σ_{s≥k} C(s−1, k−1) γ^{s−k} y_{t+s}

    Past a termination every D_k is 0.  Past a cut D_0 is V = ``next_value``, and the higher
    terms are unknown.  The tail rule sets them to D_k = ρᵏ V with ρ = (γ'−γ)q/(1−γq), which is
    right if the base value stays V while each step is survived with probability q.

    Args:
        base: Estimates y of V_γ or Q_γ, such as λ-returns.
        next_value: The critic's value of each true successor, for γ.  None if no row is cut.
        terminated: True where the episode ended for good.
        truncated: True where the episode was cut off.  The last row is a cut unless terminated.
        gamma: The discount of the base estimates.
        gamma_prime: The discount to expand towards.
        order: The number of terms K after the base, at most 1,000.
        tail: "zero" is q = 0, "constant" is q = 1, "survival" is q = ``survival``.
        survival: Chance to survive one step; by default the `survival_rate` of the batch.

    Returns:
        The terms, stacked along a new first axis.

    Example:
        >>> base, done = [3.0, 2.0, 1.0], [False, False, True]
        >>> expand_terms(base, None, done, done, gamma=0.5, gamma_prime=0.75, order=1)
        array([[3.   , 2.   , 1.   ],
               [0.625, 0.25 , 0.   ]])

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
    """Expand base estimates y for γ to order K towards γ': the sum of `expand_terms`.

        Q_K(t) = y_t + Σ_{s≥1} f(K, s) y_{t+s},   f the `value_weights`

    Order math.inf takes a single pass; with a Monte-Carlo base it is the return at γ' itself.
    So do orders that differ from it by less than a rounding error, and orders above the number
    of rows, which depend on the order through the tail rule alone.

    Args:
        base: Estimates y of V_γ or Q_γ, such as λ-returns.
        next_value: The critic's value of each true successor, for γ.  None if no row is cut.
        terminated: True where the episode ended for good.
        truncated: True where the episode was cut off.  The last row is a cut unless terminated.
        gamma: The discount of the base estimates.
        gamma_prime: The discount to expand towards.
        order: The order K, or math.inf.
        tail: Rule for the terms past a cut: "zero", "constant" or "survival", see `expand_terms`.
        survival: Chance to survive one step; by default the `survival_rate` of the batch.

    Returns:
        Estimates of V_K or Q_K.  To update a policy, see `expand_advantage`.

    Example:
        >>> base, done = [3.0, 2.0, 1.0], [False, False, True]
        >>> expand(base, None, done, done, gamma=0.5, gamma_prime=0.75, order=1)
        array([3.625, 2.25 , 1.   ])

    Paper: algo:estimate, algo:adv, prop:kvalue, x:marginalised, x:infinite-order, x:tails.
    Departs: S1, S4 (the sum of all terms, not the last), S5.
    Shapes: all (T, ...) -> (T, ...).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    order = saturate_order(check_order(order), gamma, gamma_prime)
    ends, base, boot, death = _checked(base, next_value, terminated, truncated, tail, survival)
    if order == 0 or gamma_prime == gamma:
        return namespace(base).astype(base, base.dtype, copy=True)
    if math.isinf(order):
        return _expand_fully(base, boot, ends, gamma, gamma_prime, death)
    if order > base.shape[0]:
        return _expand_beyond(base, boot, ends, gamma, gamma_prime, order, death)
    ratio, after = _after_cut(boot, gamma, gamma_prime, death)
    decay = stop_at(ends.either, gamma, base)

    # Horner's rule, y + M(y + M(y + …)), in place where the library can: the fewer arrays are
    # alive, the more of their memory stays in the cache and with the allocator.
    def step(total: Array, after: Array, tail_sum: Any) -> tuple[Array, Array, Any]:
        total = discounted_sum((gamma_prime - gamma) * next_index(total, after, ends), decay)
        total += base
        longer = 1.0 + ratio * tail_sum
        after *= longer / tail_sum
        return total, after, longer

    return repeat(check_passes(order), step, base, after, 1.0)[0]


def survival_rate(terminated: Array) -> Any:
    """Return the chance to survive a step that `expand` assumes past a cut by default.

        q = 1 − terminations/steps,   truncations are not counted

    Args:
        terminated: True where an episode ended for good.

    Returns:
        A float, or a scalar array where JAX traces.

    Example:
        >>> survival_rate([False, False, False, True])
        0.75

    Paper: x:survival-tail.  Shapes: (T, ...) -> ().
    """
    xp = namespace(terminated)
    return 1.0 - _death_rate(as_ends(xp, terminated, terminated), float_dtype(xp))


def tail_share(
    terminated: Array,
    truncated: Array,
    gamma: float,
    gamma_prime: float,
    order: Order,
    lookahead: int | None = None,
) -> Array:
    """Return the share of each row's expansion that lies past a cut, where the tail rule decides.

        share = Σ_{k=1}^K c^k P[τ_1 + … + τ_k > n] / Σ_{k=1}^K c^k

    for a row whose path is cut after n steps, and 0 for a row whose path terminates.  The τ are
    the random times of `sample_jumps`, or with a ``lookahead`` those of them that do not exceed
    it.  At order math.inf the share is γ'ⁿ.

    Where the mean is above one half, the expansion shows what the tail rule assumes rather than
    what the data says: use longer trajectories or a smaller γ'.

    Args:
        terminated: True where an episode ended for good.
        truncated: True where an episode was cut off.  The last row is a cut unless terminated.
        gamma: The discount of the base estimates.
        gamma_prime: The discount to expand towards.
        order: The order K, or math.inf without a ``lookahead``.
        lookahead: Length of the window of `expand_window`; None stands for `expand`.

    Returns:
        One share per row, from 0 to 1.

    Example:
        >>> no = [False, False, False]
        >>> tail_share(no, no, gamma=0.5, gamma_prime=0.75, order=1)
        array([0.125, 0.25 , 0.5  ])

    Paper: x:tails.  Shapes: (T, ...) -> (T, ...).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    order = check_order(order, infinite_allowed=lookahead is None)
    if lookahead is not None:
        lookahead = check_count("lookahead", lookahead)
    xp = namespace(terminated, truncated)
    ends = as_ends(xp, terminated, truncated)
    left, cut = until_end(xp.astype(ends.cut, float_dtype(xp)), ends)
    table = _shares(left.shape[0], gamma, gamma_prime, order, lookahead)
    shares = xp.astype(as_array(xp, "shares", table), cut.dtype)
    return cut * xp.reshape(xp.take(shares, xp.reshape(left, (-1,)), axis=0), left.shape)


def _shares(
    num_steps: int, gamma: float, gamma_prime: float, order: Order, lookahead: int | None
) -> FloatArray:
    """Return the share that lies past a cut 1, 2, …, T steps ahead."""
    steps = np.arange(1.0, num_steps + 1.0)
    if order == 0 or gamma_prime == gamma:
        return np.zeros(num_steps)
    if math.isinf(order):
        return np.power(gamma_prime, steps)
    if lookahead is None:
        weights = value_weights(steps, gamma, gamma_prime, order)
    else:
        weights = _window_weights(num_steps, gamma, gamma_prime, int(order), lookahead)
    seen = np.cumsum(weights) / taylor_mass(gamma, gamma_prime, order)
    return np.clip(1.0 - seen, 0.0, 1.0)


def _window_weights(
    num_steps: int, gamma: float, gamma_prime: float, order: int, lookahead: int
) -> FloatArray:
    """Return Σ_{k=1}^K c^k P[τ_1 + … + τ_k = s] at s = 1 .. T, for times up to the lookahead."""
    law = np.zeros(num_steps + 1)
    ahead = np.arange(1, min(lookahead, num_steps) + 1)
    law[ahead] = (1.0 - gamma) * gamma ** (ahead - 1.0) / (1.0 - gamma**lookahead)
    term, total = np.eye(1, num_steps + 1)[0], np.zeros(num_steps + 1)
    for _ in range(min(order, num_steps)):  # k times take at least k steps
        term = taylor_ratio(gamma, gamma_prime) * np.convolve(term, law)[: num_steps + 1]
        total += term
    return total[1:]


class OrderCurve(NamedTuple):
    """Estimates by order, one entry for each of 0 .. K."""

    orders: Array
    """The orders 0 .. K."""
    estimate: Array
    """Mean over the episode starts."""
    standard_error: Array
    """Standard error of that mean."""


def order_curve(terms: Array, step: Array | None = None) -> OrderCurve:
    """Estimate V_K at episode starts, with its standard error, for every order.

        V̂_K = mean over starts of Σ_{k≤K} D_k,   error: sample deviation / √(number of starts)

    Args:
        terms: The terms of `expand_terms` up to the largest order of interest.
        step: Age of each row inside its episode.  The starts are the rows of age 0, so that every
            episode that begins in the batch counts.  None takes the first row of each column,
            which is right only where a column is one episode.

    Returns:
        Orders, estimates and standard errors.

    Example:
        >>> step = [0, 1, 0, 1]  # two episodes, one after the other
        >>> order_curve([[3.0, 1.0, 5.0, 1.0], [0.5, 0.0, 0.5, 0.0]], step).estimate
        array([4. , 4.5])

    Paper: x:order-curve.  Shapes: terms (K+1, T, ...), step (T, ...) -> three of (K+1,).
    """
    xp = namespace(terms, step)
    terms = as_terms(xp, terms)
    if step is None:
        values = xp.reshape(terms[:, 0], (terms.shape[0], -1))
        starts = xp.ones_like(values[0])
    else:
        step = as_steps(xp, "step", step, 0, tuple(terms.shape[1:]))
        values = xp.reshape(terms, (terms.shape[0], -1))
        starts = xp.astype(xp.reshape(step == 0, (-1,)), terms.dtype)
    count = xp.sum(starts)
    if any_seen(count < 2):
        raise ValueError(f"terms hold {int(count)} starts: must be at least 2 for an error")
    sums = xp.cumulative_sum(values, axis=0)
    mean = xp.sum(sums * starts, axis=1) / count
    deviation = (sums - mean[:, None]) * starts
    variance = xp.sum(deviation * deviation, axis=1) / (count - 1)
    return OrderCurve(xp.arange(terms.shape[0]), mean, xp.sqrt(variance / count))


def _after_cut(boot: Array, gamma: float, gamma_prime: float, death: Any) -> tuple[Any, Array]:
    """Return ρ and V/(1−γq), the latter in the memory of ``boot``.

    After a cut (γ'−γ)D_{k−1} + γD_k is (γ'−γ) ρ^{k−1} V/(1−γq), by the tail's D_k = ρᵏ V.
    """
    lost = 1.0 - gamma + gamma * death
    boot /= lost
    return (gamma_prime - gamma) * (1.0 - death) / lost, boot


def _expand_fully(
    base: Array, boot: Array, ends: Ends, gamma: float, gamma_prime: float, death: Any
) -> Array:
    """Return order infinity: order 1 with its sum discounted by γ', in the tail too.

    Added up over k, D_k(t) = (γ'−γ)D_{k−1}(t+1) + γD_k(t+1) says for U = D_1 + D_2 + … that
    U_t = (γ'−γ) y_{t+1} + γ' U_{t+1}.
    """
    boot /= _check_lost(1.0 - gamma_prime + gamma_prime * death, ends)
    xp = namespace(base)

    def paid(ahead: Array, after: Array, ended: Array) -> tuple[Array, Array]:
        reward = (gamma_prime - gamma) * xp.where(ended, after, ahead)
        return reward, stop_at(ended, gamma_prime, ahead)

    return base + discounted_sum_of(paid, shift(base), boot, ends.either)


def _expand_beyond(
    base: Array,
    boot: Array,
    ends: Ends,
    gamma: float,
    gamma_prime: float,
    order: Order,
    death: Any,
) -> Array:
    """Return a finite order K above the number of rows.

    Every term that the rows can reach is then complete, so that what they add is that of order
    infinity, and the order matters to the tail rule alone.  A cut n steps ahead adds

        Σ_{j≤n} C(n,j) δʲ γ^{n−j} Σ_{i=1}^{K−j} ρⁱ V = ρ γ'ⁿ (1 − (ρ/q)ⁿ ρ^{K−n} γ'^{−n}) V/(1−ρ)

    where 1−ρ = (1−γ'q)/(1−γq) and ρ/(γ'q) = 1 − γ(1−γ'q)/(γ'(1−γq)).
    """
    xp = namespace(base)
    left, after = until_end(boot, ends)
    n = xp.astype(left + 1, base.dtype)
    lost, gone = 1.0 - gamma + gamma * death, 1.0 - gamma_prime + gamma_prime * death
    # The bounds keep 0/0 at γ' = q = 1 and log 0 at q = 0 away.
    if is_traced(death):
        gone = xp.maximum(gone / lost, 1e-30)
        per_order = xp.log1p(-xp.minimum(gone, 1.0 - 2.0**-24))
        per_step = xp.log1p(-gamma / gamma_prime * gone)
    else:
        gone = max(gone / lost, 1e-30)
        per_order = math.log1p(-min(gone, 1.0 - 2.0**-53))
        per_step = math.log1p(-gamma / gamma_prime * gone)
    scale = (gamma_prime - gamma) * (1.0 - death) / lost / gone
    known = -xp.expm1((order - n) * per_order + n * per_step)
    seen = _expand_fully(base, boot, ends, gamma, gamma_prime, 1.0)
    return seen + scale * gamma_prime**n * known * after


def _check_lost(lost: Any, ends: Ends) -> Any:
    """Return 1 − γ'q, if it is not 0 where a cut row divides by it, or 1 where no row does."""
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
    """Return the ends, the base, the values at cuts, and the death rate 1 − q of the tail rule."""
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
    return ends, base, boot, _death_rate(ends, base.dtype) if q is None else 1.0 - q


def _death_rate(ends: Ends, dtype: Any) -> Any:
    """Return terminations over steps, truncations not counted; in float64 unless traced."""
    xp = namespace(ends.terminated)
    # Flattened first: XLA sums one long axis faster than several.
    deaths = xp.sum(xp.astype(xp.reshape(ends.terminated, (-1,)), xp.int32))
    count = xp.astype(deaths, dtype) if is_traced(deaths) else int(deaths)
    return count / math.prod(ends.terminated.shape)
