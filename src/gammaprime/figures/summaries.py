"""What the runs of a sweep come to: final returns, lines over steps, who beats whom.

The spec says whether agents are judged by the episodes they trained on or by evaluations.  A final
return needs a finished run; a line goes as far as its runs do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gammaprime.figures import statistics
from gammaprime.figures.options import FigureOptions
from gammaprime.figures.statistics import Interval

if TYPE_CHECKING:  # they import the agents, which nothing here needs
    from gammaprime.sweeps.records import Record
    from gammaprime.sweeps.sweep import Sweep

Array = NDArray[np.float64]
Finals = dict[tuple[str, str], Array]
"""Final returns of the finished seeds, by variant and task."""

RETURN, J_GAMMA_PRIME = 0, 2
"""Which return: undiscounted, or at γ' (1 is at γ)."""

LAST_SHARE = 0.1
"""In training, a final return is the mean over episodes that ended in the last tenth of steps."""
WINDOW_SHARE = 0.05
"""A point of a line is the mean over the last twentieth of all steps."""
NUM_POINTS = 100
BANDS = {
    "median_std": "median ± standard deviation",
    "iqm": f"interquartile mean with its {100 * statistics.COVERAGE:g} % bootstrap interval",
}


class Line(NamedTuple):
    """A variant's returns on a task over steps."""

    variant: str
    task: str
    asked: int
    """Seeds that there should be."""
    grid: Array
    three: Array
    """Low, middle, high; NaN where no seed has got to."""
    seeds: Array
    """How many have."""


class Comparison(NamedTuple):
    """Two variants on one task, or over several."""

    first: str
    second: str
    tasks: tuple[str, ...]
    seeds: tuple[int, int]
    """The least number on a task, of each."""
    probability: Interval
    """P(first > second), a random seed of each, averaged over tasks."""
    gain: Interval
    """Difference of means as a share of the second's, averaged over tasks."""
    p_value: float
    floor: float
    """The least p-value that so many seeds could have given."""


class Verdict(NamedTuple):
    """What a comparison decides; both p-values are corrected for the number of comparisons."""

    word: str
    p_value: float
    floor: float


def told(record: Record, returns: str, quantity: int = RETURN) -> tuple[Array, Array]:
    """The steps at which returns were told, and the returns."""
    if returns == "training":
        rows, column = record.episodes, 2 + quantity
    else:
        rows, column = record.evaluations, 1 + quantity
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    return rows[:, 0], rows[:, column]


def final_return(record: Record, options: FigureOptions, quantity: int = RETURN) -> float:
    """The return at the end of a run; NaN of a run that told none.

    Paper: table:td3, fig:ablation.
    """
    steps, values = told(record, options.returns, quantity)
    if not len(values):
        return np.nan
    if options.returns == "evaluations":
        return float(values[-options.last :].mean())
    end = float(record.steps)
    return float(statistics.window_means(steps, values, [end], LAST_SHARE * end)[0])


def finals(records: Iterable[Record], options: FigureOptions, quantity: int = RETURN) -> Finals:
    """Final returns of all finished runs."""
    found: dict[tuple[str, str], list[float]] = {}
    for record in records:
        seeds = found.setdefault((record.variant, record.task), [])
        if record.done:
            seeds.append(final_return(record, options, quantity))
    return {key: np.array([x for x in seeds if np.isfinite(x)]) for key, seeds in found.items()}


def lines(records: Sequence[Record], options: FigureOptions) -> list[Line]:
    """A line for each variant and task, in the order of the spec."""
    return [_line(group, options) for group in groups(records)]


def groups(records: Iterable[Record]) -> list[list[Record]]:
    """The seeds of each variant on each task, in the order of the spec."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        found.setdefault((record.variant, record.task), []).append(record)
    return list(found.values())


def _line(group: Sequence[Record], options: FigureOptions) -> Line:
    first = group[0]
    grid = first.steps * np.arange(1, NUM_POINTS + 1) / NUM_POINTS
    curves = np.stack([_curve(record, grid, options.returns) for record in group])
    there = np.isfinite(curves)
    three = np.full((3, len(grid)), np.nan)
    for who in np.unique(there, axis=1).T:
        if who.any():
            points = (there == who[:, None]).all(axis=0)
            three[:, points] = _CENTRES[options.band](curves[who][:, points])
    return Line(first.variant, first.task, len(group), grid, three, there.sum(axis=0))


_CENTRES = {"median_std": statistics.median_std, "iqm": statistics.iqm_interval}


def _curve(record: Record, grid: Array, returns: str) -> Array:
    """A seed's line; NaN where it has not got to.  The last rollout may end before all steps."""
    if not record.reached:
        return np.full(len(grid), np.nan)
    curve = statistics.window_means(*told(record, returns), grid, WINDOW_SHARE * record.steps)
    return curve if record.done else np.where(grid <= record.reached, curve, np.nan)


def tasks_of(records: Iterable[Record]) -> tuple[str, ...]:
    """The tasks that there are runs of, in the order of the spec."""
    return tuple(dict.fromkeys(record.task for record in records))


def compare(returns: Finals, first: str, second: str, tasks: Sequence[str]) -> Comparison | None:
    """Two variants over the tasks where both have finished seeds; None if there is no such."""
    shared = tuple(
        task
        for task in tasks
        if len(_seeds(returns, first, task)) and len(_seeds(returns, second, task))
    )
    if not shared:
        return None
    x = [_seeds(returns, first, task) for task in shared]
    y = [_seeds(returns, second, task) for task in shared]
    return Comparison(
        first,
        second,
        shared,
        (min(map(len, x)), min(map(len, y))),
        statistics.probability_of_improvement(x, y),
        _gain(x, y),
        statistics.relabelling_p_value(x, y),
        statistics.relabelling_p_value(
            [np.arange(len(a)) + len(b) for a, b in zip(x, y, strict=True)],
            [np.arange(len(b)) for b in y],
        ),
    )


def _seeds(returns: Finals, variant: str, task: str) -> Array:
    return returns.get((variant, task), np.empty(0))


def _gain(x: Sequence[Array], y: Sequence[Array]) -> Interval:
    """NaN where a mean of the second is 0, and there is nothing to be a share of."""
    units = [abs(second.mean()) for second in y]
    if not all(units):
        return Interval(np.nan, np.nan, np.nan)
    tasks = len(x)

    def gains(drawn: Sequence[Array]) -> Array:
        both = zip(drawn[:tasks], drawn[tasks:], units, strict=True)
        return np.mean([(a.mean(axis=1) - b.mean(axis=1)) / u for a, b, u in both], axis=0)

    return Interval(*statistics.bootstrap([*x, *y], gains).tolist())


def judge(comparisons: Sequence[Comparison]) -> list[Verdict]:
    """What each comparison of a figure decides.

    "better" or "worse" needs both: an interval of P(first > second) that leaves out 1/2, and a
    corrected p-value below 0.05.  "impossible" says that so few seeds could not have decided,
    whatever they had shown; "undecided", that they could have.
    """
    level = 1.0 - statistics.COVERAGE
    corrected = statistics.holm([c.p_value for c in comparisons])
    best = statistics.holm([c.floor for c in comparisons])
    told = []
    for comparison, p_value, floor in zip(comparisons, corrected, best, strict=True):
        low, _, high = comparison.probability
        if p_value < level and (low > 0.5 or high < 0.5):
            word = "better" if low > 0.5 else "worse"
        else:
            word = "impossible" if floor >= level else "undecided"
        told.append(Verdict(word, p_value, floor))
    return told


def notes(sweep: Sweep, records: Sequence[Record]) -> list[str]:
    """What a reader must know first: settings that are not the spec's, runs that are not there."""
    told = []
    if sweep.changed:
        parts = "; ".join(f"{name} {_short(value)}" for name, value in sweep.changed.items())
        told.append(f"Changed on the command line: {parts}.")
    done = sum(record.done for record in records)
    if done < len(records):
        missing: dict[tuple[str, str], list[bool]] = {}
        for record in records:
            missing.setdefault((record.variant, record.task), []).append(record.done)
        short = [
            f"{variant} on {task} {sum(seeds)} of {len(seeds)}"
            for (variant, task), seeds in missing.items()
            if not all(seeds)
        ]
        more = f" and {len(short) - 4} more" if len(short) > 4 else ""
        told.append(
            f"Incomplete: {done} of {len(records)} runs are finished (seeds: "
            f"{', '.join(short[:4])}{more})."
        )
    return told


def _short(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
