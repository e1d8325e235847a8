"""Running mean and variance in float64, and the running return that rewards are scaled by.

They are values: part of an agent's state, saved and restored with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gammaprime.typing import Array


class Statistics(NamedTuple):
    """Mean and variance of all samples seen.  The prior, N(0, 1), counts 1e-4 of a sample."""

    mean: Array
    variance: Array
    size: Array

    @classmethod
    def start(cls, shape: tuple[int, ...]) -> Statistics:
        """Statistics before any sample."""
        return cls(np.zeros(shape), np.ones(shape), np.array(1e-4))

    @property
    def scale(self) -> Array:
        """1/σ, finite even where the variance is 0."""
        return 1.0 / np.sqrt(self.variance + 1e-8)


def update_statistics(old: Statistics, batch: Array) -> Statistics:
    """Statistics after one more batch (Chan, Golub, LeVeque).

        n = n₁ + n₂,   d = m₂ − m₁,   mean = m₁ + d·n₂/n,   var = (v₁n₁ + v₂n₂ + d²n₁n₂/n)/n

    Samples one by one or all at once give the same result up to rounding.

    Shapes: batch (B, ...), statistics (...).
    """
    batch = np.asarray(batch, dtype=np.float64)
    added = len(batch)
    size = old.size + added
    shift = batch.mean(axis=0) - old.mean
    squares = old.variance * old.size + batch.var(axis=0) * added
    squares = squares + shift**2 * (old.size * added / size)
    return Statistics(old.mean + shift * (added / size), squares / size, size)


def discounted_returns(
    reward: Array, ended: Array, running: Array, discount: float
) -> tuple[Array, Array]:
    """R_t = discount·R_{t−1} + r_t, restarted at 0 after an end; and the last R of each row.

    Shapes: reward, ended (T, N), running (N,) -> (T, N), (N,).
    """
    rows = zip(reward.T.tolist(), ended.T.tolist(), running.tolist(), strict=True)
    followed = [_follow(*row, discount) for row in rows]
    returns, last = zip(*followed, strict=True)
    return np.array(returns).T, np.array(last)


def _follow(
    reward: list[float], ended: list[bool], total: float, discount: float
) -> tuple[list[float], float]:
    """One row in Python's own floats: with few rows an array operation takes 30 times as long."""
    returns = []
    for paid, end in zip(reward, ended, strict=True):
        total = discount * total + paid
        returns.append(total)
        if end:
            total = 0.0
    return returns, total
