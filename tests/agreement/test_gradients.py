"""Sampled policy-gradient directions against the exact partial and true gradients.

Episodes of a small MDP under a softmax policy, Monte-Carlo base estimates: each update below is
a mean of independent episodes, and must lie within its standard error of the exact room.
"""

import math

import numpy as np
import pytest

from gammaprime import estimators, tabular
from oracles import softmax

GAMMA, STEPS, EPISODES = 0.7, 60, 30_000
GRAVE = 3


@pytest.fixture(scope="module")
def world():
    """An MDP whose every step is the last with probability 0.3, and a policy of its logits."""
    rng = np.random.default_rng(11)
    transition = 0.7 * rng.dirichlet(np.full(3, 0.5), size=(3, 2))
    kernel = np.zeros((4, 2, 4))
    kernel[:3, :, :3] = transition
    kernel[:3, :, GRAVE] = 0.3
    kernel[GRAVE, :, GRAVE] = 1.0
    reward = np.zeros((4, 2))
    reward[:3] = rng.uniform(-1, 1, (3, 2))
    return tabular.MDP(kernel, reward), rng.normal(size=(4, 2))


@pytest.fixture(scope="module")
def episodes(world):
    """Rewards, scores ∂log π(a_t|x_t)/∂logits and terminations of episodes from state 0."""
    mdp, logits = world
    rng = np.random.default_rng(12)
    pi = softmax(logits)
    states = np.zeros(EPISODES, dtype=int)
    reward, score, terminated = [], [], []
    for _ in range(STEPS):
        action = (rng.random(EPISODES) > pi[states, 0]).astype(int)
        ladder = np.cumsum(mdp.transition[states, action], axis=1)
        successors = (rng.random(EPISODES)[:, None] > ladder).sum(axis=1).clip(max=GRAVE)
        local = np.zeros((EPISODES, 4, 2))
        local[np.arange(EPISODES), states] = np.eye(2)[action] - pi[states]
        reward.append(mdp.reward[states, action])
        score.append(np.where((states == GRAVE)[:, None, None], 0.0, local))
        terminated.append(successors == GRAVE)
        states = successors
    terminated[-1][:] = True  # alive after 60 steps: 0.7^60 < 1e-9
    return np.stack(reward), np.stack(score), np.stack(terminated)


def within_standard_errors(local_gradients, exact):
    """Σ_t over an episode, meaned over episodes: at most 4.5 standard errors off anywhere."""
    sums = local_gradients.sum(axis=0)
    error = sums.std(axis=0, ddof=1) / math.sqrt(EPISODES)
    assert (np.abs(sums.mean(axis=0) - exact) <= 4.5 * error + 1e-12).all()
    assert np.linalg.norm(exact) > 10 * error.max()  # the direction is really seen


def base_of(reward, terminated):
    ends = (None, terminated, np.zeros_like(terminated))
    return estimators.discounted_return(reward, *ends, gamma=GAMMA), ends


@pytest.mark.paper("eq:uniform-gradient", "eq:undiscounted-first-partial-grad")
def test_uniform_weights__follow_the_first_partial_at_one(world, episodes):
    reward, score, terminated = episodes
    base, _ = base_of(reward, terminated)
    exact = tabular.first_partial(*world, 0, GAMMA, 1.0)
    within_standard_errors(base[:, :, None, None] * score, exact)


@pytest.mark.paper("eq:state-weight", "algo:weight-onpolicy")
@pytest.mark.parametrize("gamma_prime", [0.9, 1.0])
@pytest.mark.parametrize("order", [0, 1, 3, math.inf])
def test_update_weights__follow_the_expanded_partial(world, episodes, gamma_prime, order):
    reward, score, terminated = episodes
    base, _ = base_of(reward, terminated)
    weight = estimators.update_weights(np.arange(STEPS), GAMMA, gamma_prime, order)
    exact = tabular.expand_partial(*world, 0, GAMMA, gamma_prime, order)
    within_standard_errors((weight[:, None] * base)[:, :, None, None] * score, exact)


@pytest.mark.paper("x:true-gradient")
@pytest.mark.parametrize("gamma_prime", [0.9, 1.0])
@pytest.mark.parametrize("order", [0, 1, 3])
def test_gradient_advantage__follows_the_true_gradient(world, episodes, gamma_prime, order):
    reward, score, terminated = episodes
    base, ends = base_of(reward, terminated)
    terms = estimators.expand_terms(base, *ends, GAMMA, gamma_prime, order)
    step = np.broadcast_to(np.arange(STEPS)[:, None], base.shape)
    combined = estimators.gradient_advantage(terms, step, GAMMA, gamma_prime)
    exact = tabular.expand_gradient(*world, 0, GAMMA, gamma_prime, order)
    within_standard_errors(combined[:, :, None, None] * score, exact)
