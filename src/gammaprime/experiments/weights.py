"""Weights of a reward t steps ahead, by order and for the paper's window.

Sections 3 and 4 of the paper, and the window of its appendix (appendix:exp).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gammaprime.estimators import discounted_return, expand_window, update_weights
from gammaprime.types import check_discounts, check_order
from gammaprime.typing import FloatArray


@dataclass(frozen=True)
class Settings:
    """Settings of the weight curves."""

    gamma: float
    """Discount of the base."""
    gamma_prime: float
    """Discount to expand towards."""
    orders: tuple[int, ...]
    """Finite orders to show; infinity is always added."""
    lookahead: int
    """Length of the window."""
    num_steps: int
    """Steps to show."""

    def __post_init__(self) -> None:
        check_discounts(self.gamma, self.gamma_prime)
        for order in self.orders:
            check_order(order, infinite_allowed=False)
        for name, value in (("lookahead", self.lookahead), ("num_steps", self.num_steps)):
            if value < 1:
                raise ValueError(f"{name}={value!r}: must be at least 1")


def run(settings: Settings, report: Callable[[int, int], None]) -> dict[str, FloatArray]:
    """Return the curves w_K(t), K = ∞ last, and the reward weights of the window.

    Shapes: step (T,); by_order (orders + 1, T); window (T,).
    """
    step = np.arange(settings.num_steps)
    orders = [*settings.orders, math.inf]
    curves = [update_weights(step, settings.gamma, settings.gamma_prime, k) for k in orders]
    report(1, 1)
    return {"step": step, "by_order": np.stack(curves), "window": window_weights(settings)}


def window_weights(settings: Settings) -> FloatArray:
    """Return the weight of a reward t steps ahead in the windowed first order.

    With a single reward of 1, at the end of an episode, the estimate t steps before is its weight.

    Paper: appendix:exp.  Departs: S21.  Shapes: -> (T,).
    """
    reward = np.zeros(settings.num_steps)
    reward[-1] = 1.0
    terminated = reward == 1.0
    nothing = np.zeros_like(reward)
    ends = (nothing, terminated, np.zeros_like(terminated))
    base = discounted_return(reward, *ends, settings.gamma)
    discounts = (settings.gamma, settings.gamma_prime)
    return expand_window(base, *ends, *discounts, 1, settings.lookahead)[::-1]
