"""The step of TRPO: as far along the natural gradient as a bound on the divergence allows.

Parameters are vectors here; surrogate and divergence are functions of them, in JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from gammaprime.lazy import jax, jnp
from gammaprime.typing import Array

Product: TypeAlias = Callable[[Array], Array]
Objective: TypeAlias = Callable[[Array], Array]


class Step(NamedTuple):
    """Result of a line search."""

    params: Array
    """(P,) the accepted point, or the start if none was accepted."""
    accepted: Array
    loss: Array
    """Surrogate at ``params``."""
    divergence: Array
    """Divergence from the start: 0 if nothing was accepted."""


def fisher_product(divergence: Objective, params: Array, damping: float) -> Product:
    """v ↦ (F + damping·I)v, F the Hessian of the divergence at ``params``, its minimum.

    Linearised once: each product costs a forward and a backward pass, and F is never formed.

    Shapes: (P,) -> (P,).
    """
    _, product = jax.linearize(jax.grad(divergence), params)
    return lambda vector: product(vector) + damping * vector


def conjugate_gradient(product: Product, target: Array, iterations: int) -> Array:
    """Solve product(x) = target by ``iterations`` steps from 0.

    For a symmetric positive definite matrix.  Once the residual is 0, x stays.

    Shapes: (P,) -> (P,).
    """

    def iterate(_: int, carry: tuple[Array, Array, Array, Array]) -> Any:
        x, residual, direction, squared = carry
        image = product(direction)
        length = _quotient(squared, direction @ image)
        x, residual = x + length * direction, residual - length * image
        left = residual @ residual
        return x, residual, residual + _quotient(left, squared) * direction, left

    start = (jnp.zeros_like(target), target, target, target @ target)
    return jax.lax.fori_loop(0, iterations, iterate, start)[0]


def step_length(direction: Array, product: Product, max_kl: float) -> Array:
    """√(2 max_kl / xᵀFx), the length at which the quadratic model reaches the bound.

    Shapes: (P,) -> ().
    """
    return jnp.sqrt(_quotient(2.0 * max_kl, direction @ product(direction)))


def line_search(
    surrogate: Objective,
    divergence: Objective,
    params: Array,
    step: Array,
    max_kl: float,
    shrink: float,
    trials: int,
) -> Step:
    """The first of step, shrink·step, shrink²·step, … that lowers the surrogate within the bound.

    If none of them does, or all of them give NaN, the parameters stay what they were.

    Shapes: params, step (P,).
    """
    start = surrogate(params)

    def attempt(trial: Array) -> Step:
        point = params + shrink**trial * step
        loss, moved = surrogate(point), divergence(point)
        return Step(point, (loss < start) & (moved <= max_kl), loss, moved)

    def go_on(carry: tuple[Array, Step]) -> Array:
        trial, found = carry
        return ~found.accepted & (trial < trials)

    stay = Step(params, jnp.asarray(False), start, jnp.zeros_like(start))
    _, found = jax.lax.while_loop(go_on, lambda carry: (carry[0] + 1, attempt(carry[0])), (0, stay))
    return jax.tree.map(lambda new, old: jnp.where(found.accepted, new, old), found, stay)


def _quotient(numerator: Array, denominator: Array) -> Array:
    """numerator/denominator, or 0 where the denominator is not positive."""
    safe = jnp.where(denominator > 0, denominator, 1.0)
    return jnp.where(denominator > 0, numerator / safe, 0.0)
