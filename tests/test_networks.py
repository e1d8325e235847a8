"""Distributions against SciPy and closed forms; acting in NumPy against learning in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from scipy.special import log_softmax

from gammaprime.agents.on_policy import scale_obs
from gammaprime.networks import (
    Actor,
    Categorical,
    Distribution,
    Gaussian,
    PolicyParams,
    Standardiser,
    evaluate_policy,
    init_network,
    multiply,
)

MEAN, STD = np.array([[0.3, -1.0], [2.0, 0.0]]), np.array([0.5, 1.7])
LOGITS = np.array([[0.1, -2.0, 1.0], [3.0, 0.0, 0.0]])


def gaussian(mean=MEAN, std=STD):
    return Distribution(jnp.asarray(mean, jnp.float32), jnp.log(jnp.asarray(std, jnp.float32)))


def test_gaussian__log_prob_and_entropy_are_those_of_scipy():
    action = np.array([[0.0, 0.0], [1.0, -4.0]])
    log_prob = Gaussian(2).log_prob(gaussian(), jnp.asarray(action))
    np.testing.assert_allclose(
        log_prob, scipy.stats.norm.logpdf(action, MEAN, STD).sum(axis=1), rtol=1e-5
    )
    entropy = Gaussian(2).entropy(gaussian())
    np.testing.assert_allclose(entropy, [scipy.stats.norm.entropy(MEAN[0], STD).sum()] * 2, 1e-6)


def test_gaussian__divergence_is_its_integral():
    """Of two normal densities, by the trapezoid rule; dimensions add up."""
    other_mean, other_std = np.array([[0.0, -0.5], [2.5, 0.1]]), np.array([0.8, 1.1])
    x = np.linspace(-30, 30, 200_001)
    expected = np.zeros(2)
    for row, column in np.ndindex(2, 2):
        old = scipy.stats.norm(MEAN[row, column], STD[column])
        new = scipy.stats.norm(other_mean[row, column], other_std[column])
        gap = old.logpdf(x) - new.logpdf(x)
        expected[row] += np.trapezoid(old.pdf(x) * gap, x)
    divergence = Gaussian(2).divergence(gaussian(), gaussian(other_mean, other_std))
    np.testing.assert_allclose(divergence, expected, rtol=1e-5)
    np.testing.assert_allclose(Gaussian(2).divergence(gaussian(), gaussian()), 0.0, atol=1e-7)


def test_categorical__log_prob_entropy_and_divergence_are_their_sums():
    policy, say = Categorical(3), Distribution(jnp.asarray(LOGITS, jnp.float32), None)
    logs = log_softmax(LOGITS, axis=1)
    action = np.array([2, 0])
    np.testing.assert_allclose(policy.log_prob(say, action), logs[[0, 1], action], rtol=1e-5)
    entropy = scipy.stats.entropy(np.exp(logs), axis=1)
    np.testing.assert_allclose(policy.entropy(say), entropy, rtol=1e-5)
    other = LOGITS[::-1]
    expected = scipy.stats.entropy(np.exp(logs), np.exp(log_softmax(other, axis=1)), axis=1)
    new = Distribution(jnp.asarray(other, jnp.float32), None)
    np.testing.assert_allclose(policy.divergence(say, new), expected, rtol=1e-5)


@pytest.mark.parametrize("hidden", [(), (8,), (16, 8)])
def test_init_network__is_orthogonal_with_the_gain_of_each_layer(hidden):
    network = init_network(jax.random.key(0), (5, *hidden, 3), 0.01)
    assert len(network) == len(hidden) + 1
    for layer, gain in zip(network, [2**0.5] * len(hidden) + [0.01], strict=True):
        weight = np.asarray(layer.weight) / gain
        small = weight if weight.shape[0] <= weight.shape[1] else weight.T
        np.testing.assert_allclose(small @ small.T, np.eye(len(small)), atol=1e-5)
        np.testing.assert_array_equal(layer.bias, 0.0)


@pytest.mark.parametrize("hidden", [(), (16, 8)])
@pytest.mark.parametrize("policy", [Gaussian(3, -0.5), Categorical(4)])
def test_actor__says_in_numpy_what_the_update_says_in_jax(policy, hidden, rng):
    params = policy.init(jax.random.key(1), (6, *hidden))
    standardise = Standardiser(np.float32(0.5), np.float32(2.0), 1.5)
    actor = Actor(*jax.device_get(params), standardise, "tanh")
    obs = rng.normal(size=(10, 2, 3))
    inputs = scale_obs(obs[:, None], standardise)[:, 0]
    assert np.abs(inputs).max() == 1.5
    np.testing.assert_allclose(actor.center(obs), evaluate_policy(params, inputs).center, atol=1e-6)


def test_actor__draws_from_the_distribution_that_is_learned(rng):
    """Means of 40,000 draws within 4.5 standard errors."""
    num_draws, obs = 40_000, np.ones((1, 2), np.float32)
    many = np.repeat(obs, num_draws, axis=0)
    params = Gaussian(2, -0.5).init(jax.random.key(0), (2,))
    draws = Actor(*jax.device_get(params), None, "tanh").sample(many, rng)
    center, std = evaluate_policy(params, jnp.asarray(obs)).center[0], np.exp(-0.5)
    error = np.abs(draws.mean(axis=0) - center)
    assert (error < 4.5 * std / num_draws**0.5).all()
    np.testing.assert_allclose(draws.std(axis=0), std, rtol=4.5 / (2 * num_draws) ** 0.5)

    params = Categorical(3).init(jax.random.key(0), (2,))
    params = jax.tree.map(lambda x: 100 * x, params)  # far from uniform
    draws = Actor(*jax.device_get(params), None, "tanh").sample(many, rng)
    chance = np.asarray(jax.nn.softmax(evaluate_policy(params, jnp.asarray(obs)).center[0]))
    assert chance.max() - chance.min() > 0.1
    seen = np.bincount(draws, minlength=3) / num_draws
    assert (np.abs(seen - chance) < 4.5 * np.sqrt(chance * (1 - chance) / num_draws)).all()


def test_actor__without_noise_takes_the_likeliest_action(rng):
    obs = rng.normal(size=(5, 2))
    discrete = Actor(*jax.device_get(Categorical(3).init(jax.random.key(0), (2,))), None, "tanh")
    np.testing.assert_array_equal(discrete(obs), discrete.center(obs).argmax(axis=1))
    smooth = Actor(*jax.device_get(Gaussian(3).init(jax.random.key(0), (2,))), None, "tanh")
    np.testing.assert_array_equal(smooth(obs), smooth.center(obs))


@pytest.mark.parametrize("policy", [Gaussian(2, -0.5), Categorical(2)])
def test_policies__are_values(policy):
    params = policy.init(jax.random.key(0), (3,))
    assert isinstance(params, PolicyParams)
    assert hash(policy) == hash(type(policy)(**vars(policy)))


@pytest.mark.parametrize("outputs", [1, 3, 5, 8])
def test_multiply__has_the_gradients_of_the_product(outputs, rng):
    """By both arguments, and their derivatives along a direction, which TRPO's products take."""
    draw = [(7, 5), (5, outputs), (7, outputs)]
    x, weight, target = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in draw)

    def slopes(product):
        def loss(x, weight):
            return jnp.sum((jnp.tanh(product(x, weight)) - target) ** 2)

        return jax.jvp(jax.grad(loss, argnums=(0, 1)), (x, weight), (x, 2.0 * weight))

    expected = jax.tree.leaves(slopes(jnp.matmul))
    for found, known in zip(jax.tree.leaves(slopes(multiply)), expected, strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-5, atol=1e-5)
