"""TRPO's step: each part against dense linear algebra, and the promises of the line search."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from gammaprime.networks import Categorical, Distribution, Gaussian, apply_network
from gammaprime.trust_region import conjugate_gradient, fisher_product, line_search, step_length


def positive_definite(rng, size):
    root = rng.normal(size=(size, size))
    return jnp.asarray(root @ root.T / size + np.eye(size), jnp.float32)


def test_conjugate_gradient__solves_in_as_many_iterations_as_unknowns(rng):
    matrix, target = positive_definite(rng, 6), jnp.asarray(rng.normal(size=6), jnp.float32)
    solve = jax.jit(lambda b: conjugate_gradient(lambda v: matrix @ v, b, 6))
    np.testing.assert_allclose(solve(target), np.linalg.solve(matrix, target), atol=2e-5)


def test_conjugate_gradient__stays_once_it_has_arrived(rng):
    target = jnp.asarray(rng.normal(size=4), jnp.float32)
    solved = conjugate_gradient(lambda v: 2.0 * v, target, 50)
    np.testing.assert_allclose(solved, target / 2.0, rtol=1e-6)


def test_conjugate_gradient__of_nothing_is_nothing():
    np.testing.assert_array_equal(conjugate_gradient(lambda v: v, jnp.zeros(3), 10), np.zeros(3))


def mean_divergence(policy, rng):
    """Mean KL from a small network to itself as a function of its parameters, and these."""
    obs = jnp.asarray(rng.normal(size=(5, 3)), jnp.float32)
    params = policy.init(jax.random.key(0), (3, 4))
    # The last layer starts near 0, where the Hessian would hardly feel the others.
    params = jax.tree.map(lambda x: x + rng.normal(size=x.shape).astype(np.float32), params)
    vector, as_params = ravel_pytree(params)

    def say(vector):
        network, log_std = as_params(vector)
        return Distribution(apply_network(network, obs, jnp.tanh), log_std)

    old = say(vector)
    return (lambda v: policy.divergence(old, say(v)).mean()), vector


@pytest.mark.parametrize("policy", [Gaussian(2, -0.5), Categorical(3)])
def test_fisher_product__is_the_damped_hessian_of_the_divergence(policy, rng):
    divergence, vector = mean_divergence(policy, rng)
    hessian = jax.hessian(divergence)(vector)
    direction = jnp.asarray(rng.normal(size=vector.size), jnp.float32)
    product = fisher_product(divergence, vector, 0.1)(direction)
    np.testing.assert_allclose(product, hessian @ direction + 0.1 * direction, atol=1e-4)
    assert np.linalg.norm(hessian @ direction) > 0.5


def test_step_length__reaches_the_bound_of_the_quadratic_model(rng):
    matrix, direction = positive_definite(rng, 4), jnp.asarray(rng.normal(size=4), jnp.float32)
    step = step_length(direction, lambda v: matrix @ v, 0.01) * direction
    np.testing.assert_allclose(0.5 * step @ matrix @ step, 0.01, rtol=1e-5)


def test_step_length__of_no_direction_is_a_number():
    assert step_length(jnp.zeros(3), lambda v: v, 0.01) == 0.0


PARAMS = jnp.array([1.0, -2.0])


def distance(point):
    return ((point - PARAMS) ** 2).sum()


@pytest.mark.parametrize("surrogate", [lambda p: p.sum(), lambda p: jnp.float32(jnp.nan) * p.sum()])
def test_line_search__that_fails_gives_back_the_very_parameters(surrogate):
    found = line_search(surrogate, distance, PARAMS, jnp.array([3.0, 3.0]), 100.0, 0.8, 10)
    np.testing.assert_array_equal(found.params, PARAMS)
    assert not found.accepted
    assert found.divergence == 0.0
    np.testing.assert_array_equal(found.loss, surrogate(PARAMS))


def test_line_search__gives_up_after_its_trials():
    step = jnp.array([-1.0, 0.0])
    bound = 0.5**8  # of the distances 1, ¼, 1/16, … the fifth is the first within it
    four, five = (
        line_search(lambda p: p.sum(), distance, PARAMS, step, bound, 0.5, trials)
        for trials in (4, 5)
    )
    assert not four.accepted
    np.testing.assert_array_equal(four.params, PARAMS)
    assert five.accepted
    np.testing.assert_array_equal(five.params, PARAMS + step / 16)


def test_line_search__takes_the_longest_step_that_keeps_both_promises():
    # sin p falls until 3π/2: of the steps 8, 4, 2 from π/2 the first and second rise again.
    start = jnp.array([jnp.pi / 2])
    found = line_search(
        lambda p: jnp.where(p < 4.8, jnp.sin(p), 9.0).sum(),
        lambda p: jnp.abs(p - start).sum(),
        start,
        jnp.array([8.0]),
        3.9,
        0.5,
        10,
    )
    np.testing.assert_allclose(found.params, start + 2.0)
    assert found.accepted
    assert found.loss < 1.0
    assert found.divergence <= 3.9
