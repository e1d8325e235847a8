"""docs/results.md says what the published runs show, and no more."""

from dataclasses import replace

import numpy as np
import pytest

from gammaprime.figures import options
from results_tool import blocks, claims, forest, make_results
from tests.figures import fake_runs

CLAIM = claims.Claim("curves", "The second is better.", "PPO(K)", "PPO")


@pytest.fixture
def shown(tmp_path):
    """Published runs in which PPO(K) ends at ``high`` and PPO at ``low``, plus the seed."""

    def make(high=2000.0, low=1000.0, share=1.0):
        sweep = fake_runs.load(fake_runs.CURVES)
        ends = {"PPO(K)": high, "PPO": low}
        folder = tmp_path / f"{high}-{low}-{share}"
        fake_runs.write(
            sweep, folder, lambda run: ends.get(run.variant, 1.0) + run.seed, lambda run: share
        )
        return claims.Shown(options.read(sweep), sweep.results(folder))

    return make


def test_page__is_what_the_published_runs_show():
    sweeps = make_results.load(make_results.PUBLISHED / "runs")
    pages = make_results.make_blocks(sweeps)
    assert set(pages) == {make_results.PAGE, make_results.README}
    for path, made in pages.items():
        page = path.read_text(encoding="utf-8")
        assert blocks.render(page, made) == page


def test_picture_of_the_claims__shows_what_the_published_runs_show(tmp_path):
    sweeps = make_results.load(make_results.PUBLISHED / "runs")
    drawn = make_results.draw_claims(sweeps, tmp_path)
    assert {file.name for file in drawn} == {"claims.png", "claims.svg", "claims.csv"}
    assert all((make_results.PUBLISHED / file.name).is_file() for file in drawn)
    rows = (tmp_path / "claims.csv").read_text(encoding="utf-8")
    assert (make_results.PUBLISHED / "claims.csv").read_text(encoding="utf-8") == rows


def test_every_claim__names_variants_of_its_sweep():
    sweeps = make_results.load(make_results.PUBLISHED / "runs")
    for claim in (*claims.CLAIMS, make_results.CONTROL):
        assert {claim.first, claim.second} <= set(sweeps[claim.sweep].options.variants)


@pytest.mark.parametrize(
    ("high", "says", "verdict"),
    [
        (2000.0, claims.HIGHER, claims.HOLDS),
        (2000.0, claims.LOWER, claims.FAILS),
        (500.0, claims.HIGHER, claims.FAILS),
        (500.0, claims.LOWER, claims.HOLDS),
        (1000.0, claims.HIGHER, claims.UNDECIDED),
    ],
)
def test_verdict__follows_separated_seeds(shown, high, says, verdict):
    claim = claims.Claim("curves", "", "PPO(K)", "PPO", says=says)
    (decision,) = claims.decide([claim], {"curves": shown(high=high)})
    assert decision.verdict == verdict


@pytest.mark.parametrize(("high", "verdict"), [(900.0, claims.HOLDS), (700.0, claims.FAILS)])
def test_share__is_what_the_first_must_reach_of_the_second(shown, high, verdict):
    claim = replace(CLAIM, share=0.8)
    (decision,) = claims.decide([claim], {"curves": shown(high=high)})
    assert decision.verdict == verdict


def test_share_of_anything_but_final_returns__is_refused():
    with pytest.raises(ValueError, match="is for claims about the final return"):
        replace(CLAIM, share=0.8, by=claims.SPREAD)


def test_equal_runs__are_counted_among_those_that_both_have_finished(shown):
    found = shown()
    plain = [r for r in found.results if r.variant == "PPO"]
    copies = [r._replace(variant="copy") for r in plain]
    both, few = found._replace(results=[*plain, *copies]), len(plain) - 1
    assert claims.count_alike(both, "PPO", "copy") == (len(plain), len(plain), len(plain))
    fewer = found._replace(results=[*plain, *copies[1:]])
    assert claims.count_alike(fewer, "PPO", "copy") == (few, few, few)
    assert claims.count_alike(found, "PPO", "PPO(K)") == (len(plain), len(plain), 0)
    assert claims.count_alike(shown(share=0.5), "PPO", "PPO(K)") == (0, 0, 0)


def test_orders__are_compared_on_the_same_kind_of_processor(shown):
    found = shown()
    ten = [r._replace(variant="K = 100") for r in found.results if r.variant == "PPO"]
    other = [
        r._replace(variant="K = ∞", manifest=r.manifest | {"cpu": "another"} if i else r.manifest)
        for i, r in enumerate(ten)
    ]

    def told(results):
        return make_results.orders_block(found._replace(results=results)).replace("\n", " ")

    assert told(ten) == "Order ∞ has not been run."
    text = told([*ten, *other])
    assert f"on {len(ten)} of the same tasks and seeds." in text
    assert "same kind of processor: 1, of which 1 had the same episodes, number by number." in text
    assert f"two kinds of processor, which round differently: {len(ten) - 1}. There" in text
    assert "two kinds" not in told([*ten[:1], *other[:1]])
    assert "same kind" not in told([*ten[1:], *other[1:]])


def test_verdicts__are_counted_and_named_where_something_was_decided(shown):
    sweeps = {"curves": shown(), "equal": shown(high=1000.0), "waiting": shown(share=0.5)}
    wrong = replace(CLAIM, text="The first is.", says=claims.LOWER)
    open_, waiting = (replace(CLAIM, sweep=name) for name in ("equal", "waiting"))
    text = make_results.count_verdicts(claims.decide([CLAIM, wrong, open_, waiting], sweeps))
    assert text.endswith(
        "1 holds (The second is better),\n1 does not hold (The first is),\n"
        "1 cannot be decided by these seeds,\nand 1 has not been run yet;\n"
        "gains over PPO at γ = 0.99 were shown (The second is better)"
    )
    text = make_results.count_verdicts(claims.decide([CLAIM], sweeps))
    assert text.startswith("Of 1 tests")
    assert "figures,\n1 holds (The second is better);\n" in text


@pytest.mark.parametrize(
    ("claim", "gain"),
    [
        (CLAIM, True),
        (replace(CLAIM, by=claims.SPEED), True),
        (replace(CLAIM, by=claims.SPREAD), False),
        (replace(CLAIM, share=0.8), False),
        (replace(CLAIM, first="PPO", second="PPO(K)", says=claims.LOWER), False),
    ],
)
def test_gain_over_ppo__is_ending_higher_or_learning_faster_than_ppo_itself(shown, claim, gain):
    (decision,) = claims.decide([claim], {"curves": shown()})
    text = make_results.gain_over_ppo([decision._replace(verdict=claims.HOLDS)])
    assert text.startswith("gains" if gain else "no gain")
    open_ = decision._replace(verdict=claims.UNDECIDED)
    assert make_results.gain_over_ppo([open_]).startswith("no gain")


def test_picture__shows_the_side_of_one_half_on_which_a_claim_is_right(shown):
    right, wrong = CLAIM, replace(CLAIM, says=claims.LOWER)
    waiting = replace(CLAIM, sweep="waiting")
    sweeps = {"curves": shown(), "waiting": shown(share=0.5)}
    decisions = claims.decide([right, wrong, waiting], sweeps)
    above, below, none = map(claims.agreement, decisions)
    assert above == (1.0, 1.0, 1.0)
    assert below == (0.0, 0.0, 0.0)
    assert np.isnan(none).all()
    axes, other = forest.plot({"ours": decisions, "theirs": decisions[:1]}).axes
    dots = [line.get_xydata().tolist() for line in axes.lines if line.get_marker() == "o"]
    assert dots[:2] == [[[1.0, 0.0]], [[0.0, 1.0]]]
    assert [text.get_text() for text in axes.texts] == [d.verdict for d in decisions]
    assert [label.get_text() for label in other.get_yticklabels()] == ["The second is better"]


def test_power__grows_with_the_square_of_what_is_to_be_found(shown):
    (decision,) = claims.decide([CLAIM], {"curves": shown()})

    def told(detectable):
        comparison = decision.comparison._replace(detectable=detectable)
        return make_results.power_block(decision._replace(comparison=comparison))

    assert "a true difference of 30\N{NO-BREAK SPACE}%" in told(0.3)
    assert "about 9 times as many seeds" in told(0.3)
    assert "about 4 times as many seeds" in told(0.2)
    assert told(0.05) == told(np.inf) == told(np.nan) == ""


def test_table__shows_the_side_of_one_half_on_which_a_claim_is_right(shown):
    """As the picture does: a claim that holds is above 1/2, whichever variant it names first."""
    lower = replace(CLAIM, first="PPO", second="PPO(K)", says=claims.LOWER)
    decisions = claims.decide([CLAIM, lower], {"curves": shown()})
    rows = make_results.claims_block(decisions).splitlines()[2:]
    assert [row.split(" | ")[5][:4] for row in rows] == ["1.00", "1.00"]


def test_detectable_difference__is_not_given_for_distances(shown):
    """It is simulated with normal seeds, and a distance cannot shrink by more than all of it."""
    claim = replace(CLAIM, by=claims.SPREAD)
    own, plain = claims.decide([claim, CLAIM], {"curves": shown(high=1002.0)})
    assert np.isnan(own.comparison.detectable)
    assert plain.comparison.detectable > 0


def test_comparisons_that_seeds_decide__are_listed(shown):
    lower, higher = make_results.decided_block(shown()).splitlines()
    assert lower.startswith("- PPO 0.999: lower than PPO, −100")
    assert higher.startswith("- PPO(K): higher than PPO, +100")
    found = shown(high=1000.0)
    equal = [r for r in found.results if r.variant in ("PPO", "PPO(K)")]
    text = make_results.decided_block(found._replace(results=equal))
    assert text == "These seeds decide none of them."


def test_ablation__tells_its_lowest_and_highest_average(tmp_path):
    sweep = fake_runs.load(fake_runs.ABLATION)
    panel, *_ = options.read(sweep).panels
    ends = {name: 1000.0 + 100.0 * i for i, name in enumerate(panel.variants)}
    fake_runs.write(sweep, tmp_path, lambda run: ends.get(run.variant, 1000.0))
    found = claims.Shown(options.read(sweep), sweep.results(tmp_path))
    first, *_ = make_results.along_block(found).splitlines()
    last = panel.variants[-1]
    assert first.startswith(f"- Along {panel.label}: from 1.00 ({panel.variants[0]}) to ")
    assert f"{ends[last] / 1000.0:.2f} ({last}), on " in first
    some = found._replace(results=[r for r in found.results if r.variant != last])
    assert "not all values have been run" in make_results.along_block(some)


def test_matched_discounts__have_the_effective_horizon_of_their_order():
    """1/(1 − γ_m) = (1 + c + … + c^K)/(1 − γ), with c = (γ'−γ)/(1−γ) = 0.9 here."""
    for order in (1, 3, 10):
        steps = 100.0 * (1.0 - 0.9 ** (order + 1)) / (1.0 - 0.9)
        assert f"| {order} | {steps:.0f} | " in make_results.matched_block()


def test_claim_without_finished_runs__is_not_run_yet(shown):
    (decision,) = claims.decide([CLAIM], {"curves": shown(share=0.5)})
    assert (decision.comparison, decision.verdict) == (None, claims.NOT_RUN)


def test_every_claim_of_the_page__counts_in_the_adjustment(shown):
    sweeps = {"curves": shown(high=1002.0)}
    (alone,) = claims.decide([CLAIM], sweeps)
    among = claims.decide([CLAIM] * 5, sweeps)
    assert among[0].comparison.p_holm == pytest.approx(min(1.0, 5 * alone.comparison.p))
    assert among[0].comparison.detectable > alone.comparison.detectable


def test_claim_without_runs__counts_in_the_adjustment_from_the_beginning(shown):
    """Otherwise a verdict would change when another claim gets its runs."""
    sweeps = {"curves": shown(high=1002.0), "waiting": shown(high=1002.0, share=0.5)}
    waiting = replace(CLAIM, sweep="waiting")
    (alone,) = claims.decide([CLAIM], sweeps)
    found, not_run = claims.decide([CLAIM, waiting], sweeps)
    assert found.comparison.p_holm == pytest.approx(min(1.0, 2 * alone.comparison.p))
    assert found.comparison.detectable > alone.comparison.detectable
    assert not_run.verdict == claims.NOT_RUN


def test_share_of_negative_returns__lowers_the_bar_too(shown):
    """Four fifths of the way to -1000 would lie above it."""
    found = claims.measure(replace(CLAIM, share=0.8), shown(low=-1000.0))
    np.testing.assert_allclose(found["PPO", "Hopper-v4"].mean(), -998.0 - 0.2 * 998.0)
    assert found["PPO(K)", "Hopper-v4"].mean() == 2002.0


def test_rank__of_a_run_without_a_final_return_is_the_last(shown):
    found = shown()
    nothing = found.results[0].episodes[:0]
    empty = [
        result._replace(episodes=nothing) if result.variant == "PPO(K)" else result
        for result in found.results
    ]
    ranks = dict(claims.rank(found._replace(results=empty), ["PPO", "PPO(K)"]))
    assert ranks == {"PPO": 1.0, "PPO(K)": 2.0}


def test_levels__are_told_with_the_nearest_runs_on_both_sides(shown):
    found = shown()
    level = {
        make_results.ON_POLICY[0]: found._replace(
            options=replace(found.options, levels={"Hopper-v4": 1500.0})
        )
    }
    text = make_results.levels_block(level)
    assert "above 1,500" in text
    assert text.endswith("end at 1,004 and 2,000.")
    assert (
        make_results.levels_block({name: own._replace(results=[]) for name, own in level.items()})
        == ""
    )


def test_spread__is_the_distance_from_the_median_seed(shown):
    claim = replace(CLAIM, by=claims.SPREAD)
    spread = claims.measure(claim, shown())
    np.testing.assert_allclose(sorted(spread["PPO", "Hopper-v4"]), [0, 1, 1, 2, 2])


def test_spread__is_compared_on_the_seeds_that_both_have(shown):
    """The median of three seeds lies nearer to them than that of five."""
    claim, found = replace(CLAIM, by=claims.SPREAD), shown()
    fewer = [r for r in found.results if r.variant == "PPO(K)" or r.seed in (0, 1, 3)]
    spread = claims.measure(claim, found._replace(results=fewer))
    assert {key: sorted(x) for key, x in spread.items() if key[1] == "Hopper-v4"} == {
        ("PPO(K)", "Hopper-v4"): [0.0, 1.0, 2.0],
        ("PPO", "Hopper-v4"): [0.0, 1.0, 2.0],
    }


def test_rank__counts_who_ends_above(shown):
    assert [name for name, _ in claims.rank(shown(), ["PPO", "PPO(K)"])] == ["PPO(K)", "PPO"]
    assert dict(claims.rank(shown(), ["PPO", "PPO(K)"])) == {"PPO(K)": 1.0, "PPO": 2.0}
    assert claims.rank(shown(share=0.5), ["PPO", "PPO(K)"]) == []


def test_tie_of_ranks__goes_to_the_one_that_is_listed_first(shown):
    equal = shown(high=1000.0)
    assert claims.rank(equal, ["PPO(K)", "PPO"])[0][0] == "PPO(K)"
    assert claims.rank(equal, ["PPO", "PPO(K)"])[0][0] == "PPO"


def test_table__has_the_variants_of_a_task_one_below_another(shown):
    found = shown()
    lines = make_results.figure_block("curves", found).splitlines()
    tasks = [line.split(" | ")[0].strip("| ") for line in lines if line.startswith("| ")][2:]
    order = dict.fromkeys(result.task for result in found.results)
    variants = len(found.options.variants)
    assert tasks == [task for task in order for _ in range(variants)]
    assert min(len(order), variants) > 1


def test_return_of_a_single_seed__has_no_deviation(shown):
    found = shown()
    both = make_results.figure_block("curves", found)
    assert "| Hopper-v4 | PPO | 5 | 1002 ± 1.41 |" in both  # 1000 to 1004: their deviation is √2
    alone = found._replace(results=[r for r in found.results if r.seed == 2])
    assert "| Hopper-v4 | PPO | 1 | 1002 |" in make_results.figure_block("curves", alone)


def test_every_sweep_of_the_page__has_the_deviation_and_the_discount_that_its_text_names():
    for shown in make_results.load(make_results.PUBLISHED / "runs").values():
        assert shown.options.spread == 1.0
        assert {result.gamma_prime for result in shown.results if result.done} == {0.999}
