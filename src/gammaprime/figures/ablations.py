"""fig:ablation: normalised final returns along one setting, on each task and on average."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gammaprime.figures import statistics, style, summaries
from gammaprime.figures.options import FigureOptions, Panel
from gammaprime.figures.statistics import UNKNOWN, Interval
from gammaprime.figures.style import BLACK, BLUE, ORANGE, Axes, Figure
from gammaprime.figures.tables import write_rows
from gammaprime.runs.results import Result
from gammaprime.typing import FloatArray

AVERAGE = "average"


class Point(NamedTuple):
    """Normalised final returns of a variant on a task, or on average over tasks."""

    label: str
    value: float
    variant: str
    task: str
    over: tuple[str, ...]
    """Tasks that are averaged: those that all points of the axis have."""
    seeds: int
    mean: float
    """Mean over tasks of the means over seeds."""
    median: float
    """Median over seeds; of an average, the median over tasks of the means over seeds."""
    interquartile_mean: float
    interval_of: str
    """Centre that the interval of an average is of."""
    interval: Interval


def draw(options: FigureOptions, results: Sequence[Result], folder: Path) -> list[Path]:
    """Write the figure as PNG and SVG, and its points as CSV.

    Paper: fig:ablation, x:normalised-score.
    """
    file = folder / f"{options.name}.csv"
    return [
        *style.save(plot(options, results), folder, options.name, style.PRINTED, options.formats),
        write_rows(file, Point, points(results, options)),
    ]


def points(results: Sequence[Result], options: FigureOptions) -> list[Point]:
    """Points of all axes: final returns over the mean of ``normalise_by`` on the same task.

    Tasks on which that mean is not positive are left out.
    """
    scores = summaries.scores(results, options)
    units = [t for t in summaries.tasks_of(results) if (options.normalise_by, t) in scores]
    found = []
    for panel in options.panels:
        scored = {
            variant: {task: scores[variant, task] for task in units if (variant, task) in scores}
            for variant in panel.variants
        }
        # Averages over different tasks do not compare.
        begun = [own for own in scored.values() if own]
        shared = [task for task in units if all(task in own for own in begun)]
        places = [*((task, [task]) for task in units), (AVERAGE, shared)]
        for value, variant in zip(panel.values, panel.variants, strict=True):
            own, about = scored[variant], (panel.label, value, variant)
            for place, tasks in places:
                seeds = {task: own[task] for task in tasks if task in own}
                found.append(_point(about, place, seeds, options))
    return found


def _point(
    about: tuple[str, float, str], task: str, seeds: dict[str, FloatArray], options: FigureOptions
) -> Point:
    strata = list(seeds.values())
    centre, interval = summaries.CENTRES[options.band]
    over = tuple(seeds) if task == AVERAGE else ()
    name = centre.replace(" ", "_") if task == AVERAGE else ""
    if not strata:
        return Point(*about, task, over, 0, np.nan, np.nan, np.nan, name, UNKNOWN)
    means = [own.mean() for own in strata]
    pooled = np.concatenate(strata)
    return Point(
        *about,
        task,
        over,
        pooled.size,
        float(np.mean(means)),
        float(np.median(means if task == AVERAGE else pooled)),
        float(statistics.interquartile_mean(pooled)),
        name,
        interval(strata) if task == AVERAGE else UNKNOWN,
    )


def plot(options: FigureOptions, results: Sequence[Result]) -> Figure:
    """Draw two panels for each axis: all tasks, and their average."""
    found = points(results, options)
    parts = panels(found, options)
    with style.context(style.PRINTED):
        figure, axes = style.sheet(len(parts), options.title, most=2)
        for letter, (title, draw_panel), panel in zip("abcdefgh", parts, axes, strict=False):
            draw_panel(panel)
            panel.set_title(f"({letter}) {title}")
        style.head(figure, axes[0])
        notes = summaries.notes(options, results)
        style.footnote(figure, " ".join([*notes, describe(options, results, found)]))
        return figure


def panels(
    found: Sequence[Point], options: FigureOptions
) -> list[tuple[str, Callable[[Axes], None]]]:
    """Title and drawing function of each panel: all tasks and their average, for each axis."""
    parts: list[tuple[str, Callable[[Axes], None]]] = []
    for panel in options.panels:
        own = [point for point in found if point.label == panel.label]
        parts.append((f"{panel.label}, each task", partial(_draw_tasks, panel=panel, own=own)))
        average = partial(_draw_average, panel=panel, own=own, options=options)
        parts.append((f"{panel.label}, average", average))
    return parts


def tasks_of(found: Sequence[Point]) -> list[str]:
    """Tasks that are drawn."""
    return list(dict.fromkeys(point.task for point in found if point.task != AVERAGE))


def _draw_tasks(axes: Axes, panel: Panel, own: Sequence[Point]) -> None:
    """Draw the mean over seeds of each task."""
    for task, look in style.looks(tasks_of(own), style.TASKS).items():
        means = [point.mean for point in own if point.task == task]
        line: dict[str, Any] = {"color": look.color, "linestyle": look.linestyle}
        # Open where the line is dashed: a point without neighbours shows no line.
        fill = look.color if look.linestyle == "-" else "white"
        axes.plot(means, marker="o", markersize=3, markerfacecolor=fill, label=task, **line)
    _set_axis(axes, panel)


def _draw_average(axes: Axes, panel: Panel, own: Sequence[Point], options: FigureOptions) -> None:
    """Draw the average with its interval, and the median over tasks."""
    averages = [point for point in own if point.task == AVERAGE]
    low, centre, high = np.array([point.interval for point in averages]).T
    places = np.arange(len(averages))
    axes.fill_between(places, low, high, color=BLUE, alpha=0.16, linewidth=0)
    name, _ = summaries.CENTRES[options.band]
    axes.plot(places, centre, color=BLUE, marker="o", markersize=3, label=name)
    medians = [point.median for point in averages]
    axes.plot(places, medians, color=ORANGE, marker="s", markersize=3, label="median of tasks")
    # On white, because the line at 1 crosses the whole panel.
    axes.legend(loc="best", frameon=True, edgecolor="none", framealpha=0.85)
    _set_axis(axes, panel)


def _set_axis(axes: Axes, panel: Panel) -> None:
    axes.axhline(1.0, color=BLACK, linewidth=0.8, zorder=1)
    names = ["∞" if np.isinf(value) else f"{value:g}" for value in panel.values]
    axes.set_xticks(range(len(names)), names)
    axes.set(xlabel=panel.label, ylabel="normalised return")


def describe(options: FigureOptions, results: Sequence[Result], found: Sequence[Point]) -> str:
    """Say what is normalised by what, over how many seeds, and which tasks are left out."""
    unit, drawn = options.normalise_by, tasks_of(found)
    left_out = [task for task in summaries.tasks_of(results) if task not in drawn]
    text = (
        f"Normalised: a seed's final return over the mean final return of {unit} on that task, "
        f"over {summaries.count_seeds(results)}. Band: {100 * statistics.COVERAGE:g} % bootstrap "
        "interval, seeds resampled inside each task."
    )
    if left_out:
        text += f" Left out, because {unit} has no positive mean there: {', '.join(left_out)}."
    for label in dict.fromkeys(point.label for point in found):
        over = max((p.over for p in found if p.label == label), key=len)
        if len(over) < len(drawn):
            text += (
                f" Averages along {label} are over the tasks that all their points have: "
                f"{', '.join(over) or 'none'}."
            )
    return text
