"""Whole bursts against torch: targets, losses, gradients, Adam, delays, ratio, all at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agents.replays import NUM_INPUTS, SPACE, made_up, made_up_recent
from gammaprime.agents import SAC, TD3, DensityRatio, LearnedEntropy, Uniform

torch = pytest.importorskip("torch")
from agents.torch_agents import GAMMA, TorchSAC, TorchTD3, leaves  # noqa: E402

pytestmark = pytest.mark.usefixtures("quick_compile")

SMALL = {"gamma": GAMMA, "hidden": (8,), "num_steps": 4, "polyak": 0.8, "learning_rate": 1e-2}
KEY = jax.random.key(5)
RATIO = DensityRatio(0.7, gamma_prime=0.95)


def doubled(tree):
    return jax.tree.map(
        lambda x: jnp.asarray(x, jnp.float64) if x.dtype == jnp.float32 else x, tree
    )


def burst(agent, rng, *, with_recent):
    """The burst in JAX, in double precision, and what the torch twin needs to repeat it."""
    state = agent.init(jax.random.key(1), SPACE, NUM_INPUTS)
    batch, recent = made_up(rng), made_up_recent(rng) if with_recent else None
    with jax.enable_x64(True):
        learned, bounds = doubled(state.learned), doubled(jax.tree.map(jnp.asarray, state.bounds))
        double = state._replace(learned=learned, bounds=bounds)
        after, metrics = agent.update(double, batch, recent, KEY)
        noises = [jax.random.normal(k, batch.action.shape) for k in jax.random.split(KEY)]
        after, noises = jax.device_get((after, noises))
    return state.learned, batch, recent, noises, after.learned, metrics


def as_tensors(sample, u):
    columns = {name: torch.tensor(np.asarray(x[u])) for name, x in sample._asdict().items()}
    return {k: x.double() if x.dtype == torch.float32 else x for k, x in columns.items()}


def repeat(twin, batch, recent, noises):
    for u in range(len(batch.reward)):
        minibatch = as_tensors(batch, u)
        low, high = (torch.tensor(x) for x in SPACE)
        minibatch["action"] = 2 * (minibatch["action"] - low) / (high - low) - 1
        latest = None if recent is None else as_tensors(recent, u)
        twin.update(minibatch, latest, [torch.tensor(x[u]) for x in noises], u)


def assert_same(ours, theirs):
    pairs = zip(jax.tree.leaves(ours), leaves(theirs), strict=True)
    for mine, other in pairs:
        np.testing.assert_allclose(mine, other.detach().numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.paper("algo:off", "x:density-weighted-update", "x:discriminator", "x:discounted-ratio")
@pytest.mark.parametrize(
    "settings",
    [
        {"weighting": RATIO},
        {"weighting": DensityRatio(every="policy_update"), "hidden": (5, 4)},
        {"num_critics": 1, "policy_delay": 1, "target_noise": 0.0},
    ],
    ids=["ratio", "ratio_with_policy", "ddpg"],
)
def test_td3__learns_in_a_burst_what_torch_learns(settings, rng):
    agent = TD3(**SMALL | settings)
    with_recent = isinstance(agent.weighting, DensityRatio)
    before, *seen, after, _ = burst(agent, rng, with_recent=with_recent)
    twin = TorchTD3(agent, before)
    repeat(twin, *seen)
    assert_same(after.critics.params, twin.critics)
    assert_same(after.policy.params, twin.policy)
    assert_same(after.target_policy, twin.target_policy)
    assert_same(after.target_critics, twin.target_critics)
    if with_recent:
        assert_same(after.ratio.params, twin.ratio)


@pytest.mark.paper("algo:off", "x:density-weighted-update")
@pytest.mark.parametrize(("with_recent", "std_network"), [(True, "shared"), (False, "own")])
def test_sac__learns_in_a_burst_what_torch_learns(with_recent, std_network, rng):
    """With weights, its entropy is weighted like its value."""
    weighting = RATIO if with_recent else Uniform()
    agent = SAC(**SMALL, weighting=weighting, entropy=LearnedEntropy(0.5), std_network=std_network)
    before, *seen, after, _ = burst(agent, rng, with_recent=with_recent)
    twin = TorchSAC(agent, before)
    repeat(twin, *seen)
    assert_same(after.critics.params, twin.critics)
    assert_same(after.policy.params, twin.policy)
    assert_same(after.target_critics, twin.target_critics)
    assert_same(after.log_entropy_coef.params, twin.log_coef)
    assert float(after.log_entropy_coef.params) != pytest.approx(np.log(0.5), abs=1e-3)
