"""Comparisons of variants: who ends higher, by how much, and whether these seeds can decide it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gammaprime.figures import statistics, summaries
from gammaprime.figures.options import FigureOptions
from gammaprime.figures.statistics import Interval
from gammaprime.figures.tables import Cell, Table, write_latex, write_rows
from gammaprime.runs.results import Result

VERDICTS = {
    "better": "better",
    "worse": "worse",
    "undecided": "these seeds cannot decide",
    "impossible": "too few seeds to decide",
}
NOTHING = "No two variants have finished seeds on the same task: nothing to compare."
MANY = 4
"""From this many comparisons on, those that decide nothing share a sentence."""
ALL = "all"
SHOWN = ("probability that it ends higher", "difference", "p", "detectable")

_COVERED = f"{100 * statistics.COVERAGE:g} %"
_POWER = f"{100 * statistics.POWER:g} %"
GUIDE = {
    "Return": "Undiscounted return of an episode; at γ or γ', its discounted return.",
    "Probability that it ends higher": "For two random seeds, one of each variant, on the same "
    "task; averaged over tasks. 1/2 means no difference. In brackets: the "
    f"{_COVERED} interval from {statistics.RESAMPLES:,} bootstrap samples, in which seeds are "
    "resampled inside each task.",
    "Difference": "Difference of the mean final returns as a share of the second variant's, "
    f"averaged over tasks, with its {_COVERED} interval.",
    "p": "Share of all relabellings of the seeds inside each task that set the two variants at "
    "least as far apart, counted exactly. Over all tasks it is adjusted for the number of "
    "comparisons of the figure (Holm).",
    "Detectable": f"Smallest difference that so many seeds find with a power of {_POWER}: by "
    "simulation of the same test, with normal seeds of the observed standard deviation on each "
    "task, at the level of the smallest p-value that Holm's adjustment accepts.",
    "Better, worse": f"The interval leaves out 1/2 and p is below {statistics.LEVEL:.2g}. "
    "Otherwise these seeds cannot decide.",
}
"""Meaning of the words of tables and report."""


class Comparison(NamedTuple):
    """Two variants on one task, or over all tasks on which both have finished seeds."""

    task: str
    first: str
    second: str
    tasks: int
    seeds_first: tuple[int, ...]
    """Finished seeds on each task."""
    seeds_second: tuple[int, ...]
    probability: Interval
    """P(first > second) for a random seed of each, averaged over tasks."""
    difference: Interval
    """Difference of means as a share of the second's, averaged over tasks."""
    p: float
    p_least: float
    """Smallest p-value that so many seeds can give."""
    detectable: float
    """Smallest difference that so many seeds find, as `statistics.detectable_difference` says."""
    p_holm: float = np.nan
    """P-value adjusted for the number of comparisons of the figure; NaN on a single task."""
    p_holm_least: float = np.nan
    """Smallest adjusted p-value that so many seeds can give."""
    verdict: str = ""
    """A key of VERDICTS; empty on a single task."""

    @property
    def who(self) -> str:
        """Name both variants."""
        return f"{self.first} against {self.second}"


class Comparisons(NamedTuple):
    """All comparisons of a figure."""

    overall: list[Comparison]
    by_task: list[Comparison]


def draw(options: FigureOptions, results: Sequence[Result], folder: Path) -> list[Path]:
    """Write the comparisons as Markdown and CSV."""
    found = compare(results, options)
    parts, shown = [f"# {options.title}"], [overall_table(found)] if found.overall else []
    if found.overall:
        parts.append(shown[0].markdown())
        if len(summaries.tasks_of(results)) > 1:
            shown.append(task_table(found))
            parts += ["Task by task, p-values not adjusted:", shown[1].markdown()]
        parts += [f"{name}: {text}" for name, text in GUIDE.items() if name != "Return"]
    else:
        parts.append(NOTHING)
    page = folder / f"{options.name}_comparisons.md"
    text = "\n\n".join([*parts, *summaries.notes(options, results)])
    page.write_text(text + "\n", encoding="utf-8")
    rows = [*found.overall, *found.by_task]
    written = write_rows(folder / f"{options.name}_comparisons.csv", Comparison, rows)
    return [
        page,
        written,
        *write_latex(folder / f"{options.name}_comparisons.tex", shown, options),
    ]


def compare(results: Sequence[Result], options: FigureOptions) -> Comparisons:
    """Make the comparisons that a figure asks for, as far as there are finished seeds."""
    returns, tasks = summaries.finals(results, options), summaries.tasks_of(results)
    count = len(options.compare)
    found = compare_pairs([returns] * count, options.compare, [tasks] * count)
    overall = judge([comparison for comparison in found if comparison is not None])
    each = [
        (task, compare_pair(returns, (c.first, c.second), [task], statistics.LEVEL))
        for task in tasks
        for c in overall
    ]
    return Comparisons(overall, [c._replace(task=task) for task, c in each if c is not None])


def compare_pairs(
    returns: Sequence[summaries.Finals],
    pairs: Sequence[tuple[str, str]],
    tasks: Sequence[Sequence[str]],
    among: int = 0,
) -> list[Comparison | None]:
    """Compare each pair by its own returns and tasks; None where there is nothing to compare.

    What could be detected is computed for the smallest p-value that Holm's adjustment accepts,
    which depends on the number of pairs that have seeds, or on ``among`` if that is more.
    """
    asked = list(zip(returns, pairs, tasks, strict=True))
    count = sum(bool(shared_tasks(*each)) for each in asked)
    return [compare_pair(*each, statistics.LEVEL / max(count, among, 1)) for each in asked]


def shared_tasks(
    returns: summaries.Finals, pair: tuple[str, str], tasks: Sequence[str]
) -> list[str]:
    """Return the tasks on which both variants have finished seeds."""
    none = np.empty(0)
    return [t for t in tasks if all(len(returns.get((name, t), none)) for name in pair)]


def compare_pair(
    returns: summaries.Finals, pair: tuple[str, str], tasks: Sequence[str], level: float
) -> Comparison | None:
    """Compare two variants over the tasks where both have finished seeds; None if there is none.

    level: of the test whose detectable difference is computed.
    """
    first, second = pair
    shared = shared_tasks(returns, pair, tasks)
    if not shared:
        return None
    x, y = ([returns[name, task] for task in shared] for name in pair)
    sizes = [(len(a), len(b)) for a, b in zip(x, y, strict=True)]
    return Comparison(
        ALL,
        first,
        second,
        len(shared),
        tuple(n for n, _ in sizes),
        tuple(m for _, m in sizes),
        statistics.probability_of_improvement(x, y),
        statistics.relative_difference(x, y),
        statistics.relabelling_p_value(x, y),
        statistics.least_p_value(sizes),
        statistics.detectable_difference(x, y, level),
    )


def judge(comparisons: Sequence[Comparison], among: int = 0) -> list[Comparison]:
    """Adjust the p-values of a figure and give each comparison its verdict.

    among: number of comparisons to adjust for if it is more than these; the others have no seeds
    yet, and count with a p-value of 1.

    "better" and "worse" need both: an interval of P(first > second) that leaves out 1/2, and an
    adjusted p-value below LEVEL.  "impossible" means that so few seeds could not have decided,
    whatever they had shown; "undecided" means that they could have.
    """
    waiting = [1.0] * (among - len(comparisons))
    adjusted = statistics.holm([*(c.p for c in comparisons), *waiting])
    least = statistics.holm([*(c.p_least for c in comparisons), *waiting])
    judged = []
    for comparison, p_holm, floor in zip(comparisons, adjusted, least, strict=False):
        low, _, high = comparison.probability
        if p_holm < statistics.LEVEL and (low > 0.5 or high < 0.5):
            verdict = "better" if low > 0.5 else "worse"
        else:
            verdict = "impossible" if floor >= statistics.LEVEL else "undecided"
        judged.append(comparison._replace(p_holm=p_holm, p_holm_least=floor, verdict=verdict))
    return judged


def overall_table(found: Comparisons) -> Table:
    """Table of the comparisons over all tasks."""
    rows = [
        [Cell(c.who), Cell(VERDICTS[c.verdict]), Cell(str(c.tasks)), *_cells(c, c.p_holm)]
        for c in found.overall
    ]
    head = ("comparison", "verdict", "tasks", "seeds", *SHOWN)
    return Table("Comparisons over all tasks", head, rows, text_columns=2)


def task_table(found: Comparisons) -> Table:
    """Table of the comparisons on each task."""
    rows = [[Cell(c.task), Cell(c.who), *_cells(c, c.p)] for c in found.by_task]
    label = "Comparisons on each task, p-values not adjusted"
    return Table(label, ("task", "comparison", "seeds", *SHOWN), rows, text_columns=2)


def _cells(c: Comparison, p_value: float) -> list[Cell]:
    seeds = [summaries.show_range(own) for own in (c.seeds_first, c.seeds_second)]
    return [
        Cell(_unbroken(f"{seeds[0]} and {seeds[1]}")),
        Cell(show_interval(c.probability), forest=c.probability),
        Cell(show_percent(c.difference)),
        Cell(show_p(p_value)),
        Cell(show_detectable(c.detectable)),
    ]


def sentences(found: Comparisons) -> list[tuple[str, str]]:
    """Verdict and sentence of each comparison; many undecided ones share a sentence."""
    told: list[tuple[str, str]] = []
    shared: dict[tuple[str, str], list[Comparison]] = {}
    for c in found.overall:
        if len(found.overall) >= MANY and c.verdict in ("undecided", "impossible"):
            shared.setdefault((c.verdict, c.second), []).append(c)
        else:
            told.append((c.verdict, _sentence(c)))
    for (verdict, second), own in shared.items():
        names = "; ".join(_unbroken(c.first) for c in own)
        told.append((verdict, f"{names}: {'each ' if len(own) > 1 else ''}against {second}."))
    return told


def _sentence(c: Comparison) -> str:
    p = _show_equal_p(c.p_holm)
    text = f"{c.first} ends higher than {c.second} with probability {show_interval(c.probability)}"
    if c.verdict in ("better", "worse"):
        return f"{text}; {p}."
    if c.verdict == "impossible":
        least = min(*c.seeds_first, *c.seeds_second)
        seeds = "1 seed" if least == 1 else f"{least} seeds"
        tasks = "one task" if c.tasks == 1 else f"{c.tasks} tasks"
        floor = _show_equal_p(c.p_holm_least)
        return f"{text}. With {seeds} on {tasks}, even completely separated seeds have {floor}."
    low, _, high = c.probability
    where = "leaves out 1/2, but" if low > 0.5 or high < 0.5 else "contains 1/2;"
    found = show_detectable(c.detectable)
    power = f" So many seeds find a difference of {found} with a power of {_POWER}."
    return f"{text}. The interval {where} {p}.{power if found[0].isdigit() else ''}"


def show_p(p_value: float) -> str:
    """Show 0.03, or < 0.001."""
    return "< 0.001" if p_value < 0.001 else f"{p_value:.2g}"


def _show_equal_p(p_value: float) -> str:
    number = show_p(p_value)
    return _unbroken(f"p {number}" if number.startswith("<") else f"p = {number}")


def show_interval(three: Interval) -> str:
    """Show 0.84 [0.70, 0.95]."""
    return _unbroken(f"{three.value:.2f} [{three.low:.2f}, {three.high:.2f}]")


def show_percent(three: Interval) -> str:
    """Show +12 % [−3, +20]."""
    if np.isnan(three.value):
        return "–"
    low, value, high = (f"{100 * share:+.0f}".replace("-", "−") for share in three)
    return _unbroken(f"{value} % [{low}, {high}]")


def show_detectable(difference: float) -> str:
    """Show 18 %, "none" if no difference can be found, or a dash if it is unknown."""
    if np.isnan(difference):
        return "–"
    return "none" if np.isinf(difference) else _unbroken(f"{100 * difference:.0f} %")


def _unbroken(text: str) -> str:
    """Forbid line breaks."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")
