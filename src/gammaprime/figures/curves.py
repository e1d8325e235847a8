"""fig:onpolicy and its kin: returns over steps, a panel for each task, a line for each variant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gammaprime.figures import summaries
from gammaprime.figures.options import FigureOptions
from gammaprime.figures.style import (
    Axes,
    Figure,
    count_steps,
    footnote,
    head,
    look,
    save,
    sheet,
    style,
    write_csv,
)
from gammaprime.figures.summaries import Line

if TYPE_CHECKING:
    from gammaprime.sweeps.records import Record
    from gammaprime.sweeps.sweep import Sweep


def draw(
    sweep: Sweep, records: Sequence[Record], folder: Path, options: FigureOptions
) -> list[Path]:
    """The figure as PNG and SVG, and its lines as CSV.

    Paper: fig:onpolicy, fig:onpolicy-state, fig:separating, fig:td3, fig:sac.
    """
    lines = summaries.lines(records, options)
    return [
        *save(plot(sweep, records, options), folder, sweep.name),
        write_csv(folder / f"{sweep.name}.csv", columns(lines)),
    ]


def columns(lines: Sequence[Line]) -> dict[str, list[Any]]:
    """A row for each point that is drawn."""
    rows = [
        (line.task, line.variant, step, *three, seeds, line.asked)
        for line in lines
        for step, three, seeds in zip(line.grid, line.three.T, line.seeds.tolist(), strict=True)
        if seeds
    ]
    names = ("task", "variant", "step", "low", "middle", "high", "seeds", "seeds_asked")
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def plot(sweep: Sweep, records: Sequence[Record], options: FigureOptions) -> Figure:
    """All panels on one sheet, with one legend."""
    lines = summaries.lines(records, options)
    tasks = summaries.tasks_of(records)
    with style():
        figure, axes = sheet(len(tasks), 3, 4.4, 3.3)
        for task, panel in zip(tasks, axes, strict=True):
            draw_task(panel, sweep, task, lines)
            panel.set(title=task, xlabel="environment steps", ylabel="return")
        head(figure, sweep.title, axes[0])
        footnote(figure, caption(sweep, records, options))
        return figure


def draw_task(axes: Axes, sweep: Sweep, task: str, lines: Sequence[Line]) -> None:
    """The lines of one task; dotted where seeds are missing."""
    places = {variant.name: i for i, variant in enumerate(sweep.variants)}
    shown = {line.variant: line for line in lines if line.task == task}
    for name, i in places.items():
        colour = look(i)["color"]
        axes.plot([], [], label=name, **look(i))
        if name not in shown:
            continue
        line = shown[name]
        low, middle, high = line.three
        lacking = line.seeds < line.asked
        joined = lacking | np.append(lacking[1:], False)  # from the last point that lacks none
        axes.fill_between(line.grid, low, high, color=colour, alpha=0.16, linewidth=0)
        dots = {"color": colour, "linestyle": ":", "linewidth": 1.4}
        axes.plot(line.grid, np.where(joined, middle, np.nan), **dots)
        axes.plot(line.grid, np.where(lacking, np.nan, middle), **look(i))
    axes.margins(x=0.0)
    axes.xaxis.set_major_formatter(count_steps)
    axes.locator_params(axis="x", nbins=5)


def caption(sweep: Sweep, records: Sequence[Record], options: FigureOptions) -> str:
    """What is drawn, and what it lacks."""
    return " ".join([*summaries.notes(sweep, records), describe(sweep, records, options)])


def describe(sweep: Sweep, records: Sequence[Record], options: FigureOptions) -> str:
    """What lines, bands and points are."""
    seeds = f"{len(sweep.seeds)} seeds" if len(sweep.seeds) > 1 else "one seed"
    source = "training episodes" if options.returns == "training" else "evaluations"
    dotted = "" if all(record.done for record in records) else " Dotted: not all seeds."
    return (
        f"Lines and bands: {summaries.BANDS[options.band]} over {seeds}; a point is the mean over "
        f"the {source} of the last {100 * summaries.WINDOW_SHARE:g} % of steps.{dotted}"
    )
