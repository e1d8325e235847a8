"""fig:ablation: normalised final returns along one setting, on each task and on average."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gammaprime.figures import statistics, summaries
from gammaprime.figures.options import Options, Panel
from gammaprime.figures.style import (
    BLACK,
    BLUE,
    ORANGE,
    Axes,
    Figure,
    footnote,
    head,
    look,
    save,
    sheet,
    style,
    write_csv,
)

if TYPE_CHECKING:
    from gammaprime.suite.records import Record
    from gammaprime.suite.sweep import Sweep

Array = NDArray[np.float64]

CENTRES = {
    "median_std": ("mean", statistics.mean_interval),
    "iqm": ("interquartile mean", statistics.pooled_iqm_interval),
}


class Scores(NamedTuple):
    """Normalised final returns along one axis."""

    panel: Panel
    tasks: tuple[str, ...]
    """Those with a baseline to normalise by."""
    seeds: list[list[Array]]
    """Of each value, of each task."""


def draw(sweep: Sweep, records: Sequence[Record], folder: Path, options: Options) -> list[Path]:
    """The figure as PNG and SVG, and its points as CSV.

    Paper: fig:ablation, x:normalised-score.
    """
    return [
        *save(plot(sweep, records, options), folder, sweep.name),
        write_csv(folder / f"{sweep.name}.csv", columns(scores(records, options), options)),
    ]


def scores(records: Sequence[Record], options: Options) -> list[Scores]:
    """Of each panel: a seed's final return over the mean final return of the baseline."""
    returns = summaries.finals(records, options)
    tasks = summaries.tasks_of(records)
    none = np.empty(0)
    unit = {task: returns.get((options.baseline, task), none) for task in tasks}
    usable = tuple(task for task in tasks if unit[task].size and unit[task].mean() > 0)

    def normalised(variant: str) -> list[Array]:
        own = [returns.get((variant, task), none) for task in usable]
        return [
            statistics.normalise(seeds, unit[task]) for seeds, task in zip(own, usable, strict=True)
        ]

    return [
        Scores(panel, usable, [normalised(variant) for variant in panel.variants])
        for panel in options.panels
    ]


def columns(found: Sequence[Scores], options: Options) -> dict[str, list[Any]]:
    """A row for each point of each line; the interval is of the average."""
    names = ("label", "value", "variant", "task", "seeds", "mean", "median", "low", "high")
    rows: list[tuple[Any, ...]] = []
    for panel, tasks, by_value in found:
        for value, variant, seeds in zip(panel.values, panel.variants, by_value, strict=True):
            for task, own in zip(tasks, seeds, strict=True):
                middle = (own.mean(), np.median(own)) if own.size else (np.nan, np.nan)
                about = (panel.label, value, variant, task, own.size)
                rows.append((*about, *map(float, middle), np.nan, np.nan))
            low, centre, high = average(seeds, options)
            total = sum(own.size for own in seeds)
            about = (panel.label, value, variant, "average", total)
            rows.append((*about, centre, median(seeds), low, high))
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def average(seeds: Sequence[Array], options: Options) -> statistics.Interval:
    """Over the tasks that have seeds; NaN of none."""
    there = [own for own in seeds if own.size]
    if not there:
        return statistics.Interval(np.nan, np.nan, np.nan)
    return CENTRES[options.band][1](there)


def median(seeds: Sequence[Array]) -> float:
    """Over tasks, of the means over seeds."""
    means = [own.mean() for own in seeds if own.size]
    return float(np.median(means)) if means else np.nan


def plot(sweep: Sweep, records: Sequence[Record], options: Options) -> Figure:
    """Two panels for each axis: tasks, and their average."""
    parts = panels(scores(records, options), options)
    with style():
        figure, axes = sheet(len(parts), 2, 5.4, 3.4)
        for letter, (title, draw_panel), panel in zip("abcdefgh", parts, axes, strict=False):
            draw_panel(panel)
            panel.set_title(f"({letter}) {title}")
        head(figure, sweep.title, axes[0])
        footnote(figure, caption(sweep, records, options))
        return figure


def panels(found: Sequence[Scores], options: Options) -> list[tuple[str, Callable[[Axes], None]]]:
    """What is drawn, with its title: each task and the average, of each axis."""
    parts: list[tuple[str, Callable[[Axes], None]]] = []
    for own in found:
        parts.append((f"{own.panel.label}, each task", partial(draw_tasks, own=own)))
        average = partial(draw_average, own=own, options=options)
        parts.append((f"{own.panel.label}, average", average))
    return parts


def draw_tasks(axes: Axes, own: Scores) -> None:
    """The mean over seeds of each task."""
    for i, task in enumerate(own.tasks):
        means = [seeds[i].mean() if seeds[i].size else np.nan for seeds in own.seeds]
        marks: dict[str, Any] = {"color": look(i)["color"], "marker": "o", "markersize": 4}
        axes.plot(means, linestyle=dashes(task), label=task, **marks)
    _set_axis(axes, own)


def dashes(task: str) -> str:
    """PyBullet's tasks are dashed, as in the paper."""
    return "--" if "Bullet" in task else "-"


def draw_average(axes: Axes, own: Scores, options: Options) -> None:
    """The average with its interval, and the median over tasks."""
    three = np.array([average(seeds, options) for seeds in own.seeds]).T
    places = np.arange(len(own.panel.values))
    axes.fill_between(places, three[0], three[2], color=BLUE, alpha=0.16, linewidth=0)
    axes.plot(
        places, three[1], color=BLUE, marker="o", markersize=4, label=CENTRES[options.band][0]
    )
    medians = [median(seeds) for seeds in own.seeds]
    axes.plot(places, medians, color=ORANGE, marker="s", markersize=4, label="median of tasks")
    axes.legend(loc="best")
    _set_axis(axes, own)


def _set_axis(axes: Axes, own: Scores) -> None:
    values = own.panel.values
    axes.axhline(1.0, color=BLACK, linewidth=0.8, zorder=1)
    names = ["∞" if np.isinf(value) else f"{value:g}" for value in values]
    axes.set_xticks(range(len(values)), names)
    axes.set(xlabel=own.panel.label, ylabel="normalised return")


def caption(sweep: Sweep, records: Sequence[Record], options: Options) -> str:
    """What is drawn, and what it lacks."""
    return " ".join([*summaries.notes(sweep, records), describe(records, options)])


def describe(records: Sequence[Record], options: Options) -> str:
    """What is normalised by what, and which tasks that leaves out."""
    usable = {task for own in scores(records, options) for task in own.tasks}
    left_out = [task for task in summaries.tasks_of(records) if task not in usable]
    missing = f" Left out, for no positive mean of {options.baseline}: {', '.join(left_out)}."
    return (
        f"Normalised: a seed's final return over the mean final return of {options.baseline} on "
        "that task. Band: 95 % bootstrap interval, seeds resampled inside each task."
        f"{missing if left_out else ''}"
    )
