"""SAC's own: the tanh-Gaussian, its entropy, and the coefficient that keeps it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from agents.replays import NUM_ACTIONS, NUM_INPUTS, SPACE, made_up
from gammaprime import losses
from gammaprime.agents import SAC, LearnedEntropy
from gammaprime.agents.sac import entropy_coef
from gammaprime.networks import squash

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("quick_compile")

KEY = jax.random.key(3)


def test_squash__has_the_likelihood_and_gradients_of_torch(rng):
    mean, log_std, noise = 0.7 * rng.normal(size=(3, 64, 2)).astype(np.float32)
    inputs = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (mean, log_std)]
    squashed = torch.distributions.TransformedDistribution(
        torch.distributions.Normal(inputs[0], inputs[1].exp()),
        torch.distributions.TanhTransform(cache_size=1),
    )
    torch_action = torch.tanh(inputs[0] + inputs[1].exp() * torch.tensor(noise))
    expected = squashed.log_prob(torch_action).sum(dim=1)
    wanted = torch.autograd.grad(expected.sum(), inputs)
    gradient_of = jax.grad(lambda *x: squash(*x, noise)[1].sum(), argnums=(0, 1))
    action, log_prob = squash(mean, log_std, noise)
    np.testing.assert_allclose(action, torch_action.detach(), atol=1e-6)
    np.testing.assert_allclose(log_prob, expected.detach(), rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(gradient_of(mean, log_std), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_squash__stays_exact_where_tanh_is_one():
    """log(1 − tanh² u) = −2 log cosh u, at u = ±50 where 1 − tanh² is 0 in any precision."""
    mean = jnp.array([[50.0], [-50.0], [0.0]])
    action, log_prob = squash(mean, jnp.zeros((3, 1)), jnp.zeros((3, 1)))
    log_slope = -2 * (np.abs(mean[:, 0]) + np.log1p(np.exp(-2 * np.abs(mean[:, 0]))) - np.log(2))
    np.testing.assert_allclose(log_prob, scipy.stats.norm.logpdf(0.0) - log_slope, rtol=1e-6)
    np.testing.assert_array_equal(action[:, 0], [1.0, -1.0, 0.0])


def test_squash__gives_a_density_that_adds_up_to_one():
    """∫ π(a) da over (−1, 1), by its change of variables on a grid of noise."""
    noise = np.linspace(-8, 8, 4001, dtype=np.float32)[:, None]
    action, log_prob = squash(jnp.float32(0.3), jnp.float32(-0.4), noise)
    total = np.trapezoid(np.exp(np.asarray(log_prob, np.float64)), np.asarray(action[:, 0]))
    assert total == pytest.approx(1.0, abs=1e-3)


def test_entropy_coef__grows_while_the_entropy_is_too_low():
    gradient = jax.grad(losses.entropy_coef_loss)
    assert gradient(0.0, jnp.array([3.0, 1.0]), -1.0) == pytest.approx(-1.0)  # entropy −2 < −1
    assert gradient(0.0, jnp.array([0.5, -0.5]), -1.0) == pytest.approx(1.0)  # entropy 0 > −1


def test_learned_entropy__starts_where_told_and_aims_at_its_target(rng):
    """A new policy has σ ≈ 1 and an entropy below 5, so four steps of Adam raise log α."""
    entropy = LearnedEntropy(0.3, target_entropy=5.0, learning_rate=1e-2)
    agent = SAC(hidden=(8,), num_steps=4, entropy=entropy)
    state = agent.init(KEY, SPACE, NUM_INPUTS)
    assert entropy_coef(agent, state.learned) == pytest.approx(0.3)
    after, metrics = agent.update(state, made_up(rng), None, KEY)
    assert -NUM_ACTIONS < metrics["train/entropy"] < 5.0
    assert np.log(entropy_coef(agent, after.learned) / 0.3) == pytest.approx(0.04, rel=0.01)
