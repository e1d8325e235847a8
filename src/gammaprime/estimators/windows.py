"""The paper's own two estimators: a self-normalised window, and random times.

Algorithms 1 and 4 and appendix F of the paper.  Kept for the reproduction: `expand` takes the
expectation over the times in closed form, for the same O(T) as one window step.
Past a termination both see zeros, past a cut ``next_value`` at every further step.
"""

from __future__ import annotations

import numpy as np

from gammaprime.estimators.backend import discounted_sum, float_dtype, namespace
from gammaprime.estimators.checks import as_steps, check_finite
from gammaprime.estimators.ends import Ends, as_batch, next_index, stop_at, where_read
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
    """Order K with the weights of the next H steps scaled up to the mass of all of them.

        E_0 = y,   E_k(t) = c Σ_{s=1}^H γ^{s−1} E_{k−1}(t+s) / Σ_{s=1}^H γ^{s−1},   Σ_{k≤K} E_k

    The denominator stays full at every end.  Beware: for γ = .99, γ' = .999, H = 10 the window
    multiplies the true weights by 10.46, and the weight of the reward u ≥ 10 steps ahead is
    1.951 γ^u: the horizon is not extended at all.

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
    term = total = namespace(base).astype(base, base.dtype, copy=True)
    for _ in range(order if c > 0 else 0):
        term = c * _window(term, after, ends, weights)
        after = c * after
        total = total + term
    return total


def _window_weights(gamma: float, lookahead: int, num_steps: int) -> list[float]:
    """γ^{s−1}/Σγ^{s'−1}; every end is within T steps, so the last step carries what is left."""
    seen = min(lookahead, num_steps)
    mass = 1.0 - gamma**lookahead
    weights = [(1.0 - gamma) * gamma**s / mass for s in range(seen - 1)]
    return [*weights, (gamma ** (seen - 1) - gamma**lookahead) / mass]


def _window(x: Array, after: Array, ends: Ends, weights: list[float]) -> Array:
    """Σ_s weight_s x_{t+s}, moving one index ahead at a time."""
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
    """Order K with one draw of the random times: unbiased, and noisier than `expand`.

        Σ_{k≤K} c^k y_{t+t_k},   t_k = τ_1 + … + τ_k,   τ_i = jumps[i−1] from `sample_jumps`

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
    left, after = _until_end(where_read(next_value, ends.cut, base), ends)
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


def _until_end(boot: Array, ends: Ends) -> tuple[Array, Array]:
    """The number of rows left in each row's segment, and the value that follows the last."""
    xp = namespace(boot)
    wide = xp.zeros_like(boot, dtype=float_dtype(xp))
    going = stop_at(ends.either, 1.0, wide)
    left = xp.astype(discounted_sum(going, going), xp.asarray(0).dtype)
    return left, discounted_sum(boot, stop_at(ends.either, 1.0, boot))


def sample_jumps(
    order: int, shape: int | tuple[int, ...], gamma: float, rng: np.random.Generator
) -> Array:
    """K independent times for each entry, P(τ = t) = (1−γ)γ^{t−1} on {1, 2, …}.

    Paper: algo:estimate.  Departs: S1 (the printed law sums to γ).
    Shapes: shape -> (K, *shape), integers.
    """
    gamma = check_discount("gamma", gamma)
    order = int(check_order(order, infinite_allowed=False))
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    return rng.geometric(1.0 - gamma, size=(order, *shape))
