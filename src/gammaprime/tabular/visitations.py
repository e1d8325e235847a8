"""Measures over states: discounted visitation, mixture weights, and both to order K.

Section 4.1 and appendices B and D of the paper.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gammaprime.tabular.mdp import Chain, as_chain, as_start
from gammaprime.tabular.resolvent import absorbing_states, resolvent
from gammaprime.types import (
    Order,
    check_discount,
    check_discounts,
    check_order,
    check_passes,
    saturate_order,
)
from gammaprime.typing import FloatArray


def visitation(P: Any, start: int | ArrayLike, gamma: float) -> FloatArray:
    """Return d_γ = (1−γ)(I−γPᵀ)⁻¹ start, a distribution over states with V_γ(x) = d_γᵀr/(1−γ).

    Args:
        P: The chain, dense or sparse.
        start: A state's index, or a distribution over states.
        gamma: The discount, below 1.

    Returns:
        The visitation of each state.

    Example:
        >>> visitation([[0.5, 0.5], [0.0, 1.0]], start=0, gamma=0.5).round(4)
        array([0.6667, 0.3333])

    Paper: eq:visitation-value, eq:dual-lp.  Departs: P11 (the transpose).
    Shapes: P (X, X), start a state or (X,) -> (X,).
    """
    gamma = check_discount("gamma", gamma)
    P = as_chain(P, gamma)
    start = as_start(start, P.shape[0])
    return (1.0 - gamma) * resolvent(P, gamma).solve_transpose(start)


def expand_visitation(
    P: Any, start: int | ArrayLike, gamma: float, gamma_prime: float, order: Order
) -> FloatArray:
    """Return the K-th order expansion of d_γ' around d_γ, of mass 1 − c^{K+1}.

        d_K = (1−γ')/(1−γ) · Σ_{k≤K} ((γ'−γ)(I−γPᵀ)⁻¹Pᵀ)ᵏ d_γ,    V_K(x) = d_Kᵀr/(1−γ')

    γ' = 1 is refused, because the factor 1−γ' makes every d_K zero: see `expand_mixture`.

    Args:
        P: The chain, dense or sparse.
        start: A state's index, or a distribution over states.
        gamma: The discount of the base, below 1.
        gamma_prime: The discount to expand towards, below 1.
        order: The order K, or math.inf.

    Returns:
        The expanded visitation of each state.

    Example:
        >>> expand_visitation([[0.5, 0.5], [0.0, 1.0]], 0, gamma=0.0, gamma_prime=0.5, order=1)
        array([0.625, 0.125])

    Paper: eq:k-expansion, eq:expansion, prop:taylor-expansion-dual, prop:dual, eq:primal-dual.
    Departs: P13 (transposes).  Shapes: P (X, X), start a state or (X,) -> (X,).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    if gamma_prime == 1.0:
        raise ValueError(
            f"gamma_prime={gamma_prime!r}: must be below 1 for a visitation, which 1 - gamma_prime "
            "scales to nothing; use expand_mixture"
        )
    order = check_order(order)
    P = as_chain(P, gamma_prime)
    start = as_start(start, P.shape[0])
    return (1.0 - gamma_prime) * weighted_occupancy(P, start, gamma, gamma_prime, order)


def mixture(P: Any, start: int | ArrayLike, gamma: float, gamma_prime: float) -> FloatArray:
    """Return ρ with V_γ'(start) = ρᵀV_γ: weights of mass (1−γ)/(1−γ'), not a distribution.

        ρ = (I−γPᵀ)(I−γ'Pᵀ)⁻¹ start = start + (γ'−γ) Σ_{t≥1} γ'^{t−1} (Pᵀ)ᵗ start

    At γ' = 1 the chain must absorb; the weights of absorbing states, where V_γ is 0 and the
    sum diverges, are returned as 0.

    Args:
        P: The chain, dense or sparse.
        start: A state's index, or a distribution over states.
        gamma: The discount of the base, below 1.
        gamma_prime: The discount to expand towards.  1 needs a chain that absorbs.

    Returns:
        The weight of each state.

    Example:
        >>> mixture([[0.5, 0.5], [0.0, 1.0]], start=0, gamma=0.0, gamma_prime=0.5).round(4)
        array([1.3333, 0.6667])

    Paper: lemma:value-mixture, eq:undiscounted-rewards, x:rho-at-one.  Departs: S12, S13, S15.
    Shapes: P (X, X), start a state or (X,) -> (X,).
    """
    return expand_mixture(P, start, gamma, gamma_prime, math.inf)


def expand_mixture(
    P: Any, start: int | ArrayLike, gamma: float, gamma_prime: float, order: Order
) -> FloatArray:
    """Return ρ_K with V_K(start) = ρ_KᵀV_γ, of mass Σ_{k≤K} c^k.

        ρ_K = Σ_{k≤K} ((γ'−γ)(I−γPᵀ)⁻¹Pᵀ)ᵏ start,   ‖ρ − ρ_K‖_1 = c^{K+1}(1−γ)/(1−γ')

    At γ' = 1 only transient states carry weight, as in `mixture`.

    Args:
        P: The chain, dense or sparse.
        start: A state's index, or a distribution over states.
        gamma: The discount of the base, below 1.
        gamma_prime: The discount to expand towards.  1 needs a chain that absorbs.
        order: The order K, or math.inf.

    Returns:
        The expanded weight of each state.

    Example:
        >>> expand_mixture([[0.5, 0.5], [0.0, 1.0]], 0, gamma=0.0, gamma_prime=0.5, order=1)
        array([1.25, 0.25])

    Paper: pro:rho, prop:kvalue.  Departs: P10 (1-norm, and the distance to ρ).
    Shapes: P (X, X), start a state or (X,) -> (X,).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    order = saturate_order(check_order(order), gamma, gamma_prime)
    P = as_chain(P, gamma_prime)
    start = as_start(start, P.shape[0])
    live = ~absorbing_states(P) if gamma_prime == 1.0 else np.ones(P.shape[0], dtype=bool)
    if math.isinf(order):
        # ρ = start + δ Pᵀ(I−γ'Pᵀ)⁻¹ start, the form in which nothing is subtracted.
        occupancy = resolvent(P, gamma_prime).solve_transpose(start)
        rho = start + (gamma_prime - gamma) * (P.T @ occupancy)
    else:
        rho = sum(resolvent(P, gamma).terms_transpose(start, gamma_prime, check_passes(order)))
    return np.where(live, rho, 0.0)


def weighted_occupancy(
    P: Chain, start: FloatArray, gamma: float, gamma_prime: float, order: Order
) -> FloatArray:
    """Return Σ_t w_K(t) (Pᵀ)ᵗ start, the visits to each state, weighted by w_K.

    The sum is (I−γPᵀ)⁻¹ρ_K.  The weights are γᵗ at order 0 and γ'ᵗ at infinity.

    Paper: eq:state-weight.  Departs: S2.  Shapes: start (X,) -> (X,).
    """
    order = saturate_order(order, gamma, gamma_prime)
    if math.isinf(order):
        return resolvent(P, gamma_prime).solve_transpose(start)
    base = resolvent(P, gamma)
    first = base.solve_transpose(start)
    terms = base.terms_transpose(first, gamma_prime, check_passes(order))
    return sum(terms, start=np.zeros_like(start))
