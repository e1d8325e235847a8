"""The ratio of two state densities: its loss, its weights, and what they do to a policy."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from agents.replays import NUM_INPUTS, SPACE, made_up, made_up_recent
from gammaprime import losses
from gammaprime.agents import TD3, DensityRatio, Uniform
from gammaprime.agents.off_policy import policy_weights
from gammaprime.agents.td3 import td3_policy_loss
from gammaprime.agents.weightings import Recent, log_ratio
from gammaprime.networks import Trained, init_uniform

pytestmark = pytest.mark.usefixtures("quick_compile")

SMALL = {"hidden": (8,), "num_steps": 4}
LOGS = jnp.array([-3.0, 0.0, 0.5, 2.0])


@pytest.mark.paper("x:discriminator")
@given(st.floats(-200.0, 80.0))
def test_log_softplus__is_finite_and_right_where_the_softplus_is_zero(z):
    """Against log(log1p(exp(z))) in double precision, which itself ends at −745."""
    value, slope = jax.value_and_grad(losses.log_softplus)(jnp.float32(z))
    z = float(np.float32(z))
    softplus = np.logaddexp(0.0, z) if z > -30 else math.exp(z)
    np.testing.assert_allclose(value, math.log(softplus), rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(slope, 1 / (1 + math.exp(-z)) / softplus, rtol=2e-6)


@pytest.mark.paper("x:discriminator")
def test_ratio_loss__is_least_at_the_ratio_whatever_the_sizes_of_the_samples():
    """Three states with f = (.5, .3, .2), μ = (.2, .2, .6), as samples of 10 and of 5."""
    recent, replayed = np.repeat(range(3), [5, 3, 2]), np.repeat(range(3), [1, 1, 3])
    weights = jnp.full(10, 0.1), jnp.full(5, 0.2)

    def loss(logs):
        return losses.ratio_loss(logs[recent], logs[replayed], *weights)

    ratio = jnp.log(jnp.array([0.5 / 0.2, 0.3 / 0.2, 0.2 / 0.6]))
    np.testing.assert_allclose(jax.grad(loss)(ratio), 0.0, atol=1e-7)
    assert loss(ratio) < min(loss(ratio + 0.1), loss(ratio - 0.1))


@pytest.mark.paper("x:temper")
def test_tempered_weights__go_from_uniform_to_importance_sampling():
    np.testing.assert_allclose(losses.tempered_weights(LOGS, 0.0), 0.25)
    ratio = np.exp(LOGS)
    np.testing.assert_allclose(losses.tempered_weights(LOGS, 1.0), ratio / ratio.sum(), rtol=1e-6)
    powered = ratio**0.1
    np.testing.assert_allclose(losses.tempered_weights(LOGS, 0.1), powered / powered.sum(), 1e-6)


@pytest.mark.paper("x:discounted-ratio")
def test_age_weights__are_discounts_that_add_up_to_one():
    step = jnp.array([0, 3, 10])
    expected = 0.9 ** np.array([0, 3, 10])
    np.testing.assert_allclose(losses.age_weights(step, 0.9), expected / expected.sum(), rtol=1e-6)
    np.testing.assert_allclose(losses.age_weights(step, 1.0), 1 / 3, rtol=1e-6)
    # 0.5^5000 is 0 in any precision, and yet the youngest counts for most.
    np.testing.assert_allclose(
        losses.age_weights(jnp.array([5000, 5001]), 0.5), [2 / 3, 1 / 3], rtol=1e-6
    )


@pytest.mark.paper("x:density-weighted-update")
@pytest.mark.errata("S14")
@pytest.mark.parametrize(("scale", "factor"), [("sum", 1.0), ("paper", 1 / 16)])
def test_constant_ratio__gives_the_plain_update_but_as_printed_it_is_divided_by_b(
    scale, factor, rng
):
    """The paper's text normalises twice: with B = 16 its gradient is 16 times too small."""
    agent = TD3(**SMALL, weighting=DensityRatio(scale=scale))
    learned = agent.init(jax.random.key(0), SPACE, NUM_INPUTS).learned
    obs = made_up(rng).obs[0]
    plain, _ = policy_weights(Uniform(), None, 16)
    weight, told = policy_weights(agent.weighting, jnp.full(16, 1.7), 16)
    gradient_of = jax.grad(td3_policy_loss)
    network = learned.policy.params, learned.critics.params, obs
    for ours, mean in zip(
        jax.tree.leaves(gradient_of(*network, weight)),
        jax.tree.leaves(gradient_of(*network, plain)),
        strict=True,
    ):
        np.testing.assert_allclose(ours, factor * mean, rtol=1e-6, atol=1e-9)
        assert np.abs(mean).max() > 1e-4
    assert told["train/effective_sample"] == pytest.approx(1.0)


def test_weights__without_recent_states_are_exactly_one_over_b():
    weight, told = policy_weights(DensityRatio(), None, 16)
    np.testing.assert_array_equal(weight, np.float32(1 / 16))
    assert float(told["train/effective_sample"]) == 1.0
    twice, _ = policy_weights(DensityRatio(scale="paper"), None, 16)
    np.testing.assert_array_equal(twice, np.float32(1 / 256))


@pytest.mark.paper("algo:off")
def test_ratio__changes_the_policy_and_nothing_else(rng):
    """While there are no recent states the burst is the plain one, bit for bit.  With them the
    policy differs; of one round of TD3 the critics do not, and the ratio has no say in them.
    """
    plain = TD3(**SMALL)
    agent = dataclasses.replace(plain, weighting=DensityRatio(1.0))
    batch = jax.tree.map(lambda x: x[:2], made_up(rng))
    recent = jax.tree.map(lambda x: x[:2], made_up_recent(rng))
    state = agent.init(jax.random.key(0), SPACE, NUM_INPUTS)
    key = jax.random.key(2)
    bare = plain.init(jax.random.key(0), SPACE, NUM_INPUTS)
    expected, _ = plain.update(bare, batch, None, key)
    skipped, _ = agent.update(state, batch, None, key)
    jax.tree.map(np.testing.assert_array_equal, skipped.learned[:5], expected.learned[:5])
    jax.tree.map(np.testing.assert_array_equal, skipped.learned.ratio, state.learned.ratio)
    weighted, metrics = agent.update(state, batch, recent, key)
    jax.tree.map(np.testing.assert_array_equal, weighted.learned.critics, expected.learned.critics)
    for name in ("policy", "ratio"):
        new, old = (jax.tree.leaves(s.learned._asdict()[name]) for s in (weighted, skipped))
        assert any((x != y).any() for x, y in zip(new, old, strict=True))
    assert 0.0 < metrics["train/effective_sample"] < 1.0
    assert metrics["train/ratio_loss"] > 0.0


def fit(slot, rng, densities, *, steps=600):
    """The slot's ratio trained on states of two densities, which may depend on the age."""
    ratio = Trained.start(init_uniform(jax.random.key(0), (1, 32, 32, 1)))
    train = jax.jit(slot.train)
    for _ in range(steps):
        age = rng.integers(0, 2, (2, 256))
        recent, replayed = (
            density(rng, a).astype(np.float32)[:, None]
            for density, a in zip(densities, age, strict=True)
        )
        ratio, *_ = train(ratio, replayed, age[1], Recent(recent, age[0]), 3e-3)
    return ratio.params


@pytest.mark.paper("x:discriminator")
def test_learned_ratio__of_two_gaussians_is_right_where_there_is_data(rng):
    """f = N(.5, 1), μ = N(0, 1.2²): log w = log f − log μ, within .15 inside two deviations."""
    densities = [lambda g, a: g.normal(0.5, 1.0, len(a)), lambda g, a: g.normal(0, 1.2, len(a))]
    network = fit(DensityRatio(batch_size=256), rng, densities)
    x = np.linspace(-1.0, 2.0, 13)
    expected = scipy.stats.norm(0.5, 1).logpdf(x) - scipy.stats.norm(0, 1.2).logpdf(x)
    found = log_ratio(network, jnp.asarray(x, jnp.float32)[:, None])
    np.testing.assert_allclose(found, expected, atol=0.15)


@pytest.mark.paper("x:discounted-ratio")
@pytest.mark.parametrize("gamma_prime", [1.0, 0.25])
def test_discounted_ratio__counts_young_states_more(gamma_prime, rng):
    """States ±1, alone and with ages 0, 1 equally often.  In μ both are equally likely; in f a
    state of age 0 is +1, one of age 1 is −1.  So w(+1)/w(−1) = 1/γ'.
    """
    densities = [lambda g, a: 1.0 - 2.0 * a, lambda g, a: g.choice([-1.0, 1.0], len(a))]
    network = fit(DensityRatio(gamma_prime=gamma_prime), rng, densities, steps=200)
    young, old = log_ratio(network, jnp.array([[1.0], [-1.0]]))
    assert float(young - old) == pytest.approx(-math.log(gamma_prime), abs=0.15)


def test_ratio__may_have_a_rate_of_its_own(rng):
    ratio = Trained.start(init_uniform(jax.random.key(0), (NUM_INPUTS, 8, 1)))
    batch, recent = (jax.tree.map(lambda x: x[0], x) for x in (made_up(rng), made_up_recent(rng)))
    for slot, rate in ((DensityRatio(), 1e-2), (DensityRatio(learning_rate=1e-5), 1e-5)):
        after, *_ = slot.train(ratio, batch.obs, batch.step, recent, 1e-2)
        pairs = zip(jax.tree.leaves(ratio.params), jax.tree.leaves(after.params), strict=True)
        # The first step of Adam moves nothing by more than its rate.
        assert max(np.abs(x - y).max() for x, y in pairs) == pytest.approx(rate, rel=0.02)
