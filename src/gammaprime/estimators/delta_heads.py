"""TD(Δ), the method that the paper compares with: one critic head per difference of discounts.

Romoff et al., "Separating value functions across time-scales", 2019; appendix F of the paper.
Head z learns W_z = V_{γ_z} − V_{γ_{z−1}}, so that V_{γ_z} is the sum of the heads up to z.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from gammaprime.estimators.backend import discounted_sum, namespace
from gammaprime.estimators.inputs import Ends, as_batch, check_finite, stop_at, where_read
from gammaprime.types import check_discount, check_fraction
from gammaprime.typing import Array

RULES = ("unbiased", "capped", "double_capped")


class TDDelta(NamedTuple):
    """Advantages and targets of a policy and Z critic heads."""

    advantage: Array
    """GAE at the last discount on the sum of the heads, for the policy: (T, ...)."""
    head_advantages: Array
    """GAE of each head on its own reward: (Z, T, ...)."""
    targets: Array
    """Targets of the heads, each its advantage plus its value: (Z, T, ...)."""


def td_delta_rewards(
    reward: Array, next_values: Array, terminated: Array, gammas: Sequence[float]
) -> Array:
    """Return the reward of each head, which head z discounts with γ_z.

        r_0(t) = r_t,   r_z(t) = (γ_z − γ_{z−1}) Σ_{j<z} W_j(x_{t+1}), 0 after a termination

    Args:
        reward: Raw rewards.
        next_values: W_z of each true successor, for each head.
        terminated: True where the episode ended for good.
        gammas: The discounts of the heads, increasing.

    Returns:
        One row of rewards for each head.

    Example:
        >>> td_delta_rewards([1.0, 1.0], [[4.0, 0.0], [2.0, 0.0]], [False, True], [0.5, 0.75])
        array([[1., 1.],
               [1., 0.]])

    Paper: x:td-delta.  Shapes: reward, terminated (T, ...), next_values (Z, T, ...) ->
    (Z, T, ...).
    """
    gammas = _check_gammas(gammas)
    nexts = _heads("next_values", next_values, gammas)
    ends, (reward, *futures) = as_batch(terminated, terminated, reward=reward, **nexts)
    check_finite(reward=reward)
    futures = _futures(dict(zip(nexts, futures, strict=True)), ends)
    return namespace(reward).stack(_rewards(reward, futures, gammas))


def td_delta_lambdas(gammas: Sequence[float], lam: float, rule: str) -> list[float]:
    """Return λ_z for every head.

        unbiased        λ γ_Z/γ_z, so that γ_z λ_z is the same for all heads
        capped          min(1, unbiased)
        double_capped   min((1+γ_z)/2 · γ_z − 0.01, unbiased), as the authors ran it

    With the unbiased rule the advantages of the heads add up to GAE(γ_Z, λ) on the sum of the
    heads, in every row and whatever the heads hold.  Its λ_z may exceed 1.

    Args:
        gammas: The discounts of the heads, increasing and positive.
        lam: λ of the policy's advantage, from 0 to 1.
        rule: "unbiased", "capped" or "double_capped".

    Returns:
        One λ for each head.

    Example:
        >>> td_delta_lambdas([0.5, 0.75], lam=0.5, rule="capped")
        [0.75, 0.5]

    Paper: x:td-delta.
    """
    gammas, lam = _check_gammas(gammas), check_fraction("lam", lam)
    if rule not in RULES:
        raise ValueError(f"rule={rule!r}: must be one of {', '.join(map(repr, RULES))}")
    if gammas[0] == 0.0:
        raise ValueError("gammas[0]=0.0: must be positive, λ γ_Z/γ_z divides by it")
    caps = {
        "unbiased": [float("inf")] * len(gammas),
        "capped": [1.0] * len(gammas),
        "double_capped": [(1.0 + gamma) / 2.0 * gamma - 0.01 for gamma in gammas],
    }[rule]
    return [min(cap, lam * gammas[-1] / gamma) for cap, gamma in zip(caps, gammas, strict=True)]


def td_delta(
    reward: Array,
    values: Array,
    next_values: Array,
    terminated: Array,
    truncated: Array,
    gammas: Sequence[float],
    lam: float,
    rule: str,
) -> TDDelta:
    """Return the advantages and targets of every head, and the advantage of the policy.

        A_z = GAE(r_z, W_z; γ_z, λ_z),   policy: GAE(r, Σ_z W_z; γ_Z, λ)

    Args:
        reward: Raw rewards.
        values: W_z of each state, for each head.
        next_values: W_z of each true successor, for each head.
        terminated: True where the episode ended for good.
        truncated: True where the episode was cut off.  The last row is a cut unless terminated.
        gammas: The discounts of the heads, increasing; the last is that of the policy.
        lam: λ of the policy's advantage; those of the heads are `td_delta_lambdas`.
        rule: "unbiased", "capped" or "double_capped".

    Returns:
        The advantages and the targets.

    Example:
        >>> heads, done = [[2.0, 1.0], [1.0, 0.0]], [False, True]
        >>> td_delta([1.0, 1.0], heads, heads, done, done, [0.5, 0.75], 0.8, "capped").advantage
        array([0.25, 0.  ])

    Paper: x:td-delta.  Shapes: reward and flags (T, ...), values (Z, T, ...) -> `TDDelta`.
    """
    lambdas = td_delta_lambdas(gammas, lam, rule)
    gammas = _check_gammas(gammas)
    now, nexts = _heads("values", values, gammas), _heads("next_values", next_values, gammas)
    ends, (reward, *both) = as_batch(terminated, truncated, reward=reward, **now, **nexts)
    heads = both[: len(gammas)]
    check_finite(reward=reward, **dict(zip(now, heads, strict=True)))
    futures = _futures(dict(zip(nexts, both[len(gammas) :], strict=True)), ends)
    rewards = _rewards(reward, futures, gammas)
    each = zip(rewards, heads, futures, gammas, lambdas, strict=True)
    advantages = [_advantage(r, w, f, ends, gamma, lam_z) for r, w, f, gamma, lam_z in each]
    total, future = sum(heads[1:], heads[0]), sum(futures[1:], futures[0])
    advantage = _advantage(reward, total, future, ends, gammas[-1], float(lam))
    stacked = namespace(reward).stack(advantages)
    return TDDelta(advantage, stacked, stacked + namespace(reward).stack(heads))


def _rewards(reward: Array, futures: list[Array], gammas: list[float]) -> list[Array]:
    rewards, below = [reward], futures[0]
    for z in range(1, len(gammas)):
        rewards.append((gammas[z] - gammas[z - 1]) * below)
        below = below + futures[z]
    return rewards


def _advantage(
    reward: Array, value: Array, future: Array, ends: Ends, gamma: float, lam: float
) -> Array:
    """Return `gae` without its checks: λ_z may exceed 1, γ_z λ_z may not."""
    return discounted_sum(
        reward + gamma * future - value, stop_at(ends.either, gamma * lam, reward)
    )


def _check_gammas(gammas: Sequence[float]) -> list[float]:
    checked = [check_discount(f"gammas[{z}]", g, one_allowed=True) for z, g in enumerate(gammas)]
    if not checked or any(a >= b for a, b in itertools.pairwise(checked)):
        raise ValueError(f"gammas={gammas!r}: must hold at least one discount, and increase")
    return checked


def _heads(name: str, values: Array, gammas: list[float]) -> dict[str, Array]:
    """Return each head under its own name, for error messages."""
    try:
        heads = list(values)
    except TypeError:
        raise ValueError(f"{name} of type {type(values).__name__}: must be (Z, T, ...)") from None
    if len(heads) != len(gammas):
        raise ValueError(
            f"{name} holds {len(heads)} heads: must be {len(gammas)}, one per discount"
        )
    return {f"{name}[{z}]": head for z, head in enumerate(heads)}


def _futures(nexts: dict[str, Array], ends: Ends) -> list[Array]:
    """Return each head's value of the successor, 0 after a termination."""
    return [where_read(w, ~ends.terminated, w, name) for name, w in nexts.items()]
