"""Base estimates: returns, λ-returns and advantages at one discount.

Section 2 and step 1 of algorithm 1 of the paper.  ``next_value`` is the value of the TRUE
successor of each row, before any reset; a reward is never altered to carry it.
"""

from __future__ import annotations

from typing import Any

from gammaprime.estimators.backend import discounted_sum, discounted_sum_of, namespace
from gammaprime.estimators.inputs import as_batch, check_finite, stop_at, where_read
from gammaprime.types import check_discount, check_fraction
from gammaprime.typing import Array


def discounted_return(
    reward: Array, next_value: Array | None, terminated: Array, truncated: Array, gamma: float
) -> Array:
    """Return Monte-Carlo returns, bootstrapped where a trajectory is cut.

        y_t = r_t + γ y_{t+1},   y_{t+1} = 0 after a termination, V(x_{t+1}) after a cut

    Args:
        reward: Raw rewards.
        next_value: The critic's value of each true successor, read at cuts only.  None if no row
            is cut.
        terminated: True where the episode ended for good.
        truncated: True where the episode was cut off.  The last row is a cut unless terminated.
        gamma: The discount, from 0 to 1.

    Returns:
        One return per row.

    Example:
        >>> done = [False, False, True]
        >>> discounted_return([1.0, 1.0, 1.0], None, done, done, gamma=0.5)
        array([1.75, 1.5 , 1.  ])

    Paper: algo:estimate, x:gae.  Shapes: all (T, ...) -> (T, ...).
    """
    gamma = check_discount("gamma", gamma, one_allowed=True)
    ends, (reward, next_value) = as_batch(
        terminated, truncated, reward=reward, next_value=next_value
    )
    check_finite(reward=reward)
    paid = reward + gamma * where_read(next_value, ends.cut, reward)
    return discounted_sum(paid, stop_at(ends.either, gamma, reward))


def lambda_return(
    reward: Array,
    next_value: Array,
    terminated: Array,
    truncated: Array,
    gamma: float,
    lam: float,
) -> Array:
    """Return λ-returns: mixtures of n-step returns with weights (1−λ)λ^{n−1}.

        y_t = r_t + γ((1−λ) V(x_{t+1}) + λ y_{t+1}),   y_{t+1} = V(x_{t+1}) after a cut

    It is `gae` plus the value, if next_value[t] is value[t+1] inside a trajectory.

    Args:
        reward: Raw rewards.
        next_value: The critic's value of each true successor, read where a row is not terminated.
        terminated: True where the episode ended for good.
        truncated: True where the episode was cut off.  The last row is a cut unless terminated.
        gamma: The discount, from 0 to 1.
        lam: λ, from 0 (one step) to 1 (`discounted_return`).

    Returns:
        One λ-return per row.

    Example:
        >>> done = [False, True]
        >>> lambda_return([1.0, 1.0], [4.0, 0.0], done, done, gamma=0.5, lam=0.5)
        array([2.25, 1.  ])

    Paper: x:gae.  Shapes: all (T, ...) -> (T, ...).
    """
    gamma, lam = _check_scalars(gamma, lam)
    _require(next_value)
    ends, (reward, next_value) = as_batch(
        terminated, truncated, reward=reward, next_value=next_value
    )
    check_finite(reward=reward)
    future = where_read(next_value, ~ends.terminated, reward)
    seen = namespace(reward).where(ends.cut, future, (1.0 - lam) * future)
    return discounted_sum(reward + gamma * seen, stop_at(ends.either, gamma * lam, reward))


def gae(
    reward: Array,
    value: Array,
    next_value: Array,
    terminated: Array,
    truncated: Array,
    gamma: float,
    lam: float,
) -> Array:
    """Return generalised advantage estimates: λ-returns less the value.

        A_t = r_t + γ V(x_{t+1}) − V(x_t) + γλ A_{t+1}

    V(x_{t+1}) is 0 after a termination, A_{t+1} is 0 after any end.

    Args:
        reward: Raw rewards.
        value: The critic's value of each state.
        next_value: The critic's value of each true successor, read where a row is not terminated.
        terminated: True where the episode ended for good.
        truncated: True where the episode was cut off.  The last row is a cut unless terminated.
        gamma: The discount, from 0 to 1.
        lam: λ, from 0 (one step) to 1 (the return less the value).

    Returns:
        One advantage per row.

    Example:
        >>> done = [False, True]
        >>> gae([1.0, 1.0], [2.0, 4.0], [4.0, 0.0], done, done, gamma=0.5, lam=0.5)
        array([ 0.25, -3.  ])

    Paper: x:gae.  Shapes: all (T, ...) -> (T, ...).
    """
    gamma, lam = _check_scalars(gamma, lam)
    _require(next_value)
    ends, (reward, value, next_value) = as_batch(
        terminated, truncated, reward=reward, value=value, next_value=next_value
    )
    check_finite(reward=reward, value=value)
    # Checked before the scan, masked inside it.
    where_read(next_value, ~ends.terminated, reward)
    xp = namespace(reward)

    def surprise(
        reward: Array, value: Array, next_value: Array, terminated: Array, truncated: Array
    ) -> tuple[Array, Array]:
        future = xp.where(terminated, 0.0, next_value)
        decay = stop_at(terminated | truncated, gamma * lam, reward)
        return reward + gamma * future - value, decay

    # Nothing follows the last row, so its flag may stay as it was given.
    return discounted_sum_of(surprise, reward, value, next_value, ends.terminated, ends.truncated)


def _check_scalars(gamma: float, lam: float) -> tuple[float, float]:
    return check_discount("gamma", gamma, one_allowed=True), check_fraction("lam", lam)


def _require(next_value: Any) -> None:
    if next_value is None:
        raise ValueError("next_value=None: must be given, it is read at every row not terminated")
