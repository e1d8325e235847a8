"""Slots against the estimators they are made of, and learned terms against the exact room."""

import dataclasses
import math

import jax
import numpy as np
import pytest

from agents.rollouts import POLICY, made_up, made_up_experience
from gammaprime import estimators, tabular
from gammaprime.agents import PPO
from gammaprime.agents.advantages import (
    GAE,
    Estimate,
    Experience,
    TaylorCritic,
    TaylorGradient,
    TaylorQ,
    TDDelta,
    head_advantages,
)
from gammaprime.agents.weightings import TaylorWeight, Uniform
from oracles import all_paths, softmax, update_weight_curve

GAMMA, GAMMA_PRIME, LAM = 0.8, 0.95, 0.9
DISCOUNTS = GAMMA, GAMMA_PRIME


def estimate(slot, experience, lam=LAM):
    return slot.estimate(experience, GAMMA, lam)


def base_of(experience):
    """The γ advantage and its λ-return, in NumPy and float64."""
    value, next_value = (x[0].astype(float) for x in (experience.values, experience.next_values))
    advantage = estimators.gae(
        experience.reward.astype(float), value, next_value, *experience.ends, GAMMA, LAM
    )
    return advantage, advantage + value, value, next_value


def test_gae__is_the_base_advantage_and_its_critic_learns_the_lambda_return(rng):
    experience = made_up_experience(rng, 1)
    advantage, target, *_ = base_of(experience)
    found = estimate(GAE(), experience)
    np.testing.assert_allclose(found.advantage, advantage, atol=1e-5)
    np.testing.assert_allclose(found.targets, target[None], atol=1e-5)


@pytest.mark.paper("x:centred-advantage")
def test_taylor_q__is_the_centred_expansion_of_the_whole_path_unless_told_otherwise(rng):
    experience = made_up_experience(rng, 1)
    _, target, value, next_value = base_of(experience)
    expanded = estimators.expand(target, next_value, *experience.ends, *DISCOUNTS, 1)
    c = (GAMMA_PRIME - GAMMA) / (1 - GAMMA)
    found = estimate(TaylorQ(GAMMA_PRIME), experience).advantage
    np.testing.assert_allclose(found, expanded - value - c * value, atol=1e-4)


@pytest.mark.paper("appendix:exp")
def test_taylor_q__as_the_paper_runs_it_is_a_preset():
    settings = {"gamma_prime": 0.999, "order": 1, "eta": 0.01, "lookahead": 10}
    assert TaylorQ.paper() == TaylorQ(**settings, tail="survival", center=False)


@pytest.mark.paper("algo:k-adv", "x:window", "x:mixture")
@pytest.mark.parametrize("order", [1, 2])
def test_taylor_q__as_the_paper_runs_it_mixes_in_the_window(order, rng):
    experience = made_up_experience(rng, 1)
    _, target, value, next_value = base_of(experience)
    past = next_value, *experience.ends, *DISCOUNTS
    window = estimators.expand_window(target, *past, order, lookahead=4)
    found = estimate(TaylorQ.paper(GAMMA_PRIME, order, eta=0.3, lookahead=4), experience)
    expected = 0.7 * target + 0.3 * window - value
    np.testing.assert_allclose(found.advantage, expected, atol=1e-5)
    np.testing.assert_allclose(found.targets, target[None], atol=1e-5)


@pytest.mark.paper("algo:k-adv", "x:marginalised", "x:centred-advantage", "x:tails")
@pytest.mark.parametrize("tail", ["zero", "constant", "survival"])
@pytest.mark.parametrize("order", [1, 3, math.inf])
@pytest.mark.parametrize("center", [False, True])
def test_taylor_q__by_the_scan_mixes_in_the_expansion(order, tail, center, rng):
    experience = made_up_experience(rng, 1)
    _, target, value, next_value = base_of(experience)
    past = next_value, *experience.ends, *DISCOUNTS
    expanded = estimators.expand(target, *past, order, tail)
    slot = TaylorQ(GAMMA_PRIME, order, 0.3, tail=tail, center=center)
    c = (GAMMA_PRIME - GAMMA) / (1 - GAMMA)
    shared = c / (1 - c) if math.isinf(order) else sum(c**k for k in range(1, order + 1))
    expected = 0.7 * target + 0.3 * expanded - value - center * 0.3 * shared * value
    found = estimate(slot, experience)
    np.testing.assert_allclose(found.advantage, expected, atol=1e-4)
    np.testing.assert_allclose(found.targets, target[None], atol=1e-5)


@pytest.mark.paper("x:true-gradient")
@pytest.mark.parametrize("order", [0, 1, 3])
def test_taylor_gradient__combines_the_centred_terms_by_age(order, rng):
    """Σ_i w_{K−i}(t) (D_i(t) − cⁱ V), with the weights of Pascal's recursion."""
    experience = made_up_experience(rng, 1)
    _, target, value, next_value = base_of(experience)
    terms = estimators.expand_terms(target, next_value, *experience.ends, *DISCOUNTS, order)
    c = (GAMMA_PRIME - GAMMA) / (1 - GAMMA)
    expected = sum(
        update_weight_curve(16, *DISCOUNTS, order - i)[experience.step] * (term - c**i * value)
        for i, term in enumerate(terms)
    )
    found = estimate(TaylorGradient(GAMMA_PRIME, order), experience)
    np.testing.assert_allclose(found.advantage, expected, atol=1e-5)
    np.testing.assert_allclose(found.targets, target[None], atol=1e-5)


@pytest.mark.paper("x:true-gradient", "x:infinite-order")
def test_taylor_gradient__becomes_the_infinite_expansion_with_infinite_weights(rng):
    """w_{K−i}(t) → γ'^t and Σ_i D_i → Q_∞; what order 30 leaves out is c³¹ = 6e-17."""
    experience, gamma_prime = made_up_experience(rng, 1), GAMMA + 0.3 * (1 - GAMMA)
    whole = estimate(TaylorQ(gamma_prime, math.inf), experience).advantage
    found = estimate(TaylorGradient(gamma_prime, 30), experience).advantage
    np.testing.assert_allclose(found, gamma_prime**experience.step * whole, atol=1e-5)


@pytest.mark.paper("x:td-delta")
@pytest.mark.parametrize("kind", ["unbiased", "capped", "double_capped"])
def test_td_delta__is_that_of_the_estimators(kind, rng):
    experience, gammas = made_up_experience(rng, 3), (0.5, 0.7, GAMMA)
    expected = estimators.td_delta(*experience[:5], gammas, LAM, kind)
    found = estimate(TDDelta(gammas, kind), experience)
    np.testing.assert_allclose(found.advantage, expected.advantage, atol=1e-5)
    np.testing.assert_allclose(found.targets, expected.targets, atol=1e-5)


@pytest.mark.paper("x:learned-terms", "eq:primal-k-order")
def test_taylor_critic__each_head_is_a_value_function_paid_by_the_one_below(rng):
    experience = made_up_experience(rng, 3)
    lower = np.where(experience.terminated, 0.0, experience.next_values[:-1])
    rewards = [experience.reward, *((GAMMA_PRIME - GAMMA) * lower)]
    heads = zip(rewards, experience.values, experience.next_values, strict=True)
    advantages = np.stack(
        [estimators.gae(r, v, n, *experience.ends, GAMMA, LAM) for r, v, n in heads]
    )
    found = estimate(TaylorCritic(GAMMA_PRIME, 2), experience)
    np.testing.assert_allclose(found.advantage, advantages.sum(axis=0), atol=1e-5)
    np.testing.assert_allclose(found.targets, advantages + experience.values, atol=1e-5)


@pytest.mark.paper("x:learned-terms")
@pytest.mark.parametrize("policy_order", [0, 1, 2])
def test_taylor_critic__of_a_lower_policy_order_learns_the_same_heads(policy_order, rng):
    """The control: the policy sees the advantage of a critic with fewer terms."""
    experience = made_up_experience(rng, 3)
    control = estimate(TaylorCritic(GAMMA_PRIME, 2, policy_order), experience)
    whole = estimate(TaylorCritic(GAMMA_PRIME, 2), experience)
    np.testing.assert_array_equal(control.targets, whole.targets)
    heads = slice(policy_order + 1)
    values, next_values = experience.values[heads], experience.next_values[heads]
    fewer = experience._replace(values=values, next_values=next_values)
    lower = estimate(TaylorCritic(GAMMA_PRIME, policy_order), fewer)
    np.testing.assert_array_equal(control.advantage, lower.advantage)
    assert (control.advantage == whole.advantage).all() == (policy_order == 2)


@pytest.mark.paper("x:learned-terms", "x:td-delta")
def test_head_advantages__may_have_a_lambda_above_one(rng):
    """Unbiased TD(Δ): all γ_z λ_z are equal, so heads add up to GAE on their sum."""
    experience, gammas = made_up_experience(rng, 2), (0.5, GAMMA)
    lambdas = estimators.td_delta_lambdas(gammas, LAM, "unbiased")
    assert lambdas[0] > 1
    rewards = estimators.td_delta_rewards(
        experience.reward, experience.next_values, experience.terminated, gammas
    )
    whole = estimators.gae(
        experience.reward,
        experience.values.sum(axis=0),
        experience.next_values.sum(axis=0),
        *experience.ends,
        GAMMA,
        LAM,
    )
    heads = head_advantages(experience, rewards, gammas, lambdas)
    np.testing.assert_allclose(heads.sum(axis=0), whole, atol=1e-5)


@pytest.fixture(scope="module")
def world():
    """An MDP that goes on for ever, and the chain of a policy."""
    rng = np.random.default_rng(3)
    mdp = tabular.MDP(rng.dirichlet(np.ones(3), size=(3, 2)), rng.uniform(-1, 2, (3, 2)))
    policy = softmax(rng.normal(size=(3, 2)))
    return mdp, policy, tabular.chain(mdp, policy)


def expected_advantage(slot, world, state, action, lam, num_steps=3):
    """E[A_0 | x_0, a_0] over every path that is cut after a few steps, with an exact critic."""
    mdp, _, (P, r) = world
    terms = tabular.value_terms(P, r, *DISCOUNTS, slot.num_heads - 1)
    # One state more: x_0 with its action taken.
    wide = np.zeros((4, 4))
    wide[:3, :3], wide[3, :3] = P, mdp.transition[state, action]
    paid = np.append(r, mdp.reward[state, action])
    heads = np.hstack([terms, terms[:, [state]]])
    paths, chance = all_paths(wide, 3, num_steps)
    values, no = heads[:, paths].astype(np.float32), np.zeros((num_steps, len(chance)), bool)
    step = np.broadcast_to(np.arange(num_steps)[:, None], no.shape)
    reward = paid[paths[:-1]].astype(np.float32)
    experience = Experience(reward, values[:, :-1], values[:, 1:], no, no, step)
    return float(np.asarray(estimate(slot, experience, lam=lam).advantage[0], float) @ chance)


@pytest.mark.paper("x:learned-terms", "algo:k-adv")
@pytest.mark.parametrize("lam", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("order", [0, 1, 4])
def test_taylor_critic__with_exact_heads_is_exact_in_expectation_whatever_the_cut(
    order, lam, world
):
    mdp, policy, (P, r) = world
    exact = tabular.expand_q(mdp, policy, *DISCOUNTS, order)
    exact = exact - tabular.expand_value(P, r, *DISCOUNTS, order)[:, None]
    assert np.abs(exact).min() > 0.05
    for state, action in [(0, 0), (2, 1)]:
        found = expected_advantage(TaylorCritic(GAMMA_PRIME, order), world, state, action, lam)
        np.testing.assert_allclose(found, exact[state, action], atol=2e-5)


@pytest.mark.paper("x:tails")
def test_taylor_q__with_the_zero_tail_is_far_off_at_the_same_cut(world):
    """E[Q̂_K] − V_γ misses Q_K − V_γ by what lies beyond the cut; the heads above do not."""
    mdp, policy, (P, r) = world
    slot = TaylorQ(GAMMA_PRIME, 4, tail="zero", center=False)
    found = expected_advantage(slot, world, 0, 0, lam=1.0)
    exact = tabular.expand_q(mdp, policy, *DISCOUNTS, 4)[0, 0]
    exact -= tabular.solve_value(P, r, GAMMA)[0]
    assert abs(found - exact) > 0.1


STEPS = np.array([[0, 3], [1, 999], [2, 0], [40, 1]])


@pytest.mark.paper("algo:weight-onpolicy", "eq:state-weight")
def test_taylor_weight__of_order_zero_and_infinity_are_the_powers_of_both_discounts():
    zero = TaylorWeight(0.999, 0).weights(STEPS, 0.99)
    infinite = TaylorWeight(0.999, math.inf).weights(STEPS, 0.99)
    np.testing.assert_allclose(zero, 0.99**STEPS, rtol=1e-6)
    np.testing.assert_allclose(infinite, 0.999**STEPS, rtol=1e-6)
    np.testing.assert_allclose(
        TaylorWeight(0.999, 3).weights(STEPS, 0.99),
        update_weight_curve(1000, 0.99, 0.999, 3)[STEPS],
        rtol=1e-6,
    )


@pytest.mark.errata("S20")
def test_taylor_weight__of_order_100_is_that_of_infinity_on_a_thousand_steps():
    ages = np.arange(1000)[:, None]
    hundred = TaylorWeight(0.999, 100).weights(ages, 0.99)
    np.testing.assert_array_equal(hundred, TaylorWeight(0.999, math.inf).weights(ages, 0.99))


def test_taylor_weight__of_states_too_old_to_count_is_zero_and_no_nan():
    weights = TaylorWeight(0.5, 0, normalise=True).weights(np.full((4, 2), 5_000), 0.5)
    np.testing.assert_array_equal(weights, np.zeros((4, 2)))


@pytest.mark.paper("x:self-normalised")
def test_taylor_weight__normalised_has_mean_one_and_the_same_ratios():
    raw = TaylorWeight(0.999, 2).weights(STEPS, 0.99)
    normalised = TaylorWeight(0.999, 2, normalise=True).weights(STEPS, 0.99)
    np.testing.assert_allclose(normalised.mean(), 1.0, rtol=1e-6)
    np.testing.assert_allclose(normalised / normalised[0, 0], raw / raw[0, 0], rtol=1e-5)


def test_uniform__weights_are_one():
    np.testing.assert_array_equal(Uniform().weights(STEPS, 0.99), np.ones((4, 2), np.float32))


@dataclasses.dataclass(frozen=True)
class OneStep:
    """An advantage slot of a user's own: r + γV(x') − V(x)."""

    num_heads: int = 1

    def check(self, gamma):
        pass

    def estimate(self, experience, gamma, lam):
        reward, (value,), (next_value,), terminated, *_ = experience
        advantage = reward + gamma * (~terminated) * next_value - value
        return Estimate(advantage, (advantage + value)[None])


@dataclasses.dataclass(frozen=True)
class FirstSteps:
    """A weighting slot of a user's own: only the first steps of an episode count."""

    count: int

    def check(self, gamma):
        pass

    def weights(self, step, gamma):
        return (step < self.count).astype(np.float32)


def test_slots_of_a_users_own__learn_like_any_other(rng):
    """`OneStep` is GAE at λ = 0, and `FirstSteps` of all steps is `Uniform`."""
    small = {"num_envs": 2, "num_steps": 16, "hidden": (5,), "minibatches": 4}
    own = PPO(**small, advantage=OneStep(), weighting=FirstSteps(100))
    plain = PPO(**small, lam=0.0)
    rollout, found = made_up(rng), []
    for agent in (own, plain):
        state = agent.init(jax.random.key(0), POLICY, 3)
        state, _ = agent.update(state, POLICY, rollout, np.random.default_rng(1), 1.0)
        found.append(jax.tree.leaves(state.params))
    for x, y in zip(*found, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-6)
