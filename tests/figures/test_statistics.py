"""Statistics over seeds, against SciPy, closed forms, enumeration and the paper's own table."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from gammaprime.figures import statistics

numbers = st.floats(-1e4, 1e4, allow_subnormal=False)
whole = st.integers(-3, 3).map(float)


@pytest.mark.paper("fig:onpolicy", "fig:onpolicy-state")
def test_median_std__is_the_median_with_the_standard_deviation_either_side(rng):
    values = rng.normal(size=(5, 7))
    low, middle, high = statistics.median_std(values)
    np.testing.assert_array_equal(middle, np.sort(values, axis=0)[2])
    spread = np.sqrt(((values - values.mean(axis=0)) ** 2).sum(axis=0) / 5)
    np.testing.assert_allclose(high - middle, spread)
    np.testing.assert_allclose(middle - low, spread)


@given(arrays(np.float64, st.integers(1, 12), elements=numbers))
def test_interquartile_mean__is_scipys_trimmed_mean(values):
    expected = stats.trim_mean(values, 0.25)
    np.testing.assert_allclose(statistics.interquartile_mean(values), expected, rtol=1e-12)


def test_interquartile_mean__of_eight_is_the_mean_of_the_middle_four():
    values = np.array([-1e9, 8.0, 3.0, 1.0, 2.0, 4.0, 1e9, 0.0])
    assert statistics.interquartile_mean(values) == (1 + 2 + 3 + 4) / 4


def test_bootstrap__agrees_with_scipys(rng):
    values = rng.normal(3.0, 2.0, size=40)
    ours = statistics.iqm_interval(values)
    theirs = stats.bootstrap(
        (values,),
        lambda x, axis: stats.trim_mean(x, 0.25, axis=axis),
        n_resamples=20_000,
        method="percentile",
        rng=rng,
    ).confidence_interval
    # The ends of 2000 resamples have a standard error of about 2 % of the interval's width.
    width = theirs.high - theirs.low
    np.testing.assert_allclose(ours[[0, 2]], [theirs.low, theirs.high], atol=0.08 * width)
    assert ours[1] == stats.trim_mean(values, 0.25)


def test_bootstrap__of_a_mean_has_the_width_of_its_standard_error(rng):
    strata = [rng.normal(size=50), rng.normal(5.0, 3.0, size=80)]
    low, value, high = statistics.mean_interval(strata)
    error = 0.5 * math.sqrt(sum(x.var() / len(x) for x in strata))
    assert value == pytest.approx(0.5 * (strata[0].mean() + strata[1].mean()))
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.08)


def test_bootstrap__resamples_inside_each_task_only():
    apart = [np.full(3, 0.0), np.full(3, 100.0)]
    assert statistics.pooled_iqm_interval(apart) == (50.0, 50.0, 50.0)


def test_bootstrap__repeats_and_refuses_an_empty_stratum(rng):
    values = rng.normal(size=(5, 4))
    first = statistics.iqm_interval(values)
    assert first.shape == (3, 4)
    np.testing.assert_array_equal(first, statistics.iqm_interval(values))
    with pytest.raises(ValueError, match=r"sizes \[5, 0\]"):
        statistics.pooled_iqm_interval([values[:, 0], []])


@given(
    arrays(np.float64, st.integers(1, 6), elements=whole),
    arrays(np.float64, st.integers(1, 6), elements=whole),
)
def test_probability_of_improvement__counts_pairs_and_halves_ties(x, y):
    low, value, high = statistics.probability_of_improvement([x], [y])
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in x for b in y]
    assert value == pytest.approx(np.mean(pairs))
    assert 0.0 <= low <= high <= 1.0
    u, _ = stats.mannwhitneyu(x, y)
    assert value == pytest.approx(u / (len(x) * len(y)))


def test_probability_of_improvement__is_antisymmetric_and_averages_tasks():
    x, y = [np.array([2.0, 3.0]), np.array([0.0])], [np.array([1.0, 2.5]), np.array([1.0])]
    there, back = (statistics.probability_of_improvement(*pair) for pair in ((x, y), (y, x)))
    assert there.value == pytest.approx((0.75 + 0.0) / 2)
    assert there.value + back.value == pytest.approx(1.0)


def test_probability_of_improvement__refuses_tasks_that_do_not_match():
    with pytest.raises(ValueError, match="same tasks"):
        statistics.probability_of_improvement([[1.0]], [[1.0], [2.0]])


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_relabelling__is_the_exact_mann_whitney_test_of_one_task(n, m, seed):
    rng = np.random.default_rng(seed)
    x, y = np.split(rng.permutation(n + m).astype(float), [n])
    expected = stats.mannwhitneyu(x, y, method="exact").pvalue
    assert statistics.relabelling_p_value([x], [y]) == pytest.approx(expected)


@given(
    st.tuples(*(arrays(np.float64, size, elements=whole) for size in (3, 2))),
    st.tuples(*(arrays(np.float64, size, elements=whole) for size in (2, 1))),
)
def test_relabelling__counts_every_labelling_of_every_task(first, second):
    """Tasks of 3 and 2, and of 2 and 1 seeds: each counts by its share of won pairs."""

    def score(labellings):
        return sum(
            0.5 * (1.0 + np.sign(np.subtract.outer(np.array(x), y))).mean() for x, y in labellings
        )

    per_task = []
    for x, y in zip(first, second, strict=True):
        pooled = np.concatenate([x, y])
        chosen = itertools.combinations(range(len(pooled)), len(x))
        per_task.append([(pooled[list(c)], np.delete(pooled, c)) for c in chosen])
    null = np.array([score(labels) for labels in itertools.product(*per_task)])
    observed = score(zip(first, second, strict=True))
    distance = np.abs(null - null.mean()) >= abs(observed - null.mean()) - 1e-9
    assert statistics.relabelling_p_value(first, second) == pytest.approx(distance.mean())


def test_relabelling__of_tasks_whose_sizes_have_no_common_multiple(rng):
    """Nobody waits for 19·17·13·11·... outcomes, and tasks still count alike up to rounding."""
    sizes = [(19, 17), (13, 11), (16, 15), (7, 9), (20, 3)]
    first, second = ([rng.normal(size=pair[i]) for pair in sizes] for i in (0, 1))
    assert 0.0 < statistics.relabelling_p_value(first, second) <= 1.0
    apart = [x + 100.0 for x in first]
    floor = 2.0 / math.prod(math.comb(n + m, n) for n, m in sizes)
    assert statistics.relabelling_p_value(apart, second) == pytest.approx(floor)


def test_detectable_difference__grows_as_seeds_are_taken_away(rng):
    seeds = [rng.normal(100.0, 10.0, size=n) for n in (10, 10, 4)]
    fewer = [seeds[0], seeds[1][:5], seeds[2]]
    more = statistics.detectable_difference(seeds, seeds)
    assert 0.0 < more < statistics.detectable_difference(fewer, fewer)


@pytest.mark.parametrize("seeds", [1, 2, 3, 5])
def test_relabelling__has_a_floor_that_few_seeds_cannot_pass(seeds):
    apart = np.arange(seeds) + 100.0, np.arange(seeds) * 1.0
    floor = 2 / math.comb(2 * seeds, seeds)
    assert statistics.relabelling_p_value([apart[0]], [apart[1]]) == pytest.approx(floor)
    twice = statistics.relabelling_p_value([apart[0]] * 2, [apart[1]] * 2)
    assert twice == pytest.approx(2 / math.comb(2 * seeds, seeds) ** 2)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=3))
def test_least_p_value__is_that_of_separated_seeds(sizes):
    first = [np.arange(n) + 100.0 for n, _ in sizes]
    second = [np.arange(m) * 1.0 for _, m in sizes]
    expected = statistics.relabelling_p_value(first, second)
    assert statistics.least_p_value(sizes) == pytest.approx(expected)


def test_holm__adjusts_in_order_and_never_reverses():
    np.testing.assert_allclose(statistics.holm([0.04, 0.01, 0.03]), [0.06, 0.03, 0.06])
    assert statistics.holm([0.9, 0.8]) == [1.0, 1.0]
    assert statistics.holm([]) == []


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8), st.floats(0.001, 0.999))
def test_holm__rejects_what_its_stepwise_procedure_rejects(p_values, level):
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    rejected = set()
    for rank, i in enumerate(order):
        if p_values[i] * (len(order) - rank) > level:
            break
        rejected.add(i)
    adjusted = statistics.holm(p_values)
    assert {i for i, p in enumerate(adjusted) if p <= level} == rejected
    assert all(p <= q <= 1.0 for p, q in zip(p_values, adjusted, strict=True))


def test_relative_difference__is_a_share_of_the_size_of_the_second_averaged_over_tasks():
    x, y = [np.array([-50.0]), np.array([30.0, 30.0])], [np.array([-100.0]), np.array([20.0])]
    assert statistics.relative_difference(x, y).value == pytest.approx((0.5 + 0.5) / 2)
    assert np.isnan(statistics.relative_difference([[1.0]], [[0.0]])).all()


def test_detectable_difference__is_found_by_the_test_in_four_of_five_repetitions(rng):
    x, y = rng.normal(100.0, 20.0, size=8), rng.normal(100.0, 20.0, size=6)
    shift = statistics.detectable_difference([x], [y]) * y.mean()
    spread = math.sqrt((7 * x.var(ddof=1) + 5 * y.var(ddof=1)) / 12)
    found = [
        stats.mannwhitneyu(
            rng.normal(shift, spread, 8), rng.normal(0.0, spread, 6), method="exact"
        ).pvalue
        < 0.05
        for _ in range(1000)
    ]
    # 0.8, with a standard error of 0.013 here and of 0.009 in the quantile.
    assert np.mean(found) == pytest.approx(0.8, abs=0.05)


def test_detectable_difference__of_many_seeds_is_that_of_the_normal_approximation(rng):
    x, y = rng.normal(50.0, 5.0, size=60), rng.normal(50.0, 5.0, size=60)
    spread = math.sqrt((x.var(ddof=1) + y.var(ddof=1)) / 2)
    quantiles = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    # Ranks need π/3 times as many seeds as means do.
    expected = quantiles * spread * math.sqrt(2 / 60 * math.pi / 3) / y.mean()
    assert statistics.detectable_difference([x], [y]) == pytest.approx(expected, rel=0.05)


def test_detectable_difference__shrinks_with_seeds_and_tasks_and_grows_with_noise(rng):
    x, y = rng.normal(10.0, 1.0, size=20), rng.normal(10.0, 1.0, size=20)
    found = statistics.detectable_difference([x[:5]], [y[:5]])
    assert statistics.detectable_difference([x[:5]] * 4, [y[:5]] * 4) < 0.7 * found
    assert statistics.detectable_difference([x[:5]], [y[:5]], level=0.01) > found
    # Both means stay, every deviation is tripled: so is the difference.
    wide = [3 * (z - z.mean()) + z.mean() for z in (x[:5], y[:5])]
    assert statistics.detectable_difference(wide[:1], wide[1:]) == pytest.approx(3 * found)
    assert statistics.detectable_difference([x], [y]) < found


def test_detectable_difference__is_infinite_for_too_few_seeds_and_unknown_without_a_unit():
    three = np.arange(3.0)
    assert statistics.detectable_difference([three], [three]) == math.inf
    four = np.arange(4.0) - 1.5
    assert math.isnan(statistics.detectable_difference([four], [four]))


@given(st.integers(1, 12), st.data())
def test_share_above__has_the_exact_binomial_interval(seeds, data):
    count = data.draw(st.integers(0, seeds))
    values = np.r_[np.full(count, 4000.0), np.full(seeds - count, 1800.0)]
    low, share, high = statistics.share_above(values, 3000.0)
    assert share == count / seeds
    assert low <= share <= high
    # The ends are the chances at which a count this extreme has a probability of 2.5 %.
    if count:
        assert stats.binom.sf(count - 1, seeds, low) == pytest.approx(0.025)
    if count < seeds:
        assert stats.binom.cdf(count, seeds, high) == pytest.approx(0.025)


def test_share_above__of_no_seeds_or_no_threshold_is_unknown():
    assert np.isnan(statistics.share_above([], 1.0)).all()
    assert np.isnan(statistics.share_above([1.0], math.nan)).all()


# Mean ± 0.5 std of the variant, of its base and of DDPG, and which ones the paper prints in bold.
PAPER_TABLE = {
    "Ant, TD3": ((3601, 879), (3269, 686), (1000, 0), (True, True, False)),
    "HalfCheetah, TD3": ((10350, 279), (9156, 718), (8500, 0), (True, False, False)),
    "Walker2d, TD3": ((4090, 440), (4233, 314), (2000, 0), (True, True, False)),
    "Hopper, TD3": ((3340, 262), (2626, 677), (1800, 0), (True, False, False)),
    "Ant, SAC": ((5572, 115), (4886, 530), (706, 123), (True, False, False)),
    "HalfCheetah, SAC": ((11774, 96), (12059, 91), (7957, 527), (False, True, False)),
    "Walker2d, SAC": ((4626, 165), (4522, 269), (2261, 147), (True, True, False)),
    "Hopper, SAC": ((3384, 81), (3557, 20), (2024, 297), (False, True, False)),
}


@pytest.mark.paper("table:td3")
@pytest.mark.parametrize("row", PAPER_TABLE)
def test_ties__are_the_bold_numbers_of_the_papers_table(row):
    *cells, bold = PAPER_TABLE[row]
    means, halves = zip(*cells, strict=True)
    assert tuple(statistics.ties_with_best(means, halves)) == bold


def test_ties__leave_out_what_did_not_run():
    nan = math.nan
    assert statistics.ties_with_best([nan, 2.0, 1.5], [nan, 0.6, 9.0]).tolist() == [0, 1, 1]
    assert not statistics.ties_with_best([nan, nan], [nan, nan]).any()


@pytest.mark.paper("table:td3")
def test_mean_spread__is_so_many_standard_deviations():
    assert statistics.mean_spread([1.0, 3.0], 0.5) == (2.0, 0.5)
    assert np.isnan(statistics.mean_spread([], 0.5)).all()


@pytest.mark.paper("x:normalised-score", "fig:ablation")
def test_normalise__gives_the_baseline_a_mean_of_one(rng):
    base = rng.uniform(1.0, 3.0, size=5)
    assert statistics.normalise(base, base).mean() == pytest.approx(1.0)
    np.testing.assert_allclose(statistics.normalise([4.0], [1.0, 3.0]), [2.0])
    assert np.isnan(statistics.normalise([4.0], [-1.0, 0.5])).all()
    assert np.isnan(statistics.normalise([4.0], [])).all()


@given(
    st.lists(st.tuples(st.integers(0, 50), numbers), max_size=20),
    st.integers(1, 30),
)
def test_window_means__are_means_over_the_last_steps(told, window):
    told.sort(key=lambda pair: pair[0])
    steps, values = [s for s, _ in told], [v for _, v in told]
    grid = np.arange(0, 60, 3)
    for point, mean in zip(grid, statistics.window_means(steps, values, grid, window), strict=True):
        inside = [v for s, v in told if point - window < s <= point]
        before = [v for s, v in told if s <= point][-1:]
        expected = np.mean(inside or before) if before else math.nan
        np.testing.assert_allclose(mean, expected, atol=1e-8)


def test_window_means__refuse_steps_that_decrease():
    with pytest.raises(ValueError, match="must not decrease"):
        statistics.window_means([2, 1], [0.0, 0.0], [3], 1)
