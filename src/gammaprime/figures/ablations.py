"""fig:ablation: normalised final returns along one setting, on each task and on average."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gammaprime.figures import statistics, summaries
from gammaprime.figures.options import FigureOptions, Panel
from gammaprime.figures.style import (
    BLACK,
    BLUE,
    ORANGE,
    PRINTED,
    TASKS,
    Axes,
    Figure,
    footnote,
    head,
    looks,
    save,
    sheet,
    style,
    write_csv,
)
from gammaprime.typing import FloatArray

if TYPE_CHECKING:
    from gammaprime.sweeps.records import Record as Result

CENTRES = {
    "median_std": ("mean", statistics.mean_interval),
    "iqm": ("interquartile mean", statistics.pooled_iqm_interval),
}
COLUMNS = (
    *("label", "value", "variant", "task", "seeds"),
    *("mean", "median", "interquartile_mean", "interval_of", "low", "high"),
)


class Scores(NamedTuple):
    """Normalised final returns along one axis."""

    panel: Panel
    tasks: tuple[str, ...]
    """Tasks on which the variant to normalise by has a positive mean."""
    seeds: list[list[FloatArray]]
    """Scores of the seeds for each value, for each task."""

    @property
    def shared(self) -> tuple[str, ...]:
        """Tasks of all points that have begun: averages over different tasks do not compare."""
        begun = [own for own in self.seeds if any(len(seeds) for seeds in own)]
        there = [all(len(own[i]) for own in begun) for i in range(len(self.tasks))]
        return tuple(task for task, all_there in zip(self.tasks, there, strict=True) if all_there)

    def of_shared(self) -> list[list[FloatArray]]:
        """Scores for each value, for each task that is averaged over."""
        places = [self.tasks.index(task) for task in self.shared]
        return [[own[i] for i in places if len(own[i])] for own in self.seeds]


def draw(options: FigureOptions, results: Sequence[Result], folder: Path) -> list[Path]:
    """Write the figure as PNG and SVG, and its points as CSV.

    Paper: fig:ablation, x:normalised-score.
    """
    found = scores(results, options)
    return [
        *save(plot(options, results), folder, options.name, PRINTED),
        write_csv(folder / f"{options.name}.csv", COLUMNS, rows(found, options)),
    ]


def scores(results: Sequence[Result], options: FigureOptions) -> list[Scores]:
    """Divide the final returns of each panel by the mean of ``normalise_by`` on the same task."""
    returns = summaries.finals(results, options)
    tasks = summaries.tasks_of(results)
    none = np.empty(0)
    unit = {task: returns.get((options.normalise_by, task), none) for task in tasks}
    usable = tuple(task for task in tasks if unit[task].size and unit[task].mean() > 0)

    def normalised(variant: str) -> list[FloatArray]:
        return [
            statistics.normalise(returns.get((variant, task), none), unit[task]) for task in usable
        ]

    return [
        Scores(panel, usable, [normalised(variant) for variant in panel.variants])
        for panel in options.panels
    ]


def rows(found: Sequence[Scores], options: FigureOptions) -> Iterator[tuple[Any, ...]]:
    """Rows of COLUMNS for each point of each line, and for each average with its interval."""
    interval_of = CENTRES[options.band][0].replace(" ", "_")
    for scored in found:
        panel = scored.panel
        points = zip(panel.values, panel.variants, scored.seeds, scored.of_shared(), strict=True)
        for value, variant, by_task, shared in points:
            point = (panel.label, value, variant)
            for task, own in zip(scored.tasks, by_task, strict=True):
                middle = float(np.median(own)) if own.size else np.nan
                centre = _centres([own] if own.size else [], middle)
                yield (*point, task, *centre, "", np.nan, np.nan)
            low, _, high = average(shared, options)
            centre = _centres(shared, median(shared))
            yield (*point, "average", *centre, interval_of, low, high)


def _centres(seeds: Sequence[FloatArray], middle: float) -> tuple[int, float, float, float]:
    """Number of seeds, mean over tasks of their means, the given median, interquartile mean."""
    if not seeds:
        return 0, np.nan, np.nan, np.nan
    pooled = np.concatenate(seeds)
    mean = float(np.mean([own.mean() for own in seeds]))
    return pooled.size, mean, middle, float(statistics.interquartile_mean(pooled))


def average(seeds: Sequence[FloatArray], options: FigureOptions) -> statistics.Interval:
    """Average over tasks with its interval; NaN for no tasks."""
    return CENTRES[options.band][1](seeds) if seeds else statistics.UNKNOWN


def median(seeds: Sequence[FloatArray]) -> float:
    """Median over tasks of the means over seeds; NaN for no tasks."""
    return float(np.median([own.mean() for own in seeds])) if seeds else np.nan


def plot(options: FigureOptions, results: Sequence[Result]) -> Figure:
    """Draw two panels for each axis: all tasks, and their average."""
    found = scores(results, options)
    parts = panels(found, options)
    with style(PRINTED):
        figure, axes = sheet(len(parts), options.title, most=2)
        for letter, (title, draw_panel), panel in zip("abcdefgh", parts, axes, strict=False):
            draw_panel(panel)
            panel.set_title(f"({letter}) {title}")
        head(figure, axes[0])
        notes = summaries.notes(options, results)
        footnote(figure, " ".join([*notes, describe(options, results, found)]))
        return figure


def panels(
    found: Sequence[Scores], options: FigureOptions
) -> list[tuple[str, Callable[[Axes], None]]]:
    """Title and drawing function of each panel: all tasks and their average, for each axis."""
    parts: list[tuple[str, Callable[[Axes], None]]] = []
    for own in found:
        parts.append((f"{own.panel.label}, each task", partial(_draw_tasks, own=own)))
        together = partial(_draw_average, own=own, options=options)
        parts.append((f"{own.panel.label}, average", together))
    return parts


def _draw_tasks(axes: Axes, own: Scores) -> None:
    """Draw the mean over seeds of each task."""
    for i, (task, look) in enumerate(looks(own.tasks, TASKS).items()):
        means = [seeds[i].mean() if seeds[i].size else np.nan for seeds in own.seeds]
        line: dict[str, Any] = {"color": look.color, "linestyle": look.linestyle}
        axes.plot(means, marker="o", markersize=3, label=task, **line)
    _set_axis(axes, own)


def _draw_average(axes: Axes, own: Scores, options: FigureOptions) -> None:
    """Draw the average with its interval, and the median over tasks."""
    shared = own.of_shared()
    three = np.array([average(seeds, options) for seeds in shared]).T
    places = np.arange(len(own.panel.values))
    axes.fill_between(places, three[0], three[2], color=BLUE, alpha=0.16, linewidth=0)
    centre, _ = CENTRES[options.band]
    axes.plot(places, three[1], color=BLUE, marker="o", markersize=3, label=centre)
    medians = [median(seeds) for seeds in shared]
    axes.plot(places, medians, color=ORANGE, marker="s", markersize=3, label="median of tasks")
    axes.legend(loc="best")
    _set_axis(axes, own)


def _set_axis(axes: Axes, own: Scores) -> None:
    values = own.panel.values
    axes.axhline(1.0, color=BLACK, linewidth=0.8, zorder=1)
    names = ["∞" if np.isinf(value) else f"{value:g}" for value in values]
    axes.set_xticks(range(len(values)), names)
    axes.set(xlabel=own.panel.label, ylabel="normalised return")


def describe(options: FigureOptions, results: Sequence[Result], found: Sequence[Scores]) -> str:
    """Say what is normalised by what, over how many seeds, and which tasks are left out."""
    unit = options.normalise_by
    usable = {task for own in found for task in own.tasks}
    left_out = [task for task in summaries.tasks_of(results) if task not in usable]
    text = (
        f"Normalised: a seed's final return over the mean final return of {unit} on that task, "
        f"over {summaries.count_seeds(results)}. Band: {100 * statistics.COVERAGE:g} % bootstrap "
        "interval, seeds resampled inside each task."
    )
    if left_out:
        text += f" Left out, because {unit} has no positive mean there: {', '.join(left_out)}."
    for own in found:
        if own.shared != own.tasks:
            text += (
                f" Averages along {own.panel.label} are over the tasks that all their points "
                f"have: {', '.join(own.shared) or 'none'}."
            )
    return text
