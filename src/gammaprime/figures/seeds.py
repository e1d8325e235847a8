"""Every run's own number: final returns seed by seed, their median, and how to make them again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gammaprime.figures import summaries
from gammaprime.figures.options import FigureOptions
from gammaprime.figures.table import final_phrase, markdown_rows, show

if TYPE_CHECKING:
    from gammaprime.sweeps.records import Record
    from gammaprime.sweeps.sweep import Sweep


def draw(
    sweep: Sweep, records: Sequence[Record], folder: Path, options: FigureOptions
) -> list[Path]:
    """The numbers as a page of Markdown."""
    page = folder / f"{sweep.name}_seeds.md"
    page.write_text(markdown(sweep, records, options), encoding="utf-8")
    return [page]


def markdown(sweep: Sweep, records: Sequence[Record], options: FigureOptions) -> str:
    """A row for each variant on each task; runs that are not finished are left open."""
    head = ["task", "variant", "steps", "median", *(f"seed {seed}" for seed in sweep.seeds)]
    rows = [head, ["---", "---"] + ["---:"] * (len(head) - 2)]
    for line in summaries.groups(records):
        numbers = {r.seed: summaries.final_return(r, options) for r in line if r.done}
        told = [numbers.get(seed, np.nan) for seed in sweep.seeds]
        median = np.median([x for x in told if np.isfinite(x)] or [np.nan])
        first = [line[0].task, line[0].variant, f"{line[0].steps:,}"]
        rows.append([*first, *(_show(x) for x in (median, *told))])
    about = f"Undiscounted return, a seed's mean over {final_phrase(options)}, and its median."
    parts = [f"# {sweep.title}", markdown_rows(rows), about, *summaries.notes(sweep, records)]
    return "\n\n".join([*parts, f"`gammaprime run {sweep.name}`"]) + "\n"


def _show(number: float) -> str:
    return show(number) if np.isfinite(number) else ""
