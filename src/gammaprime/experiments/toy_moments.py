"""Mean and variance of the random-time estimator on a finite MDP, without sampling.

The estimator (Algorithm 1 of the paper) adds c^k times the base estimate at the random time
t_k = τ_1 + .. + τ_k, with independent τ of law (1−γ)γ^(t−1) on {1, 2, ..}.  The part after a
random time is the same estimator with one order less, so moments follow order by order.
"""

from __future__ import annotations

import numpy as np

from gammaprime.tabular import MDP, chain, solve_value
from gammaprime.types import taylor_ratio
from gammaprime.typing import FloatArray


def exact_base_moments(
    transition: FloatArray, value: FloatArray, gamma: float, gamma_prime: float, order: int
) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of orders 0..K if the base estimates are V_γ(x_t).

        m1 ← V + c J m1,   m2 ← V² + 2c V∘(J m1) + c² J m2,   J = (1−γ)(I−γP)⁻¹P

    Paper: algo:estimate, fig:errors.  Shapes: P (X, X), V_γ (X,) -> (K+1, X) each.
    """
    ratio = taylor_ratio(gamma, gamma_prime)
    jump = (1.0 - gamma) * np.linalg.solve(_one_minus(gamma, transition), transition)
    first, second = [value], [value**2]
    for _ in range(order):
        ahead = jump @ first[-1]
        later = ratio**2 * (jump @ second[-1])
        first.append(value + ratio * ahead)
        second.append(value**2 + 2.0 * ratio * value * ahead + later)
    mean = np.stack(first)
    return mean, np.maximum(np.stack(second) - mean**2, 0.0)


def noise_variance(gamma: float, gamma_prime: float, order: int) -> FloatArray:
    """Return Σ_{j≤k} c^(2j), the variance at order k of independent base noise of variance 1.

    Paper: fig:errors.  Shapes: -> (K+1,).
    """
    return np.cumsum(taylor_ratio(gamma, gamma_prime) ** (2.0 * np.arange(order + 1)))


def return_base_moments(
    mdp: MDP, policy: FloatArray, gamma: float, gamma_prime: float, order: int, reward_noise: float
) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of orders 0..K if the base estimates are returns of the same path.

    A random time ends at each step with probability 1−γ, as if by a coin.  Let A be the γ-return
    from x, B what the later coins add, and F = A + B the estimate.  With ' for the next step,

        A = r + γA',   B_k = B_k' on tails,   B_k = c F_{k−1}' on heads

    A and B depend on the same action, so E[AB] contains E[r · g(x')].

    Paper: algo:estimate, fig:errors.  Shapes: policy (X, A) -> (K+1, X) each.
    """
    transition, reward = chain(mdp, policy)
    ratio = taylor_ratio(gamma, gamma_prime)
    paid = np.einsum("xa,xay->xy", policy * mdp.reward, mdp.transition)  # g ↦ E[r · g(x')]
    reward_square = (1.0 + reward_noise**2) * (policy * mdp.reward**2).sum(axis=1)
    value = solve_value(transition, reward, gamma)
    once, twice = _one_minus(gamma, transition), _one_minus(gamma**2, transition)
    value_square = np.linalg.solve(twice, reward_square + 2.0 * gamma * (paid @ value))

    later = cross = later_square = np.zeros_like(value)  # E[B], E[AB], E[B²]
    mean, square = [value], [value_square]
    for _ in range(order):
        heads = (1.0 - gamma) * ratio
        jumped, jumped_cross = heads * mean[-1], heads * (value_square + cross)
        later = np.linalg.solve(once, transition @ jumped)
        reward_later = paid @ (gamma * later + jumped)
        cross = np.linalg.solve(twice, reward_later + gamma * (transition @ jumped_cross))
        later_square = np.linalg.solve(once, transition @ (heads * ratio * square[-1]))
        mean.append(value + later)
        square.append(value_square + 2.0 * cross + later_square)
    means = np.stack(mean)
    return means, np.maximum(np.stack(square) - means**2, 0.0)


def _one_minus(factor: float, transition: FloatArray) -> FloatArray:
    return np.eye(len(transition)) - factor * transition
