"""Base estimates: returns, λ-returns and advantages at one discount.

Section 2 and step 1 of algorithm 1 of the paper.  ``next_value`` is the value of the TRUE
successor of each row, before any reset; a reward is never altered to carry it.
"""

from __future__ import annotations

from typing import Any

from gammaprime.estimators.backend import discounted_sum, discounted_sum_of, namespace
from gammaprime.estimators.checks import check_finite
from gammaprime.estimators.ends import as_batch, stop_at, where_read
from gammaprime.types import check_discount, check_fraction
from gammaprime.typing import Array


def discounted_return(
    reward: Array, next_value: Array | None, terminated: Array, truncated: Array, gamma: float
) -> Array:
    """The Monte-Carlo return, bootstrapped where the trajectory is cut.

        y_t = r_t + γ y_{t+1},   y_{t+1} = 0 after a termination, V(x_{t+1}) after a cut

    ``next_value`` is read at cuts only; the last row is a cut unless terminated.

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
    """The λ-return: a mixture of n-step returns with weights (1−λ)λ^{n−1}.

        y_t = r_t + γ((1−λ) V(x_{t+1}) + λ y_{t+1}),   y_{t+1} = V(x_{t+1}) after a cut

    It is `gae` plus the value, if next_value[t] is value[t+1] inside a segment.
    ``next_value`` is read wherever a row is not terminated.

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
    """Generalised advantage estimate: the λ-return less the value.

        A_t = r_t + γ V(x_{t+1}) − V(x_t) + γλ A_{t+1}

    V(x_{t+1}) is 0 after a termination, A_{t+1} is 0 after any end.  ``next_value`` is read
    wherever a row is not terminated.

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
