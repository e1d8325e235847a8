"""The claims of docs/results.md, and how each is decided from stored runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gammaprime.figures import comparisons, curves, statistics, summaries
from gammaprime.figures.comparisons import Comparison
from gammaprime.figures.options import FigureOptions
from gammaprime.figures.statistics import Interval
from gammaprime.runs.results import Result
from gammaprime.typing import FloatArray

FINAL, SPEED, SPREAD = "final return", "mean return over training", "distance from the median seed"
"""What two variants are compared by."""
HIGHER, LOWER = "higher", "lower"
HOLDS, FAILS = "holds", "does not hold"
UNDECIDED, TOO_FEW, NOT_RUN = "these seeds cannot decide", "too few seeds to decide", "not run yet"


@dataclass(frozen=True)
class Claim:
    """A statement about two variants of a sweep."""

    sweep: str
    text: str
    """The claim in our words."""
    first: str
    second: str
    by: str = FINAL
    says: str = HIGHER
    """Side of the second variant on which the claim sees the first."""
    share: float = 1.0
    """Share of the second variant's mean final return that the first is compared with."""

    def __post_init__(self) -> None:
        if self.share != 1.0 and self.by != FINAL:
            raise ValueError(f"share={self.share}: is for claims about the {FINAL}, not {self.by}")


CLAIMS = (
    Claim("fig_onpolicy", "PPO(K) ends higher than PPO.", "PPO(K)", "PPO"),
    Claim("fig_onpolicy", "PPO(K) learns faster than PPO.", "PPO(K)", "PPO", by=SPEED),
    Claim(
        "fig_onpolicy",
        "PPO(K) varies less over seeds than PPO.",
        "PPO(K)",
        "PPO",
        by=SPREAD,
        says=LOWER,
    ),
    Claim(
        "fig_onpolicy",
        "PPO(K) at γ = 0.99 ends higher than PPO at γ = 0.999.",
        "PPO(K)",
        "PPO 0.999",
    ),
    Claim("fig_onpolicy", "γ = 0.999 alone makes PPO worse.", "PPO 0.999", "PPO", says=LOWER),
    Claim("fig_onpolicy_state", "Weighted PPO(K) ends higher than PPO.", "weighted PPO(K)", "PPO"),
    Claim(
        "fig_onpolicy_state", "PPO that sees the time ends higher than PPO.", "PPO + time", "PPO"
    ),
    Claim(
        "fig_onpolicy_state",
        "Weighted PPO(K) varies less than PPO that sees the time.",
        "weighted PPO(K)",
        "PPO + time",
        by=SPREAD,
        says=LOWER,
    ),
    Claim("fig_separating", "TD(Δ) ends lower than PPO.", "TD(Δ)", "PPO", says=LOWER),
    Claim(
        "fig_separating",
        "TD(Δ) at γ = 0.999 ends lower than PPO.",
        "TD(Δ) 0.999",
        "PPO",
        says=LOWER,
    ),
    Claim("fig_separating", "TD(Δ) varies more over seeds than PPO.", "TD(Δ)", "PPO", by=SPREAD),
    Claim("fig_ablation", "η = 0.03 is worse than η = 0.01.", "η = 0.03", "η = 0.01", says=LOWER),
    Claim("fig_ablation", "Weights of order 10 beat those of order 0.", "K = 10", "K = 0"),
    # Order 100 is the same training as order ∞, and has more seeds.
    Claim("fig_ablation", "Weights of order 10 beat those of order ∞.", "K = 10", "K = 100"),
    Claim("fig_ablation", "Weights of order 0 reach 80 % of PPO.", "K = 0", "PPO", share=0.8),
)
"""What the paper's text and captions say of its on-policy figures."""


class Shown(NamedTuple):
    """The runs of a sweep as far as they are published, and how its figure reads them."""

    options: FigureOptions
    results: Sequence[Result]


class Decision(NamedTuple):
    """A claim with its comparison, None if nothing is there to compare, and its verdict."""

    claim: Claim
    comparison: Comparison | None
    verdict: str


def claims_of(name: str, shown: Shown) -> list[Claim]:
    """Return a claim for each pair that a sweep of our own compares: the first ends higher."""
    return [
        Claim(name, f"{first}: higher than {second}.", first, second)
        for first, second in shown.options.compare
    ]


def decide(claims: Sequence[Claim], sweeps: Mapping[str, Shown]) -> list[Decision]:
    """Compare the variants of every claim; p-values are adjusted for all of them, run or not."""
    measured = [measure(claim, sweeps[claim.sweep]) for claim in claims]
    pairs = [(claim.first, claim.second) for claim in claims]
    tasks = [summaries.tasks_of(sweeps[claim.sweep].results) for claim in claims]
    found = comparisons.compare_pairs(measured, pairs, tasks, len(claims))
    judged = iter(comparisons.judge([pair for pair in found if pair is not None], len(claims)))
    decisions = []
    for claim, pair in zip(claims, found, strict=True):
        comparison = None if pair is None else next(judged)
        if comparison is not None and claim.by == SPREAD:
            # What could be detected is simulated with normal seeds, which distances are not.
            comparison = comparison._replace(detectable=np.nan)
        decisions.append(Decision(claim, comparison, verdict(claim, comparison)))
    return decisions


def verdict(claim: Claim, comparison: Comparison | None) -> str:
    """Say whether a claim holds."""
    if comparison is None:
        return NOT_RUN
    if comparison.verdict == "undecided":
        return UNDECIDED
    if comparison.verdict == "impossible":
        return TOO_FEW
    return HOLDS if (comparison.verdict == "better") == (claim.says == HIGHER) else FAILS


def agreement(decision: Decision) -> Interval:
    """Return the probability that two seeds, one of each variant, differ as the claim says."""
    claim, found, _ = decision
    if found is None:
        return statistics.UNKNOWN
    low, value, high = found.probability
    if claim.says == HIGHER:
        return Interval(low, value, high)
    return Interval(1.0 - high, 1.0 - value, 1.0 - low)


def measure(claim: Claim, shown: Shown) -> summaries.Finals:
    """Return what variants are compared by, for each finished seed, by variant and task."""
    options, results = shown
    if claim.by == FINAL:
        finals = summaries.finals(results, options)
        lowered = {
            key: _lower(x, claim.share) for key, x in finals.items() if key[0] == claim.second
        }
        return finals | lowered
    if claim.by == SPREAD:
        finals = summaries.finals(shared_seeds(claim, results), options)
        return {key: np.abs(x - np.median(x)) if x.size else x for key, x in finals.items()}
    found: dict[tuple[str, str], list[float]] = {}
    for result in results:
        if result.done and not np.isnan(mean := mean_return(result, options)):
            found.setdefault((result.variant, result.task), []).append(mean)
    return {key: np.array(means) for key, means in found.items()}


def _lower(returns: FloatArray, share: float) -> FloatArray:
    """Return the returns less (1 - share) |mean|: above them is above that share of the mean."""
    return returns - (1.0 - share) * np.abs(returns.mean()) if returns.size else returns


class Alike(NamedTuple):
    """Runs of two variants with the same task and seed."""

    both: int
    same_processor: int
    same_episodes: int
    """Those made on the same kind of processor that had the same episodes, number by number."""


def count_alike(shown: Shown, first: str, second: str) -> Alike:
    """Count the tasks and seeds on which two variants had the same episodes.

    Processors round differently, so episodes can be the same only on the same kind of them.
    """
    done = {(r.variant, r.task, r.seed): r for r in shown.results if r.done}
    pairs = [(x, done.get((second, *run))) for (name, *run), x in done.items() if name == first]
    both = [(x, y) for x, y in pairs if y is not None]
    same = [(x, y) for x, y in both if x.manifest.get("cpu") == y.manifest.get("cpu")]
    equal = [np.array_equal(x.episodes, y.episodes) for x, y in same]
    return Alike(len(both), len(same), sum(equal))


def shared_seeds(claim: Claim, results: Sequence[Result]) -> list[Result]:
    """Return the finished runs of both variants on the seeds that both have finished.

    With fewer seeds the median lies nearer to each of them, so distances from it can be compared
    only between equal numbers of seeds.
    """
    pair = (claim.first, claim.second)
    done = [r for r in results if r.done and r.variant in pair]
    first, second = ({(r.task, r.seed) for r in done if r.variant == name} for name in pair)
    return [r for r in done if (r.task, r.seed) in first & second]


def mean_return(result: Result, options: FigureOptions) -> float:
    """Return the mean height of a seed's learning curve."""
    steps, values = summaries.read_returns(result, options.returns)
    grid = result.steps * np.arange(1, curves.NUM_POINTS + 1) / curves.NUM_POINTS
    width = curves.WINDOW_SHARE * result.steps
    return float(np.nanmean(statistics.window_means(steps, values, grid, width)))


def rank(shown: Shown, candidates: Sequence[str]) -> list[tuple[str, float]]:
    """Return candidates by their mean rank over tasks and seeds, the best first.

    Rank 1 is the highest final return on that task and seed; a run without one is last.  Only
    pairs of task and seed that all candidates have finished count; without such a pair the list is
    empty.
    """
    options, results = shown
    ends: dict[tuple[str, int], dict[str, float]] = {}
    for result in results:
        if result.done and result.variant in candidates:
            own = ends.setdefault((result.task, result.seed), {})
            final = summaries.final_return(result, options)
            own[result.variant] = -np.inf if np.isnan(final) else final
    whole = [own for own in ends.values() if len(own) == len(candidates)]
    if not whole:
        return []
    means = {
        name: float(np.mean([1 + sum(x > own[name] for x in own.values()) for own in whole]))
        for name in candidates
    }
    return sorted(means.items(), key=lambda item: (item[1], candidates.index(item[0])))
