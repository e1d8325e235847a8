"""MDPs, the chains policies make of them, and the toy family."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from gammaprime import tabular


@pytest.mark.paper("eq:primal-lp")
def test_chain__averages_over_the_policy(mdp, rng):
    policy = rng.dirichlet(np.ones(3), size=5)
    P, r = tabular.chain(mdp, policy)
    for x in range(5):
        assert r[x] == pytest.approx(sum(policy[x, a] * mdp.reward[x, a] for a in range(3)))
        for y in range(5):
            p = sum(policy[x, a] * mdp.transition[x, a, y] for a in range(3))
            assert P[x, y] == pytest.approx(p)


def test_chain__stays_sparse(mdp, rng):
    policy = rng.dirichlet(np.ones(3), size=5)
    sparse = tabular.MDP([sp.coo_array(mdp.transition[:, a]) for a in range(3)], mdp.reward)
    P, r = tabular.chain(sparse, policy)
    dense_P, dense_r = tabular.chain(mdp, policy)
    assert sp.issparse(P)
    assert_allclose(P.toarray(), dense_P, atol=1e-15)
    assert_allclose(r, dense_r)
    assert (sparse.num_states, sparse.num_actions) == (5, 3)


@pytest.mark.parametrize("concentration", [1e-4, 0.01, 1.0])
@pytest.mark.paper("fig:errors")
def test_random_mdp__has_dirichlet_rows(rng, concentration):
    # For a symmetric Dirichlet on n points, E[p_i] = 1/n and E[p_i²] = (α+1)/(n(nα+1)).
    n = 10
    rows = np.concatenate(
        [tabular.random_mdp(n, 2, concentration, rng).transition.reshape(-1, n) for _ in range(200)]
    )
    assert np.isfinite(rows).all()
    mean_square = (concentration + 1) / (n * (n * concentration + 1))
    error = np.sqrt(mean_square / len(rows))
    assert_allclose(rows.mean(axis=0), 1 / n, atol=4 * error)
    assert_allclose((rows**2).mean(), mean_square, atol=4 * error / np.sqrt(n))


def test_random_mdp__is_fixed_by_its_generator():
    first, second = (tabular.random_mdp(4, 2, 0.1, np.random.default_rng(5)) for _ in range(2))
    assert (first.transition == second.transition).all()
    assert (first.reward == second.reward).all()
    assert 0 <= first.reward.min() < first.reward.max() <= 1
