"""The two estimators of the paper: a self-normalised window, and random times.

Algorithms 1 and 4 and appendix F of the paper, for reproducing it.  `expand` takes the
expectation over the times in closed form, at the cost of one step of a window.
Past a termination both see zeros, past a cut ``next_value`` at every further step.
"""

from __future__ import annotations

import numpy as np

from gammaprime.estimators.backend import namespace, repeat
from gammaprime.estimators.inputs import (
    Ends,
    as_batch,
    as_steps,
    check_finite,
    next_index,
    until_end,
    where_read,
)
from gammaprime.types import check_count, check_discount, check_discounts, check_order, taylor_ratio
from gammaprime.typing import Array


def expand_window(
    base: Array,
    next_value: Array | None,
    terminated: Array,
    truncated: Array,
    gamma: float,
    gamma_prime: float,
    order: int,
    lookahead: int,
) -> Array:
    """Expand to order K with the next H steps, their weights scaled up to the mass of all steps.

        E_0 = y,   E_k(t) = c Σ_{s=1}^H γ^{s−1} E_{k−1}(t+s) / Σ_{s=1}^H γ^{s−1},   Σ_{k≤K} E_k

    The denominator does not change at an end.  For γ = .99, γ' = .999, H = 10 the window
    multiplies the true weights by 10.46, and a reward u ≥ 10 steps ahead weighs 1.951 γ^u: the
    window looks no further ahead than the base.

    Args:
        base: Estimates y of V_γ or Q_γ, such as λ-returns.
        next_value: The critic's value of each true successor, used at every step past a cut.
            None if no row is cut.
        terminated: True where the episode ended for good.
        truncated: True where the episode was cut off.  The last row is a cut unless terminated.
        gamma: The discount of the base estimates.
        gamma_prime: The discount to expand towards.
        order: The order K, at most 1,000.
        lookahead: The length H of the window; 10 in the paper.

    Returns:
        The windowed estimates.

    Example:
        >>> base, done = [3.0, 2.0, 1.0], [False, False, True]
        >>> expand_window(base, None, done, done, 0.5, 0.75, order=1, lookahead=1)
        array([4. , 2.5, 1. ])

    Paper: x:window, algo:k-adv.  Departs: S21 (ends, K > 1).  Shapes: all (T, ...) -> (T, ...).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    order = int(check_order(order, infinite_allowed=False))
    lookahead = check_count("lookahead", lookahead)
    ends, (base, next_value) = as_batch(terminated, truncated, base=base, next_value=next_value)
    check_finite(base=base)
    after = where_read(next_value, ends.cut, base)
    c = taylor_ratio(gamma, gamma_prime)
    weights = _window_weights(gamma, lookahead, base.shape[0])
    total = namespace(base).astype(base, base.dtype, copy=True)

    def step(total: Array, term: Array, after: Array) -> tuple[Array, Array, Array]:
        term = c * _window(term, after, ends, weights)
        return total + term, term, c * after

    return repeat(order if c > 0 else 0, step, total, total, after)[0]


def _window_weights(gamma: float, lookahead: int, num_steps: int) -> list[float]:
    """Return γ^{s−1}/Σγ^{s'−1}; every end is within T steps, so the last one carries the rest."""
    seen = min(lookahead, num_steps)
    mass = 1.0 - gamma**lookahead
    weights = [(1.0 - gamma) * gamma**s / mass for s in range(seen - 1)]
    return [*weights, (gamma ** (seen - 1) - gamma**lookahead) / mass]


def _window(x: Array, after: Array, ends: Ends, weights: list[float]) -> Array:
    """Return Σ_s weight_s x_{t+s}, moving one index ahead at a time."""
    ahead = next_index(x, after, ends)
    total = weights[0] * ahead
    for weight in weights[1:]:
        ahead = next_index(ahead, after, ends)
        total = total + weight * ahead
    return total


def expand_random(
    base: Array,
    next_value: Array | None,
    terminated: Array,
    truncated: Array,
    gamma: float,
    gamma_prime: float,
    jumps: Array,
) -> Array:
    """Expand to order K with one draw of the random times: unbiased, and noisier than `expand`.

        Σ_{k≤K} c^k y_{t+t_k},   t_k = τ_1 + … + τ_k,   τ_i = jumps[i−1] from `sample_jumps`

    Args:
        base: Estimates y of V_γ or Q_γ, such as λ-returns.
        next_value: The critic's value of each true successor, used at every step past a cut.
            None if no row is cut.
        terminated: True where the episode ended for good.
        truncated: True where the episode was cut off.  The last row is a cut unless terminated.
        gamma: The discount of the base estimates.
        gamma_prime: The discount to expand towards.
        jumps: The random times, one set for each order, from `sample_jumps`.

    Returns:
        The sampled estimates.

    Example:
        >>> base, done = [3.0, 2.0, 1.0], [False, False, True]
        >>> expand_random(base, None, done, done, 0.5, 0.75, jumps=[[2, 1, 1]])
        array([3.5, 2.5, 1. ])

    Paper: algo:estimate, algo:adv.  Departs: S1 (support {1, 2, …}), S4 (the sum of all terms).
    Shapes: jumps (K, T, ...), the others (T, ...) -> (T, ...).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    ends, (base, next_value) = as_batch(terminated, truncated, base=base, next_value=next_value)
    xp = namespace(base)
    order = np.shape(jumps)[0] if np.ndim(jumps) else 0
    jumps = as_steps(xp, "jumps", jumps, 1, (order, *base.shape))
    check_finite(base=base)
    c = taylor_ratio(gamma, gamma_prime)
    left, after = until_end(where_read(next_value, ends.cut, base), ends)
    row = xp.cumulative_sum(xp.ones_like(left), axis=0) - 1
    total, time = xp.astype(base, base.dtype, copy=True), xp.zeros_like(left)
    for k in range(order):
        # After T steps every path has ended: the minimum keeps long jumps from overflowing.
        jump = xp.minimum(jumps[k], xp.full_like(jumps[k], base.shape[0]))
        time = time + xp.astype(jump, left.dtype)
        index = row + xp.where(time <= left, time, 0)
        seen = xp.take_along_axis(base, index, axis=0)
        total = total + c ** (k + 1) * xp.where(time <= left, seen, after)
    return total


def sample_jumps(
    order: int, shape: int | tuple[int, ...], gamma: float, rng: np.random.Generator
) -> Array:
    """Draw K independent times for each entry, P(τ = t) = (1−γ)γ^{t−1} on {1, 2, …}.

    Args:
        order: The number of times K for each entry.
        shape: The shape of the base estimates that they are for.
        gamma: The discount of the base estimates.
        rng: NumPy's generator.

    Returns:
        The times.

    Example:
        >>> jumps = sample_jumps(2, (5, 3), gamma=0.9, rng=np.random.default_rng(0))
        >>> jumps.shape, bool(jumps.min() >= 1)
        ((2, 5, 3), True)

    Paper: algo:estimate.  Departs: S1 (the printed law sums to γ).
    Shapes: shape -> (K, *shape), integers.
    """
    gamma = check_discount("gamma", gamma)
    order = int(check_order(order, infinite_allowed=False))
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    return rng.geometric(1.0 - gamma, size=(order, *shape))
