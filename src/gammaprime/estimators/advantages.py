"""From expansions to policy updates: the mixture, its advantage, and the true gradient.

Section 5.1 and appendix F of the paper.  A critic is trained on the γ λ-return, never on an
expansion: that would feed the estimate's own amplified error back into it.
"""

from __future__ import annotations

import math

from gammaprime.estimators.backend import as_array, float_dtype, namespace
from gammaprime.estimators.checks import as_floats, as_steps, check_finite
from gammaprime.estimators.weights import update_weights
from gammaprime.types import Order, check_discounts, check_fraction, check_order, taylor_ratio
from gammaprime.typing import Array


def mix(base: Array, expanded: Array, eta: float) -> Array:
    """base + η (expanded − base), which at η = 0 is the base bit for bit.

    Its reward weights are (1−η)γ^t + η w_K(t).  At order 1 it is the first-order expansion
    towards γ + η(γ'−γ), and nothing else: .99009 for .99, .999 and η = .01.

    Paper: x:mixture.  Departs: S22.  Shapes: (T, ...), (T, ...) -> (T, ...).
    """
    eta = check_fraction("eta", eta)
    base, expanded = as_floats(namespace(base, expanded), base=base, expanded=expanded)
    check_finite(base=base, expanded=expanded)
    return base + eta * (expanded - base)


def taylor_advantage(
    base: Array, expanded: Array, value: Array, eta: float, baseline: Array | None = None
) -> Array:
    """A = mix(base, expanded, η) − V − η b, for any b that does not depend on the action.

    Without b, as in the paper, the part of the expansion that all actions share stays in the
    advantage, η c V or so, and can rival its size; `taylor_baseline` takes it out.

    Paper: algo:k-adv, x:mixture, x:centred-advantage.  Departs: S5.
    Shapes: all (T, ...) -> (T, ...).
    """
    mixed = mix(base, expanded, eta)
    xp = namespace(mixed, value, baseline)
    mixed, value, baseline = as_floats(xp, base=mixed, value=value, baseline=baseline)
    check_finite(value=value)
    if baseline is None:
        return mixed - value
    check_finite(baseline=baseline)
    return mixed - value - float(eta) * baseline


def taylor_baseline(value: Array, gamma: float, gamma_prime: float, order: Order) -> Array:
    """b = (Σ_{k=1}^K c^k) V: what D_1 + … + D_K would be if the value never changed.

    Paper: x:centred-advantage.  Shapes: (T, ...) -> (T, ...).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    order = check_order(order)
    if math.isinf(order) and gamma_prime == 1.0:
        raise ValueError("gamma_prime=1.0: must be below 1 for the baseline of order inf")
    (value,) = as_floats(namespace(value), value=value)
    check_finite(value=value)
    if math.isinf(order):
        return (gamma_prime - gamma) / (1.0 - gamma_prime) * value
    c = taylor_ratio(gamma, gamma_prime)
    return math.fsum(c**k for k in range(1, int(order) + 1)) * value


def gradient_advantage(terms: Array, step: Array, gamma: float, gamma_prime: float) -> Array:
    """The factor of ∇log π(a_t|x_t) that makes the update the true gradient of V_K.

        Σ_{j≤K} C(t,j) δ^j γ^{t−j} Q_{K−j}(t) = Σ_{i≤K} w_{K−i}(t) D_i(t)

    because Q_{K−j} = Σ_{i≤K−j} D_i, and with the sums swapped D_i is met by every j ≤ K−i,
    whose coefficients add up to w_{K−i}(t).  ``terms`` are those of `expand_terms`, ``step`` is
    the age inside the episode.  It is linear: to centre it, subtract V from terms[0] and c^k V
    from terms[k] beforehand.  The sum over all steps of all episodes is the gradient, with no
    further weights.

    Paper: x:true-gradient.  Shapes: terms (K+1, T, ...), step (T, ...) -> (T, ...).
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    xp = namespace(terms, step)
    terms = as_array(xp, "terms", terms)
    if terms.ndim < 2 or 0 in terms.shape[:2]:
        raise ValueError(f"terms has shape {tuple(terms.shape)}: must be (K+1, T, ...)")
    terms = xp.astype(terms, float_dtype(xp, terms), copy=False)
    step = as_steps(xp, "step", step, 0, tuple(terms.shape[1:]))
    check_finite(terms=terms)
    # Weights come in the dtype of the step, and half a float cannot tell old ages apart.
    step = xp.astype(step, xp.result_type(terms.dtype, xp.float32))
    total = xp.zeros_like(terms[0])
    for i in range(terms.shape[0]):
        weights = update_weights(step, gamma, gamma_prime, terms.shape[0] - 1 - i)
        total = total + xp.astype(weights, terms.dtype, copy=False) * terms[i]
    return total
