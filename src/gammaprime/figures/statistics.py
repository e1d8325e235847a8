"""Statistics over seeds: centres and bands, and how surely one variant beats another.

Strata are tasks: seeds are resampled, and relabelled, only inside their own task.  All random
numbers come from a fixed seed, so the same runs give the same figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from gammaprime.typing import FloatArray

Statistic = Callable[[Sequence[FloatArray]], FloatArray]
"""Strata of resamples, each (R, S_i, ...), to one number for each resample: (R, ...)."""

RESAMPLES = 2000
"""Bootstrap samples, and simulated repetitions of `detectable_difference`."""
SEED = 20210718
COVERAGE = 0.95
"""Coverage of all intervals; tests are at the level 1 - COVERAGE."""
LEVEL = 1.0 - COVERAGE
POWER = 0.8
LARGEST_TOTAL = 20_000
"""Largest weighted number of pairs of a task; the time of `relabelling_p_value` grows with it."""


class Interval(NamedTuple):
    """Estimate between the ends of its interval."""

    low: float
    value: float
    high: float


UNKNOWN = Interval(math.nan, math.nan, math.nan)


def median_std(values: ArrayLike) -> FloatArray:
    """Median over seeds and one standard deviation to either side.

    Paper: fig:onpolicy.  Shapes: (S, ...) -> (3, ...).
    """
    values = np.asarray(values, dtype=np.float64)
    median, std = np.median(values, axis=0), values.std(axis=0)
    return np.stack([median - std, median, median + std])


def mean_spread(values: ArrayLike, spread: float) -> tuple[float, float]:
    """Mean over seeds and ``spread`` standard deviations; NaN for no seeds.

    Paper: table:td3 (half a standard deviation).  Shapes: (S,) -> two numbers.
    """
    values = np.asarray(values, dtype=np.float64)
    if not values.size:
        return math.nan, math.nan
    return float(values.mean()), spread * float(values.std())


def ties_with_best(means: ArrayLike, halves: ArrayLike) -> NDArray[np.bool_]:
    """Mark the best mean, and every mean inside the best's own band.

        tie_i:  m_i ≥ m_b − h_b,   b = argmax m

    The paper does not define a tie; this rule gives the bold numbers of all its rows.

    Paper: table:td3.  Shapes: (V,), (V,) -> (V,).  NaN ties with nothing.
    """
    means, halves = np.asarray(means, np.float64), np.asarray(halves, np.float64)
    if np.isnan(means).all():
        return np.zeros(means.shape, dtype=bool)
    best = np.nanargmax(means)
    return np.asarray(means >= means[best] - halves[best])


def interquartile_mean(values: ArrayLike, axis: int = 0) -> FloatArray:
    """Mean of the middle half: a quarter of the values, rounded down, is cut at either end."""
    return np.asarray(stats.trim_mean(np.asarray(values, np.float64), 0.25, axis=axis))


def bootstrap(strata: Sequence[ArrayLike], statistic: Statistic) -> FloatArray:
    """Statistic with its stratified percentile bootstrap interval.

    Shapes: strata (S_i, ...), each resampled on its own -> (3, ...): low, value, high.
    """
    samples = [np.asarray(stratum, np.float64) for stratum in strata]
    if any(len(sample) == 0 for sample in samples):
        raise ValueError(f"strata of sizes {[len(s) for s in samples]}: each needs a sample")
    rng = np.random.default_rng(SEED)
    drawn = [s[rng.integers(len(s), size=(RESAMPLES, len(s)))] for s in samples]
    (value,) = statistic([sample[None] for sample in samples])
    low, high = np.quantile(statistic(drawn), (0.5 * LEVEL, 1.0 - 0.5 * LEVEL), axis=0)
    return np.stack([low, value, high])


def iqm_interval(values: ArrayLike) -> FloatArray:
    """Interquartile mean over seeds with its bootstrap interval.  Shapes: (S, ...) -> (3, ...)."""
    return bootstrap([values], lambda strata: interquartile_mean(strata[0], axis=1))


def pooled_iqm_interval(strata: Sequence[ArrayLike]) -> Interval:
    """Interquartile mean of all seeds of all tasks, resampled inside each task."""

    def pooled(drawn: Sequence[FloatArray]) -> FloatArray:
        return interquartile_mean(np.concatenate(drawn, axis=1), axis=1)

    return Interval(*bootstrap(strata, pooled).tolist())


def mean_interval(strata: Sequence[ArrayLike]) -> Interval:
    """Mean over tasks of the means over seeds, resampled inside each task."""

    def means(drawn: Sequence[FloatArray]) -> FloatArray:
        return np.asarray(np.mean([sample.mean(axis=1) for sample in drawn], axis=0))

    return Interval(*bootstrap(strata, means).tolist())


def probability_of_improvement(first: Sequence[ArrayLike], second: Sequence[ArrayLike]) -> Interval:
    """P(X > Y) + ½ P(X = Y) for a random seed of each, averaged over tasks, with its interval.

    Shapes: for each task, (S_i,) and (R_i,).
    """
    tasks = len(_pairs(first, second))

    def improvement(drawn: Sequence[FloatArray]) -> FloatArray:
        pairs = zip(drawn[:tasks], drawn[tasks:], strict=True)
        return np.asarray(np.mean([_wins(x, y).mean(axis=(1, 2)) for x, y in pairs], axis=0))

    return Interval(*bootstrap([*first, *second], improvement).tolist())


def relative_difference(first: Sequence[ArrayLike], second: Sequence[ArrayLike]) -> Interval:
    """Difference of means as a share of the second's |mean|, averaged over tasks.

    NaN if a mean of the second is 0.  Shapes: for each task, (S_i,) and (R_i,).
    """
    units = [abs(float(y.mean())) for _, y in _pairs(first, second)]
    if not all(units):
        return UNKNOWN
    tasks = len(units)

    def shares(drawn: Sequence[FloatArray]) -> FloatArray:
        both = zip(drawn[:tasks], drawn[tasks:], units, strict=True)
        each = [(x.mean(axis=1) - y.mean(axis=1)) / unit for x, y, unit in both]
        return np.asarray(np.mean(each, axis=0))

    return Interval(*bootstrap([*first, *second], shares).tolist())


def relabelling_p_value(first: Sequence[ArrayLike], second: Sequence[ArrayLike]) -> float:
    """Two-sided p-value of the stratified rank-sum test: the share of all relabellings of the
    seeds inside each task that set the variants at least as far apart.

    Far apart by the mean over tasks of the share of won pairs, so that tasks with more seeds count
    no more than others, as in `probability_of_improvement`.

    It is exact: labellings are counted through the distribution of rank sums, and tasks are
    combined by convolution.  So it is never below 2/C(2S, S), which is 1/10 for three seeds on
    one task, whereas the bootstrap interval of a few separated seeds has no width.

    Shapes: for each task, (S_i,) and (R_i,).
    """
    pairs = _pairs(first, second)
    null, observed = np.ones(1), 0
    weights = _task_weights([(len(x), len(y)) for x, y in pairs])
    for (x, y), weight in zip(pairs, weights, strict=True):
        counts, value = _doubled_wins(x, y)
        null = _add_task(null, counts / counts.sum(), weight)
        observed += weight * value
    distance = np.abs(np.arange(len(null)) - 0.5 * (len(null) - 1))
    return float(min(null[distance >= distance[observed] - 1e-9].sum(), 1.0))


def least_p_value(sizes: Sequence[tuple[int, int]]) -> float:
    """Smallest p-value that these numbers of seeds, of both variants on each task, can give."""
    return min(2.0 * float(_null_of_wins(sizes)[-1]), 1.0)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for their number (Holm, 1979), in the given order.

    p'_(i) = max_{j ≤ i} min(1, (m − j + 1) p_(j)),   p_(1) ≤ ... ≤ p_(m)
    """
    order = np.argsort(p_values, kind="stable")
    adjusted, least = [0.0] * len(order), 0.0
    for rank, i in enumerate(order.tolist()):
        least = max(least, (len(order) - rank) * p_values[i])
        adjusted[i] = min(least, 1.0)
    return adjusted


def detectable_difference(
    first: Sequence[ArrayLike], second: Sequence[ArrayLike], level: float = LEVEL
) -> float:
    """Smallest relative difference that so many seeds find with a power of 80 %.

    It is the least δ at which relabelling gives p < level in 80 % of simulated repetitions, in
    which seeds are normal with the pooled standard deviation of their task and the first's mean
    is higher by δ·|mean of the second| on every task.  Infinite if no outcome of so few seeds
    gives p < level; NaN if the deviation is unknown or a mean of the second is 0.

    A simulated pair (x, y) is won from δ = (y − x)/unit on, and a repetition rejects once enough
    pairs are won, so each repetition has its own least δ: a weighted order statistic.

    Shapes: for each task, (S_i,) and (R_i,).
    """
    pairs = _pairs(first, second)
    sizes = [(len(x), len(y)) for x, y in pairs]
    at_least = np.cumsum(_null_of_wins(sizes)[::-1])[::-1]
    enough = np.flatnonzero(2.0 * at_least < level - 1e-12)
    if not len(enough):
        return math.inf
    if any(y.mean() == 0.0 or len(x) + len(y) < 3 for x, y in pairs):
        return math.nan
    rng = np.random.default_rng(SEED)
    crossings = []
    for x, y in pairs:
        squares = len(x) * x.var() + len(y) * y.var()
        scale = math.sqrt(squares / (len(x) + len(y) - 2)) / abs(y.mean())
        ours, theirs = (rng.normal(scale=scale, size=(RESAMPLES, len(s))) for s in (x, y))
        crossings.append((theirs[:, None, :] - ours[:, :, None]).reshape(RESAMPLES, -1))
    counted = [np.full(n * m, w) for (n, m), w in zip(sizes, _task_weights(sizes), strict=True)]
    joined = np.concatenate(crossings, axis=1)
    order = np.argsort(joined, axis=1)
    won = np.cumsum(np.concatenate(counted)[order], axis=1)
    last = np.argmax(won >= enough[0], axis=1)
    needed = np.take_along_axis(joined, np.take_along_axis(order, last[:, None], 1), 1)
    return float(np.quantile(needed, POWER))


def share_above(values: ArrayLike, threshold: float) -> Interval:
    """Share of seeds above a threshold with its exact (Clopper-Pearson) interval.

    For tasks on which seeds end on one of two levels, where a mean over few seeds says little.

    Shapes: (S,) -> three numbers, NaN for no seeds or a threshold of NaN.
    """
    values = np.asarray(values, np.float64)
    if not values.size or math.isnan(threshold):
        return UNKNOWN
    count = int((values > threshold).sum())
    ends = stats.binomtest(count, values.size).proportion_ci(COVERAGE, method="exact")
    return Interval(float(ends.low), count / values.size, float(ends.high))


def performance_profile(strata: Sequence[ArrayLike], thresholds: ArrayLike) -> FloatArray:
    """Share of runs above each threshold, averaged over tasks, with its bootstrap interval.

        F(τ) = (1/M) Σ_m (1/S_m) Σ_s 1[x_{m,s} > τ]

    Seeds are resampled inside each task.

    Shapes: for each of M tasks (S_m,); thresholds (G,) -> (3, G): low, value, high.
    """
    at = np.asarray(thresholds, np.float64)

    def shares(drawn: Sequence[FloatArray]) -> FloatArray:
        above = [(sample[:, :, None] > at).mean(axis=1) for sample in drawn]
        return np.asarray(np.mean(above, axis=0))

    return bootstrap(strata, shares)


def normalise(values: ArrayLike, baseline: ArrayLike) -> FloatArray:
    """Final returns in units of the baseline's mean final return on the same task.

    NaN if that mean is not positive, because the ratio would have no meaning.

    Paper: x:normalised-score.  Shapes: (S,), (R,) -> (S,).
    """
    seeds = np.asarray(baseline, np.float64)
    unit = float(seeds.mean()) if seeds.size else math.nan
    return np.asarray(values, np.float64) / (unit if unit > 0.0 else math.nan)


def window_means(steps: ArrayLike, values: ArrayLike, grid: ArrayLike, window: float) -> FloatArray:
    """Mean of the values in the last ``window`` steps up to each point of the grid.

    A window without values takes the last value before it; before the first value, NaN.

    Shapes: steps (E,) not decreasing, values (E,), grid (G,) -> (G,).
    """
    steps, values = np.asarray(steps, np.float64), np.asarray(values, np.float64)
    grid = np.asarray(grid, np.float64)
    if len(steps) != len(values) or (np.diff(steps) < 0).any():
        raise ValueError("steps: must be as many as values, and must not decrease")
    end = np.searchsorted(steps, grid, side="right")
    start = np.searchsorted(steps, grid - window, side="right")
    start = np.maximum(np.minimum(start, end - 1), 0)
    total = np.concatenate([[0.0], np.cumsum(values)])
    return np.where(end > 0, (total[end] - total[start]) / np.maximum(end - start, 1), np.nan)


def _pairs(
    first: Sequence[ArrayLike], second: Sequence[ArrayLike]
) -> list[tuple[FloatArray, FloatArray]]:
    """Seeds of both variants on each task, as arrays."""
    if len(first) != len(second) or not len(first):
        raise ValueError(
            f"first, second: must be of the same tasks, at least one; got {len(first)} and "
            f"{len(second)}"
        )
    both = zip(first, second, strict=True)
    return [(np.asarray(x, np.float64), np.asarray(y, np.float64)) for x, y in both]


def _wins(x: FloatArray, y: FloatArray) -> FloatArray:
    """1, ½ or 0 for each pair.  Shapes: (R, S), (R, Q) -> (R, S, Q)."""
    return np.asarray(0.5 * (1.0 + np.sign(x[:, :, None] - y[:, None, :])))


def _task_weights(sizes: Sequence[tuple[int, int]]) -> list[int]:
    """Whole numbers by which a task's won pairs are multiplied, so that tasks count alike.

    Tasks of very different sizes count alike up to rounding; the p-value is exact either way.
    """
    total = min(math.lcm(*(n * m for n, m in sizes)), LARGEST_TOTAL)
    return [max(round(total / (n * m)), 1) for n, m in sizes]


def _add_task(null: FloatArray, share: FloatArray, weight: int) -> FloatArray:
    """Distribution of a sum to which a variable with these shares is added ``weight`` times."""
    total = np.zeros(len(null) + weight * (len(share) - 1))
    for value in np.flatnonzero(share).tolist():
        total[weight * value : weight * value + len(null)] += share[value] * null
    return total


def _doubled_wins(x: FloatArray, y: FloatArray) -> tuple[FloatArray, int]:
    """Number of labellings for twice each number of pairs that the first wins, and the observed.

    Twice, because a tie is half a win.  Counted by rank sums, less the smallest that there is.
    """
    n, m = len(x), len(y)
    doubled = np.rint(2.0 * stats.rankdata(np.concatenate([x, y]))).astype(int)
    counts = np.zeros((n + 1, int(doubled.sum()) + 1))
    counts[0, 0] = 1.0
    for rank in doubled.tolist():
        counts[1:, rank:] += counts[:-1, : counts.shape[1] - rank].copy()
    least = n * (n + 1)
    return counts[-1, least : least + 2 * n * m + 1], int(doubled[:n].sum()) - least


def _null_of_wins(sizes: Sequence[tuple[int, int]]) -> FloatArray:
    """Probability of each weighted number of won pairs if the variants are the same, without ties.

    Weights are those of `_task_weights`.
    """
    null = np.ones(1)
    for (n, m), weight in zip(sizes, _task_weights(sizes), strict=True):
        counts, _ = _doubled_wins(np.arange(float(n)), np.arange(float(m)) + n)
        null = _add_task(null, counts[::2] / counts.sum(), weight)
    return null
