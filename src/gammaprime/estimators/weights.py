"""Weights of a K-th order expansion: of a reward, and of a base value, t steps ahead.

Section 4.3 and appendix D of the paper.  Let every step survive with probability γ' and let a
survived step be a jump with probability p = (γ'−γ)/γ'.  Then w_K(t) is the probability of
surviving t steps with at most K jumps, so that w_0(t) = γ^t and w_∞(t) = γ'^t.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj, is_jax_array, is_torch_array
from numpy.typing import NDArray
from scipy.special import betainc, betaincc, gammaln

from gammaprime.types import Order, check_discounts, check_order, taylor_ratio

Steps = NDArray[np.float64]
Curve = Callable[[Steps, float, float, int], Steps]

# Whole numbers up to 2**53 are exact as float64; those up to 2**24 as float32, in which steps may
# have to be compared under jit.
_LARGEST_STEP, _LARGEST_TABLE = 2**53, 2**24


def update_weights(
    step: Any, gamma: float, gamma_prime: float, order: Order, *, max_step: int = 100_000
) -> Any:
    """Return w_K(t), the weight of a reward, or of a local policy gradient, t steps ahead.

        w_K(t) = Σ_{k ≤ min(K, t)} C(t, k) (γ'−γ)ᵏ γ^{t−k} = γ'^t · P[Bin(t, 1 − γ/γ') ≤ K]

    t is the age inside the episode: 0 for the first state, and counted on across rollouts.
    Weights are computed in float64 on the host.  Where JAX traces (jit, vmap, scan) they are read
    from a table of w_K(0), ..., w_K(max_step), and any other step gives NaN.

    Args:
        step: Whole numbers t >= 0, the age inside the episode, in a NumPy, JAX or torch array of
            any integer or float dtype.
        gamma: The discount of the base estimates.
        gamma_prime: The discount to expand towards.
        order: The order K, or math.inf.
        max_step: Last step of the table that is read where JAX traces, below 2**24.

    Returns:
        The weights, in the library of ``step``, and in its dtype if that is a float.

    Example:
        >>> update_weights(np.arange(4), gamma=0.5, gamma_prime=1.0, order=1)
        array([1.  , 1.  , 0.75, 0.5 ])

    Paper: eq:state-weight, appendix:kweight.
    Departs: S2 (the appendix prints f, not w), S3 (the clock starts at 0, and no x_0 enters).
    Shapes: any -> the same.
    """
    return _at_steps(_update_curve, step, gamma, gamma_prime, order, max_step)


def value_weights(
    step: Any, gamma: float, gamma_prime: float, order: Order, *, max_step: int = 100_000
) -> Any:
    """Return f(K, t), the weight of the base value V_γ, or of its gradient, t ≥ 1 steps ahead.

        f(K, t) = Σ_{1 ≤ u ≤ min(K, t)} C(t−1, u−1) (γ'−γ)ᵘ γ^{t−u} = (γ'−γ) · w_{K−1}(t−1)

    They are the weights in V_K(x_0) = V_γ(x_0) + E Σ_{t≥1} f(K, t) V_γ(x_t), and f(K, 0) = 0.

    Args:
        step: Whole numbers t >= 0, the age inside the episode, in a NumPy, JAX or torch array of
            any integer or float dtype.
        gamma: The discount of the base estimates.
        gamma_prime: The discount to expand towards.
        order: The order K, or math.inf.
        max_step: Last step of the table that is read where JAX traces, below 2**24.

    Returns:
        The weights, in the library of ``step``, and in its dtype if that is a float.

    Example:
        >>> value_weights(np.arange(4), gamma=0.5, gamma_prime=1.0, order=1)
        array([0.   , 0.5  , 0.25 , 0.125])

    Paper: prop:kvalue, lemma:com1, lemma:com2.
    Shapes: any -> the same.
    """
    return _at_steps(_value_curve, step, gamma, gamma_prime, order, max_step)


def log_update_weights(
    step: Any, gamma: float, gamma_prime: float, order: Order, *, max_step: int = 100_000
) -> Any:
    """Return log w_K(t), finite also where w_K(t) underflows; −inf where w_K(t) = 0.

    For ratios of weights, subtract the largest logarithm before exponentiating.  The relative
    error is below 1e-11 for t ≤ 1e6 and K ≤ 1e4, or the absolute error below 1e-200.

    Args:
        step: Whole numbers t >= 0, the age inside the episode, in a NumPy, JAX or torch array of
            any integer or float dtype.
        gamma: The discount of the base estimates.
        gamma_prime: The discount to expand towards.
        order: The order K, or math.inf.
        max_step: Last step of the table that is read where JAX traces, below 2**24.

    Returns:
        The logarithms, in the library of ``step``, and in its dtype if that is a float.

    Example:
        >>> log_update_weights([10_000], gamma=0.5, gamma_prime=0.75, order=0).round(2)
        array([-6931.47])

    Paper: eq:state-weight, appendix:kweight.
    Departs: S2.
    Shapes: any -> the same.
    """
    return _at_steps(_log_update_curve, step, gamma, gamma_prime, order, max_step)


def effective_horizon(gamma: float, gamma_prime: float, order: Order) -> float:
    """Return Σ_{t≥0} w_K(t), which is V_K of a reward that is always 1.

        (1/(1−γ)) Σ_{k≤K} cᵏ = (1 − c^{K+1})/(1−γ'),   c = (γ'−γ)/(1−γ)

    It is (K+1)/(1−γ) at γ' = 1, 1/(1−γ') at order math.inf, and infinite with both.

    Args:
        gamma: The discount of the base estimates.
        gamma_prime: The discount to expand towards.
        order: The order K, or math.inf.

    Returns:
        The sum of all weights, in steps.

    Example:
        >>> round(effective_horizon(gamma=0.99, gamma_prime=0.999, order=1))
        190

    Paper: x:effective-horizon, eq:state-weight, prop:kth-expansion.
    """
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    order = check_order(order)
    if order == 0 or gamma == gamma_prime:
        return 1.0 / (1.0 - gamma)
    if gamma_prime == 1.0:
        return (order + 1) / (1.0 - gamma)
    ratio, complement = taylor_ratio(gamma, gamma_prime), (1.0 - gamma_prime) / (1.0 - gamma)
    # Whichever of c and 1 − c is small keeps its digits.
    log_ratio = math.log(ratio) if ratio < 0.5 else math.log1p(-complement)
    return -math.expm1((order + 1) * log_ratio) / (1.0 - gamma_prime)


def _update_curve(step: Steps, gamma: float, gamma_prime: float, order: int) -> Steps:
    if order == 0 or gamma == gamma_prime:
        return np.power(gamma, step)
    weight = np.power(gamma_prime, step)
    late = step > order
    weight[late] *= np.exp(_log_few_jumps(step[late], gamma, gamma_prime, order))
    return weight


def _value_curve(step: Steps, gamma: float, gamma_prime: float, order: int) -> Steps:
    weight = np.zeros_like(step)
    if order > 0:
        ahead = step > 0
        last = _update_curve(step[ahead] - 1.0, gamma, gamma_prime, order - 1)
        weight[ahead] = (gamma_prime - gamma) * last
    return weight


def _log_update_curve(step: Steps, gamma: float, gamma_prime: float, order: int) -> Steps:
    if order == 0 or gamma == gamma_prime:
        return _log_power(gamma, step)
    log_weight = _log_power(gamma_prime, step)
    late = step > order
    log_weight[late] += _log_few_jumps(step[late], gamma, gamma_prime, order)
    return log_weight


def _log_power(base: float, step: Steps) -> Steps:
    if base == 0.0:
        return np.where(step > 0, -math.inf, 0.0)
    return step * math.log(base)


def _log_few_jumps(step: Steps, gamma: float, gamma_prime: float, order: int) -> Steps:
    """Return log P[Bin(t, p) ≤ K], t > K > 0, from the smaller of the two tails.

    A rounding error of p is multiplied by t in (1−p)^t when p is small, and one of q = 1 − p in
    p^t when q is small.  The smaller of p and q is exact to its last digit, so that one is used.
    """
    if gamma == 0.0:
        return np.full_like(step, -math.inf)
    jump, stay = (gamma_prime - gamma) / gamma_prime, gamma / gamma_prime
    low, jumps, stays = step * jump > order, order + 1.0, step - order
    if jump <= stay:
        few, many = betaincc(jumps, stays[low], jump), betainc(jumps, stays[~low], jump)
    else:
        few, many = betainc(stays[low], jumps, stay), betaincc(stays[~low], jumps, stay)
    # The incomplete beta function may underflow long before its value does.
    deep = few < 1e-200
    log_few = np.log(np.where(deep, 1.0, few))
    log_few[deep] = _log_deep_tail(step[low][deep], jump, stay, order)
    result = np.empty_like(step)
    result[low], result[~low] = log_few, np.log1p(-many)
    return result


def _log_deep_tail(step: Steps, jump: float, stay: float, order: int) -> Steps:
    """Return log P[Bin(t, p) ≤ K] = log P[Bin(t, p) = K] + log S with K far below the mean.

        S = 1 + Kq/((t−K+1)p) · (1 + (K−1)q/((t−K+2)p) · (1 + ...)) = ₂F₁(−K, 1; t−K+1; −q/p)

    by Gauss's continued fraction, from the inside out.  So far out (30 standard deviations for
    a large K) twenty-two levels are plenty for every K, and all of them for K ≤ 10.
    """
    stays, odds = step - order, stay / jump
    fraction = np.ones_like(step)
    for k in range(10, -1, -1):
        width = stays + 2 * k
        even = (k + 1) * (step + k + 1) / ((width + 1) * (width + 2))
        odd = (order - k) * (stays + k) / (width * (width + 1))
        fraction = 1.0 - odds * odd / (1.0 + odds * even / fraction)
    return _log_exactly(step, jump, stay, order) - np.log(fraction)


def _log_exactly(step: Steps, jump: float, stay: float, order: int) -> Steps:
    """Return log P[Bin(t, p) = K], 0 < K < t, with Stirling's formula for the factorials.

    What is left are two logarithms of observed over expected counts, whose errors cancel
    because both are made from the same difference.
    """
    stays = step - order
    excess = order - step * jump
    deviance = order * _log_ratio(order, step * jump, excess)
    deviance += stays * _log_ratio(stays, step * stay, -excess)
    spread = 0.5 * np.log(step / (2.0 * math.pi * order * stays))
    correction = _stirling(step) - _stirling(np.float64(order)) - _stirling(stays)
    return np.asarray(spread + correction - deviance)


def _log_ratio(observed: Any, expected: Steps, difference: Steps) -> Steps:
    near = np.abs(difference) < 0.5 * expected
    shift = np.where(near, difference / expected, 0.0)
    return np.where(near, np.log1p(shift), np.log(observed / expected))


def _stirling(n: Any) -> Any:
    """Return log(n! eⁿ n⁻ⁿ / √(2πn)), n ≥ 1, to about 1e-13."""
    exact = gammaln(n + 1.0) - (n + 0.5) * np.log(n) + n - 0.5 * math.log(2.0 * math.pi)
    return np.where(n < 100, exact, 1.0 / (12.0 * n) - 1.0 / (360.0 * n**3))


def _at_steps(
    curve: Curve, step: Any, gamma: float, gamma_prime: float, order: Order, max_step: int
) -> Any:
    """Return the curve at the given steps, in the library of the steps."""
    gamma, gamma_prime = check_discounts(gamma, gamma_prime)
    # An order beyond every step is already the limit.
    bounded, length = int(min(check_order(order), _LARGEST_STEP)), _checked_length(max_step)
    step = step if is_array_api_obj(step) else np.asarray(step)
    if not array_namespace(step).isdtype(step.dtype, ("integral", "real floating")):
        raise ValueError(f"step={step!r}: must hold whole numbers, not {step.dtype}")
    if is_jax_array(step) and _is_traced(step):
        return _read(_table(curve, gamma, gamma_prime, bounded, length), step)
    return _like(step, _on_host(curve, _checked_steps(step), gamma, gamma_prime, bounded))


def _checked_length(max_step: int) -> int:
    if not (isinstance(max_step, int | np.integer) and 0 <= max_step < _LARGEST_TABLE):
        raise ValueError(f"max_step={max_step!r}: must be an integer from 0 to 2**24 - 1")
    return int(max_step) + 1


def _on_host(curve: Curve, step: Steps, gamma: float, gamma_prime: float, order: int) -> Steps:
    length = int(step.max(initial=0.0)) + 1
    with np.errstate(under="ignore"):
        if length <= step.size:
            whole = curve(np.arange(length, dtype=np.float64), gamma, gamma_prime, order)
            return whole[step.astype(np.intp)]
        return curve(step.ravel(), gamma, gamma_prime, order).reshape(step.shape)


def _checked_steps(step: Any) -> Steps:
    host = step.detach().cpu().double().numpy() if is_torch_array(step) else step
    steps = np.asarray(host, dtype=np.float64)
    wrong = ~((steps >= 0) & (steps <= _LARGEST_STEP) & (steps == np.floor(steps)))
    if wrong.any():
        value = float(steps[wrong][0])
        raise ValueError(f"step={value!r}: must be a whole number from 0 to 2**53")
    return steps


def _like(step: Any, values: Steps) -> Any:
    if is_torch_array(step):
        import torch

        default = torch.get_default_dtype()
        dtype = step.dtype if step.dtype.is_floating_point else default
        return torch.asarray(values, dtype=dtype, device=step.device)
    if is_jax_array(step):
        import jax.numpy as jnp

        return jnp.asarray(values, dtype=_jax_float(step))
    return values.astype(step.dtype if step.dtype.kind == "f" else np.float64)[()]


@functools.lru_cache(maxsize=16)
def _table(curve: Curve, gamma: float, gamma_prime: float, order: int, length: int) -> Steps:
    table = _on_host(curve, np.arange(length, dtype=np.float64), gamma, gamma_prime, order)
    table.setflags(write=False)
    return table


def _is_traced(step: Any) -> bool:
    import jax

    return isinstance(step, jax.core.Tracer)


def _jax_float(step: Any) -> Any:
    import jax.numpy as jnp

    return step.dtype if jnp.issubdtype(step.dtype, jnp.floating) else jnp.result_type(float)


def _read(table: Steps, step: Any) -> Any:
    import jax.numpy as jnp

    # As float32 or wider, in which no step above the table can be mistaken for one inside it.
    place = step.astype(jnp.promote_types(step.dtype, jnp.float32))
    inside = (place >= 0) & (place < table.size) & (place == jnp.floor(place))
    values = jnp.asarray(table, dtype=_jax_float(step))
    return jnp.where(inside, values[jnp.where(inside, place, 0).astype(jnp.int32)], jnp.nan)
