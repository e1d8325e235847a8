"""Chains and MDPs to state theorems on: ergodic, absorbing, dense and sparse."""

import numpy as np
import pytest
import scipy.sparse as sp

from gammaprime import tabular


def random_chain(rng, num_states=7):
    P = rng.dirichlet(np.full(num_states, 0.4), size=num_states)
    return P, rng.uniform(-1.0, 1.0, num_states)


def absorbing_mdp(rng, num_states=6, num_actions=3):
    """Two absorbing states that pay nothing; every other step dies with probability ≥ 0.1."""
    transition = rng.dirichlet(np.full(num_states, 0.4), size=(num_states, num_actions))
    transition = 0.9 * transition
    transition[:, :, -1] += 0.1
    reward = rng.uniform(-1.0, 1.0, (num_states, num_actions))
    for x in (num_states - 2, num_states - 1):
        transition[x] = np.eye(num_states)[x]
        reward[x] = 0.0
    return tabular.MDP(transition, reward)


@pytest.fixture
def ergodic(rng):
    return random_chain(rng)


@pytest.fixture
def absorbing(rng):
    mdp = absorbing_mdp(rng)
    return tabular.chain(mdp, np.full(mdp.reward.shape, 1 / mdp.num_actions))


@pytest.fixture(params=["dense", "sparse"])
def kind(request):
    """Turns a dense chain into the kind under test."""
    return np.asarray if request.param == "dense" else sp.csr_array


@pytest.fixture
def mdp(rng):
    return tabular.random_mdp(5, 3, 0.5, rng)


@pytest.fixture
def dying_mdp(rng):
    return absorbing_mdp(rng)


@pytest.fixture
def logits(rng):
    return rng.normal(size=(5, 3))
