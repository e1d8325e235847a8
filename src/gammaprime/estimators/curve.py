"""What to look at before choosing an order: the estimate at episode starts, order by order."""

from __future__ import annotations

from typing import NamedTuple

from gammaprime.estimators.backend import any_seen, as_array, float_dtype, namespace
from gammaprime.estimators.checks import as_steps, check_finite
from gammaprime.typing import Array


class OrderCurve(NamedTuple):
    """One entry for each order 0 .. K."""

    orders: Array
    estimate: Array
    standard_error: Array


def order_curve(terms: Array, step: Array | None = None) -> OrderCurve:
    """The estimate of V_K at episode starts and its standard error, for every order.

        V̂_K = mean over starts of Σ_{k≤K} D_k,   error: sample deviation / √(number of starts)

    ``terms`` are those of `expand_terms` up to the largest order of interest.  Starts are the
    rows with step 0, or the first row of every trajectory when ``step`` is not given.

    Paper: x:order-curve.  Shapes: terms (K+1, T, ...), step (T, ...) -> three of (K+1,).
    """
    xp = namespace(terms, step)
    terms = as_array(xp, "terms", terms)
    if terms.ndim < 2 or 0 in terms.shape[:2]:
        raise ValueError(f"terms has shape {tuple(terms.shape)}: must be (K+1, T, ...)")
    terms = xp.astype(terms, float_dtype(xp, terms), copy=False)
    check_finite(terms=terms)
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
