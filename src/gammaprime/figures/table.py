"""table:td3 and its kin: final returns of every variant on every task, in Markdown and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gammaprime.figures import statistics, summaries
from gammaprime.figures.options import FigureOptions
from gammaprime.figures.style import write_csv

if TYPE_CHECKING:
    from gammaprime.sweeps.records import Record
    from gammaprime.sweeps.sweep import Sweep


class Cell(NamedTuple):
    """A variant on a task."""

    mean: float
    spread: float
    seeds: int
    asked: int
    best: bool
    """The best of several in its group, or tied with it."""
    mean_gamma_prime: float
    """The same at γ'."""

    @property
    def text(self) -> str:
        """3601 ± 879, with the number of seeds where some are missing."""
        if not self.seeds:
            return "–"
        numbers = show(self.mean) + (f" ± {show(self.spread)}" if self.seeds > 1 else "")
        return numbers if self.seeds == self.asked else f"{numbers} ({self.seeds} of {self.asked})"


Cells = dict[tuple[str, str], Cell]


def draw(
    sweep: Sweep, records: Sequence[Record], folder: Path, options: FigureOptions
) -> list[Path]:
    """The table as Markdown and CSV.

    Paper: table:td3.
    """
    found = cells(records, options)
    page = folder / f"{sweep.name}_table.md"
    page.write_text(markdown(sweep, records, options), encoding="utf-8")
    return [page, write_csv(folder / f"{sweep.name}_table.csv", columns(found))]


def cells(records: Sequence[Record], options: FigureOptions) -> Cells:
    """Every variant on every task that it is asked for."""
    returns = summaries.finals(records, options)
    distant = summaries.finals(records, options, summaries.J_GAMMA_PRIME)
    asked = dict.fromkeys(returns, 0)
    for record in records:
        asked[record.variant, record.task] += 1
    numbers = {key: statistics.mean_spread(seeds, options.spread) for key, seeds in returns.items()}
    best, none = set(), np.empty(0)
    for group in options.groups:
        for task in summaries.tasks_of(records):
            keys = [(variant, task) for variant in group if returns.get((variant, task), none).size]
            if len(keys) > 1:
                ties = statistics.ties_with_best(*zip(*(numbers[k] for k in keys), strict=True))
                best |= {key for key, tie in zip(keys, ties, strict=True) if tie}
    return {
        key: Cell(
            *numbers[key],
            returns[key].size,
            asked[key],
            key in best,
            float(distant[key].mean()) if distant[key].size else np.nan,
        )
        for key in returns
    }


def columns(found: Cells) -> dict[str, list[Any]]:
    """A row for each cell."""
    names = ("task", "variant", "mean", "spread", "seeds", "seeds_asked", "best")
    rows = [(task, variant, *cell[:4], int(cell.best)) for (variant, task), cell in found.items()]
    table: dict[str, list[Any]] = {n: [row[i] for row in rows] for i, n in enumerate(names)}
    return table | {"mean_gamma_prime": [cell.mean_gamma_prime for cell in found.values()]}


def markdown(sweep: Sweep, records: Sequence[Record], options: FigureOptions) -> str:
    """A table for each group of columns, the best and their ties in bold, and what they are."""
    found = cells(records, options)
    parts = [f"# {sweep.title}"]
    for group in options.groups:
        rows = [["task", *group], ["---"] + ["---:"] * len(group)]
        for task in summaries.tasks_of(records):
            row = [found.get((variant, task)) for variant in group]
            texts = ["" if c is None else f"**{c.text}**" if c.best else c.text for c in row]
            if any(texts):
                rows.append([task, *texts])
        parts.append(markdown_rows(rows))
    return "\n\n".join([*parts, legend(options), *summaries.notes(sweep, records)]) + "\n"


def markdown_rows(rows: Sequence[Sequence[str]]) -> str:
    """Rows of a table, the second of which says how columns are aligned."""
    return "\n".join(f"| {' | '.join(map(_escape, row))} |" for row in rows)


def legend(options: FigureOptions) -> str:
    """What a number is, and what a tie is."""
    return (
        f"Undiscounted return: mean ± {options.spread:g} standard deviations over seeds of a "
        f"seed's mean over {final_phrase(options)}. In bold: the best mean of a row, and every "
        "mean that is not below the best's own lower end."
    )


def final_phrase(options: FigureOptions) -> str:
    """What a final return is a mean over."""
    if options.returns == "evaluations":
        return f"the last {options.last} evaluations"
    return f"the training episodes of the last {100 * summaries.LAST_SHARE:g} % of steps"


def show(number: float) -> str:
    """Whole numbers from 100 on, three digits below."""
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _escape(text: str) -> str:
    return text.replace("|", "\\|")
