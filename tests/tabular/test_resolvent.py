"""However a chain is solved, the answer is the same, or there is none."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from gammaprime import tabular
from gammaprime.tabular import resolvent as room


@pytest.fixture
def always_iterate(monkeypatch):
    monkeypatch.setattr(room, "DIRECT_STATES", 0)
    monkeypatch.setattr(room, "DIRECT_FILL", 0)


def random_successors(rng, num_states, num_successors=5):
    rows = np.repeat(np.arange(num_states), num_successors)
    columns = rng.integers(num_states, size=rows.size)
    weights = rng.dirichlet(np.ones(num_successors), size=num_states).ravel()
    return sp.csr_array((weights, (rows, columns)), shape=(num_states, num_states))


def walk(num_states):
    """A random walk on a line whose two ends reflect."""
    half = np.full(num_states - 1, 0.5)
    ends = np.zeros(num_states)
    ends[[0, -1]] = 0.5
    return sp.csr_array(sp.diags_array([half, ends, half], offsets=[-1, 0, 1]))


@pytest.mark.parametrize(("gamma", "gamma_prime"), [(0.0, 0.9), (0.4, 0.9), (0.9, 0.99)])
@pytest.mark.parametrize("order", [0, 1, 10, math.inf])
def test_iterative_solves__are_within_their_tolerance(
    rng, always_iterate, gamma, gamma_prime, order
):
    P = random_successors(rng, 400)
    r = rng.normal(size=400)
    exact = tabular.expand_value(P.toarray(), r, gamma, gamma_prime, order)
    V_K = tabular.expand_value(P, r, gamma, gamma_prime, order)
    assert np.abs(V_K - exact).max() <= 20 * room.TOLERANCE * np.abs(exact).max()
    exact = tabular.expand_mixture(P.toarray(), 3, gamma, gamma_prime, order)
    rho = tabular.expand_mixture(P, 3, gamma, gamma_prime, order)
    assert np.abs(rho - exact).sum() <= 20 * room.TOLERANCE * exact.sum()


@pytest.mark.parametrize("order", [0, 3, math.inf])
def test_iterative_solves__take_absorbing_chains(rng, always_iterate, order):
    P = (0.99 * random_successors(rng, 300)).tolil()
    P[:, 0] = P[:, [0]].toarray() + 0.01
    P[0] = 0.0
    P[0, 0] = 1.0
    r = rng.normal(size=300)
    r[0] = 0.0
    P = sp.csr_array(P)
    exact = tabular.expand_value(P.toarray(), r, 0.8, 1.0, order)
    V_K = tabular.expand_value(P, r, 0.8, 1.0, order)
    assert np.abs(V_K - exact).max() <= 20 * room.TOLERANCE * np.abs(exact).max()


def test_narrow_chains__are_factorised_whatever_their_size(monkeypatch, rng):
    # A line numbered at random, and γ so near 1 that iterations would be lost.
    num_states, gamma = 20_000, 0.999_99
    numbering = rng.permutation(num_states)
    P = walk(num_states)[numbering][:, numbering]
    monkeypatch.setattr(room, "_iterative", None)
    V = tabular.solve_value(P, np.ones(num_states), gamma)
    assert_allclose(V, 1 / (1 - gamma), rtol=1e-9)
    d = tabular.visitation(P, 7, gamma)
    assert d.sum() == pytest.approx(1.0, rel=1e-9)
    assert_allclose(d - gamma * P.T @ d, (1 - gamma) * np.eye(1, num_states, 7)[0], atol=1e-17)


def test_what_cannot_be_certified__raises(monkeypatch, always_iterate, rng):
    monkeypatch.setattr(room, "MAX_CYCLES", 2)
    P = walk(3000)
    with pytest.raises(tabular.NotConvergedError, match=r"3000 states.*a certified answer needs"):
        tabular.solve_value(P, rng.normal(size=3000), 0.999)


def test_a_stalled_iteration__raises_before_its_last_cycle(monkeypatch, always_iterate, rng):
    monkeypatch.setattr(room, "STALL_CYCLES", 3)
    monkeypatch.setattr(room.sp.linalg, "gmres", lambda A, b, **_: (np.zeros_like(b), 0))
    with pytest.raises(tabular.NotConvergedError, match="after 4 cycles"):
        tabular.solve_value(walk(100), rng.normal(size=100), 0.9)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_absorption_beyond_double_precision__raises(kind):
    escape = 1e-18
    P = np.array([[1.0, 0.0, 0.0], [escape, 0.5, 0.5], [0.0, 0.5, 0.5]])
    with pytest.raises(tabular.NotConvergedError, match="mean time to absorption is too long"):
        tabular.solve_value(kind(P), np.array([0.0, 1.0, 1.0]), 1.0)


def test_a_chain_of_absorbing_states_only__is_worth_nothing(kind):
    assert not tabular.solve_value(kind(np.eye(3)), np.zeros(3), 1.0).any()


def test_next_term__is_the_same_with_and_without_the_saved_product(rng):
    P = rng.dirichlet(np.ones(5), size=5)
    base = room.resolvent(P, 0.9)
    term = rng.normal(size=5)
    plain = 0.09 * base.solve(P @ term)
    assert_allclose(base.next_term(term, 0.99), plain, rtol=1e-12)
