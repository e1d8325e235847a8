"""What agents minimise, against hand-made numbers and the same formulas in torch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gammaprime import losses

torch = pytest.importorskip("torch")


@pytest.fixture
def batch(rng):
    """log ratio, advantage, weight: some ratios inside and some beyond the clip."""
    size = 64
    arrays = 0.3 * rng.normal(size=size), rng.normal(size=size), rng.uniform(0, 2, size)
    return [jnp.asarray(x, jnp.float32) for x in arrays]


def test_normalise__gives_mean_zero_and_deviation_one(batch):
    advantage = losses.normalise(5.0 + 3.0 * batch[1])
    np.testing.assert_allclose([advantage.mean(), advantage.std()], [0.0, 1.0], atol=1e-6)


def test_normalise__of_equal_advantages_is_zero():
    np.testing.assert_array_equal(losses.normalise(jnp.full(8, 2.5)), 0.0)


@pytest.mark.paper("algo:k-adv", "algo:weight-onpolicy")
def test_policy_gradient_loss__descends_along_minus_w_a_score(batch):
    log_prob, advantage, weight = batch
    gradient = jax.grad(losses.policy_gradient_loss)(log_prob, advantage, weight)
    np.testing.assert_allclose(gradient, -weight * advantage / 64, rtol=1e-6)


def test_every_surrogate__has_the_policy_gradient_where_nothing_has_moved_yet(batch):
    _, advantage, weight = batch
    at = jnp.zeros(64)
    plain = jax.grad(losses.policy_gradient_loss)(at, advantage, weight)
    surrogate = jax.grad(losses.surrogate_loss)(at, advantage, weight)
    clipped = jax.grad(losses.clipped_surrogate_loss)(at, advantage, weight, 0.2)
    np.testing.assert_allclose(surrogate, plain, rtol=1e-6)
    np.testing.assert_allclose(clipped, plain, rtol=1e-6)


def as_torch(*arrays):
    return [torch.tensor(np.asarray(x), dtype=torch.float64, requires_grad=True) for x in arrays]


def test_clipped_surrogate__and_its_gradient_are_those_of_torch(batch):
    log_ratio, advantage, weight = as_torch(*batch)
    ratio = log_ratio.exp()
    kept = torch.clamp(ratio, 0.8, 1.2)
    objective = torch.min(ratio * advantage, kept * advantage)
    loss = -(weight * objective).mean()
    loss.backward()
    ours, gradient = jax.value_and_grad(losses.clipped_surrogate_loss)(*batch, 0.2)
    np.testing.assert_allclose(ours, loss.item(), rtol=1e-5)
    np.testing.assert_allclose(gradient, log_ratio.grad, atol=1e-7)
    assert 5 < (gradient == 0).sum() < 50  # some samples are clipped, some are not


def test_value_losses__and_their_gradients_are_those_of_torch(rng):
    value, target, old = (jnp.asarray(rng.normal(size=(32, 2)), jnp.float32) for _ in range(3))
    v, t, o = as_torch(value, target, old)
    plain = 0.5 * ((v - t) ** 2).sum(dim=1).mean()
    near = o + torch.clamp(v - o, -0.2, 0.2)
    clipped = 0.5 * torch.max((v - t) ** 2, (near - t) ** 2).sum(dim=1).mean()
    (expected,) = torch.autograd.grad(plain, v)
    loss, gradient = jax.value_and_grad(losses.value_loss)(value, target)
    np.testing.assert_allclose(loss, plain.item(), rtol=1e-5)
    np.testing.assert_allclose(gradient, expected, atol=1e-7)
    (expected,) = torch.autograd.grad(clipped, v)
    loss, gradient = jax.value_and_grad(losses.clipped_value_loss)(value, target, old, 0.2)
    np.testing.assert_allclose(loss, clipped.item(), rtol=1e-5)
    np.testing.assert_allclose(gradient, expected, atol=1e-7)


def test_clipped_value_loss__far_from_the_clip_is_the_plain_one(rng):
    value, target = (jnp.asarray(rng.normal(size=(8, 1)), jnp.float32) for _ in range(2))
    clipped = losses.clipped_value_loss(value, target, value + 0.01, 0.2)
    np.testing.assert_allclose(clipped, losses.value_loss(value, target), rtol=1e-6)
