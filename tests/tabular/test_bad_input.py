"""Wrong input is refused before any work, by a sentence with the argument, the value, the rule."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from gammaprime import tabular

P = np.array([[0.5, 0.5], [0.2, 0.8]])
R = np.array([1.0, 2.0])
KERNEL = np.stack([P, P[::-1]], axis=1)
REWARD = np.ones((2, 2))
UNIFORM = np.full((2, 2), 0.5)
ABSORBING = np.array([[0.5, 0.5], [0.0, 1.0]])


def bad(array, index, value):
    changed = np.array(array, dtype=float)
    changed[index] = value
    return changed


@pytest.fixture(autouse=True)
def no_work(monkeypatch):
    def refuse(*_):
        raise AssertionError("a linear system was set up before the input was checked")

    for module in ("values", "visitations", "gradients", "phased"):
        monkeypatch.setattr(f"gammaprime.tabular.{module}.resolvent", refuse)


@pytest.mark.parametrize("as_kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    ("chain", "message"),
    [
        (bad(P, (0, 0), -0.5), "P has the entry -0.5: must not be negative"),
        (bad(P, (1, 0), 0.5), r"P\[1\] sums to 1.3: must sum to 1"),
        (bad(P, (1, 0), math.nan), r"P\[1\] sums to nan: must sum to 1 within"),
        (P[:1], r"P has shape \(1, 2\): must be square"),
    ],
)
def test_chains(as_kind, chain, message):
    with pytest.raises(ValueError, match=message):
        tabular.solve_value(as_kind(chain), R, 0.9)
    with pytest.raises(ValueError, match=message):
        tabular.mixture(as_kind(chain), 0, 0.5, 0.9)


@pytest.mark.parametrize("value", [np.zeros((0, 0)), np.zeros(3), "no", P + 1j])
def test_chains_that_are_no_matrix(value):
    with pytest.raises(ValueError, match=r"^P "):
        tabular.solve_value(value, R, 0.9)


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        (np.ones(3), r"r has shape \(3,\): must be \(2,\)"),
        (bad(R, 1, math.nan), r"r\[1\]=nan: must be finite"),
        (bad(R, 0, math.inf), r"r\[0\]=inf: must be finite"),
        (np.array(["a", "b"]), "r of type ndarray: must be a real array"),
    ],
)
def test_rewards_of_a_chain(reward, message):
    with pytest.raises(ValueError, match=message):
        tabular.expand_value(P, reward, 0.5, 0.9, 1)


@pytest.mark.parametrize("gamma", [-0.1, 1.1, math.nan, math.inf, "0.9x", None])
def test_discount(gamma):
    for call in (
        lambda: tabular.solve_value(P, R, gamma),
        lambda: tabular.visitation(P, 0, gamma),
        lambda: tabular.expand_value(P, R, gamma, 1.0, 1),
    ):
        with pytest.raises(ValueError, match=r"gamma=.*: must"):
            call()


def test_discount_one__is_no_base_discount():
    with pytest.raises(ValueError, match=r"gamma=1.0: must lie in \[0, 1\)"):
        tabular.expand_value(ABSORBING, [1.0, 0.0], 1.0, 1.0, 1)
    with pytest.raises(ValueError, match=r"gamma=1: must lie in \[0, 1\)"):
        tabular.visitation(ABSORBING, 0, 1)


PAIRED = [
    lambda gamma, gamma_prime, order: tabular.value_terms(P, R, gamma, gamma_prime, order),
    lambda gamma, gamma_prime, order: tabular.expand_value(P, R, gamma, gamma_prime, order),
    lambda gamma, gamma_prime, order: tabular.residual(P, R, gamma, gamma_prime, order),
    lambda gamma, gamma_prime, order: tabular.error_bound(gamma, gamma_prime, order, 1.0),
    lambda gamma, gamma_prime, order: tabular.expand_q(
        tabular.MDP(KERNEL, REWARD), UNIFORM, gamma, gamma_prime, order
    ),
    lambda gamma, gamma_prime, order: tabular.expand_visitation(P, 0, gamma, gamma_prime, order),
    lambda gamma, gamma_prime, order: tabular.expand_mixture(P, 0, gamma, gamma_prime, order),
    lambda gamma, gamma_prime, order: tabular.expand_partial(
        tabular.MDP(KERNEL, REWARD), UNIFORM, 0, gamma, gamma_prime, order
    ),
    lambda gamma, gamma_prime, order: tabular.expand_gradient(
        tabular.MDP(KERNEL, REWARD), UNIFORM, 0, gamma, gamma_prime, order
    ),
]


@pytest.mark.parametrize("call", PAIRED)
@pytest.mark.parametrize("gamma_prime", [0.4, 1.01, math.nan])
def test_target_discount(call, gamma_prime):
    with pytest.raises(ValueError, match=r"gamma_prime=.*: must lie in \[gamma, 1\] = \[0.5, 1\]"):
        call(0.5, gamma_prime, 1)


@pytest.mark.parametrize("call", PAIRED)
@pytest.mark.parametrize("order", [-1, 1.5, math.nan, -math.inf, "2", None, True])
def test_order(call, order):
    with pytest.raises(ValueError, match=r"order=.*: must be an integer >= 0"):
        call(0.5, 0.9, order)


def test_terms_of_infinite_order():
    with pytest.raises(ValueError, match="order=inf: must be finite"):
        tabular.value_terms(P, R, 0.5, 0.9, math.inf)


@pytest.mark.parametrize("as_kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("order", [0, 3, math.inf])
def test_no_discount__needs_absorption_without_pay(as_kind, order):
    with pytest.raises(
        ValueError, match=r"gamma_prime=1 .*does not absorb: from state 0 .*\(2 such"
    ):
        tabular.expand_value(as_kind(P), R, 0.5, 1.0, order)
    with pytest.raises(ValueError, match=r"reward 2.0 in the absorbing state 1: must be 0"):
        tabular.expand_value(as_kind(ABSORBING), R, 0.5, 1.0, order)
    with pytest.raises(ValueError, match="does not absorb"):
        tabular.expand_mixture(as_kind(P), 0, 0.5, 1.0, order)
    with pytest.raises(ValueError, match="does not absorb"):
        tabular.solve_value(as_kind(P), R, 1.0)


def test_no_discount__one_stuck_state_is_enough():
    stuck = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    stuck[2] = [0.0, 0.0, 1.0]
    cycle = np.zeros((4, 4))
    cycle[0, [1, 3]] = 0.5
    cycle[1, 2] = cycle[2, 1] = cycle[3, 3] = 1.0
    with pytest.raises(ValueError, match=r"from state 1 no absorbing state .*2 such"):
        tabular.solve_value(cycle, np.zeros(4), 1.0)
    with pytest.raises(AssertionError, match="set up"):  # absorbs: passes the checks
        tabular.solve_value(stuck, np.zeros(3), 1.0)


def test_no_discount__gradients_refuse_any_paid_action_in_an_absorbing_state():
    kernel = np.stack([ABSORBING, ABSORBING], axis=1)
    reward = np.array([[1.0, 0.0], [1.0, -1.0]])  # pays 0 on average, but not for each action
    with pytest.raises(ValueError, match=r"reward \[ 1. -1.\] in the absorbing state 1"):
        tabular.policy_gradient(tabular.MDP(kernel, reward), np.zeros((2, 2)), 0, 1.0)


def test_no_discount__has_no_visitation():
    with pytest.raises(ValueError, match=r"gamma_prime=1.0: must be below 1 .* use expand_mixture"):
        tabular.expand_visitation(ABSORBING, 0, 0.5, 1.0, 2)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (2, "start=2: must be a state, 0 to 1"),
        (-1, "start=-1: must be a state, 0 to 1"),
        (0.5, "start=0.5: must be a state's index or a distribution"),
        (True, "start=True: must be a state's index or a distribution"),
        ([0.5, 0.4], "start sums to 0.9: must sum to 1"),
        ([1.5, -0.5], "start has the entry -0.5: must not be negative"),
        ([1.0, 0.0, 0.0], r"start has shape \(3,\): must be \(2,\)"),
    ],
)
def test_start(start, message):
    with pytest.raises(ValueError, match=message):
        tabular.visitation(P, start, 0.9)
    with pytest.raises(ValueError, match=message):
        tabular.policy_gradient(tabular.MDP(KERNEL, REWARD), UNIFORM, start, 0.9)


@pytest.mark.parametrize(
    ("transition", "reward", "message"),
    [
        (KERNEL[:, :, :1], REWARD, r"transition has shape \(2, 2, 1\): must be \(X, A, X\)"),
        (P, REWARD, r"transition has shape \(2, 2\): must be \(X, A, X\)"),
        (bad(KERNEL, (0, 1, 0), 0.5), REWARD, r"transition\[0, 1\] sums to 1.3"),
        (bad(KERNEL, (0, 1, 0), -1.0), REWARD, "transition has the entry -1.0"),
        (KERNEL, np.ones((2, 3)), r"reward has shape \(2, 3\): must be \(2, 2\)"),
        (KERNEL, bad(REWARD, (1, 0), math.nan), r"reward\[1, 0\]=nan: must be finite"),
        ([sp.csr_array(P), sp.eye_array(3)], REWARD, r"shapes \[\(2, 2\), \(3, 3\)\]: must all"),
        ([sp.csr_array(2 * P)] * 2, REWARD, r"P\[0\] sums to 2.0"),
    ],
)
def test_mdp(transition, reward, message):
    with pytest.raises(ValueError, match=message):
        tabular.MDP(transition, reward)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.full((2, 3), 1 / 3), r"policy has shape \(2, 3\): must be \(2, 2\)"),
        (np.full((2, 2), 0.6), r"policy\[0\] sums to 1.2: must sum to 1"),
        (bad(UNIFORM, (0, 0), math.nan), r"policy\[0, 0\]=nan: must be finite"),
    ],
)
def test_policy(policy, message):
    with pytest.raises(ValueError, match=message):
        tabular.solve_q(tabular.MDP(KERNEL, REWARD), policy, 0.9)


def test_logits():
    with pytest.raises(ValueError, match=r"logits has shape \(2,\): must be \(2, 2\)"):
        tabular.first_partial(tabular.MDP(KERNEL, REWARD), np.zeros(2), 0, 0.5, 0.9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 2, 0.1), "num_states=0, num_actions=2: must both be at least 1"),
        ((3, 2, 0.0), "concentration=0.0: must be positive"),
        ((3, 2, math.nan), "concentration=nan: must be positive"),
    ],
)
def test_random_mdp(arguments, message):
    with pytest.raises(ValueError, match=message):
        tabular.random_mdp(*arguments, np.random.default_rng(0))


def test_phased_td_estimate():
    with pytest.raises(ValueError, match="num_samples=0: must be at least 1"):
        tabular.phased_td_estimate(P, R, 0.5, 0.9, 1, 0, np.random.default_rng(0))
