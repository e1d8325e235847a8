"""fig:onpolicy and the other learning curves: a panel for each task, a line for each variant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gammaprime.figures import statistics, style, summaries
from gammaprime.figures.options import FigureOptions
from gammaprime.figures.style import Axes, Figure
from gammaprime.runs.results import Result
from gammaprime.typing import FloatArray

WINDOW_SHARE = 0.05
"""A point of a line is the mean over the last twentieth of all steps."""
NUM_POINTS = 100
BANDS = {
    "median_std": ("median ± standard deviation", statistics.median_std),
    "iqm": (
        f"interquartile mean with its {100 * statistics.COVERAGE:g} % bootstrap interval",
        statistics.iqm_interval,
    ),
}


class Line(NamedTuple):
    """Returns of a variant on a task over steps."""

    variant: str
    task: str
    asked: int
    """Number of seeds that the spec asks for."""
    grid: FloatArray
    three: FloatArray
    """Low, middle, high; NaN where no seed has got to."""
    seeds: FloatArray
    """Number of seeds that have got to each point."""


def draw(options: FigureOptions, results: Sequence[Result], folder: Path) -> list[Path]:
    """Write the figure as PNG and SVG, and its points as CSV.

    Paper: fig:onpolicy, fig:onpolicy-state, fig:separating, fig:td3, fig:sac.
    """
    names = ("task", "variant", "step", "low", "middle", "high", "seeds", "seeds_asked")
    rows = [
        (line.task, line.variant, step, *three, seeds, line.asked)
        for line in lines(results, options)
        for step, three, seeds in zip(
            line.grid.tolist(), line.three.T.tolist(), line.seeds.tolist(), strict=True
        )
        if seeds
    ]
    figure = plot(options, results)
    return [
        *style.save(figure, folder, options.name, style.PRINTED, options.formats),
        style.write_csv(folder / f"{options.name}.csv", names, rows),
    ]


def lines(results: Sequence[Result], options: FigureOptions) -> list[Line]:
    """Lines of each variant on each task, in the order of the spec."""
    return [_line(group, options) for group in summaries.groups(results)]


def _line(group: Sequence[Result], options: FigureOptions) -> Line:
    first = group[0]
    grid = first.steps * np.arange(1, NUM_POINTS + 1) / NUM_POINTS
    curves = np.stack([_curve(result, grid, options.returns) for result in group])
    there = np.isfinite(curves)
    three = np.full((3, len(grid)), np.nan)
    _, centre = BANDS[options.band]
    for who in np.unique(there, axis=1).T:
        if who.any():
            points = (there == who[:, None]).all(axis=0)
            three[:, points] = centre(curves[who][:, points])
    return Line(first.variant, first.task, len(group), grid, three, there.sum(axis=0))


def _curve(result: Result, grid: FloatArray, returns: str) -> FloatArray:
    """Line of one seed; NaN where it has not got to.  The last rollout may end before all steps."""
    if not result.reached:
        return np.full(len(grid), np.nan)
    steps, values = summaries.read_returns(result, returns)
    curve = statistics.window_means(steps, values, grid, WINDOW_SHARE * result.steps)
    return curve if result.done else np.where(grid <= result.reached, curve, np.nan)


def plot(options: FigureOptions, results: Sequence[Result]) -> Figure:
    """Draw all panels on one sheet, with one legend."""
    drawn = lines(results, options)
    tasks = summaries.tasks_of(results)
    with style.context(style.PRINTED):
        figure, axes = style.sheet(len(tasks), options.title)
        columns = style.count_columns(len(tasks))
        for i, (task, panel) in enumerate(zip(tasks, axes, strict=True)):
            draw_task(panel, task, drawn)
            panel.set_title(task)
            panel.set_xlabel("environment steps" if i + columns >= len(tasks) else "")
            panel.set_ylabel("return" if i % columns == 0 else "")
        style.head(figure, axes[0])
        notes = summaries.notes(options, results)
        style.footnote(figure, " ".join([*notes, describe(options, results)]))
        return figure


def draw_task(axes: Axes, task: str, drawn: Sequence[Line]) -> None:
    """Draw the lines of one task, dotted where seeds are missing."""
    shown = {line.variant: line for line in drawn if line.task == task}
    for name, look in style.looks(dict.fromkeys(line.variant for line in drawn)).items():
        axes.plot([], [], label=name, color=look.color, linestyle=look.linestyle)
        if name not in shown:
            continue
        line = shown[name]
        low, middle, high = line.three
        lacking = line.seeds < line.asked
        joined = lacking | np.append(lacking[1:], False)  # from the last point that lacks none
        axes.fill_between(line.grid, low, high, color=look.color, alpha=0.16, linewidth=0)
        axes.plot(line.grid, np.where(joined, middle, np.nan), color=look.color, linestyle=":")
        solid = np.where(lacking, np.nan, middle)
        axes.plot(line.grid, solid, color=look.color, linestyle=look.linestyle)
    if not any(line.seeds.any() for line in shown.values()):
        style.mark_empty(axes)
        axes.set_yticks([])
        return
    axes.margins(x=0.0)
    axes.xaxis.set_major_formatter(style.count_steps)
    axes.locator_params(axis="x", nbins=5)


def describe(options: FigureOptions, results: Sequence[Result]) -> str:
    """Say what lines, bands and points are, and how many seeds are behind them."""
    source = "training episodes" if options.returns == "training" else "evaluations"
    dotted = "" if all(result.done for result in results) else " Dotted: not all seeds."
    return (
        f"Lines and bands: {BANDS[options.band][0]} over {summaries.count_seeds(results)}; a point "
        f"is the mean over the {source} of the last {100 * WINDOW_SHARE:g} % of steps.{dotted}"
    )
