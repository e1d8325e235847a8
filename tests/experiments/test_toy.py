"""The toy experiment: what its two panels claim, on a smaller copy of it."""

import dataclasses

import numpy as np
import pytest

from gammaprime import tabular
from gammaprime.experiments import toy
from gammaprime.sweeps import spec

PAPER = spec.load_experiment("fig_errors").settings
SMALL = dataclasses.replace(PAPER, num_mdps=12, repetitions=40, base_noise=(0.0, 1.0, 4.0, 16.0))
RATIO = 0.75  # (.8 − .2)/(1 − .2)


def quiet(done, total):
    pass


@pytest.fixture(scope="module")
def small():
    return toy.run(SMALL, quiet)


@pytest.fixture(scope="module")
def exact():
    """Eighty MDPs with a token sample each: their exact errors are those of the full size."""
    cheap = dataclasses.replace(PAPER, num_mdps=80, repetitions=1, num_trajectories=10)
    return toy.run(cheap, quiet)


@pytest.mark.paper("fig:errors", "prop:kth-expansion")
def test_expected_error__falls_like_its_bound_and_stays_below(exact):
    error, bound = exact["expected_error"], exact["bound"]
    assert (error <= bound).all()
    np.testing.assert_allclose(bound[1:] / bound[:-1], RATIO)
    rate = (error[:, -1] / error[:, 0]) ** (1 / SMALL.order)
    assert np.median(rate) == pytest.approx(RATIO, rel=0.01)


@pytest.mark.paper("fig:errors", "prop:kth-expansion")
def test_largest_error_over_states__shrinks_by_at_least_c(rng):
    """A single state may lag behind its own last error; the worst state cannot."""
    mdp = tabular.random_mdp(10, 2, 0.01, rng)
    P, r = tabular.chain(mdp, np.full((10, 2), 0.5))
    worst = [np.abs(tabular.residual(P, r, 0.2, 0.8, k)).max() for k in range(12)]
    assert (np.array(worst[1:]) <= RATIO * np.array(worst[:-1]) * (1 + 1e-12)).all()


@pytest.mark.paper("fig:errors")
@pytest.mark.errata("S18")
def test_rmse__falls_to_a_plateau_and_does_not_rise_again(exact):
    """The paper speaks of a rise at large orders: in expectation it is far below one percent."""
    rmse = exact["rmse"]
    assert (rmse[:, -1] <= 1.01 * rmse.min(axis=1)).all()
    assert (rmse[:, 0] > 5 * rmse[:, -1]).all()
    assert (rmse[:, 20] <= 1.01 * rmse[:, -1]).all()


@pytest.mark.paper("fig:errors")
@pytest.mark.errata("S18")
def test_single_runs__often_are_best_at_an_order_in_the_middle(small):
    best = np.abs(small["sampled_error"]).argmin(axis=-1)
    inside = ((best > 0) & (best < SMALL.order)).mean()
    assert 0.4 < inside < 0.6  # about every other error crosses zero; 480 runs


@pytest.mark.paper("fig:errors", "algo:estimate")
def test_simulated_rmse__is_the_exact_one(small):
    simulated = np.sqrt((small["sampled_error"] ** 2).mean(axis=(0, 1)))
    exact = np.sqrt((small["rmse"] ** 2).mean(axis=0))
    # 480 runs: a relative standard error of 1/sqrt(2·480) = 3 %, less where bias dominates.
    np.testing.assert_allclose(simulated, exact, rtol=0.12)


@pytest.mark.paper("fig:errors")
@pytest.mark.errata("S19")
def test_realised_order__falls_with_the_noise(small):
    average = small["realised_order"].mean(axis=(0, 1))
    assert (np.diff(average) < -1).all()
    assert average[0] > 20
    assert average[-1] < 5


@pytest.mark.paper("fig:errors")
@pytest.mark.errata("S19")
def test_rmse_order__is_all_or_nothing(exact):
    order, noise = exact["rmse_order"], np.array(PAPER.base_noise)
    assert np.isin(order, (0, PAPER.order)).mean() > 0.95
    assert (np.diff(order, axis=1) <= 0).all()
    # The jump of a chain of constant value: σ² = N(1−c²)V².
    jump = np.sqrt(10 * (1 - RATIO**2)) * exact["target"]
    last = np.array([noise[row == PAPER.order].max(initial=0.0) for row in order])
    assert np.median(last / jump) == pytest.approx(1.0, abs=0.15)


@pytest.mark.errata("S16")
def test_error__is_absolute_and_the_target_is_there_to_divide_by(small):
    assert small["target"].shape == (SMALL.num_mdps,)
    # At order 0 nearly all of it is missing: V_γ is a sum over 1.25 steps, V_γ' over 5.
    relative = small["expected_error"][:, 0] / small["target"]
    assert ((relative > 0.4) & (relative < 1.0)).all()


def test_run__depends_on_the_seed_only():
    tiny = dataclasses.replace(SMALL, num_mdps=2, repetitions=2)
    first, again = toy.run(tiny, quiet), toy.run(tiny, quiet)
    for key, value in first.items():
        np.testing.assert_array_equal(value, again[key])
    other = toy.run(dataclasses.replace(tiny, seed=1), quiet)
    assert not np.array_equal(first["target"], other["target"])


def test_run__gives_an_mdp_the_same_numbers_however_many_follow():
    tiny = dataclasses.replace(SMALL, num_mdps=1, repetitions=2)
    one, two = (toy.run(dataclasses.replace(tiny, num_mdps=n), quiet) for n in (1, 2))
    np.testing.assert_array_equal(one["sampled_error"][0], two["sampled_error"][0])


def test_run__reports_after_every_mdp():
    calls = []
    tiny = dataclasses.replace(SMALL, num_mdps=3, repetitions=1)
    toy.run(tiny, lambda done, total: calls.append((done, total)))
    assert calls == [(1, 3), (2, 3), (3, 3)]


def test_simulate__follows_the_mdp(rng):
    mdp = tabular.random_mdp(3, 2, 0.5, rng)
    policy = np.array([[0.2, 0.8], [0.5, 0.5], [1.0, 0.0]])
    paths = toy.simulate(mdp, policy, 40, 5_000, 0.2, rng)
    P, r = tabular.chain(mdp, policy)
    assert (paths.state[0] == toy.START).all()
    before, after = paths.state[:-1].ravel(), paths.state[1:].ravel()
    for x in np.unique(before):
        here = before == x
        # Four standard errors of a frequency, at most 0.5/sqrt(visits).
        frequency = np.bincount(after[here], minlength=3) / here.sum()
        assert np.abs(frequency - P[x]).max() < 2 / np.sqrt(here.sum())
        paid = paths.reward[:-1].ravel()[here]
        assert paid.mean() == pytest.approx(r[x], abs=4 * paid.std() / np.sqrt(here.sum()))
        square = 1.04 * (policy[x] * mdp.reward[x] ** 2).sum()
        assert (paid**2).mean() == pytest.approx(square, rel=0.05)


@pytest.mark.paper("algo:estimate")
def test_estimates_by_order__add_the_base_at_each_random_time():
    base = np.arange(10.0)[:, None] ** 2
    times = np.array([[2], [3], [12]])  # the last is past the end: nothing is known there
    estimate = toy.estimates_by_order(base, times, 0.2, 0.8)
    expected = np.cumsum([0.0, RATIO * 4.0, RATIO**2 * 9.0, 0.0])
    np.testing.assert_allclose(estimate[:, 0], expected)
