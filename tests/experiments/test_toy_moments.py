"""The moments of Algorithm 1 against closed forms on one state, and against its simulation."""

import numpy as np
import pytest

from gammaprime import tabular
from gammaprime.experiments import toy
from gammaprime.experiments.toy_moments import (
    exact_base_moments,
    noise_variance,
    return_base_moments,
)

GAMMA, GAMMA_PRIME, ORDER = 0.6, 0.9, 4
RATIO = (GAMMA_PRIME - GAMMA) / (1 - GAMMA)
DISCOUNTS = (GAMMA, GAMMA_PRIME)


@pytest.fixture
def toy_mdp(rng):
    """Rewards that depend on the action taken, and actions that lead to different states."""
    mdp = tabular.random_mdp(4, 2, 0.3, rng)
    return tabular.MDP(mdp.transition, 4.0 * mdp.reward - 1.0), np.full((4, 2), 0.5)


def one_state(reward):
    return tabular.MDP(np.ones((1, 1, 1)), [[reward]]), np.ones((1, 1))


@pytest.mark.paper("algo:estimate", "eq:kth-order-primal")
def test_means__are_the_exact_expansion(toy_mdp):
    mdp, policy = toy_mdp
    P, r = tabular.chain(mdp, policy)
    V = tabular.solve_value(P, r, GAMMA)
    expected = np.cumsum(tabular.value_terms(P, r, *DISCOUNTS, ORDER), axis=0)
    np.testing.assert_allclose(exact_base_moments(P, V, *DISCOUNTS, ORDER)[0], expected)
    from_returns, _ = return_base_moments(mdp, policy, *DISCOUNTS, ORDER, 0.2)
    np.testing.assert_allclose(from_returns, expected)


def test_constant_reward_without_noise__has_no_variance():
    mdp, policy = one_state(2.0)
    V = np.array([2.0 / (1 - GAMMA)])
    np.testing.assert_allclose(
        exact_base_moments(np.eye(1), V, *DISCOUNTS, ORDER)[1], 0, atol=1e-10
    )
    _, variance = return_base_moments(mdp, policy, *DISCOUNTS, ORDER, 0.0)
    np.testing.assert_allclose(variance, 0.0, atol=1e-10)


def test_return_base__spreads_reward_noise_over_both_returns():
    """One state, r = 1 + ν noise: order 1 weighs it by γ^u + cγ^{u−τ}1{u ≥ τ}.

    Σ_u of its square is (1 + c² + 2cγ^τ)/(1−γ²), and E γ^τ = γ(1−γ)/(1−γ²) = γ/(1+γ).
    """
    mdp, policy = one_state(1.0)
    _, variance = return_base_moments(mdp, policy, *DISCOUNTS, 1, 0.3)
    base = 0.3**2 / (1 - GAMMA**2)
    first = base * (1 + RATIO**2 + 2 * RATIO * GAMMA / (1 + GAMMA))
    np.testing.assert_allclose(variance[:, 0], [base, first])


def simulate(mdp, policy, rng, reward_noise):
    """20,000 estimates of every order from returns, from values, and from noise of variance 1."""
    settings = toy.Settings(
        *(0, 1, 4, 2, 0.3, GAMMA, GAMMA_PRIME, ORDER),
        num_trajectories=1,
        repetitions=20_000,
        reward_noise=reward_noise,
        truncation=1e-6,
        base_noise=(),
    )
    P, r = tabular.chain(mdp, policy)
    V = tabular.solve_value(P, r, GAMMA)
    return P, V, toy.sample_estimates(settings, mdp, policy, V, rng)


@pytest.mark.paper("algo:estimate", "fig:errors")
def test_sampled_estimates__have_these_moments(toy_mdp, rng):
    mdp, policy = toy_mdp
    P, V, (returns, values, noise) = simulate(mdp, policy, rng, reward_noise=0.5)
    for samples, (mean, variance) in [
        (returns, return_base_moments(mdp, policy, *DISCOUNTS, ORDER, 0.5)),
        (values, exact_base_moments(P, V, *DISCOUNTS, ORDER)),
    ]:
        # Four standard errors of a mean; those of a variance are about 1.5 % here.
        error = np.sqrt(variance[:, 0] / len(samples))
        assert (np.abs(samples.mean(axis=0) - mean[:, 0]) <= 4 * error + 1e-5).all()
        np.testing.assert_allclose(samples.var(axis=0), variance[:, 0], rtol=0.06, atol=1e-12)
    np.testing.assert_allclose(noise.var(axis=0), noise_variance(*DISCOUNTS, ORDER), rtol=0.06)
    assert abs(noise.mean(axis=0)).max() < 4 * np.sqrt(noise_variance(*DISCOUNTS, ORDER)[-1] / 2e4)


def test_noise_variance__is_the_geometric_sum():
    expected = [(1 - RATIO ** (2 * k + 2)) / (1 - RATIO**2) for k in range(ORDER + 1)]
    np.testing.assert_allclose(noise_variance(*DISCOUNTS, ORDER), expected)


@pytest.mark.paper("fig:errors")
@pytest.mark.errata("S19")
def test_each_order__gains_and_costs_in_the_same_proportion():
    """Constant value V': MSE_K − MSE_{K−1} = c^{2K} (σ²/N − V'²(1−c²)), one sign for all K."""
    sigma, count, target = 5.0, 10, 1.0 / (1 - GAMMA_PRIME)
    order = np.arange(9)
    bias = RATIO ** (order + 1) * target
    mean_square = bias**2 + sigma**2 * noise_variance(*DISCOUNTS, 8) / count
    gain = sigma**2 / count - target**2 * (1 - RATIO**2)
    np.testing.assert_allclose(np.diff(mean_square), RATIO ** (2 * order[1:]) * gain)
