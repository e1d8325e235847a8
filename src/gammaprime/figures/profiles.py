"""Performance profiles: the share of runs that end above a score, for every score.

A curve that lies above another everywhere ends higher whatever level counts.  Scores are final
returns in units of the mean of one variant on the same task.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gammaprime.figures import statistics, style, summaries
from gammaprime.figures.options import FigureOptions
from gammaprime.figures.style import Figure
from gammaprime.runs.results import Result
from gammaprime.typing import FloatArray

NUM_POINTS = 101


class Profile(NamedTuple):
    """Profile of a variant over the tasks that all variants have finished seeds of."""

    variant: str
    seeds: int
    """Number of runs behind it."""
    scores: FloatArray
    shares: FloatArray
    """(3, points) low, value, high."""


def draw(options: FigureOptions, results: Sequence[Result], folder: Path) -> list[Path]:
    """Write the profiles as PNG, SVG and CSV; nothing unless two variants have several seeds."""
    found, tasks = profiles(results, options)
    if sum(profile.seeds > len(tasks) for profile in found) < 2:
        return []
    name = f"{options.name}_profiles"
    names = ("variant", "score", "low", "share", "high", "runs")
    rows = [
        (profile.variant, score, *three, profile.seeds)
        for profile in found
        for score, three in zip(profile.scores.tolist(), profile.shares.T.tolist(), strict=True)
    ]
    return [
        *style.save(plot(options, found, tasks), folder, name, style.PRINTED, options.formats),
        style.write_csv(folder / f"{name}.csv", names, rows),
    ]


def profiles(
    results: Sequence[Result], options: FigureOptions
) -> tuple[list[Profile], tuple[str, ...]]:
    """Profiles of the variants, and the tasks behind all of them.

    Variants without a score (`summaries.scores`) are left out, then tasks that a variant lacks.
    """
    scores = summaries.scores(results, options)
    tasks = summaries.scored_tasks(scores, results)
    if not tasks:
        return [], ()
    variants = [v for v in options.variants if (v, tasks[0]) in scores]
    everything = np.concatenate([scores[v, t] for v in variants for t in tasks])
    grid = np.linspace(min(0.0, everything.min()), 1.05 * everything.max(), NUM_POINTS)
    found = []
    for variant in variants:
        strata = [scores[variant, task] for task in tasks]
        shares = statistics.performance_profile(strata, grid)
        found.append(Profile(variant, sum(map(len, strata)), grid, shares))
    return found, tasks


def plot(options: FigureOptions, found: Sequence[Profile], tasks: Sequence[str]) -> Figure:
    """Draw all profiles in one panel."""
    chosen = style.looks([profile.variant for profile in found])
    with style.context(style.PRINTED):
        figure, (axes,) = style.sheet(1, f"Performance profiles: {options.title}")
        for profile in found:
            look, (low, share, high) = chosen[profile.variant], profile.shares
            axes.fill_between(profile.scores, low, high, color=look.color, alpha=0.16, linewidth=0)
            axes.plot(
                *(profile.scores, share),
                color=look.color,
                linestyle=look.linestyle,
                label=profile.variant,
            )
        axes.set(xlabel=f"final return / mean of {options.normalise_by}", ylabel="share of runs")
        axes.set_ylim(-0.02, 1.02)
        axes.margins(x=0.0)
        style.head(figure, axes)
        style.footnote(figure, describe(options, found, tasks))
        return figure


def describe(options: FigureOptions, found: Sequence[Profile], tasks: Sequence[str]) -> str:
    """Say what the lines are, and what is behind them."""
    runs = summaries.show_range([profile.seeds for profile in found])
    return (
        f"Share of runs whose final return (mean over {summaries.describe_final(options)}) is "
        f"higher, averaged over {', '.join(tasks)}; bands: "
        f"{100 * statistics.COVERAGE:g} % bootstrap intervals, seeds resampled inside each task; "
        f"{runs} runs of each variant."
    )
