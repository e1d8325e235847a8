"""Advantages for policy updates: the expanded advantage, the mixture, the true gradient.

Section 5.1 and appendix F of the paper.  A critic is trained on the γ λ-return, never on an
expansion, which would feed its own amplified error back into it.
"""

from __future__ import annotations

import math

from gammaprime.estimators.backend import as_array, namespace
from gammaprime.estimators.expansions import expand
from gammaprime.estimators.inputs import as_floats, as_steps, as_terms, check_finite
from gammaprime.estimators.weights import update_weights
from gammaprime.estimators.windows import expand_window
from gammaprime.types import Order, check_discounts, check_fraction, check_order, taylor_mass
from gammaprime.typing import Array


def mix(base: Array, expanded: Array, eta: float) -> Array:
    """Mix an expansion into its base: base + η (expanded − base), at η = 0 the base bit for bit.

    The weights of rewards become (1−η)γ^t + η w_K(t).  At order 1 the mixture is exactly the
    first-order expansion towards γ + η(γ'−γ), which is .99009 for .99, .999 and η = .01.

    Args:
        base: Base estimates for γ.
        expanded: Their expansion, by `expand` or `expand_window`.
        eta: Share of the expansion, from 0 to 1.

    Returns:
        The mixture.

    Example:
        >>> mix([1.0, 2.0], [3.0, 2.0], eta=0.25)
        array([1.5, 2. ])

    Paper: x:mixture.  Departs: S22.  Shapes: (T, ...), (T, ...) -> (T, ...).
    """
    eta = check_fraction("eta", eta)
    base, expanded = as_floats(namespace(base, expanded), base=base, expanded=expanded)
    check_finite(base=base, expanded=expanded)
    return base + eta * (expanded - base)


def expand_advantage(
    advantage: Array,
    value: Array,
    next_value: Array | None,
    terminated: Array,
    truncated: Array,
    gamma: float,
    gamma_prime: float,
    order: Order,
    eta: float = 1.0,
    *,
    tail: str = "survival",
    survival: float | None = None,
    lookahead: int | None = None,
    center: bool = True,
) -> Array:
    """Expand advantages at γ towards γ': A + η(Q_K − Q_γ), centred unless told otherwise.

        Q_γ = A + V,   A_K = Q_γ + η(Q_K − Q_γ) − V − η (Σ_{k=1}^K c^k) V

    Q_K is the expansion of Q_γ, by `expand` or, with a ``lookahead``, by `expand_window`.  The
    last part is what Q_K − Q_γ would be if the value never changed.  No action changes it, and
    without centring, as in the paper, it can be larger than the advantage.

    At η = 0, order 0 or γ' = γ the result is A itself, bit for bit.  Otherwise the operations
    are done in the order of the formula.

    Args:
        advantage: Advantages at γ, such as those of `gae`.
        value: The critic's value of each state, for γ.
        next_value: The critic's value of each true successor.  Read only where a row is cut.
        terminated: True where the episode ended for good.
        truncated: True where the episode was cut off.  The last row is a cut unless terminated.
        gamma: The discount of the advantages and the critic.
        gamma_prime: The discount to expand towards.
        order: Number of terms K, or math.inf.
        eta: Share of the expansion in the result, from 0 to 1.
        tail: Rule for the terms past a cut, as in `expand`.
        survival: Chance to survive one step past a cut, as in `expand`.
        lookahead: Length of the paper's window; None uses the whole path.  The window has a tail
            rule of its own.
        center: Whether to subtract the part that no action changes.

    Returns:
        The expanded advantages.

    Example:
        >>> import numpy as np
        >>> advantage, value, no = np.ones(3), np.full(3, 10.0), np.zeros(3, dtype=bool)
        >>> expand_advantage(advantage, value, value, no, no, 0.9, 0.99, order=1).round(3)
        array([1.171, 1.09 , 1.   ])

    Paper: algo:k-adv, x:mixture, x:centred-advantage.  Departs: S5, S22.
    Shapes: all (T, ...) -> (T, ...).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    order = check_order(order, infinite_allowed=lookahead is None)
    eta = check_fraction("eta", eta)
    if center and gamma_prime == 1.0 and math.isinf(order):
        raise ValueError("center=True: must be False with gamma_prime=1 and order inf")
    xp = namespace(advantage, value, next_value, terminated, truncated)
    given = as_array(xp, "advantage", advantage)
    floats, value = as_floats(xp, advantage=given, value=value)
    check_finite(advantage=floats, value=value)
    base = floats + value
    unchanged = order == 0 or eta == 0.0 or gamma_prime == gamma
    path = (base, next_value, terminated, truncated, gamma, gamma_prime)
    asked = 0 if unchanged else order
    if lookahead is None:
        expanded = expand(*path, asked, tail=tail, survival=survival)
    elif survival is not None:
        raise ValueError(f"survival={survival!r}: must be None with a lookahead")
    else:
        expanded = expand_window(*path, int(asked), lookahead)
    if unchanged:
        return given  # (A + V) − V is not A in floating point
    mixed = base + eta * (expanded - base) - value
    return mixed - eta * (taylor_mass(gamma, gamma_prime, order) * value) if center else mixed


def gradient_advantage(terms: Array, step: Array, gamma: float, gamma_prime: float) -> Array:
    """Return the factor of ∇log π(a_t|x_t) whose update is the true gradient of V_K.

        Σ_{j≤K} C(t,j) δ^j γ^{t−j} Q_{K−j}(t) = Σ_{i≤K} w_{K−i}(t) D_i(t)

    because Q_{K−j} = Σ_{i≤K−j} D_i, and with the sums swapped D_i is met by every j ≤ K−i,
    whose coefficients add up to w_{K−i}(t).  The sum over all steps of all episodes is the
    gradient, with no further weights.

    Args:
        terms: The terms of `expand_terms` for Q_γ.  To centre, subtract V from terms[0] and c^k V
            from terms[k] first: the function is linear.
        step: Age of each row inside its episode, 0 after a reset.
        gamma: The discount of the base estimates.
        gamma_prime: The discount of the expansion.

    Returns:
        One factor per row.

    Example:
        >>> gradient_advantage([[4.0, 2.0], [1.0, 0.5]], [0, 1], gamma=0.5, gamma_prime=0.75)
        array([5.  , 1.75])

    Paper: x:true-gradient.  Shapes: terms (K+1, T, ...), step (T, ...) -> (T, ...).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    xp = namespace(terms, step)
    terms = as_terms(xp, terms)
    step = as_steps(xp, "step", step, 0, tuple(terms.shape[1:]))
    # Weights come in the dtype of the step, and half precision cannot tell high ages apart.
    step = xp.astype(step, xp.result_type(terms.dtype, xp.float32))
    total = xp.zeros_like(terms[0])
    for i in range(terms.shape[0]):
        weights = update_weights(step, gamma, gamma_prime, terms.shape[0] - 1 - i)
        total = total + xp.astype(weights, terms.dtype, copy=False) * terms[i]
    return total
