"""docs/results.md says what the published runs show, and no more."""

from dataclasses import replace

import numpy as np
import pytest

from gammaprime.figures import options
from results_tool import blocks, claims, make_results
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
    both = found._replace(results=[*plain, *copies])
    assert claims.count_equal(both, "PPO", "copy") == (len(plain), len(plain))
    fewer = found._replace(results=[*plain, *copies[1:]])
    assert claims.count_equal(fewer, "PPO", "copy") == (len(plain) - 1, len(plain) - 1)
    assert claims.count_equal(found, "PPO", "PPO(K)") == (0, len(plain))
    assert claims.count_equal(shown(share=0.5), "PPO", "PPO(K)") == (0, 0)


def test_evidence__names_what_was_decided(shown):
    sweeps = {"curves": shown()}
    wrong = replace(CLAIM, text="The first is.", says=claims.LOWER)
    text = make_results.evidence_block(claims.decide([CLAIM, wrong], sweeps))
    assert "Of the 2 claims" in text
    assert "1 holds (The second is better),\n1 does not hold (The first is), and 0 are not" in text
    waiting = claims.decide([CLAIM], {"curves": shown(share=0.5)})
    assert "0 hold,\n0 do not hold, and 1 are not" in make_results.evidence_block(waiting)


def test_claim_without_finished_runs__is_not_run_yet(shown):
    (decision,) = claims.decide([CLAIM], {"curves": shown(share=0.5)})
    assert (decision.comparison, decision.verdict) == (None, claims.NOT_RUN)


def test_every_claim_of_the_page__counts_in_the_adjustment(shown):
    sweeps = {"curves": shown(high=1002.0)}
    (alone,) = claims.decide([CLAIM], sweeps)
    among = claims.decide([CLAIM] * 5, sweeps)
    assert among[0].comparison.p_holm == pytest.approx(min(1.0, 5 * alone.comparison.p))
    assert among[0].comparison.detectable > alone.comparison.detectable


def test_claim_without_runs__counts_neither_in_the_adjustment_nor_in_what_is_detectable(shown):
    sweeps = {"curves": shown(high=1002.0), "waiting": shown(high=1002.0, share=0.5)}
    waiting = replace(CLAIM, sweep="waiting")
    (alone,) = claims.decide([CLAIM], sweeps)
    assert claims.decide([CLAIM, waiting], sweeps)[0].comparison == alone.comparison


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
