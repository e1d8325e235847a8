"""Returns of the runs of a sweep: final returns by variant and task, and what is missing.

The spec says whether agents are judged by the episodes of training or by evaluations.  A final
return needs a finished run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from gammaprime.figures import statistics
from gammaprime.figures.options import FigureOptions
from gammaprime.runs.results import Result
from gammaprime.typing import FloatArray

Finals = dict[tuple[str, str], FloatArray]
"""Final returns of the finished seeds, by variant and task."""

RETURN, J_GAMMA, J_GAMMA_PRIME = 0, 1, 2
"""Undiscounted return, return at γ, return at γ'."""

CENTRES = {
    "median_std": ("mean", statistics.mean_interval),
    "iqm": ("interquartile mean", statistics.pooled_iqm_interval),
}
"""Averages of scores over tasks and their names, by the band of a figure."""

LAST_SHARE = 0.1
"""In training, a final return is the mean over episodes that ended in the last tenth of steps."""


def read_returns(
    result: Result, returns: str, quantity: int = RETURN
) -> tuple[FloatArray, FloatArray]:
    """Return the steps at which episodes ended or evaluations took place, and their returns."""
    if returns == "training":
        rows, column = result.episodes, 2 + quantity
    else:
        rows, column = result.evaluations, 1 + quantity
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    return rows[:, 0], rows[:, column]


def final_return(result: Result, options: FigureOptions, quantity: int = RETURN) -> float:
    """Return at the end of a run, or NaN if nothing was recorded.

    Paper: table:td3, fig:ablation.
    """
    steps, values = read_returns(result, options.returns, quantity)
    if not len(values):
        return np.nan
    if options.returns == "evaluations":
        return float(values[-options.last :].mean())
    end = float(result.steps)
    return float(statistics.window_means(steps, values, [end], LAST_SHARE * end)[0])


def describe_final(options: FigureOptions) -> str:
    """Say what a final return is a mean over."""
    if options.returns == "evaluations":
        return f"the last {options.last} evaluations"
    return f"the training episodes of the last {100 * LAST_SHARE:g} % of steps"


def finals(results: Iterable[Result], options: FigureOptions, quantity: int = RETURN) -> Finals:
    """Final returns of all finished runs, by variant and task."""
    found = {}
    for group in groups(results):
        seeds = [final_return(result, options, quantity) for result in group if result.done]
        key = (group[0].variant, group[0].task)
        found[key] = np.array([x for x in seeds if np.isfinite(x)], np.float64)
    return found


def scores(results: Sequence[Result], options: FigureOptions) -> Finals:
    """Final returns in units of the mean of ``normalise_by`` on the same task.

    Left out: tasks on which that mean is not positive, and variants without a finished seed.

    Paper: x:normalised-score.
    """
    returns = finals(results, options)
    found = {}
    for (variant, task), own in returns.items():
        unit = returns.get((options.normalise_by, task), np.empty(0))
        if own.size and unit.size and unit.mean() > 0:
            found[variant, task] = statistics.normalise(own, unit)
    return found


def scored_tasks(scores: Finals, results: Iterable[Result]) -> tuple[str, ...]:
    """Tasks on which all variants with scores have some; other averages do not compare."""
    variants = {variant for variant, _ in scores}
    everywhere = tasks_of(results) if variants else ()
    return tuple(task for task in everywhere if all((v, task) in scores for v in variants))


def groups(results: Iterable[Result]) -> list[list[Result]]:
    """Seeds of each variant on each task, in the order of the spec."""
    found: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        found.setdefault((result.variant, result.task), []).append(result)
    return list(found.values())


def tasks_of(results: Iterable[Result]) -> tuple[str, ...]:
    """Tasks of the runs, in the order of the spec."""
    return tuple(dict.fromkeys(result.task for result in results))


def count_seeds(results: Iterable[Result]) -> str:
    """Say how many seeds there are: "5 seeds", or of which variants how many if they differ."""
    counts: dict[str, set[int]] = {}
    for group in groups(results):
        counts.setdefault(group[0].variant, set()).add(len(group))
    if len(set().union(*counts.values())) == 1:
        (number,) = set().union(*counts.values())
        return "one seed" if number == 1 else f"{number} seeds"
    alike: dict[str, list[str]] = {}
    for name, own in counts.items():
        alike.setdefault(show_range(own), []).append(name)
    each = [f"{count} of {', '.join(names)}" for count, names in alike.items()]
    return f"seeds ({'; '.join(each)})"


def show_range(numbers: Iterable[int]) -> str:
    """Show 5, or 3 to 5."""
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def notes(options: FigureOptions, results: Sequence[Result]) -> list[str]:
    """Tell which settings are not the spec's, and which runs are missing."""
    told = []
    if options.changed:
        parts = "; ".join(f"{name} {_show(value)}" for name, value in options.changed.items())
        told.append(f"Changed on the command line: {parts}.")
    done = sum(result.done for result in results)
    if done < len(results):
        short = [
            f"{group[0].variant} on {group[0].task} {sum(r.done for r in group)} of {len(group)}"
            for group in groups(results)
            if not all(result.done for result in group)
        ]
        more = f" and {len(short) - 4} more" if len(short) > 4 else ""
        told.append(
            f"Incomplete: {done} of {len(results)} runs are finished (seeds: "
            f"{', '.join(short[:4])}{more})."
        )
    return told


def _show(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
