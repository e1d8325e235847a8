"""The probes pay what they document: their solutions are checked against value iteration."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gammaprime import tabular
from gammaprime.envs import probes

DISCOUNTS = [0.0, 0.5, 0.9, 0.95, 0.99, 1.0]


def optimal_q(probe, gamma):
    """Value iteration; every probe has ended after as many steps as it has states."""
    V = np.zeros(len(probe.reward))
    for _ in V:
        Q = probe.reward + gamma * probe.transition @ V
        V = Q.max(axis=1)
    return Q


@pytest.fixture(params=probes.PROBES)
def probe(request):
    return probes.PROBES[request.param]()


@pytest.mark.parametrize("gamma", DISCOUNTS)
def test_value_and_action__are_optimal(probe, gamma):
    Q = optimal_q(probe, gamma)
    assert_allclose(probe.value(gamma), Q.max(axis=1), atol=1e-15)
    action = probe.action(gamma)
    tied = np.isclose(Q[:, 0], Q[:, 1], rtol=0, atol=1e-12)
    assert (action == np.where(tied, -1, Q.argmax(axis=1))).all()


@pytest.mark.parametrize("gamma", [0.5, 0.99])
def test_best_policy__has_the_documented_value(probe, gamma):
    mdp = tabular.MDP(probe.transition, probe.reward)
    policy = np.eye(2)[np.maximum(probe.action(gamma), 0)]
    assert_allclose(tabular.solve_value(*tabular.chain(mdp, policy), gamma), probe.value(gamma))


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("gamma", [0.9, 0.99])
def test_env__pays_the_documented_value_to_the_best_action(probe, continuous, gamma):
    env = probe.env(40, continuous=continuous)
    obs = env.reset(0)
    starts = probe.value(gamma)[obs.argmax(axis=1)]
    returns, alive = np.zeros(40), np.ones(40, bool)
    for t in range(12):
        best = np.maximum(probe.action(gamma), 0)[obs.argmax(axis=1)]
        answer = env.step(2.0 * best[:, None] - 1.0 if continuous else best)
        returns += alive * gamma**t * answer.reward
        alive &= ~answer.terminated
        obs = answer.obs
    assert not alive.any()
    assert_allclose(returns, starts, rtol=1e-12)


@pytest.mark.parametrize("delay", [1, 2, 7])
def test_delayed_reward__is_worth_one_power_of_the_discount_for_each_step(delay):
    probe = probes.delayed_reward(delay)
    assert probe.value(0.9)[0] == pytest.approx(0.9**delay)
    assert probe.value(0.99)[0] == pytest.approx(0.99**delay)


@pytest.mark.paper("eq:kth-order-primal")
def test_delayed_reward__first_order_is_already_gamma_prime():
    probe = probes.delayed_reward(1)
    mdp = tabular.MDP(probe.transition, probe.reward)
    P, r = tabular.chain(mdp, np.full((3, 2), 0.5))
    assert tabular.expand_value(P, r, 0.9, 0.99, 0)[0] == pytest.approx(0.9)
    assert tabular.expand_value(P, r, 0.9, 0.99, 1)[0] == pytest.approx(0.99)


def test_discount_chain__turns_at_the_break_even_discount():
    turn = probes.break_even_discount(10, 1.0, 2.0)
    assert turn == pytest.approx(2 ** (-1 / 10))
    assert 0.9 < turn < 0.99
    probe = probes.discount_chain(10, 1.0, 2.0)
    for gamma, best in ((turn - 1e-9, 0), (turn + 1e-9, 1)):
        Q = optimal_q(probe, gamma)
        assert Q[0].argmax() == probe.action(gamma)[0] == best
    assert_allclose(optimal_q(probe, turn)[0], [1.0, 1.0])
    assert probe.action(turn)[0] == -1


@pytest.mark.paper("prop:adv")
@pytest.mark.parametrize(("order", "best"), [(0, 0), (1, 1), (10, 1)])
def test_discount_chain__an_expansion_waits_where_its_weight_says_so(order, best):
    # w_0 = 0.9^10 = 0.349 and w_1 = 0.9^10 + 10·0.09·0.9^9 = 0.697, on either side of 1/2.
    probe = probes.discount_chain(10, 1.0, 2.0)
    mdp = tabular.MDP(probe.transition, probe.reward)
    policy = np.eye(2)[np.ones(12, int)]
    Q = tabular.expand_q(mdp, policy, 0.9, 0.99, order)
    assert Q[0].argmax() == best


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: probes.delayed_reward(0), "delay=0"),
        (lambda: probes.delayed_reward(1.5), "delay=1.5"),
        (lambda: probes.discount_chain(True), "delay=True"),
        (lambda: probes.discount_chain(3, 2.0, 1.0), "soon=2.0, late=1.0"),
        (lambda: probes.discount_chain(3, -1.0, 1.0), "soon=-1.0"),
        (lambda: probes.break_even_discount(3, 1.0, np.nan), "late=nan"),
    ],
)
def test_probes__refuse(call, message):
    with pytest.raises(ValueError, match=message):
        call()
