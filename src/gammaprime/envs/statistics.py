"""Running statistics for observations and rewards, as values.

They are plain arrays in NamedTuples and change only by making new ones, so they can live in an
agent's state, be saved with it and be restored with it.  Rewards are never scaled where they
are stored: the update multiplies by one number, ``reward_scale``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gammaprime.types import check_discount

Array = NDArray[np.float64]

EPSILON = 1e-8
CLIP = 10.0


class RunningStatistics(NamedTuple):
    """Mean and variance of all that was seen, and how much that was."""

    mean: Array
    var: Array
    count: Array  # type: ignore[assignment]  # hides tuple.count, which nobody calls


class ReturnStatistics(NamedTuple):
    """The discounted return so far of each row, and the statistics of all such returns."""

    so_far: Array
    """(N,) carried from rollout to rollout, one step discounted; 0 after an end."""
    returns: RunningStatistics


def init_statistics(shape: tuple[int, ...] = ()) -> RunningStatistics:
    """Mean 0, variance 1 and a count of next to nothing, as OpenAI Baselines begin."""
    return RunningStatistics(np.zeros(shape), np.ones(shape), np.array(1e-4))


def update_statistics(statistics: RunningStatistics, batch: ArrayLike) -> RunningStatistics:
    """The statistics of the old and the new samples together (Chan, Golub, LeVeque).

        n = n₁ + n₂,  d = m₂ − m₁,  mean = m₁ + d·n₂/n,  var = (v₁n₁ + v₂n₂ + d²n₁n₂/n)/n

    Whether samples come one by one or all at once makes no difference but for rounding.

    Shapes: batch (..., *shape of the mean).
    """
    mean, var, count = statistics
    samples = np.asarray(batch, np.float64).reshape(-1, *mean.shape)
    size = len(samples)
    if size == 0:
        return statistics
    if not np.isfinite(samples).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(samples))[0])
        raise ValueError(f"batch{list(at)}={samples[at]}: must be finite")
    total = count + size
    difference = samples.mean(axis=0) - mean
    squares = var * count + samples.var(axis=0) * size + difference**2 * (count * size / total)
    return RunningStatistics(mean + difference * (size / total), squares / total, total)


def normalise(
    statistics: RunningStatistics, x: Any, *, clip: float = CLIP, epsilon: float = EPSILON
) -> Any:
    """(x − mean)/√(var + ε), clipped.  Works on NumPy and JAX arrays alike."""
    return ((x - statistics.mean) / (statistics.var + epsilon) ** 0.5).clip(-clip, clip)


def init_returns(num_envs: int) -> ReturnStatistics:
    return ReturnStatistics(np.zeros(num_envs), init_statistics())


def update_returns(
    statistics: ReturnStatistics,
    reward: ArrayLike,
    terminated: ArrayLike,
    truncated: ArrayLike,
    scale_gamma: float,
) -> ReturnStatistics:
    """Follow every row's discounted return so far, R_t = r_t + scale_gamma · R_{t−1}.

    Both ends reset it.  ``scale_gamma`` is the discount of the scaling alone: OpenAI Baselines
    keep 0.99 whatever the agent's γ is.

    Shapes: reward, terminated, truncated (T, N).
    """
    scale_gamma = check_discount("scale_gamma", scale_gamma)
    rewards = np.asarray(reward, np.float64)
    ended = np.asarray(terminated, bool) | np.asarray(truncated, bool)
    if rewards.shape != ended.shape or rewards.shape[1:] != statistics.so_far.shape:
        raise ValueError(
            f"reward has shape {rewards.shape}, the ends {ended.shape}: both must be "
            f"(T, {len(statistics.so_far)})"
        )
    decay = np.where(ended, 0.0, scale_gamma)
    returns = np.empty_like(rewards)
    # What is carried is already discounted: scale_gamma · R_{t−1}, or 0 after an end.
    carried = statistics.so_far
    for t in range(len(rewards)):
        np.add(rewards[t], carried, out=returns[t])
        carried = returns[t] * decay[t]
    return ReturnStatistics(carried, update_statistics(statistics.returns, returns))


def reward_scale(statistics: ReturnStatistics, *, epsilon: float = EPSILON) -> float:
    """1/√(var + ε) of the returns so far: the one number that rewards are multiplied by."""
    return float((statistics.returns.var + epsilon) ** -0.5)
