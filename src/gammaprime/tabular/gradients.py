"""Gradients of V_γ' for a softmax policy: full, both partials, to order K, and the true ∇V_K.

Section 4 and appendix D of the paper.  All have one form: with a measure m of the visits to states
and values q of actions, the gradient is Σ_x m(x) Σ_a q(x, a) ∇π(a|x), which for the logits of a
softmax is m(x) π(a|x) (q(x, a) − Σ_b π(b|x) q(x, b)).

At γ' = 1 the measure of an absorbing state is infinite, but its actions must all be worth 0, so
that its entries of the gradient are 0.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.special
from numpy.typing import ArrayLike

from gammaprime.tabular.mdp import MDP, Chain, as_chain, as_finite, as_start, chain
from gammaprime.tabular.resolvent import check_absorption, resolvent
from gammaprime.tabular.values import q_from_values
from gammaprime.tabular.visitations import weighted_occupancy
from gammaprime.types import (
    Order,
    check_discount,
    check_discounts,
    check_order,
    check_passes,
    saturate_order,
)
from gammaprime.typing import FloatArray


def policy_gradient(
    mdp: MDP, logits: ArrayLike, start: int | ArrayLike, gamma: float
) -> FloatArray:
    """Return ∇V_γ(start) = E Σ_t γᵗ Q_γ(x_t, a_t) ∇log π(a_t|x_t).

    Args:
        mdp: The MDP.
        logits: Logits of the softmax policy.
        start: A state's index, or a distribution over states.
        gamma: The discount.  1 needs a chain that absorbs, and no reward in absorbing states.

    Returns:
        The gradient with respect to the logits.

    Example:
        >>> mdp = MDP([[[0, 1], [0.5, 0.5]], [[0, 1], [0, 1]]], reward=[[1, 1], [0, 0]])
        >>> policy_gradient(mdp, np.zeros((2, 2)), start=0, gamma=0.8).round(4).tolist()
        [[-0.1562, 0.1562], [0.0, 0.0]]

    Paper: eq:pg; with γ = 1 on an absorbing chain, ∇ of eq:rl-obj.
    Shapes: logits (X, A) -> (X, A).
    """
    gamma = check_discount("gamma", gamma, one_allowed=True)
    pi, P, r, start = _checked(mdp, logits, start, gamma)
    base = resolvent(P, gamma)
    q = mdp.reward + gamma * mdp.expect(base.solve(r))
    return _softmax_gradient(pi, base.solve_transpose(start), q)


def first_partial(
    mdp: MDP, logits: ArrayLike, start: int | ArrayLike, gamma: float, gamma_prime: float
) -> FloatArray:
    """Return ∂V_γ' through V_γ with ρ frozen: ρᵀ∇V_γ = E Σ_t γ'ᵗ Q_γ(x_t, a_t) ∇log π(a_t|x_t).

    At γ' = 1 this is the usual deep-RL update: a base Q, and no discount on the states.

    Args:
        mdp: The MDP.
        logits: Logits of the softmax policy.
        start: A state's index, or a distribution over states.
        gamma: The discount of the base, below 1.
        gamma_prime: The discount to expand towards.  1 needs a chain that absorbs.

    Returns:
        The gradient with respect to the logits.

    Example:
        >>> mdp = MDP([[[0, 1], [0.5, 0.5]], [[0, 1], [0, 1]]], reward=[[1, 1], [0, 0]])
        >>> first_partial(mdp, np.zeros((2, 2)), 0, 0.8, 1.0).round(4).tolist()
        [[-0.1667, 0.1667], [0.0, 0.0]]

    Paper: prop:partial-grad, eq:first-partial-grad, eq:undiscounted-first-partial-grad,
        eq:uniform-gradient.
    Shapes: logits (X, A) -> (X, A).
    """
    return expand_partial(mdp, logits, start, gamma, gamma_prime, math.inf)


def second_partial(
    mdp: MDP, logits: ArrayLike, start: int | ArrayLike, gamma: float, gamma_prime: float
) -> FloatArray:
    """Return ∂V_γ' through ρ with V_γ frozen, which `first_partial` leaves out of ∇V_γ'.

        (γ'−γ) E Σ_t γ'ᵗ W(x_{t+1}) ∇log π(a_t|x_t),    W = (I−γ'P)⁻¹V_γ

    Args:
        mdp: The MDP.
        logits: Logits of the softmax policy.
        start: A state's index, or a distribution over states.
        gamma: The discount of the base, below 1.
        gamma_prime: The discount to expand towards.  1 needs a chain that absorbs.

    Returns:
        The gradient with respect to the logits.

    Example:
        >>> mdp = MDP([[[0, 1], [0.5, 0.5]], [[0, 1], [0, 1]]], reward=[[1, 1], [0, 0]])
        >>> second_partial(mdp, np.zeros((2, 2)), 0, 0.8, 1.0).round(4).tolist()
        [[-0.0556, 0.0556], [0.0, 0.0]]

    Paper: lemma:grad, x:second-term.  Departs: S6 (W belongs to the next state: with W(x_t), as
        printed, the expression is 0), S15 (sums under ρ, which is no distribution).
    Shapes: logits (X, A) -> (X, A).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    pi, P, r, start = _checked(mdp, logits, start, gamma_prime)
    target = resolvent(P, gamma_prime)
    W = target.solve(resolvent(P, gamma).solve(r))
    q = (gamma_prime - gamma) * mdp.expect(W)
    return _softmax_gradient(pi, target.solve_transpose(start), q)


def expand_partial(
    mdp: MDP,
    logits: ArrayLike,
    start: int | ArrayLike,
    gamma: float,
    gamma_prime: float,
    order: Order,
) -> FloatArray:
    """Return the K-th order partial gradient.

        ρ_Kᵀ∇V_γ = E Σ_t w_K(t) Q_γ(x_t, a_t) ∇log π(a_t|x_t)

    Order 0 is the vanilla policy gradient at γ, order math.inf the first partial.

    Args:
        mdp: The MDP.
        logits: Logits of the softmax policy.
        start: A state's index, or a distribution over states.
        gamma: The discount of the base, below 1.
        gamma_prime: The discount to expand towards.  1 needs a chain that absorbs.
        order: The order K, or math.inf.

    Returns:
        The gradient with respect to the logits.

    Example:
        >>> mdp = MDP([[[0, 1], [0.5, 0.5]], [[0, 1], [0, 1]]], reward=[[1, 1], [0, 0]])
        >>> expand_partial(mdp, np.zeros((2, 2)), 0, 0.8, 1.0, order=1).round(4).tolist()
        [[-0.166, 0.166], [0.0, 0.0]]

    Paper: eq:state-weight, pro:rho.  Departs: S2 (w_K, which the appendix does not print), S3.
    Shapes: logits (X, A) -> (X, A).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    order = check_order(order)
    pi, P, r, start = _checked(mdp, logits, start, gamma_prime)
    q = mdp.reward + gamma * mdp.expect(resolvent(P, gamma).solve(r))
    return _softmax_gradient(pi, weighted_occupancy(P, start, gamma, gamma_prime, order), q)


def expand_gradient(
    mdp: MDP,
    logits: ArrayLike,
    start: int | ArrayLike,
    gamma: float,
    gamma_prime: float,
    order: Order,
) -> FloatArray:
    """Return the true gradient of V_K(start), which neither Algorithm 2 nor Algorithm 3 follows.

        ∇V_K = Σ_{j≤K} E Σ_t C(t,j)(γ'−γ)ʲγ^{t−j} Q_{K−j}(x_t, a_t) ∇log π(a_t|x_t)

    The j-th measure is (I−γPᵀ)⁻¹ applied to the j-th term of ρ.  Order 0 is ∇V_γ, order
    math.inf is ∇V_γ'.

    Args:
        mdp: The MDP.
        logits: Logits of the softmax policy.
        start: A state's index, or a distribution over states.
        gamma: The discount of the base, below 1.
        gamma_prime: The discount to expand towards.  1 needs a chain that absorbs.
        order: The order K, or math.inf.

    Returns:
        The gradient with respect to the logits.

    Example:
        >>> mdp = MDP([[[0, 1], [0.5, 0.5]], [[0, 1], [0, 1]]], reward=[[1, 1], [0, 0]])
        >>> expand_gradient(mdp, np.zeros((2, 2)), 0, 0.8, 1.0, order=1).round(4).tolist()
        [[-0.2148, 0.2148], [0.0, 0.0]]

    Paper: x:true-gradient.  Shapes: logits (X, A) -> (X, A).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    order = saturate_order(check_order(order), gamma, gamma_prime)
    if math.isinf(order):
        return policy_gradient(mdp, logits, start, gamma_prime)
    pi, P, r, start = _checked(mdp, logits, start, gamma_prime)
    base = resolvent(P, gamma)
    last = check_passes(order)
    visits = list(base.terms_transpose(base.solve_transpose(start), gamma_prime, last))
    values = base.partial_sums(base.solve(r), gamma_prime, last)
    gradients = (
        _softmax_gradient(pi, visits[last - k], q_from_values(mdp, *pair, gamma, gamma_prime))
        for k, pair in enumerate(values)
    )
    return sum(gradients, start=np.zeros_like(pi))


def _checked(
    mdp: MDP, logits: ArrayLike, start: int | ArrayLike, largest_discount: float
) -> tuple[FloatArray, Chain, FloatArray, FloatArray]:
    pi = scipy.special.softmax(as_finite("logits", logits, mdp.reward.shape), axis=1)
    P, r = chain(mdp, pi)
    P = as_chain(P, largest_discount)
    if largest_discount == 1.0:
        check_absorption(P, mdp.reward)
    return pi, P, r, as_start(start, mdp.num_states)


def _softmax_gradient(pi: FloatArray, measure: FloatArray, q: FloatArray) -> FloatArray:
    """Return Σ_x m(x) Σ_a q(x, a) ∇π(a|x) for the logits.

    Shapes: (X, A), (X,), (X, A) -> (X, A).
    """
    return measure[:, None] * pi * (q - (pi * q).sum(axis=1, keepdims=True))
