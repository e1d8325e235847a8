"""Final returns: a row for each variant, a dot for each seed, a panel for each task and an average.

For sweeps of many variants, whose learning curves would cover each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from gammaprime.figures import statistics, style, summaries
from gammaprime.figures.options import FigureOptions
from gammaprime.figures.style import BLACK, Axes, Figure
from gammaprime.runs.results import Result

ROW = 0.145
"""Height in inches of the row of a variant."""


def draw(options: FigureOptions, results: Sequence[Result], folder: Path) -> list[Path]:
    """Write the figure as PNG and SVG, and its dots as CSV."""
    names = ("task", "variant", "seed", "final_return")
    rows = [
        (result.task, result.variant, result.seed, summaries.final_return(result, options))
        for result in results
        if result.done
    ]
    figure = plot(options, results)
    return [
        *style.save(figure, folder, options.name, style.PRINTED, options.formats),
        style.write_csv(folder / f"{options.name}.csv", names, rows),
    ]


def plot(options: FigureOptions, results: Sequence[Result]) -> Figure:
    """Draw all panels on one sheet; only those on the left name the variants."""
    parts = panels(options, results)
    columns = style.count_columns(len(parts), most=2)
    with style.context(style.PRINTED):
        height = ROW * len(options.variants) + 0.5
        figure, axes = style.sheet(len(parts), options.title, most=2, height=height)
        for i, ((title, draw_panel), panel) in enumerate(zip(parts, axes, strict=True)):
            draw_panel(panel)
            panel.set_title(title)
            if i % columns:
                panel.tick_params(labelleft=False)
        style.head(figure, axes[0])
        notes = summaries.notes(options, results)
        style.footnote(figure, " ".join([*notes, describe(options, results)]))
        return figure


def panels(
    options: FigureOptions, results: Sequence[Result]
) -> list[tuple[str, Callable[[Axes], None]]]:
    """Title and drawing function of each panel: every task, then the average over tasks."""
    returns = summaries.finals(results, options)
    tasks = summaries.tasks_of(results)
    draw_each = [(task, partial(_draw_task, options, returns, task)) for task in tasks]
    return [*draw_each, ("average", partial(_draw_average, options, results))]


def _draw_task(options: FigureOptions, returns: summaries.Finals, task: str, axes: Axes) -> None:
    """Draw every seed, and the mean of each variant."""
    for i, (variant, look) in enumerate(style.looks(options.variants).items()):
        seeds = returns.get((variant, task), np.empty(0))
        axes.plot(seeds, np.full(len(seeds), i), "o", color=look.color, markersize=3, alpha=0.7)
        if len(seeds):
            axes.plot(seeds.mean(), i, "|", color=BLACK, markersize=8, markeredgewidth=1.3)
    _set_axis(axes, options, "final return")
    if not any(len(returns.get((variant, task), ())) for variant in options.variants):
        style.mark_empty(axes)
        return
    unit = returns.get((options.normalise_by, task), np.empty(0))
    if len(unit):
        axes.axvline(float(unit.mean()), color=BLACK, linewidth=0.8, zorder=1)
    if task in options.levels:
        axes.axvline(options.levels[task], color=BLACK, linewidth=0.8, linestyle=":", zorder=1)


def _draw_average(options: FigureOptions, results: Sequence[Result], axes: Axes) -> None:
    """Draw the average score of each variant with its interval."""
    scores = summaries.scores(results, options)
    tasks = summaries.scored_tasks(scores, results)
    _, centre = summaries.CENTRES[options.band]
    for i, (variant, look) in enumerate(style.looks(options.variants).items()):
        if tasks and (variant, tasks[0]) in scores:
            low, value, high = centre([scores[variant, task] for task in tasks])
            axes.plot([low, high], [i, i], color=look.color, linewidth=1.6)
            axes.plot(value, i, "o", color=look.color, markersize=4)
    _set_axis(axes, options, f"relative to {options.normalise_by}")
    if tasks:
        axes.axvline(1.0, color=BLACK, linewidth=0.8, zorder=1)
    else:
        style.mark_empty(axes)


def _set_axis(axes: Axes, options: FigureOptions, label: str) -> None:
    axes.set_yticks(range(len(options.variants)), options.variants)
    axes.set_ylim(len(options.variants) - 0.4, -0.6)
    axes.set_xlabel(label)
    axes.locator_params(axis="x", nbins=3)


def describe(options: FigureOptions, results: Sequence[Result]) -> str:
    """Say what dots, bars and lines are, and how many seeds are behind them."""
    name, _ = summaries.CENTRES[options.band]
    tasks = summaries.scored_tasks(summaries.scores(results, options), results)
    over = ", ".join(tasks) or "no task"
    text = (
        f"Dots: the final return of a seed, the mean over {summaries.describe_final(options)}, "
        f"for {summaries.count_seeds(results)}; bars: means over seeds; lines: the mean of "
        f"{options.normalise_by}. Average: {name} over {over}, in units of that mean, with its "
        f"{100 * statistics.COVERAGE:g} % bootstrap interval, seeds resampled inside each task."
    )
    if set(options.levels) & set(summaries.tasks_of(results)):
        text += " Dotted: the return that separates two levels."
    return text
