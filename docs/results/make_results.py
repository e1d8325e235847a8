"""Fill in docs/results.md: what the paper claims, and what the published runs show.

README tells the verdicts in two sentences.  The pages are prose around blocks between
``<!-- begin NAME -->`` and ``<!-- end NAME -->``; the
blocks are made here from results/published/runs, and nothing else.

    python docs/results/make_results.py            write the blocks
    python docs/results/make_results.py --check    exit 1 if those on disk are stale
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # docs

import advice
import claims
import forest
import numpy as np
from blocks import main, table
from claims import CLAIMS, Claim, Decision, Shown

from gammaprime.estimators import effective_horizon, update_weights
from gammaprime.figures import (
    ablations,
    comparisons,
    options,
    statistics,
    summaries,
    tables,
)
from gammaprime.runs.directory import from_json
from gammaprime.runs.results import Result
from gammaprime.sweeps.spec import Sweep, load_experiment, shipped

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/results.md"
README = ROOT / "README.md"
PUBLISHED = ROOT / "results/published"
COMMAND = "python docs/results/make_results.py"
ON_POLICY = ("fig_onpolicy", "fig_onpolicy_state", "fig_separating", "fig_ablation", "ours")
OFF_POLICY = "learning_offpolicy"
ROUNDS = (advice.SECOND, "ours_trpo")
"""Specs that second_round.py writes when the first round is complete."""
NOT_CHOSEN = "Not chosen yet: the first round is not complete."
CONTROL = Claim(
    "ours",
    "Learned terms, K = 1 end higher than their control.",
    "learned terms, K = 1",
    "control: learned terms unused",
)
SAME_DISCOUNT = Claim(
    "fig_separating",
    "TD(Δ) at γ = 0.999 ends higher than PPO at γ = 0.999.",
    "TD(Δ) 0.999",
    "PPO 0.999",
)
WITH_TIME = Claim(
    "fig_onpolicy_state",
    "Weighted PPO(K) ends higher than PPO that sees the time.",
    "weighted PPO(K)",
    "PPO + time",
)
NOT_CANDIDATES = ("PPO", "PPO 0.99474", "PPO 0.99854", CONTROL.second)
"""Variants of `ours` that its second round does not choose from."""
CHOSEN = 2
SMALL = 0.1
"""Difference that would still matter to a user."""


@cache
def load(runs: Path) -> dict[str, Shown]:
    """Return the sweeps of the page with what is published of them."""
    found, stored = {}, {}
    for name in (*ON_POLICY, OFF_POLICY, *(own for own in ROUNDS if own in shipped())):
        sweep = load_experiment(name)
        assert isinstance(sweep, Sweep)
        found[name] = Shown(options.read(sweep), sweep.results(runs, stored=stored))
    return found


def make_blocks(sweeps: Mapping[str, Shown]) -> dict[Path, dict[str, str]]:
    """Return every generated part of the page, and what README says of it."""
    paper, rounds = decide(sweeps)
    second = sweeps.get(advice.SECOND)
    blocks = dict.fromkeys(ROUNDS, NOT_CHOSEN)
    blocks |= {name: figure_block(name, shown) for name, shown in sweeps.items()}
    blocks |= {
        "claims": claims_block(paper),
        "power": power_block(paper[0]),
        "weights": weights_block(),
        "orders": orders_block(sweeps["fig_ablation"]),
        "round": round_block(sweeps["ours"]),
        "levels": levels_block(sweeps),
        "with_time": claims_block(claims.decide([WITH_TIME], sweeps)),
        "along": along_block(sweeps["fig_ablation"]),
        "decided": decided_block(sweeps["ours"]),
        "same_discount": claims_block(claims.decide([SAME_DISCOUNT], sweeps)),
        "matched": matched_block(),
        "control": claims_block(claims.decide([CONTROL], sweeps)),
        "rounds": claims_block(rounds) if rounds else NOT_CHOSEN,
        "comparisons": comparisons_block(sweeps[OFF_POLICY]),
        "use": advice.use_block(second, rounds),
    }
    found, used = count_verdicts(paper), advice.evidence(second, rounds)
    blocks["short"] = f"{found}.\n{used}"
    evidence = f"**Evidence.** {found} ([results](docs/results.md)).\n{used}"
    return {PAGE: blocks, README: {"evidence": evidence}}


def decide(sweeps: Mapping[str, Shown]) -> tuple[list[Decision], list[Decision]]:
    """Decide the paper's claims and those of our rounds, adjusted for each other."""
    own = [
        claim for name in ROUNDS if name in sweeps for claim in claims.claims_of(name, sweeps[name])
    ]
    decisions = claims.decide([*CLAIMS, *own], sweeps)
    return decisions[: len(CLAIMS)], decisions[len(CLAIMS) :]


def draw_claims(sweeps: Mapping[str, Shown], folder: Path) -> list[Path]:
    """Draw the picture of all claims that are decided together."""
    paper, rounds = decide(sweeps)
    groups = {"The paper's claims": paper, "Beyond the paper": rounds}
    return forest.draw({title: own for title, own in groups.items() if own}, folder)


def count_verdicts(decisions: Sequence[Decision]) -> str:
    """Return how many of the paper's claims hold, do not, or are open, without a full stop.

    Claims that are decided are named; a verdict that no claim has is left out.
    """
    counted = []
    for verdicts, one, more, named in (
        ([claims.HOLDS], "holds", "hold", True),
        ([claims.FAILS], "does not hold", "do not hold", True),
        ([claims.UNDECIDED, claims.TOO_FEW], *["cannot be decided by these seeds"] * 2, False),
        ([claims.NOT_RUN], "has not been run yet", "have not been run yet", False),
    ):
        own = [d.claim.text.rstrip(".") for d in decisions if d.verdict in verdicts]
        listed = f" ({'; '.join(own)})" if named else ""
        if own:
            counted.append(f"{len(own)} {one if len(own) == 1 else more}{listed}")
    *first, last = counted
    found = ",\n".join([*first, f"and {last}" if first else last])
    return (
        f"Of {len(decisions)} tests of what the paper says about its on-policy figures,\n"
        f"{found};\n{gain_over_ppo(decisions)}"
    )


def gain_over_ppo(decisions: Sequence[Decision]) -> str:
    """Return which claims of ending higher or learning faster than PPO at γ = 0.99 hold."""
    won = [
        decision.claim.text.rstrip(".")
        for decision in decisions
        if decision.verdict == claims.HOLDS
        and (decision.claim.second, decision.claim.says) == (advice.PLAIN, claims.HIGHER)
        and decision.claim.by != claims.SPREAD
        and decision.claim.share == 1.0
    ]
    if not won:
        return "no gain over PPO at γ = 0.99 was shown"
    return f"gains over PPO at γ = 0.99 were shown ({'; '.join(won)})"


def claims_block(decisions: Sequence[Decision]) -> str:
    """Return the table of claims with their verdicts."""
    head = ("claim", "verdict", "compared by", "tasks", "seeds")
    head += ("probability that seeds differ as claimed", "difference", "p", "detectable")
    rows = [_claim_row(decision) for decision in decisions]
    return table(head, rows)


def _claim_row(decision: Decision) -> list[str]:
    claim, found, verdict = decision
    row = [f"[{claim.text}](#{claim.sweep})", f"**{verdict}**", claim.by]
    if found is None:
        return [*row, *[""] * 6]
    seeds = [summaries.show_range(own) for own in (found.seeds_first, found.seeds_second)]
    return [
        *row,
        str(found.tasks),
        f"{seeds[0]} and {seeds[1]}",
        comparisons.show_interval(claims.agreement(decision)),
        comparisons.show_percent(found.difference),
        comparisons.show_p(found.p_holm),
        comparisons.show_detectable(found.detectable),
    ]


def power_block(decision: Decision) -> str:
    """Return how many more seeds than a claim has would find a small difference."""
    found = decision.comparison
    if found is None or not SMALL < found.detectable < math.inf:
        return ""
    times = (found.detectable / SMALL) ** 2
    has, small = map(comparisons.show_detectable, (found.detectable, SMALL))
    return (
        f"With the seeds of the first claim, a true difference of {has} is found in "
        f"{100 * statistics.POWER:g} % of repetitions.\nTo find {small}, about {times:.0f} times "
        "as many seeds are needed."
    )


def figure_block(name: str, shown: Shown) -> str:
    """Return what is published of a sweep: how much, its picture and its numbers."""
    opts, results = shown
    runs = {result.path: result for result in results}
    done = sum(result.done for result in runs.values())
    parts = [f'<a id="{name}"></a>{done} of {len(runs)} runs are published.']
    if not done:
        return parts[0]
    if (PUBLISHED / f"{name}.png").is_file():
        parts.append(f"![{opts.title}](../results/published/{name}.png)")
    finals, tasks = tables.final_returns(results, opts), summaries.tasks_of(results)
    by_task = sorted(finals, key=lambda row: tasks.index(row.task))
    rows = [_final_row(row, shown) for row in by_task if row.seeds]
    head = ("task", "variant", "seeds", "return", "at own γ", "at γ'", "minutes")
    levels = any(row[-1] for row in rows)
    kept = [row if levels else row[:-1] for row in rows]
    parts.append(table((*head, "seeds on the upper level") if levels else head, kept))
    return "\n\n".join(parts)


def _final_row(row: tables.FinalReturn, shown: Shown) -> list[str]:
    seconds = [
        from_json(result.path / "done").get("seconds", math.nan)
        for result in shown.results
        if result.done and (result.task, result.variant) == (row.task, row.variant)
    ]
    high = "" if math.isnan(row.level) else f"{row.seeds * row.above.value:.0f} of {row.seeds}"
    return [
        row.task,
        row.variant,
        str(row.seeds),
        row.text(),
        tables.show(row.mean_gamma),
        tables.show(row.mean_gamma_prime),
        f"{np.median(seconds) / 60:.1f}",
        high,
    ]


def levels_block(sweeps: Mapping[str, Shown]) -> str:
    """Return where the two levels of a task are told apart, and how clear the cut is."""
    lines = []
    for task, level in sweeps[ON_POLICY[0]].options.levels.items():
        ends = {
            result.path: summaries.final_return(result, shown.options)
            for shown in sweeps.values()
            for result in shown.results
            if result.done and result.task == task and kind_of_agent(result) == "ppo"
        }
        returns = np.array(list(ends.values()))
        below, above = returns[returns <= level], returns[returns > level]
        if not (below.size and above.size):
            continue  # nothing to tell apart yet
        lines.append(
            f"A seed counts as upper if its final return is above {level:,.0f}. Of the "
            f"{len(returns)} runs of PPO and its variants on {task}\non this page, {len(above)} "
            f"are; the nearest to that line on its two sides end at {below.max():,.0f} and "
            f"{above.min():,.0f}."
        )
    return "\n".join(lines)


def kind_of_agent(result: Result) -> str:
    """Return the kind of agent of a run, as its configuration names it."""
    return str(result.config["settings"]["agent"]["kind"])


def matched_block() -> str:
    """Return the discounts at which PPO has the effective horizon of each order."""
    rows = []
    for order in (1, 3, 10, math.inf):
        steps, gamma = effective_horizon(0.99, 0.999, order), match_discount(0.99, 0.999, order)
        rows.append(["∞" if order == math.inf else f"{order}", f"{steps:.0f}", f"{gamma}"])
    return table(("order K", "effective horizon, steps", "matched discount"), rows)


def match_discount(gamma: float, gamma_prime: float, order: float) -> float:
    """Return the discount with the effective horizon of an expansion, to five digits."""
    return round(1.0 - 1.0 / effective_horizon(gamma, gamma_prime, order), 5)


def comparisons_block(shown: Shown) -> str:
    """Return the comparisons that a sweep asks for, adjusted for each other alone."""
    found = comparisons.compare(shown.results, shown.options)
    return comparisons.overall_table(found).markdown() if found.overall else comparisons.NOTHING


def weights_block() -> str:
    """Return what the weights of the paper's settings are, where its text says otherwise."""
    steps, discounts = np.arange(1_001), (0.99, 0.999)
    ten, hundred, limit = (update_weights(steps, *discounts, k) for k in (10, 100, math.inf))
    last = f"step {steps[-1]:,}"
    equal = (hundred == limit).sum()
    where = "all" if equal == len(steps) else f"{equal:,} of the"
    lines = [
        f"At order ∞ the weight of {last} is γ' to that power, {limit[-1]:.3f}, and not about 1.",
        f"Order 100 equals order ∞ to the last bit of float64 at {where} {len(steps):,} steps from "
        f"0 to {steps[-1]:,}, so both train the same.",
        f"Order 10 keeps {100 * ten[-1] / limit[-1]:.0f} % of γ'^t at {last}.",
    ]
    return "\n".join(f"- {line}" for line in lines)


def along_block(shown: Shown) -> str:
    """Return between which values the normalised return lies along each axis of the ablations."""
    found = ablations.points(shown.results, shown.options)
    averages = [point for point in found if point.task == ablations.AVERAGE and point.seeds]
    lines = []
    for panel in shown.options.panels:
        own = [point for point in averages if point.label == panel.label]
        if len(own) < len(panel.values):
            lines.append(f"- Along {panel.label}: not all values have been run.")
            continue
        low, high = (f(own, key=lambda point: point.mean) for f in (min, max))
        lines.append(
            f"- Along {panel.label}: from {low.mean:.2f} ({low.variant}) to {high.mean:.2f} "
            f"({high.variant}), on {', '.join(low.over)}."
        )
    return "\n".join(lines)


def decided_block(shown: Shown) -> str:
    """Return the comparisons of a sweep that its seeds decide, adjusted for each other alone."""
    found = comparisons.compare(shown.results, shown.options)
    own = [c for c in found.overall if c.verdict in ("better", "worse")]
    if not own:
        return "These seeds decide none of them."
    return "\n".join(
        f"- {c.first}: {'higher' if c.verdict == 'better' else 'lower'} than {c.second}, "
        f"{comparisons.show_percent(c.difference)}, p {comparisons.show_p(c.p_holm)}."
        for c in own
    )


def orders_block(shown: Shown) -> str:
    """Return on how many tasks and seeds orders 100 and ∞ had the same episodes."""
    both, same, equal = claims.count_alike(shown, "K = 100", "K = ∞")
    if not both:
        return "Order ∞ has not been run."
    lines = [f"Both orders were run on {both} of the same tasks and seeds."]
    if same:
        lines.append(
            f"On the same kind of processor: {same}, of which {equal} had the same episodes, "
            "number by number."
        )
    if other := both - same:
        lines.append(
            f"On two kinds of processor, which round differently: {other}. There the episodes "
            "differ as if the seeds did."
        )
    return "\n".join(lines)


def round_block(shown: Shown) -> str:
    """Return the ranking of the first round of `ours`, and whom it sends to the second."""
    waiting = "The first round is not complete: nothing is chosen yet."
    ranks = rank_candidates(shown)
    if not ranks:
        return waiting
    text = table(("candidate", "mean rank"), [[name, f"{mean:.2f}"] for name, mean in ranks])
    if chosen := choose(shown):
        return f"{text}\n\nChosen for the second round: {' and '.join(chosen)}."
    return f"{text}\n\n{waiting}"


def rank_candidates(shown: Shown) -> list[tuple[str, float]]:
    """Return the expansions of the first round by their mean rank, the best first."""
    return claims.rank(shown, [v for v in shown.options.variants if v not in NOT_CANDIDATES])


def choose(shown: Shown) -> list[str]:
    """Return the expansions that go on to the second round; none while the first has runs to do."""
    if not all(result.done for result in shown.results):
        return []
    return [name for name, _ in rank_candidates(shown)[:CHOSEN]]


if __name__ == "__main__":
    runs = PUBLISHED / "runs"
    sys.exit(
        main(COMMAND, lambda: make_blocks(load(runs)), lambda: draw_claims(load(runs), PUBLISHED))
    )
