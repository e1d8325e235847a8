"""Where the chain spends its time: discounted visitation, mixture weights, and both to order K.

Section 4.1 and appendices B and D of the paper.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gammaprime.tabular.mdp import Chain, as_chain, as_start
from gammaprime.tabular.resolvent import absorbing_states, resolvent
from gammaprime.types import Order, check_discount, check_discounts, check_order
from gammaprime.typing import FloatArray


def visitation(P: Any, start: int | ArrayLike, gamma: float) -> FloatArray:
    """d_γ = (1−γ)(I−γPᵀ)⁻¹ start, a distribution over states, with V_γ(x) = d_γᵀr/(1−γ).

    Paper: eq:visitation-value, eq:dual-lp.  Departs: P11 (the transpose).
    Shapes: P (X, X), start a state or (X,) -> (X,).
    """
    gamma = check_discount("gamma", gamma)
    P = as_chain(P)
    start = as_start(start, P.shape[0])
    return (1.0 - gamma) * resolvent(P, gamma).solve_transpose(start)


def expand_visitation(
    P: Any, start: int | ArrayLike, gamma: float, gamma_prime: float, order: Order
) -> FloatArray:
    """K-th order expansion of d_γ' around d_γ; its mass is 1 − c^{K+1}.

        d_K = (1−γ')/(1−γ) · Σ_{k≤K} ((γ'−γ)(I−γPᵀ)⁻¹Pᵀ)ᵏ d_γ,    V_K(x) = d_Kᵀr/(1−γ')

    γ' = 1 is refused: the factor 1−γ' makes every d_K vanish.  `expand_mixture` is the
    expansion that survives that limit.

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
    P = as_chain(P)
    start = as_start(start, P.shape[0])
    return (1.0 - gamma_prime) * weighted_occupancy(P, start, gamma, gamma_prime, order)


def mixture(P: Any, start: int | ArrayLike, gamma: float, gamma_prime: float) -> FloatArray:
    """ρ with V_γ'(start) = ρᵀV_γ: weights of mass (1−γ)/(1−γ'), not a distribution.

        ρ = (I−γPᵀ)(I−γ'Pᵀ)⁻¹ start = start + (γ'−γ) Σ_{t≥1} γ'^{t−1} (Pᵀ)ᵗ start

    At γ' = 1 the chain must absorb; the weights of absorbing states, where V_γ is 0 and the
    sum diverges, are returned as 0.

    Paper: lemma:value-mixture, eq:undiscounted-rewards, x:rho-at-one.  Departs: S12, S13, S15.
    Shapes: P (X, X), start a state or (X,) -> (X,).
    """
    return expand_mixture(P, start, gamma, gamma_prime, math.inf)


def expand_mixture(
    P: Any, start: int | ArrayLike, gamma: float, gamma_prime: float, order: Order
) -> FloatArray:
    """ρ_K with V_K(start) = ρ_KᵀV_γ; its mass is Σ_{k≤K} c^k.

        ρ_K = Σ_{k≤K} ((γ'−γ)(I−γPᵀ)⁻¹Pᵀ)ᵏ start,   ‖ρ − ρ_K‖_1 = c^{K+1}(1−γ)/(1−γ')

    At γ' = 1 as in `mixture`: only transient states carry weight.

    Paper: pro:rho, prop:kvalue.  Departs: P10 (1-norm, and the distance to ρ).
    Shapes: P (X, X), start a state or (X,) -> (X,).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    order = check_order(order)
    P = as_chain(P)
    start = as_start(start, P.shape[0])
    live = ~absorbing_states(P) if gamma_prime == 1.0 else np.ones(P.shape[0], dtype=bool)
    if math.isinf(order):
        # ρ = start + δ Pᵀ(I−γ'Pᵀ)⁻¹ start, the form in which nothing is subtracted.
        occupancy = resolvent(P, gamma_prime).solve_transpose(start)
        rho = start + (gamma_prime - gamma) * (P.T @ occupancy)
    else:
        rho = sum(resolvent(P, gamma).terms_transpose(start, gamma_prime, int(order)))
    return np.where(live, rho, 0.0)


def weighted_occupancy(
    P: Chain, start: FloatArray, gamma: float, gamma_prime: float, order: Order
) -> FloatArray:
    """Σ_t w_K(t) (Pᵀ)ᵗ start: how often each state is visited, weighted by w_K.

    The sum is (I−γPᵀ)⁻¹ρ_K; its limits are Σγᵗ at order 0 and Σγ'ᵗ at infinity.

    Paper: eq:state-weight.  Departs: S2.  Shapes: start (X,) -> (X,).
    """
    if math.isinf(order):
        return resolvent(P, gamma_prime).solve_transpose(start)
    base = resolvent(P, gamma)
    first = base.solve_transpose(start)
    return np.sum(list(base.terms_transpose(first, gamma_prime, int(order))), axis=0)
