"""The gradient steps of every agent: PPO's loss in torch, TRPO's promises, the plain gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agents.rollouts import POLICY, frozen_batch, made_up
from gammaprime.agents import PG, PPO, PRESETS, SGD, TRPO, CriticFit, TaylorCritic, TaylorWeight
from gammaprime.agents.on_policy import (
    Inputs,
    descend,
    draw_minibatches,
    explained_variance,
    prepare,
)
from gammaprime.agents.ppo import ppo_loss
from gammaprime.agents.trpo import improve
from gammaprime.networks import Categorical, evaluate_critic, evaluate_policy

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("quick_compile")

SMALL = {"num_envs": 2, "num_steps": 16, "hidden": (5,)}
FIT = CriticFit(epochs=2, minibatches=2)


def torch_loss(params, batch, clip_eps, value_clip, value_coef, entropy_coef):
    """PPO as OpenAI Baselines and Stable-Baselines3 write it, and weights beside."""

    def network(layers, x):
        for layer in layers[:-1]:
            x = torch.tanh(x @ layer[0] + layer[1])
        return x @ layers[-1][0] + layers[-1][1]

    (policy, log_std), critic = params
    normal = torch.distributions.Normal(network(policy, batch.obs), log_std.exp())
    ratio = torch.exp(normal.log_prob(batch.action).sum(dim=1) - batch.old_log_prob)
    # With the standard deviation of the batch itself, as Baselines: not that of a sample.
    centred = batch.advantage - batch.advantage.mean()
    advantage = centred / (batch.advantage.std(correction=0) + 1e-8)
    objective = torch.min(
        advantage * ratio, advantage * torch.clamp(ratio, 1 - clip_eps, 1 + clip_eps)
    )
    value = network(critic, batch.obs)
    error = (value - batch.target) ** 2
    if value_clip is not None:
        near = batch.old_value + torch.clamp(value - batch.old_value, -value_clip, value_clip)
        error = torch.max(error, (near - batch.target) ** 2)
    return (
        -(batch.weight * objective).mean()
        + value_coef * 0.5 * error.sum(dim=1).mean()
        - entropy_coef * normal.entropy().sum(dim=1).mean()
    )


@pytest.mark.parametrize("num_heads", [1, 3])
@pytest.mark.parametrize("value_clip", [0.2, None])
def test_ppo_loss__and_its_gradient_are_those_of_torch(num_heads, value_clip, rng):
    params, batch = frozen_batch(rng, num_heads)
    agent = PPO(entropy_coef=0.01, value_clip=value_clip)
    evaluate = jax.jit(jax.value_and_grad(ppo_loss, argnums=2, has_aux=True), static_argnums=(0, 1))
    (loss, _), gradient = evaluate(agent, POLICY, params, batch)

    def as_torch(x):
        return torch.tensor(np.asarray(x), dtype=torch.float64, requires_grad=True)

    leaves = jax.tree.map(as_torch, params)
    expected = torch_loss(leaves, jax.tree.map(as_torch, batch), 0.2, value_clip, 0.5, 0.01)
    expected.backward()
    np.testing.assert_allclose(loss, expected.item(), rtol=1e-5)
    for ours, theirs in zip(jax.tree.leaves(gradient), jax.tree.leaves(leaves), strict=True):
        np.testing.assert_allclose(ours, theirs.grad, atol=1e-5)
        assert np.abs(ours).max() > 1e-3


@pytest.mark.paper("algo:weight-onpolicy")
def test_weights__touch_the_policy_term_alone(rng):
    params, batch = frozen_batch(rng, 2)
    gradient = jax.jit(jax.grad(ppo_loss, argnums=2, has_aux=True), static_argnums=(0, 1))
    heavy, _ = gradient(PPO(), POLICY, params, batch._replace(weight=3.0 * batch.weight))
    light, _ = gradient(PPO(), POLICY, params, batch)
    for ours, theirs in zip(*map(jax.tree.leaves, (heavy.critic, light.critic)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(*map(jax.tree.leaves, (heavy.policy, light.policy)), strict=True):
        np.testing.assert_allclose(ours, 3.0 * theirs, rtol=1e-4, atol=1e-6)
    agent = PPO(entropy_coef=1.0)
    weightless, _ = gradient(agent, POLICY, params, batch._replace(weight=0.0 * batch.weight))
    np.testing.assert_allclose(weightless.policy.log_std, -np.ones(2), rtol=1e-6)


def test_draw_minibatches__deal_out_every_sample_once_an_epoch(rng):
    rows = draw_minibatches(rng, 12, epochs=3, minibatches=4)
    assert rows.shape == (12, 3)
    for epoch in rows.reshape(3, 12):
        np.testing.assert_array_equal(np.sort(epoch), np.arange(12))
    assert (rows[:4] != rows[4:8]).any()
    np.testing.assert_array_equal(draw_minibatches(rng, 5, 2, 1), [np.arange(5)] * 2)


def test_descend__takes_the_steps_of_its_minibatches_in_turn():
    """SGD on ½(p − x)², one sample after the other: p ← p − ½(p − x)."""
    optimiser = PG(optimiser=SGD(0.5)).optimiser.transform()
    batch, rows = jnp.array([4.0, 8.0, 0.0]), jnp.array([[0], [1], [1]])

    def loss(p, x):
        return 0.5 * ((p - x) ** 2).mean(), {"seen": x.mean()}

    found, _, metrics = descend(loss, 0.0, optimiser.init(0.0), batch, rows, optimiser)
    np.testing.assert_allclose(found, 0.5 * (0.5 * (0.5 * 4.0 + 8.0) + 8.0))
    np.testing.assert_allclose(metrics["seen"], (4 + 8 + 8) / 3)
    np.testing.assert_allclose(metrics["train/grad_norm"], (4 + 6 + 3) / 3)


def test_explained_variance__is_one_for_the_truth_and_zero_for_a_constant(rng):
    target = jnp.asarray(rng.normal(size=50), jnp.float32)
    np.testing.assert_allclose(explained_variance(target, target), 1.0)
    np.testing.assert_allclose(explained_variance(jnp.zeros(50), target), 0.0, atol=1e-6)


@pytest.mark.parametrize("policy", [POLICY, Categorical(2)], ids=lambda p: type(p).__name__)
def test_trpo__steps_improve_the_surrogate_within_the_bound(policy, rng):
    agent = TRPO(**SMALL, critic=FIT)
    params, batch = frozen_batch(rng, 1)
    params = params.policy
    if isinstance(policy, Categorical):
        params = policy.init(jax.random.key(3), (3, 5))
        batch = batch._replace(action=jnp.asarray(rng.integers(0, 2, 32)))
    old = evaluate_policy(params, batch.obs)
    batch = batch._replace(old_log_prob=policy.log_prob(old, batch.action))
    after, metrics = jax.jit(improve, static_argnums=(0, 1))(agent, policy, params, batch)
    new = evaluate_policy(after, batch.obs)
    divergence = policy.divergence(old, new).mean()
    assert metrics["train/is_line_search_success"] == 1.0
    assert 0.2 * agent.max_kl < divergence <= agent.max_kl
    np.testing.assert_allclose(metrics["train/kl_divergence_loss"], divergence, rtol=1e-3)
    advantage = (batch.advantage - batch.advantage.mean()) / batch.advantage.std()
    ratio = jnp.exp(policy.log_prob(new, batch.action) - batch.old_log_prob)
    objective = (batch.weight * advantage * ratio).mean()
    assert objective > (batch.weight * advantage).mean()
    np.testing.assert_allclose(metrics["train/policy_objective"], objective, rtol=1e-3)


def test_trpo__without_any_advantage_stays_where_it_is(rng):
    params, batch = frozen_batch(rng, 1)
    batch = batch._replace(advantage=jnp.ones(32))
    after, metrics = jax.jit(improve, static_argnums=(0, 1))(TRPO(), POLICY, params.policy, batch)
    for x, y in zip(*map(jax.tree.leaves, (after, params.policy)), strict=True):
        np.testing.assert_array_equal(x, y)
    assert metrics["train/is_line_search_success"] == 0.0


def test_trpo_presets__differ_where_spinning_up_and_baselines_do():
    baselines = PRESETS["trpo_baselines"]
    assert TRPO() == PRESETS["trpo"]
    assert not TRPO().normalise_obs
    assert baselines.normalise_obs
    assert baselines.scale_rewards
    assert baselines.rollout_size // baselines.critic.minibatches == 64


def test_critic_fit__brings_every_head_to_its_target(rng):
    agent = PG(**SMALL, advantage=TaylorCritic(order=2), critic=CriticFit(1e-2, epochs=300))
    params, batch = frozen_batch(rng, 3)
    target = jnp.stack([batch.obs[:, 0], 1.0 - batch.obs[:, 1], jnp.full(32, 5.0)], axis=1)
    batch = batch._replace(target=target)
    rows = agent.critic.draw_minibatches(rng, agent.rollout_size)
    moments = agent.critic.init(params.critic)
    critic, _, _ = agent.critic.fit(params.critic, moments, batch, rows)
    fitted = evaluate_critic(critic, batch.obs)
    assert jnp.abs(fitted - target).mean() < 0.2


@pytest.mark.paper("algo:k-adv", "algo:weight-onpolicy")
def test_pg__is_the_mean_of_w_a_score(rng):
    """Against the scores of a Gaussian, written out: (a − μ)/σ² · x for a linear policy."""
    rollout = made_up(rng)
    agent = PG(
        num_envs=2,
        num_steps=16,
        hidden=(),
        optimiser=SGD(1.0),
        weighting=TaylorWeight(0.999, 2),
        normalise_obs=False,
        scale_rewards=False,
        critic=FIT,
    )
    state = agent.init(jax.random.key(0), POLICY, 3)
    weight = agent.weighting.weights(rollout.step, agent.gamma)
    inputs = Inputs(rollout, weight, None, 1.0)
    batch = jax.jit(prepare, static_argnums=(0, 1))(agent, POLICY, state.params, inputs)
    (layer,) = state.params.policy.network
    noise = (batch.action - batch.obs @ layer.weight) * np.exp(1.0)
    factor = (batch.weight * batch.advantage)[:, None]
    after, _ = agent.update(state, POLICY, rollout, np.random.default_rng(0), 1.0)
    change = jax.tree.map(lambda x, y: x - y, after.params.policy, state.params.policy)
    np.testing.assert_allclose(
        change.network[0].weight, batch.obs.T @ (factor * noise) / 32, atol=1e-5
    )
    np.testing.assert_allclose(change.network[0].bias, (factor * noise).mean(axis=0), atol=1e-5)
