"""What seeds can tell: centres and bands over them, and how surely one variant beats another.

Strata are tasks: seeds are resampled, and relabelled, inside their own task only.  Everything is
drawn from a fixed seed, so that the same runs give the same figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Array = NDArray[np.float64]
Statistic = Callable[[Sequence[Array]], Array]
"""Strata of resamples, each (R, S_i, ...), to a number for each resample: (R, ...)."""

RESAMPLES = 2000
SEED = 20210718
COVERAGE = 0.95


class Interval(NamedTuple):
    """A number, and where it may lie."""

    low: float
    value: float
    high: float


def median_std(values: ArrayLike) -> Array:
    """Median over seeds and one standard deviation to either side, as the paper draws them.

    Shapes: (S, ...) -> (3, ...).  Paper: fig:onpolicy.
    """
    values = np.asarray(values, dtype=np.float64)
    median, std = np.median(values, axis=0), values.std(axis=0)
    return np.stack([median - std, median, median + std])


def mean_spread(values: ArrayLike, spread: float) -> tuple[float, float]:
    """Mean over seeds and so many standard deviations: half of one in the paper's table.

    Shapes: (S,) -> two numbers, NaN of no seeds.  Paper: table:td3.
    """
    values = np.asarray(values, dtype=np.float64)
    if not values.size:
        return np.nan, np.nan
    return float(values.mean()), spread * float(values.std())


def ties_with_best(means: ArrayLike, halves: ArrayLike) -> NDArray[np.bool_]:
    """The best mean, and every mean inside the best's own band.

        tie_i:  m_i ≥ m_b − h_b,   b = argmax m

    The paper does not say what a tie is; this rule gives the bold numbers of all its rows.

    Shapes: (V,), (V,) -> (V,).  NaN, where nothing ran, ties with nothing.  Paper: table:td3.
    """
    means, halves = np.asarray(means, np.float64), np.asarray(halves, np.float64)
    if np.isnan(means).all():
        return np.zeros(means.shape, dtype=bool)
    best = np.nanargmax(means)
    return means >= means[best] - halves[best]


def interquartile_mean(values: ArrayLike, axis: int = 0) -> Array:
    """The mean of the middle half; as many are cut at both ends, in whole numbers."""
    return stats.trim_mean(np.asarray(values, np.float64), 0.25, axis=axis)


def bootstrap(
    strata: Sequence[ArrayLike], statistic: Statistic, coverage: float = COVERAGE
) -> Array:
    """The value, between the ends of its stratified percentile bootstrap.

    Shapes: strata (S_i, ...), each resampled on its own -> (3, ...): low, value, high.
    """
    samples = [np.asarray(stratum, np.float64) for stratum in strata]
    if any(len(sample) == 0 for sample in samples):
        raise ValueError(f"strata of sizes {[len(s) for s in samples]}: must have a sample each")
    rng = np.random.default_rng(SEED)
    drawn = [s[rng.integers(len(s), size=(RESAMPLES, len(s)))] for s in samples]
    (value,) = statistic([sample[None] for sample in samples])
    tail = 0.5 * (1.0 - coverage)
    low, high = np.quantile(statistic(drawn), (tail, 1.0 - tail), axis=0)
    return np.stack([low, value, high])


def iqm_interval(values: ArrayLike) -> Array:
    """Interquartile mean over seeds with its bootstrap interval.  Shapes: (S, ...) -> (3, ...)."""
    return bootstrap([values], lambda strata: interquartile_mean(strata[0], axis=1))


def pooled_iqm_interval(strata: Sequence[ArrayLike]) -> Interval:
    """Interquartile mean of all seeds of all tasks, resampled inside each task."""

    def pooled(drawn: Sequence[Array]) -> Array:
        return interquartile_mean(np.concatenate(drawn, axis=1), axis=1)

    return Interval(*bootstrap(strata, pooled).tolist())


def mean_interval(strata: Sequence[ArrayLike]) -> Interval:
    """Mean over tasks of the means over seeds, resampled inside each task."""

    def means(drawn: Sequence[Array]) -> Array:
        return np.mean([sample.mean(axis=1) for sample in drawn], axis=0)

    return Interval(*bootstrap(strata, means).tolist())


def probability_of_improvement(first: Sequence[ArrayLike], second: Sequence[ArrayLike]) -> Interval:
    """P(X > Y) + ½ P(X = Y) for a seed of each, averaged over tasks, with its interval.

    Shapes: for each task, (S_i,) and (R_i,).
    """
    _check_pairs(first, second)
    tasks = len(first)

    def improvement(drawn: Sequence[Array]) -> Array:
        pairs = zip(drawn[:tasks], drawn[tasks:], strict=True)
        return np.mean([_wins(x, y).mean(axis=(1, 2)) for x, y in pairs], axis=0)

    return Interval(*bootstrap([*first, *second], improvement).tolist())


def relabelling_p_value(first: Sequence[ArrayLike], second: Sequence[ArrayLike]) -> float:
    """How often relabelled seeds would differ as much, if the variants were the same: two-sided.

    Exact: all labellings inside each task are counted through the distribution of rank sums, and
    tasks are added by convolution.  A bootstrap of a few seeds that happen to be apart has no
    width; this p-value is never below 2/C(2S, S), which is 1/10 for three seeds of one task.

    Shapes: for each task, (S_i,) and (R_i,).
    """
    _check_pairs(first, second)
    null, observed = np.ones(1), 0
    centre = 0.0
    for x, y in zip(first, second, strict=True):
        counts, value = _rank_sums(np.asarray(x, np.float64), np.asarray(y, np.float64))
        share = counts / counts.sum()
        null = np.convolve(null, share)
        observed += value
        centre += float(share @ np.arange(len(share)))
    distance = np.abs(np.arange(len(null)) - centre)
    return float(min(null[distance >= abs(observed - centre) - 1e-9].sum(), 1.0))


def holm(p_values: Sequence[float]) -> list[float]:
    """The same p-values, corrected for their number (Holm 1979)."""
    order = np.argsort(p_values, kind="stable")
    corrected, least = [0.0] * len(order), 0.0
    for rank, i in enumerate(order.tolist()):
        least = max(least, (len(order) - rank) * p_values[i])
        corrected[i] = min(least, 1.0)
    return corrected


def normalise(values: ArrayLike, baseline: ArrayLike) -> Array:
    """Final returns in units of the baseline's mean final return on the same task.

    NaN where that mean is not positive: a ratio would say nothing.

    Shapes: (S,), (R,) -> (S,).  Paper: x:normalised-score.
    """
    seeds = np.asarray(baseline, np.float64)
    unit = float(seeds.mean()) if seeds.size else np.nan
    return np.asarray(values, np.float64) / (unit if unit > 0.0 else np.nan)


def window_means(steps: ArrayLike, values: ArrayLike, grid: ArrayLike, window: float) -> Array:
    """Mean of what was told in the last ``window`` steps up to each point of the grid.

    Where nothing was, the last value before it stands; before the first, NaN.

    Shapes: steps (E,) not falling, values (E,), grid (G,) -> (G,).
    """
    steps, values = np.asarray(steps, np.float64), np.asarray(values, np.float64)
    grid = np.asarray(grid, np.float64)
    if len(steps) != len(values) or (np.diff(steps) < 0).any():
        raise ValueError("steps: must be as many as values, and must not fall")
    end = np.searchsorted(steps, grid, side="right")
    start = np.searchsorted(steps, grid - window, side="right")
    start = np.maximum(np.minimum(start, end - 1), 0)
    total = np.concatenate([[0.0], np.cumsum(values)])
    return np.where(end > 0, (total[end] - total[start]) / np.maximum(end - start, 1), np.nan)


def _wins(x: Array, y: Array) -> Array:
    """1, ½ or 0 for each pair.  Shapes: (R, S), (R, Q) -> (R, S, Q)."""
    return 0.5 * (1.0 + np.sign(x[:, :, None] - y[:, None, :]))


def _rank_sums(x: Array, y: Array) -> tuple[Array, int]:
    """In how many labellings the first has each doubled rank sum, and which one it has.

    Doubled, because tied ranks are halves.
    """
    doubled = np.rint(2.0 * stats.rankdata(np.concatenate([x, y]))).astype(int)
    counts = np.zeros((len(x) + 1, int(doubled.sum()) + 1))
    counts[0, 0] = 1.0
    for rank in doubled.tolist():
        counts[1:, rank:] += counts[:-1, : counts.shape[1] - rank].copy()
    return counts[-1], int(doubled[: len(x)].sum())


def _check_pairs(first: Sequence[ArrayLike], second: Sequence[ArrayLike]) -> None:
    if len(first) != len(second) or not len(first):
        raise ValueError(
            f"first, second: must be of the same tasks, at least one; got {len(first)} and "
            f"{len(second)}"
        )
