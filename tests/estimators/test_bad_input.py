"""Each bad input is a ValueError that names the argument, the value and the rule."""

import math
import re

import numpy as np
import pytest

import gammaprime.estimators as est

ONES, NEVER = np.ones((4, 2)), np.zeros((4, 2), dtype=bool)
NAN = np.where(np.eye(4, 2) == 1, np.nan, 1.0)
INF = np.where(np.eye(4, 2) == 1, np.inf, 1.0)
DEAD_FIRST = np.arange(4)[:, None] == np.zeros(2)
ENDS = {"next_value": ONES, "terminated": NEVER, "truncated": NEVER}
TWO = {"gamma": 0.8, "gamma_prime": 0.9}
HEADS = np.ones((2, 4, 2))
REWARDED = {"reward": ONES, "next_values": HEADS, "terminated": NEVER}
LAMBDAS = {"gammas": [0.5, 0.9], "lam": 0.9, "rule": "capped"}

GOOD = {
    est.discounted_return: {"reward": ONES, **ENDS, "gamma": 0.9},
    est.lambda_return: {"reward": ONES, **ENDS, "gamma": 0.9, "lam": 0.5},
    est.gae: {"reward": ONES, "value": ONES, **ENDS, "gamma": 0.9, "lam": 0.5},
    est.expand_terms: {"base": ONES, **ENDS, **TWO, "order": 2},
    est.expand: {"base": ONES, **ENDS, **TWO, "order": 2},
    est.expand_window: {"base": ONES, **ENDS, **TWO, "order": 2, "lookahead": 3},
    est.expand_random: {"base": ONES, **ENDS, **TWO, "jumps": np.ones((2, 4, 2), dtype=int)},
    est.sample_jumps: {"order": 2, "shape": 3, "gamma": 0.9, "rng": np.random.default_rng(0)},
    est.mix: {"base": ONES, "expanded": ONES, "eta": 0.5},
    est.expand_advantage: {"advantage": ONES, "value": ONES, **ENDS, **TWO, "order": 2},
    est.tail_share: {"terminated": NEVER, "truncated": NEVER, **TWO, "order": 2},
    est.survival_rate: {"terminated": NEVER},
    est.gradient_advantage: {"terms": HEADS, "step": np.zeros((4, 2), dtype=int), **TWO},
    est.order_curve: {"terms": HEADS},
    est.td_delta_rewards: {**REWARDED, "gammas": [0.5, 0.9]},
    est.td_delta: {**REWARDED, "values": HEADS, "truncated": NEVER, **LAMBDAS},
    est.td_delta_lambdas: LAMBDAS,
    est.discounted_sum: {"x": ONES, "decay": 0.5},
}
BASED = [est.expand_terms, est.expand, est.expand_window, est.expand_random]
RETURNS = [est.discounted_return, est.lambda_return, est.gae]
PAIRED = [*BASED, est.expand_advantage, est.tail_share, est.gradient_advantage]

CASES = [
    *((f, {"reward": NAN}, "reward[0, 0]=nan: must be finite") for f in RETURNS),
    *((f, {"base": NAN}, "base[0, 0]=nan: must be finite") for f in BASED),
    *((f, {"base": INF}, "base[0, 0]=inf: must be finite") for f in BASED),
    (est.gae, {"value": NAN}, "value[0, 0]=nan: must be finite"),
    (est.gae, {"next_value": NAN}, "next_value[0, 0]=nan: must be finite"),
    (est.lambda_return, {"next_value": NAN}, "next_value[0, 0]=nan: must be finite"),
    *((f, {"next_value": NAN[::-1]}, "next_value[3, 0]=nan: must be finite") for f in BASED),
    *((f, {"next_value": None}, "next_value=None: must be given") for f in [*BASED, *RETURNS]),
    *(
        (f, {"next_value": ONES[1:]}, f"next_value has shape (3, 2): must be (4, 2), as {first}")
        for fs, first in ((BASED, "base"), (RETURNS, "reward"))
        for f in fs
    ),
    *(
        (f, {flag: NEVER[:, :1]}, f"{flag} has shape (4, 1): must be (4, 2)")
        for f in [*BASED, *RETURNS]
        for flag in ("terminated", "truncated")
    ),
    (est.gae, {"value": ONES[:, 0]}, "value has shape (4,): must be (4, 2), as reward"),
    (est.gae, {"terminated": 0.5 * ONES}, "terminated[0, 0]=0.5: must be 0 or 1"),
    (est.gae, {"truncated": NAN * 0}, "truncated[0, 0]=nan: must be 0 or 1"),
    (est.gae, {"reward": ONES * 1j}, "reward has dtype complex128: must be real numbers"),
    (est.gae, {"reward": [[1], [1, 2]]}, "reward of type list: must be a real array"),
    (est.gae, {"reward": None}, "reward has dtype object: must be real numbers"),
    (est.gae, {"value": None}, "value has dtype object: must be real numbers"),
    (est.gae, {"terminated": None}, "terminated has dtype object: must be real numbers"),
    (est.gae, {"reward": "four"}, "reward has dtype <U4: must be real numbers"),
    (est.discounted_return, {"reward": 1.0}, "reward has shape (): must be (T, ...)"),
    (est.discounted_return, {"reward": ONES[:0]}, "reward has shape (0, 2): must be (T, ...)"),
    *((f, {"gamma": 1.5}, "gamma=1.5: must lie in [0, 1]") for f in RETURNS),
    *((f, {"gamma": 1.0}, "gamma=1.0: must lie in [0, 1)") for f in [*PAIRED, est.sample_jumps]),
    *((f, {"gamma_prime": 0.7}, "gamma_prime=0.7: must lie in [gamma, 1]") for f in PAIRED),
    *((f, {"gamma_prime": 1.1}, "gamma_prime=1.1: must lie in [gamma, 1]") for f in PAIRED),
    *((f, {"lam": -0.1}, "lam=-0.1: must lie in [0, 1]") for f in RETURNS[1:]),
    (est.gae, {"lam": "half"}, "lam='half': must be a real number"),
    (est.gae, {"lam": "0.5"}, "lam='0.5': must be a real number"),
    (est.gae, {"lam": True}, "lam=True: must be a real number"),
    *(
        (f, {"order": order}, f"order={order!r}: must be an integer >= 0")
        for f in (est.expand, est.expand_terms, est.expand_window, est.expand_advantage)
        for order in (-1, 1.5, math.nan)
    ),
    *(
        (f, {"order": math.inf}, "order=inf: must be finite")
        for f in (est.expand_terms, est.expand_window, est.sample_jumps)
    ),
    *(
        (f, {"tail": "mean"}, "tail='mean': must be one of 'zero', 'constant', 'survival'")
        for f in (est.expand, est.expand_terms)
    ),
    (est.expand, {"survival": 1.2}, "survival=1.2: must lie in [0, 1]"),
    (est.expand, {"survival": 0.5, "tail": "zero"}, "survival=0.5: must be None"),
    *(
        (est.expand, {"gamma_prime": 1.0, "order": math.inf, **tail}, "gamma_prime=1.0: with order")
        for tail in ({}, {"tail": "constant"}, {"survival": 1.0})
    ),
    *(
        (est.expand_window, {"lookahead": h}, f"lookahead={h!r}: must be an integer >= 1")
        for h in (0, -1, 2.5, math.inf, True)
    ),
    (est.expand_random, {"jumps": NEVER[None] + 0}, "jumps[0, 0, 0]=0.0: must be a whole number"),
    (est.expand_random, {"jumps": ONES[None] * 1.5}, "jumps[0, 0, 0]=1.5: must be a whole number"),
    (est.expand_random, {"jumps": ONES}, "jumps has shape (4, 2): must be (4, 4, 2)"),
    (est.expand_random, {"jumps": HEADS == 1}, "jumps has dtype bool: must be whole numbers"),
    *((f, {"eta": 1.5}, "eta=1.5: must lie in [0, 1]") for f in (est.mix, est.expand_advantage)),
    (est.mix, {"expanded": ONES[1:]}, "expanded has shape (3, 2): must be (4, 2), as base"),
    (est.mix, {"expanded": NAN}, "expanded[0, 0]=nan: must be finite"),
    *(
        (est.expand_advantage, {"eta": eta, **change}, message)
        for eta in (0.0, 0.5)
        for change, message in (
            ({"advantage": NAN}, "advantage[0, 0]=nan: must be finite"),
            ({"value": NAN}, "value[0, 0]=nan: must be finite"),
            ({"value": ONES[1:]}, "value has shape (3, 2): must be (4, 2), as advantage"),
            ({"next_value": None}, "next_value=None: must be given"),
            ({"tail": "mean"}, "tail='mean': must be one of"),
            ({"survival": 0.5, "lookahead": 3}, "survival=0.5: must be None with a lookahead"),
            ({"order": math.inf, "lookahead": 3}, "order=inf: must be finite"),
            ({"lookahead": 0}, "lookahead=0: must be an integer >= 1"),
        )
    ),
    (est.tail_share, {"truncated": NEVER[1:]}, "truncated has shape (3, 2): must be (4, 2)"),
    (est.tail_share, {"order": math.inf, "lookahead": 3}, "order=inf: must be finite"),
    (est.tail_share, {"lookahead": 0}, "lookahead=0: must be an integer >= 1"),
    (est.survival_rate, {"terminated": ONES / 2}, "terminated[0, 0]=0.5: must be 0 or 1"),
    *(
        (f, {"order": 10**9}, "order=1000000000: must be at most 1000, one term for each order")
        for f in (est.expand_terms, est.expand_window, est.sample_jumps)
    ),
    (est.gradient_advantage, {"step": NEVER - 1}, "step[0, 0]=-1.0: must be a whole number >= 0"),
    (est.gradient_advantage, {"step": ONES / 2}, "step[0, 0]=0.5: must be a whole number >= 0"),
    (est.gradient_advantage, {"step": ONES[1:]}, "step has shape (3, 2): must be (4, 2)"),
    (est.gradient_advantage, {"terms": ONES[0]}, "terms has shape (2,): must be (K+1, T, ...)"),
    (est.gradient_advantage, {"terms": HEADS * np.nan}, "terms[0, 0, 0]=nan: must be finite"),
    (est.order_curve, {"terms": ONES[0]}, "terms has shape (2,): must be (K+1, T, ...)"),
    (est.order_curve, {"terms": HEADS * np.nan}, "terms[0, 0, 0]=nan: must be finite"),
    (est.order_curve, {"terms": ONES}, "terms hold 1 starts: must be at least 2"),
    (est.order_curve, {"step": NEVER - 1}, "step[0, 0]=-1.0: must be a whole number >= 0"),
    (est.td_delta, {"values": HEADS[:1]}, "values holds 1 heads: must be 2, one per discount"),
    (est.td_delta, {"values": 1.0}, "values of type float: must be (Z, T, ...)"),
    (est.td_delta, {"values": HEADS[:, 1:]}, "values[0] has shape (3, 2): must be (4, 2)"),
    (est.td_delta, {"values": np.stack([ONES, NAN])}, "values[1][0, 0]=nan: must be finite"),
    (est.td_delta, {"reward": NAN}, "reward[0, 0]=nan: must be finite"),
    *(
        (f, {"next_values": np.stack([ONES, NAN])}, "next_values[1][0, 0]=nan: must be finite")
        for f in (est.td_delta, est.td_delta_rewards)
    ),
    *(
        (f, {"gammas": [0.9, 0.5]}, "gammas=[0.9, 0.5]: must hold at least one discount, and inc")
        for f in (est.td_delta, est.td_delta_rewards, est.td_delta_lambdas)
    ),
    (est.td_delta_lambdas, {"gammas": []}, "gammas=[]: must hold at least one discount"),
    (est.td_delta_lambdas, {"gammas": [0.5, 1.1]}, "gammas[1]=1.1: must lie in [0, 1]"),
    (est.td_delta_lambdas, {"gammas": [0.0, 0.9]}, "gammas[0]=0.0: must be positive"),
    (est.td_delta_lambdas, {"lam": 2.0}, "lam=2.0: must lie in [0, 1]"),
    (
        est.td_delta_lambdas,
        {"rule": "biased"},
        "rule='biased': must be one of 'unbiased', 'capped', 'double_capped'",
    ),
    (est.discounted_sum, {"x": 1.0}, "x has shape (): must have time first"),
    (est.discounted_sum, {"decay": ONES[1:]}, "decay has shape (3, 2): must be one number or"),
]


@pytest.mark.parametrize("estimator", GOOD, ids=lambda f: f.__name__)
def test_good_input__is_accepted(estimator):
    estimator(**GOOD[estimator])


@pytest.mark.parametrize(
    ("estimator", "bad", "message"),
    CASES,
    ids=[f"{f.__name__}-{'-'.join(bad)}-{i}" for i, (f, bad, _) in enumerate(CASES)],
)
def test_bad_input__is_named_with_its_rule(estimator, bad, message):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        estimator(**{**GOOD[estimator], **bad})


def test_at_one_and_order_infinity__a_death_or_a_missing_cut_is_enough():
    arguments = {**GOOD[est.expand], "gamma_prime": 1.0, "order": math.inf}
    assert np.isfinite(est.expand(**{**arguments, "terminated": DEAD_FIRST})).all()
    last = NEVER.copy()
    last[-1] = True
    out = est.expand(**{**arguments, "terminated": last, "tail": "constant"})
    np.testing.assert_allclose(out[0], 1 + 0.2 * 3)


@pytest.mark.parametrize("library", ["jax", "torch"])
def test_other_libraries__are_checked_alike(library):
    module = pytest.importorskip(library)
    asarray = module.numpy.asarray if library == "jax" else module.asarray
    for bad, message in (
        ({"reward": asarray(NAN)}, "reward[0, 0]=nan: must be finite"),
        ({"next_value": asarray(NAN)}, "next_value[0, 0]=nan: must be finite"),
        ({"value": asarray(ONES[1:])}, "value has shape (3, 2): must be (4, 2)"),
        ({"terminated": asarray(0.5 * ONES)}, "terminated[0, 0]=0.5: must be 0 or 1"),
    ):
        with pytest.raises(ValueError, match="^" + re.escape(message)):
            est.gae(**{**GOOD[est.gae], **bad})


def test_under_jit__checks_of_values_are_skipped_and_those_of_shapes_are_not():
    jax = pytest.importorskip("jax")

    @jax.jit
    def advantage(reward, terminated, value):
        return est.gae(reward, value, ONES, terminated, NEVER, 0.9, 0.5)

    assert np.isnan(advantage(NAN, 0.0 * ONES, ONES)[0, 0])
    with pytest.raises(ValueError, match="value has shape"):
        advantage(ONES, NEVER, ONES[1:])

    @jax.jit
    def expanded(base, terminated):
        ends = ONES, terminated, NEVER
        return est.expand(base, *ends, 0.8, 1.0, math.inf, "constant")

    assert np.isinf(expanded(ONES, NEVER)).all()
    last = NEVER.copy()
    last[-1] = True
    np.testing.assert_allclose(expanded(ONES, last)[0], 1 + 0.2 * 3, rtol=1e-6)
