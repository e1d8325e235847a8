"""fig:ablation: normalised final returns along one setting, on each task and on average."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gammaprime.figures import statistics, summaries
from gammaprime.figures.options import FigureOptions, Panel
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
    from gammaprime.sweeps.records import Record
    from gammaprime.sweeps.sweep import Sweep

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

    @property
    def shared(self) -> tuple[str, ...]:
        """The tasks that every point has, of those that have any: averages over others differ."""
        begun = [own for own in self.seeds if any(len(seeds) for seeds in own)]
        there = [all(len(own[i]) for own in begun) for i in range(len(self.tasks))]
        return tuple(task for task, all_there in zip(self.tasks, there, strict=True) if all_there)

    def of_shared(self) -> list[list[Array]]:
        """Of each value, the seeds of the tasks that are averaged."""
        places = [self.tasks.index(task) for task in self.shared]
        return [[own[i] for i in places if len(own[i])] for own in self.seeds]


def draw(
    sweep: Sweep, records: Sequence[Record], folder: Path, options: FigureOptions
) -> list[Path]:
    """The figure as PNG and SVG, and its points as CSV.

    Paper: fig:ablation, x:normalised-score.
    """
    return [
        *save(plot(sweep, records, options), folder, sweep.name),
        write_csv(folder / f"{sweep.name}.csv", columns(scores(records, options), options)),
    ]


def scores(records: Sequence[Record], options: FigureOptions) -> list[Scores]:
    """Of each panel: a seed's final return over the mean final return of the baseline."""
    returns = summaries.finals(records, options)
    tasks = summaries.tasks_of(records)
    none = np.empty(0)
    unit = {task: returns.get((options.normalise_by, task), none) for task in tasks}
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


def columns(found: Sequence[Scores], options: FigureOptions) -> dict[str, list[Any]]:
    """A row for each point of each line, and for each average, which alone has an interval."""
    about = ("label", "value", "variant", "task", "seeds")
    names = (*about, "mean", "median", "interquartile_mean", "interval_of", "low", "high")
    interval_of = CENTRES[options.band][0].replace(" ", "_")
    rows: list[tuple[Any, ...]] = []
    for scored in found:
        panel = scored.panel
        points = zip(panel.values, panel.variants, scored.seeds, scored.of_shared(), strict=True)
        for value, variant, by_task, shared in points:
            point = (panel.label, value, variant)
            for task, own in zip(scored.tasks, by_task, strict=True):
                middle = float(np.median(own)) if own.size else np.nan
                told = centres([own] if own.size else [], middle)
                rows.append((*point, task, *told, "", np.nan, np.nan))
            low, _, high = average(shared, options)
            told = centres(shared, median(shared))
            rows.append((*point, "average", *told, interval_of, low, high))
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def centres(seeds: Sequence[Array], middle: float) -> tuple[int, float, float, float]:
    """How many seeds, the mean over tasks of their means, this median, and what iqm shows."""
    if not seeds:
        return 0, np.nan, np.nan, np.nan
    pooled = np.concatenate(seeds)
    mean = float(np.mean([own.mean() for own in seeds]))
    return pooled.size, mean, middle, float(statistics.interquartile_mean(pooled))


def average(seeds: Sequence[Array], options: FigureOptions) -> statistics.Interval:
    """Over tasks; NaN of none."""
    if not seeds:
        return statistics.Interval(np.nan, np.nan, np.nan)
    return CENTRES[options.band][1](seeds)


def median(seeds: Sequence[Array]) -> float:
    """Over tasks, of the means over seeds."""
    return float(np.median([own.mean() for own in seeds])) if seeds else np.nan


def plot(sweep: Sweep, records: Sequence[Record], options: FigureOptions) -> Figure:
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


def panels(
    found: Sequence[Scores], options: FigureOptions
) -> list[tuple[str, Callable[[Axes], None]]]:
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


def draw_average(axes: Axes, own: Scores, options: FigureOptions) -> None:
    """The average with its interval, and the median over tasks."""
    shared = own.of_shared()
    three = np.array([average(seeds, options) for seeds in shared]).T
    places = np.arange(len(own.panel.values))
    axes.fill_between(places, three[0], three[2], color=BLUE, alpha=0.16, linewidth=0)
    axes.plot(
        places, three[1], color=BLUE, marker="o", markersize=4, label=CENTRES[options.band][0]
    )
    medians = [median(seeds) for seeds in shared]
    axes.plot(places, medians, color=ORANGE, marker="s", markersize=4, label="median of tasks")
    axes.legend(loc="best")
    _set_axis(axes, own)


def _set_axis(axes: Axes, own: Scores) -> None:
    values = own.panel.values
    axes.axhline(1.0, color=BLACK, linewidth=0.8, zorder=1)
    names = ["∞" if np.isinf(value) else f"{value:g}" for value in values]
    axes.set_xticks(range(len(values)), names)
    axes.set(xlabel=own.panel.label, ylabel="normalised return")


def caption(sweep: Sweep, records: Sequence[Record], options: FigureOptions) -> str:
    """What is drawn, and what it lacks."""
    return " ".join([*summaries.notes(sweep, records), describe(records, options)])


def describe(records: Sequence[Record], options: FigureOptions) -> str:
    """What is normalised by what, and which tasks that leaves out."""
    found = scores(records, options)
    usable = {task for own in found for task in own.tasks}
    left_out = [task for task in summaries.tasks_of(records) if task not in usable]
    missing = f" Left out, for no positive mean of {options.normalise_by}: {', '.join(left_out)}."
    fewer = "".join(
        f" Averages along {own.panel.label} are over what all their points have: "
        f"{', '.join(own.shared) or 'no task'}."
        for own in found
        if own.shared != own.tasks
    )
    return (
        f"Normalised: a seed's final return over the mean final return of {options.normalise_by} "
        "on that task. Band: 95 % bootstrap interval, seeds resampled inside each task."
        f"{missing if left_out else ''}{fewer}"
    )
