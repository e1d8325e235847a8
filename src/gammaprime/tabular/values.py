"""Values and Q-functions: V_γ' and Q_γ' from V_γ and Q_γ, one Taylor order at a time.

Section 3 and appendices A and C of the paper.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gammaprime.tabular.mdp import MDP, Chain, as_chain, as_finite, chain
from gammaprime.tabular.resolvent import check_absorption, resolvent
from gammaprime.types import (
    Order,
    check_discount,
    check_discounts,
    check_order,
    check_passes,
    saturate_order,
    taylor_ratio,
)
from gammaprime.typing import FloatArray


def solve_value(P: Any, r: ArrayLike, gamma: float) -> FloatArray:
    """Return V_γ = (I − γP)⁻¹ r.

    Args:
        P: The chain, dense or sparse.
        r: The mean reward of each state.
        gamma: The discount.  1 needs a chain that absorbs, and no reward in absorbing states.

    Returns:
        The value of each state.

    Example:
        >>> P, r = [[0.5, 0.5], [0.0, 1.0]], [1.0, 0.0]
        >>> solve_value(P, r, gamma=1.0)
        array([2., 0.])

    Paper: eq:primal-bellman, eq:primal-start-expansion; γ = 1: lemma:1, lemma:3.
    Shapes: P (X, X), r (X,) -> (X,).
    """
    gamma = check_discount("gamma", gamma, one_allowed=True)
    P, r = _checked(P, r, gamma)
    return resolvent(P, gamma).solve(r)


def value_terms(P: Any, r: ArrayLike, gamma: float, gamma_prime: float, order: Order) -> FloatArray:
    """Return the Taylor terms D_0 .. D_K of γ ↦ V_γ, whose sum is V_K.

        D_0 = V_γ,   D_k = (γ'−γ)(I−γP)⁻¹P D_{k−1} = (γ'−γ)ᵏ/k! · dᵏV_γ/dγᵏ

    Args:
        P: The chain, dense or sparse.
        r: The mean reward of each state.
        gamma: The discount of the base, below 1.
        gamma_prime: The discount to expand towards.  1 needs a chain that absorbs.
        order: The order K, at most 1,000.

    Returns:
        The terms, one row for each order.

    Example:
        >>> P, r = [[0.5, 0.5], [0.0, 1.0]], [1.0, 0.0]
        >>> value_terms(P, r, gamma=0.0, gamma_prime=1.0, order=2)
        array([[1.  , 0.  ],
               [0.5 , 0.  ],
               [0.25, 0.  ]])

    Paper: eq:zeroth-order-primal, eq:primal-first-order, eq:primal-k-order; γ' = 1: lemma:4.
    Shapes: P (X, X), r (X,) -> (K+1, X).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    order = check_order(order, infinite_allowed=False)
    P, r = _checked(P, r, gamma_prime)
    base = resolvent(P, gamma)
    return np.stack(list(base.terms(base.solve(r), gamma_prime, int(order))))


def expand_value(
    P: Any, r: ArrayLike, gamma: float, gamma_prime: float, order: Order
) -> FloatArray:
    """Return the K-th order expansion of V_γ' around V_γ; order math.inf is V_γ' itself.

        V_K = Σ_{k≤K} ((γ'−γ)(I−γP)⁻¹P)ᵏ V_γ

    An order that leaves out less than a rounding error is taken as math.inf.  Others are
    computed one after the other, up to 10,000.

    Args:
        P: The chain, dense or sparse.
        r: The mean reward of each state.
        gamma: The discount of the base, below 1.
        gamma_prime: The discount to expand towards.  1 needs a chain that absorbs.
        order: The order K, or math.inf.

    Returns:
        V_K, the expanded value of each state.

    Example:
        >>> P, r = [[0.5, 0.5], [0.0, 1.0]], [1.0, 0.0]
        >>> expand_value(P, r, gamma=0.0, gamma_prime=1.0, order=2)
        array([1.75, 0.  ])

    Paper: eq:kth-order-primal, eq:primal-expansion; γ' = 1: eq:k-expansion-undiscounted.
    Shapes: P (X, X), r (X,) -> (X,).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    order = saturate_order(check_order(order), gamma, gamma_prime)
    P, r = _checked(P, r, gamma_prime)
    if math.isinf(order):
        return resolvent(P, gamma_prime).solve(r)
    base = resolvent(P, gamma)
    *_, (_, value) = base.partial_sums(base.solve(r), gamma_prime, check_passes(order))
    return value


def residual(P: Any, r: ArrayLike, gamma: float, gamma_prime: float, order: Order) -> FloatArray:
    """Return V_γ' − V_K = ((γ'−γ)(I−γP)⁻¹P)^{K+1} V_γ', without subtracting two near numbers.

    Args:
        P: The chain, dense or sparse.
        r: The mean reward of each state.
        gamma: The discount of the base, below 1.
        gamma_prime: The discount to expand towards.  1 needs a chain that absorbs.
        order: The order K, at most 10,000, or math.inf.

    Returns:
        What order K leaves out, for each state.

    Example:
        >>> P, r = [[0.5, 0.5], [0.0, 1.0]], [1.0, 0.0]
        >>> residual(P, r, gamma=0.0, gamma_prime=1.0, order=2)
        array([0.25, 0.  ])

    Paper: prop:taylor-expansion, eq:fundamental-taylor; γ' = 1: lemma:4.
    Shapes: P (X, X), r (X,) -> (X,).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    order = check_order(order)
    P, r = _checked(P, r, gamma_prime)
    if math.isinf(order):
        return np.zeros_like(r)
    target = resolvent(P, gamma_prime).solve(r)
    *_, rest = resolvent(P, gamma).terms(target, gamma_prime, check_passes(order) + 1)
    return rest


def error_bound(gamma: float, gamma_prime: float, order: Order, reward_max: float) -> float:
    """Return a bound on the error of V_K, which is attained for constant rewards.

        max_x |V_γ'(x) − V_K(x)| ≤ c^{K+1} R_max/(1−γ')

    At γ' = 1 and a finite order no bound holds for all chains: the result is infinity.

    Args:
        gamma: The discount of the base, below 1.
        gamma_prime: The discount to expand towards.
        order: The order K, or math.inf.
        reward_max: The largest absolute mean reward.

    Returns:
        The bound.

    Example:
        >>> error_bound(gamma=0.5, gamma_prime=0.75, order=1, reward_max=1.0)
        1.0

    Paper: prop:kth-expansion.
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    order = check_order(order)
    if not (math.isfinite(reward_max) and reward_max >= 0):
        raise ValueError(f"reward_max={reward_max!r}: must be finite and not negative")
    if reward_max == 0 or math.isinf(order):
        return 0.0
    if gamma_prime == 1.0:
        return math.inf
    return float(taylor_ratio(gamma, gamma_prime) ** (order + 1) * reward_max / (1.0 - gamma_prime))


def solve_q(mdp: MDP, policy: ArrayLike, gamma: float) -> FloatArray:
    """Return Q_γ(x, a) = r(x, a) + γ E[V_γ(y) | x, a].

    Args:
        mdp: The MDP.
        policy: π(a|x); each row is a distribution over actions.
        gamma: The discount.  1 needs a chain that absorbs, and no reward in absorbing states.

    Returns:
        The value of each state and action.

    Example:
        >>> mdp = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[1.0], [0.0]])
        >>> solve_q(mdp, [[1.0], [1.0]], gamma=1.0).tolist()
        [[2.0], [0.0]]

    Paper: prop:adv.  Shapes: policy (X, A) -> (X, A).
    """
    P, r = chain(mdp, policy)
    return mdp.reward + float(gamma) * mdp.expect(solve_value(P, r, gamma))


def expand_q(
    mdp: MDP, policy: ArrayLike, gamma: float, gamma_prime: float, order: Order
) -> FloatArray:
    """Return the K-th order expansion of Q_γ' around Q_γ.

        Q_K = Σ_{k≤K} ((γ'−γ)(I−γP̄)⁻¹P̄)ᵏ Q_γ

    P̄ is the chain over state-action pairs, but the chain over states is enough: by the order
    recursion Q_K = r + P̄(γ Q_K + (γ'−γ) Q_{K−1}), and P̄ Q_K is V_K one step ahead.

    Args:
        mdp: The MDP.
        policy: π(a|x); each row is a distribution over actions.
        gamma: The discount of the base, below 1.
        gamma_prime: The discount to expand towards.  1 needs a chain that absorbs.
        order: The order K, or math.inf.

    Returns:
        The expanded value of each state and action.

    Example:
        >>> mdp = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[1.0], [0.0]])
        >>> expand_q(mdp, [[1.0], [1.0]], gamma=0.0, gamma_prime=1.0, order=2).tolist()
        [[1.75], [0.0]]

    Paper: prop:adv.  Shapes: policy (X, A) -> (X, A).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    order = saturate_order(check_order(order), gamma, gamma_prime)
    P, r = _checked(*chain(mdp, policy), gamma_prime)
    if math.isinf(order):
        return mdp.reward + gamma_prime * mdp.expect(resolvent(P, gamma_prime).solve(r))
    base = resolvent(P, gamma)
    *_, (lower, value) = base.partial_sums(base.solve(r), gamma_prime, check_passes(order))
    return q_from_values(mdp, lower, value, gamma, gamma_prime)


def q_from_values(
    mdp: MDP, lower: FloatArray, value: FloatArray, gamma: float, gamma_prime: float
) -> FloatArray:
    """Return Q_K(x, a) = r(x, a) + E[γ V_K(y) + (γ'−γ) V_{K−1}(y) | x, a], the order recursion.

    Paper: prop:adv.  Shapes: V_{K−1} (X,), V_K (X,) -> (X, A).
    """
    return mdp.reward + mdp.expect(gamma * value + (gamma_prime - gamma) * lower)


def _checked(P: Any, r: ArrayLike, largest_discount: float) -> tuple[Chain, FloatArray]:
    P = as_chain(P, largest_discount)
    r = as_finite("r", r, (P.shape[0],))
    if largest_discount == 1.0:
        check_absorption(P, r)
    return P, r
