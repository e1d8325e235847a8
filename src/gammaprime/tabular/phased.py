"""Error of a K-th order estimate from finite samples: phased TD, corrected.

Appendix E of the paper.  A phase draws fresh samples from every state.  The part of the error that
orders above K would remove falls with K; the sampling error grows with it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gammaprime.tabular.mdp import as_chain, as_finite
from gammaprime.tabular.resolvent import resolvent
from gammaprime.tabular.values import error_bound
from gammaprime.types import check_discounts, check_order, taylor_mass, taylor_ratio
from gammaprime.typing import FloatArray


class PhasedTDBound(NamedTuple):
    """The three parts of the bound on max_x |V_γ'(x) − V̂_K(x)|, and the factor ε."""

    base: float
    """ε (A + B Δ_{t−1}), the error of the base values, amplified by every order."""
    sampling: float
    """(ε−1) U, the error of n samples for each order."""
    gap: float
    """c^{K+1} R_max/(1−γ'), the part of the orders above K."""
    growth: float
    """ε = Σ_{k≤K} c^k."""

    @property
    def total(self) -> float:
        """The bound: the sum of the three parts."""
        return self.base + self.sampling + self.gap


def phased_td_bound(
    gamma: float,
    gamma_prime: float,
    order: int,
    base_error: float,
    num_samples: int,
    num_states: int,
    failure: float,
    reward_max: float,
) -> PhasedTDBound:
    """Return a bound on the error of the K-th order estimate, with probability 1 − 2·failure.

        ε (A + B Δ_{t−1}) + (ε−1) U + c^{K+1} R_max/(1−γ'),
        U = V_max sqrt(log(2 K |X| / failure) / (2n)),   V_max = R_max/(1−γ),

    Nothing is fed back into the base values: ε B > 1 amplifies their error once.

    Args:
        gamma: The discount of the base, below 1.
        gamma_prime: The discount to expand towards.
        order: The order K, at most 1,000.
        base_error: A + B Δ_{t−1}, a bound on the error of the base values, with probability
            1 − failure.
        num_samples: The number n of samples for each state and order.
        num_states: The number of states |X|.
        failure: A probability between 0 and 1.
        reward_max: The largest absolute reward R_max.

    Returns:
        The three parts of the bound and ε.

    Example:
        >>> bound = phased_td_bound(0.5, 0.75, 1, 0.1, 100, 10, failure=0.1, reward_max=1.0)
        >>> round(bound.base, 4), round(bound.sampling, 4), bound.gap, bound.growth
        (0.15, 0.1628, 1.0, 1.5)

    Paper: prop:error, eq:error-decomposition, eq:value-error.  Departs: S7, S8, S9, S10, S11.
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    order = int(check_order(order, infinite_allowed=False))
    for name, count in (("num_samples", num_samples), ("num_states", num_states)):
        if count < 1:
            raise ValueError(f"{name}={count!r}: must be at least 1")
    if not 0.0 < failure < 1.0:
        raise ValueError(f"failure={failure!r}: must lie in (0, 1)")
    if not base_error >= 0.0:
        raise ValueError(f"base_error={base_error!r}: must not be negative")
    gap = error_bound(gamma, gamma_prime, order, reward_max)
    growth = 1.0 + taylor_mass(gamma, gamma_prime, order)
    union = 2.0 * order * num_states / failure
    deviation = math.sqrt(math.log(union) / (2.0 * num_samples)) if order else 0.0
    sampling = (growth - 1.0) * deviation * reward_max / (1.0 - gamma)
    return PhasedTDBound(growth * base_error, sampling, gap, growth)


def phased_td_estimate(
    P: Any,
    base_value: ArrayLike,
    gamma: float,
    gamma_prime: float,
    order: int,
    num_samples: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Estimate V_K from samples of the states that random times lead to.

        V̂_K(x) = V̂(x) + Σ_{k=1}^K c^k · (1/n) Σ_i V̂(x_{i,k}),   x_{i,k} ~ Jᵏ(x, ·)

    J = (1−γ)(I−γP)⁻¹P is the law of the state after a geometric time on {1, 2, …}.  It is held
    as a dense matrix, so the chain must be small.

    Args:
        P: The chain, dense or sparse.
        base_value: The base values V̂ of V_γ.
        gamma: The discount of the base, below 1.
        gamma_prime: The discount to expand towards.  1 needs a chain that absorbs.
        order: The order K, at most 1,000.
        num_samples: The number n of fresh samples for each state and order.
        rng: NumPy's generator.

    Returns:
        The estimate for each state.

    Example:
        >>> P, rng = [[0.0, 1.0], [0.0, 1.0]], np.random.default_rng(0)
        >>> phased_td_estimate(P, [1.0, 2.0], 0.5, 0.75, order=1, num_samples=5, rng=rng)
        array([2., 3.])

    Paper: eq:kth-order-estimator.  Departs: S7 (c^k, not (γ'−γ)^k), S1 (the time's support).
    Shapes: P (X, X), base_value (X,) -> (X,).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    order = int(check_order(order, infinite_allowed=False))
    if num_samples < 1:
        raise ValueError(f"num_samples={num_samples!r}: must be at least 1")
    P = as_chain(P, gamma_prime)
    value = as_finite("base_value", base_value, (P.shape[0],))
    c = taylor_ratio(gamma, gamma_prime)
    base = resolvent(P, gamma)
    estimate = value
    law = np.eye(P.shape[0])
    for k in range(1, order + 1):
        law = (1.0 - gamma) * base.solve(P @ law)
        counts = rng.multinomial(num_samples, law / law.sum(axis=1, keepdims=True))
        estimate = estimate + c**k * (counts @ value) / num_samples
    return estimate
