"""Independent answers: sums over time, written without any function of the package.

Nothing here solves a linear system for a value: a discounted sum is added up until what is
left cannot be seen in double precision.
"""

import math

import numpy as np


def update_weight_curve(num_steps, gamma, gamma_prime, order):
    """w_K(0), w_K(1), ... by Pascal's recursion w_K(t+1) = γ w_K(t) + δ w_{K−1}(t)."""
    if math.isinf(order):
        return gamma_prime ** np.arange(num_steps)
    delta = gamma_prime - gamma
    row = np.ones(order + 1)
    curve = np.empty(num_steps)
    for t in range(num_steps):
        curve[t] = row[order]
        row = gamma * row + delta * np.concatenate([[0.0], row[:-1]])
    return curve


def value_weight_curve(num_steps, gamma, gamma_prime, order):
    """f(K, 1), f(K, 2), ... = Σ_u C(t−1, u−1) δ^u γ^{t−u} with exact binomials."""
    delta = gamma_prime - gamma
    return np.array(
        [
            sum(
                math.comb(t - 1, u - 1) * delta**u * gamma ** (t - u)
                for u in range(1, min(order, t) + 1)
            )
            for t in range(1, num_steps + 1)
        ]
    )


def weighted_sum(P, x, weights):
    """Σ_t weights[t] P^t x."""
    total = np.zeros_like(x, dtype=np.result_type(x, P))
    for weight in weights:
        total = total + weight * x
        x = P @ x
    return total


def steps_until_negligible(gamma_prime, decay=1.0):
    """How many steps until (γ'·decay)^t is below 1e-17."""
    rate = gamma_prime * decay
    return 2 if rate == 0 else max(2, math.ceil(math.log(1e-17) / math.log(rate)) + 5)


def brute_value(P, r, gamma, gamma_prime, order, num_steps=None):
    """V_K = Σ_t w_K(t) P^t r."""
    num_steps = num_steps or steps_until_negligible(gamma_prime)
    return weighted_sum(P, r, update_weight_curve(num_steps, gamma, gamma_prime, order))


def pair_chain(transition, reward, policy):
    """P̄((x, a), (y, b)) = p(y|x, a) π(b|y) and r over state-action pairs."""
    num_states, num_actions = reward.shape
    P_bar = np.zeros((num_states * num_actions,) * 2)
    for x in range(num_states):
        for a in range(num_actions):
            for y in range(num_states):
                for b in range(num_actions):
                    P_bar[x * num_actions + a, y * num_actions + b] = (
                        transition[x, a, y] * policy[y, b]
                    )
    return P_bar, reward.reshape(-1)


def softmax(logits):
    weight = np.exp(logits)
    return weight / weight.sum(axis=1, keepdims=True)


def complex_step_gradient(function, logits, step=1e-30):
    """∂function/∂logits, exact to rounding: Im f(θ + ih)/h.  Shapes: (X, A) -> (..., X, A)."""
    columns = []
    for index in np.ndindex(logits.shape):
        moved = logits.astype(complex)
        moved[index] += 1j * step
        columns.append(np.imag(function(moved)) / step)
    return np.stack(columns, axis=-1).reshape(*np.shape(columns[0]), *logits.shape)


def all_paths(P, start, num_steps):
    """Every path of n steps and its probability, so that an expectation is a finite sum.

    Shapes: -> states (n+1, paths), probability (paths,).
    """
    states = np.array([[start]])
    probability = np.ones(1)
    for _ in range(num_steps):
        here, there = np.nonzero(P[states[-1]])
        probability = probability[here] * P[states[-1, here], there]
        states = np.vstack([states[:, here], there])
    return states, probability


def sample_paths(P, start, num_steps, num_paths, rng):
    """Independent paths by inverting the row's distribution function.  Shapes: (n+1, paths)."""
    ladder = np.cumsum(P, axis=1)
    states = np.empty((num_steps + 1, num_paths), dtype=int)
    states[0] = start
    for t in range(num_steps):
        draw = rng.random(num_paths)[:, None]
        states[t + 1] = (draw > ladder[states[t]]).sum(axis=1).clip(max=len(P) - 1)
    return states
