"""Orders of any size end: beyond the last row in closed form, or they are refused."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gammaprime.estimators as est
from estimators import brute

HUGE = 10**9


def expected(batch, gamma, gamma_prime, order, survival):
    def function(dead, y, boot):
        discounts = {"gamma": gamma, "gamma_prime": gamma_prime, "survival": survival}
        return brute.expand(dead, y, boot, order=order, **discounts)

    arrays = batch.value, batch.next_value
    return brute.by_episode(function, batch.terminated, batch.truncated, *arrays)


@pytest.mark.paper("x:tails")
@pytest.mark.parametrize(
    ("gamma", "gamma_prime", "survival", "order"),
    [(0.8, 0.95, 0.0, 10), (0.8, 0.95, 0.99, 14), (0.0, 0.9, 0.3, 10), (0.7, 1.0, 1.0, 11)],
)
def test_orders_beyond_the_last_row__are_sums_written_out(
    library, batch, gamma, gamma_prime, survival, order
):
    out = library.run(
        lambda y, *ends: est.expand(y, *ends, gamma, gamma_prime, order, survival=survival),
        batch.value,
        *batch.ends,
    )
    exact = expected(batch, gamma, gamma_prime, order, survival)
    scale = max(1.0, np.abs(exact).max())
    assert library.is_ours(out)
    assert_allclose(np.asarray(out), exact, rtol=0, atol=library.tolerance * scale)


def test_orders_beyond_the_last_row__with_the_survival_of_the_batch(library, batch):
    out = library.run(lambda y, *ends: est.expand(y, *ends, 0.7, 1.0, 12), batch.value, *batch.ends)
    exact = expected(batch, 0.7, 1.0, 12, batch.survival)
    assert_allclose(np.asarray(out), exact, rtol=0, atol=library.tolerance * 10)


@pytest.mark.paper("x:infinite-order")
@pytest.mark.parametrize("gamma_prime", [0.95, 1.0])
def test_a_huge_order__is_order_infinity(library, batch, gamma_prime):
    def expand(order):
        return library.run(
            lambda y, *ends: est.expand(y, *ends, 0.8, gamma_prime, order, survival=0.9),
            *(batch.value, *batch.ends),
        )

    assert_allclose(np.asarray(expand(HUGE)), np.asarray(expand(math.inf)), rtol=library.tolerance)


def test_a_huge_order__without_deaths_at_one_grows_by_a_value_per_order(batch):
    """ρ = 1: every order adds V at a cut, and nothing at a death."""
    low, high = (
        est.expand(batch.value, *batch.ends, 0.8, 1.0, order, "constant") for order in (20, HUGE)
    )
    cut = brute.by_episode(
        lambda dead, boot: [0.0 if dead else boot[-1]] * len(boot),
        *(batch.terminated, batch.truncated, batch.next_value),
    )
    assert_allclose(high, low + (HUGE - 20) * cut, rtol=1e-12)


@pytest.mark.parametrize("lookahead", [None, 3])
def test_many_orders_under_jit__are_compiled_as_one_loop(rng, lookahead):
    jax = pytest.importorskip("jax")
    base, never = rng.normal(size=80), np.zeros(80, dtype=bool)

    def expand(y):
        rest = (y, never, never, 0.9, 1.0, 60)
        if lookahead is None:
            return est.expand(y, *rest, tail="constant")
        return est.expand_window(y, *rest, lookahead=lookahead)

    with jax.enable_x64(True):
        out = jax.jit(expand)(base)
        assert jax.make_jaxpr(expand)(base).pretty_print().count("\n") < 500
    assert_allclose(np.asarray(out), expand(base), rtol=1e-12)


def test_an_order_that_would_never_end__is_refused_with_the_largest():
    """Without a discount no order below the number of rows may be left out."""
    base, never = np.ones(20_000), np.zeros(20_000, dtype=bool)
    with pytest.raises(ValueError, match="order=15000: must be at most 10000 at these discounts"):
        est.expand(base, base, never, never, 0.9, 1.0, 15_000)
    assert est.expand(base, base, never, never, 0.9, 0.99, 15_000)[0] == pytest.approx(10.0)


@pytest.mark.parametrize("gamma_prime", [0.95, 1.0])
def test_expand_advantage__takes_a_huge_order(batch, gamma_prime):
    out = est.expand_advantage(batch.reward, batch.value, *batch.ends, 0.8, gamma_prime, HUGE)
    assert np.isfinite(out).all()
