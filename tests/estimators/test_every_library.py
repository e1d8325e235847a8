"""Every estimator on NumPy, JAX, JAX under jit and torch, in two precisions, by brute force."""

import math
import statistics

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gammaprime.estimators as est
from estimators import brute

GAMMA, GAMMA_PRIME, LAM = 0.8, 0.95, 0.7
DISCOUNTS = {"gamma": GAMMA, "gamma_prime": GAMMA_PRIME}
TAILS = {"zero": 0.0, "constant": 1.0, "survival": None}


def check(library, out, expected):
    assert library.is_ours(out)
    scale = max(1.0, np.abs(expected).max())
    assert_allclose(np.asarray(out), expected, rtol=0, atol=library.tolerance * scale)


def by_episode(batch, function, *arrays, **parameters):
    def of_episode(dead, *lists):
        return function(dead, *lists, **parameters)

    return brute.by_episode(of_episode, batch.terminated, batch.truncated, *arrays)


def test_discounted_sum__adds_up_what_the_decays_let_through(library, rng):
    x, decay = rng.normal(size=(2, 7, 3))
    expected = np.array(
        [sum(np.prod(decay[t:u], axis=0) * x[u] for u in range(t, 7)) for t in range(7)]
    )
    check(library, library.run(est.discounted_sum, x, decay), expected)
    powers = np.array([sum(0.9 ** (u - t) * x[u] for u in range(t, 7)) for t in range(7)])
    check(library, library.run(lambda x: est.discounted_sum(x, 0.9), x), powers)


@pytest.mark.paper("x:gae")
@pytest.mark.parametrize("gamma", [GAMMA, 1.0])
def test_returns__are_sums_over_the_rest_of_the_episode(library, batch, gamma):
    out = library.run(
        lambda r, *ends: est.discounted_return(r, *ends, gamma), batch.reward, *batch.ends
    )
    check(
        library,
        out,
        by_episode(batch, brute.discounted_return, batch.reward, batch.next_value, gamma=gamma),
    )


@pytest.mark.paper("x:gae")
@pytest.mark.parametrize("lam", [LAM, 1.0])
def test_lambda_returns_and_gae__are_sums_over_the_rest_of_the_episode(library, batch, lam):
    flags = batch.terminated, batch.truncated
    out = library.run(
        lambda *arrays: est.lambda_return(*arrays, GAMMA, lam),
        *(batch.reward, batch.all_next, *flags),
    )
    parameters = {"gamma": GAMMA, "lam": lam}
    sums = by_episode(batch, brute.lambda_return, batch.reward, batch.next_value, **parameters)
    check(library, out, sums)
    out = library.run(
        lambda *arrays: est.gae(*arrays, GAMMA, lam),
        *(batch.reward, batch.value, batch.all_next, *flags),
    )
    arrays = batch.reward, batch.value, batch.next_value
    check(library, out, by_episode(batch, brute.gae, *arrays, **parameters))


@pytest.mark.paper("eq:primal-k-order", "prop:adv", "x:marginalised", "x:tails", "x:survival-tail")
@pytest.mark.parametrize("tail", TAILS)
def test_expand_terms__count_jumps(library, batch, tail):
    q = batch.survival if TAILS[tail] is None else TAILS[tail]
    out = library.run(
        lambda y, *ends: est.expand_terms(y, *ends, GAMMA, GAMMA_PRIME, 4, tail),
        *(batch.value, *batch.ends),
    )
    assert out.shape == (5, 9, 6)
    arrays = batch.value, batch.next_value
    for k in range(5):
        expected = by_episode(batch, brute.term, *arrays, **DISCOUNTS, k=k, survival=q)
        check(library, out[k], expected)


@pytest.mark.paper("algo:estimate", "algo:adv", "x:infinite-order", "x:tails", "x:survival-tail")
@pytest.mark.errata("S4", "S5")
@pytest.mark.parametrize("order", [3, math.inf])
@pytest.mark.parametrize("tail", TAILS)
def test_expand__is_the_sum_of_the_terms(library, batch, tail, order):
    q = batch.survival if TAILS[tail] is None else TAILS[tail]
    out = library.run(
        lambda y, *ends: est.expand(y, *ends, GAMMA, GAMMA_PRIME, order, tail),
        *(batch.value, *batch.ends),
    )
    arrays = batch.value, batch.next_value
    check(
        library, out, by_episode(batch, brute.expand, *arrays, **DISCOUNTS, order=order, survival=q)
    )


@pytest.mark.paper("x:infinite-order", "x:survival-tail")
def test_expand__at_one_with_survivors_and_order_infinity(library, batch):
    """Past a cut the value lives on V(1−γq)/(1−q); the ratio of the tail is q(1−γ)/(1−γq)."""
    arguments = GAMMA, 1.0, math.inf
    out = library.run(
        lambda y, *ends: est.expand(y, *ends, *arguments), *(batch.value, *batch.ends)
    )
    q = batch.survival
    base = batch.value, batch.next_value
    sums = by_episode(
        batch, brute.expand, *base, gamma=GAMMA, gamma_prime=1.0, order=math.inf, survival=q
    )
    assert brute.tail_ratio(GAMMA, 1.0, q) ** 400 < 1e-12
    check(library, out, sums)


@pytest.mark.paper("x:window")
@pytest.mark.parametrize(("order", "lookahead"), [(1, 1), (2, 3), (2, 30)])
def test_expand_window__is_the_nested_window(library, batch, order, lookahead):
    out = library.run(
        lambda y, *ends: est.expand_window(y, *ends, GAMMA, GAMMA_PRIME, order, lookahead),
        *(batch.value, *batch.ends),
    )
    sums = by_episode(
        batch,
        brute.window,
        *(batch.value, batch.next_value),
        **DISCOUNTS,
        order=order,
        lookahead=lookahead,
    )
    check(library, out, sums)


@pytest.mark.paper("algo:estimate", "algo:adv")
@pytest.mark.errata("S1", "S4")
@pytest.mark.parametrize("order", [0, 3])
def test_expand_random__adds_the_base_at_the_times(library, batch, rng, order):
    jumps = est.sample_jumps(order, batch.value.shape, GAMMA, rng)
    out = library.run(
        lambda y, *others: est.expand_random(y, *others[:3], GAMMA, GAMMA_PRIME, others[3]),
        *(batch.value, *batch.ends, jumps),
    )
    arrays = batch.value, batch.next_value, *jumps
    check(library, out, by_episode(batch, brute.at_random_times, *arrays, **DISCOUNTS))


@pytest.mark.paper("x:mixture")
def test_mixture__is_what_it_says(library, rng):
    base, expanded = rng.normal(size=(2, 5, 2))
    out = library.run(lambda y, q: est.mix(y, q, 0.3), base, expanded)
    check(library, out, 0.7 * base + 0.3 * expanded)


def run_expand_advantage(library, batch, order, gamma_prime, **options):
    def expanded(advantage, value, *ends):
        return est.expand_advantage(advantage, value, *ends, GAMMA, gamma_prime, order, **options)

    return library.run(expanded, batch.reward, batch.value, *batch.ends)


@pytest.mark.paper("algo:k-adv", "x:mixture", "x:centred-advantage")
@pytest.mark.parametrize(
    ("tail", "order", "center"),
    [
        ("survival", 1, True),
        ("survival", 3, False),
        ("survival", math.inf, True),
        ("constant", 3, True),
        ("zero", math.inf, False),
    ],
)
def test_expand_advantage__is_the_advantage_and_what_the_expansion_adds(
    library, batch, tail, order, center
):
    """A + η(Q_K − Q_γ) − η(Σ c^k)V, with Q_K a sum over each episode written out."""
    survival = {"zero": 0.0, "constant": 1.0, "survival": batch.survival}[tail]
    out = run_expand_advantage(
        library, batch, order, GAMMA_PRIME, eta=0.3, tail=tail, center=center
    )
    base = batch.reward + batch.value
    expanded = by_episode(
        batch, brute.expand, base, batch.next_value, order=order, survival=survival, **DISCOUNTS
    )
    mass = sum(0.75**k for k in range(1, 200 if math.isinf(order) else order + 1))
    expected = batch.reward + 0.3 * (expanded - base) - 0.3 * mass * batch.value * center
    check(library, out, expected)


@pytest.mark.paper("algo:k-adv", "x:window")
def test_expand_advantage__with_a_lookahead_takes_the_window(library, batch):
    out = run_expand_advantage(library, batch, 2, GAMMA_PRIME, lookahead=4, center=False)
    base = batch.reward + batch.value
    window = by_episode(
        batch, brute.window, base, batch.next_value, order=2, lookahead=4, **DISCOUNTS
    )
    check(library, out, window - batch.value)


@pytest.mark.paper("algo:k-adv")
@pytest.mark.parametrize("order", [3, math.inf])
def test_expand_advantage__at_one_is_the_sum_of_the_terms(library, batch, order):
    """γ' = 1, where an infinite order needs a survival below 1 and no centring."""
    survival = 0.5
    out = run_expand_advantage(library, batch, order, 1.0, survival=survival, center=False)
    base = batch.reward + batch.value
    discounts = {"gamma": GAMMA, "gamma_prime": 1.0, "survival": survival}
    expanded = by_episode(batch, brute.expand, base, batch.next_value, order=order, **discounts)
    check(library, out, expanded - batch.value)


@pytest.mark.paper("algo:k-adv")
@pytest.mark.parametrize(("gamma_prime", "order", "eta"), [(0.95, 3, 0), (0.95, 0, 1), (0.8, 3, 1)])
def test_expand_advantage__without_expansion_keeps_the_bits(
    library, batch, gamma_prime, order, eta
):
    out = run_expand_advantage(library, batch, order, gamma_prime, eta=eta)
    assert library.is_ours(out)
    assert_array_equal(np.asarray(out), batch.reward.astype(library.dtype))


@pytest.mark.paper("x:tails")
@pytest.mark.parametrize("lookahead", [None, 4])
@pytest.mark.parametrize("order", [1, 3])
def test_tail_share__is_the_weight_past_the_last_value_that_is_known(
    library, batch, order, lookahead
):
    """The chance that k times, each at most the lookahead, add up to more than n, times c^k."""
    c = (GAMMA_PRIME - GAMMA) / (1 - GAMMA)
    times = range(1, (lookahead or 400) + 1)
    law = {s: GAMMA ** (s - 1) for s in times}
    total = sum(law.values())
    sums = {0: 1.0}
    beyond = dict.fromkeys(range(1, 10), 0.0)
    for k in range(1, order + 1):
        longer = {}
        for before, chance in sums.items():
            for s in times:
                if before + s <= 9:
                    longer[before + s] = longer.get(before + s, 0) + chance * law[s] / total
        sums = longer
        for n in beyond:
            beyond[n] += c**k * (1 - sum(p for s, p in sums.items() if s <= n))
    mass = sum(c**k for k in range(1, order + 1))

    def shares(dead, rows):
        return [0.0 if dead else beyond[len(rows) - t] / mass for t in range(len(rows))]

    out = library.run(
        lambda dead, cut: est.tail_share(dead, cut, GAMMA, GAMMA_PRIME, order, lookahead),
        batch.terminated,
        batch.truncated,
    )
    expected = by_episode(batch, shares, batch.value)
    assert_allclose(np.asarray(out), expected, rtol=0, atol=3e-7)


@pytest.mark.paper("x:survival-tail")
def test_survival_rate__is_what_the_default_tail_assumes(library, batch):
    out = library.run(est.survival_rate, batch.terminated)
    assert float(out) == pytest.approx(1 - 6 / 54, rel=1e-6)


@pytest.mark.paper("x:true-gradient")
@pytest.mark.parametrize("order", [0, 3])
def test_gradient_advantage__is_a_binomial_mixture_of_orders(library, rng, order):
    delta = GAMMA_PRIME - GAMMA
    terms = rng.normal(size=(order + 1, 6, 2))
    step = np.array([[0, 7], [1, 8], [2, 0], [3, 1], [0, 2], [1, 300]])
    out = library.run(
        lambda terms, step: est.gradient_advantage(terms, step, GAMMA, GAMMA_PRIME), terms, step
    )
    expected = np.zeros((6, 2))
    for at, t in np.ndenumerate(step):
        for j in range(min(order, t) + 1):
            q = sum(terms[(i, *at)] for i in range(order - j + 1))
            expected[at] += math.comb(t, j) * delta**j * GAMMA ** int(t - j) * q
    check(library, out, expected)


@pytest.mark.paper("x:td-delta")
@pytest.mark.parametrize("kind", ["unbiased", "capped", "double_capped"])
def test_td_delta__is_gae_for_each_head_and_for_their_sum(library, batch, rng, kind):
    gammas = [0.5, 0.8, 0.9]
    values, next_values = rng.normal(size=(2, 3, 9, 6))
    poisoned = np.where(batch.terminated, np.nan, next_values)
    flags = batch.terminated, batch.truncated
    out = library.run(
        lambda r, v, n, *flags: est.td_delta(r, v, n, *flags, gammas, LAM, kind),
        *(batch.reward, values, poisoned, *flags),
    )
    lambdas = est.td_delta_lambdas(gammas, LAM, kind)
    alive = ~batch.terminated
    for z, (gamma, lam) in enumerate(zip(gammas, lambdas, strict=True)):
        lower = sum(next_values[j] for j in range(z))
        reward = (gamma - gammas[z - 1]) * lower * alive if z else batch.reward
        arrays = reward, values[z], next_values[z]
        head = by_episode(batch, brute.gae, *arrays, gamma=gamma, lam=lam)
        check(library, out.head_advantages[z], head)
        check(library, out.targets[z], head + values[z])
    sums = batch.reward, values.sum(0), next_values.sum(0)
    check(library, out.advantage, by_episode(batch, brute.gae, *sums, gamma=0.9, lam=LAM))


@pytest.mark.paper("x:td-delta")
def test_td_delta_rewards__pay_the_lower_heads_one_step_ahead(library, batch, rng):
    next_values = rng.normal(size=(3, 9, 6))
    poisoned = np.where(batch.terminated, np.nan, next_values)
    out = library.run(
        lambda r, n, dead: est.td_delta_rewards(r, n, dead, [0.5, 0.8, 0.9]),
        *(batch.reward, poisoned, batch.terminated),
    )
    alive = ~batch.terminated
    second = 0.3 * next_values[0] * alive
    third = 0.1 * (next_values[0] + next_values[1]) * alive
    check(library, out, np.stack([batch.reward, second, third]))


def test_order_curve__is_mean_and_standard_error_over_starts(library, rng):
    terms = rng.normal(size=(3, 5, 4))
    step = np.array([[0, 3, 0, 1], [1, 0, 1, 2], [2, 1, 0, 3], [3, 2, 1, 4], [0, 3, 2, 0]])
    for starts, given in ((np.eye(5)[0][:, None] * np.ones(4), []), (step == 0, [step])):
        out = library.run(est.order_curve, terms, *given)
        assert list(np.asarray(out.orders)) == [0, 1, 2]
        for k in range(3):
            values = [float(terms[: k + 1, t, n].sum()) for t, n in np.argwhere(starts)]
            error = statistics.stdev(values) / math.sqrt(len(values))
            check(library, out.estimate[k], np.array(statistics.mean(values)))
            check(library, out.standard_error[k], np.array(error))
