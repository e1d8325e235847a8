"""Probe environments: problems so small that the right value and the right action are known.

Each isolates one thing an agent can get wrong, in the order in which to look for the mistake:
the critic's loss, its input, its discount, the policy's gradient, and which of the two discounts
is optimised.  A probe is a finite MDP (``FiniteEnv`` plays it) with its solution beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gammaprime.envs.contract import Array
from gammaprime.envs.finite import FiniteEnv


@dataclass(frozen=True)
class Probe:
    """A finite MDP with two actions, and what a perfect agent knows about it."""

    transition: Array
    """(X, 2, X); the last state is absorbing."""
    reward: Array
    """(X, 2)"""
    start: Array
    """(X,)"""
    value: Callable[[float], Array]
    """Discount -> the optimal value of every state, (X,)."""
    action: Callable[[float], NDArray[np.int64]]
    """Discount -> the best action of every state, (X,); −1 where both are equally good."""

    def env(
        self, num_envs: int = 1, *, time_limit: int | None = None, continuous: bool = False
    ) -> FiniteEnv:
        """The probe as N rows; continuous actions a in [−1, 1] mix the two (see FiniteEnv)."""
        return FiniteEnv(
            self, num_envs, start=self.start, time_limit=time_limit, continuous=continuous
        )


def constant_reward() -> Probe:
    """One state, one step, reward 1 whatever happens.  V = 1 at every discount."""
    return _probe(
        targets=[[1, 1]],
        reward=[[1.0, 1.0]],
        start=[1.0],
        value=lambda gamma: np.array([1.0, 0.0]),
        action=lambda gamma: np.array([-1, -1]),
    )


def observation_reward() -> Probe:
    """Two states, drawn with equal chance, one step: one pays −1, the other +1."""
    return _probe(
        targets=[[2, 2], [2, 2]],
        reward=[[-1.0, -1.0], [1.0, 1.0]],
        start=[0.5, 0.5],
        value=lambda gamma: np.array([-1.0, 1.0, 0.0]),
        action=lambda gamma: np.array([-1, -1, -1]),
    )


def delayed_reward(delay: int = 1) -> Probe:
    """Nothing for ``delay`` steps, then 1.  V of the start is γ^delay, or γ'^delay.

    With order K the expansion towards γ' gives w_K(delay), which for delay 1 is γ at order 0
    and γ' at every order above.
    """
    _check_delay(delay)
    return _probe(
        targets=[[x + 1, x + 1] for x in range(delay + 1)],
        reward=[[0.0, 0.0]] * delay + [[1.0, 1.0]],
        start=[1.0] + [0.0] * delay,
        value=lambda gamma: np.append(gamma ** np.arange(delay, -1.0, -1.0), 0.0),
        action=lambda gamma: np.full(delay + 2, -1),
    )


def action_reward() -> Probe:
    """Two states, drawn with equal chance, one step: the action that equals the state pays 1,
    the other −1.  V = 1 at every discount.
    """
    return _probe(
        targets=[[2, 2], [2, 2]],
        reward=[[1.0, -1.0], [-1.0, 1.0]],
        start=[0.5, 0.5],
        value=lambda gamma: np.array([1.0, 1.0, 0.0]),
        action=lambda gamma: np.array([0, 1, -1]),
    )


def discount_chain(delay: int = 10, soon: float = 1.0, late: float = 2.0) -> Probe:
    """A choice that only the discount decides: ``soon`` now, or ``late`` after ``delay`` steps.

    In state 0 action 0 pays ``soon`` and ends; action 1 pays nothing and walks through states
    1, ..., delay, where both actions walk on; the last of these steps pays ``late`` and ends.
    So Q(0, 0) = soon and Q(0, 1) = γ^delay · late, and waiting is better if and only if

        γ > break_even = (soon/late)^(1/delay),

    0.933 by default: an agent that optimises γ = 0.9 takes the first, one that optimises
    γ' = 0.99 waits.  An expansion of order K from γ to γ' waits where w_K(delay) > soon/late.

    Paper: eq:state-weight (w_K).
    """
    break_even = break_even_discount(delay, soon, late)

    def value(gamma: float) -> Array:
        waiting = late * gamma ** np.arange(delay - 1, -1.0, -1.0)
        return np.concatenate(([max(soon, late * gamma**delay)], waiting, [0.0]))

    def action(gamma: float) -> NDArray[np.int64]:
        best = -np.ones(delay + 2, np.int64)
        if gamma != break_even:
            best[0] = int(gamma > break_even)
        return best

    end = delay + 1
    return _probe(
        targets=[[end, 1], *([x + 1, x + 1] for x in range(1, delay + 1))],
        reward=[[soon, 0.0], *([0.0, 0.0] for _ in range(1, delay)), [late, late]],
        start=[1.0] + [0.0] * delay,
        value=value,
        action=action,
    )


def break_even_discount(delay: int = 10, soon: float = 1.0, late: float = 2.0) -> float:
    """The discount at which the two ways of ``discount_chain`` are worth the same."""
    _check_delay(delay)
    if not 0.0 < soon < late < np.inf:
        raise ValueError(f"soon={soon!r}, late={late!r}: must be 0 < soon < late")
    return float((soon / late) ** (1.0 / delay))


PROBES: dict[str, Callable[[], Probe]] = {
    "constant_reward": constant_reward,
    "observation_reward": observation_reward,
    "delayed_reward": delayed_reward,
    "action_reward": action_reward,
    "discount_chain": discount_chain,
}


def _probe(
    targets: list[list[int]],
    reward: ArrayLike,
    start: list[float],
    value: Callable[[float], Array],
    action: Callable[[float], NDArray[np.int64]],
) -> Probe:
    """A deterministic MDP from its successors; the absorbing state is added at the end."""
    end = len(targets)
    successors = np.array([*targets, [end, end]])
    rewards = np.vstack([np.asarray(reward, np.float64), np.zeros(2)])
    return Probe(np.eye(end + 1)[successors], rewards, np.array([*start, 0.0]), value, action)


def _check_delay(delay: int) -> None:
    if isinstance(delay, bool) or not isinstance(delay, int) or delay < 1:
        raise ValueError(f"delay={delay!r}: must be an integer >= 1")
