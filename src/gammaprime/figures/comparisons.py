"""Who beats whom, and how surely: the report's comparisons as Markdown and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gammaprime.figures import findings, summaries
from gammaprime.figures.findings import Findings
from gammaprime.figures.options import FigureOptions
from gammaprime.figures.style import write_csv
from gammaprime.figures.summaries import Comparison, Verdict
from gammaprime.figures.table import markdown_rows

if TYPE_CHECKING:
    from gammaprime.sweeps.records import Record
    from gammaprime.sweeps.sweep import Sweep

COLUMNS = (
    *("task", "first", "second", "tasks", "seeds_first", "seeds_second"),
    *("probability_low", "probability", "probability_high", "gain_low", "gain", "gain_high"),
    *("p", "p_corrected", "p_corrected_floor", "verdict"),
)


def draw(
    sweep: Sweep, records: Sequence[Record], folder: Path, options: FigureOptions
) -> list[Path]:
    """Probabilities of improvement, differences and p-values."""
    found = Findings(records, options)
    page = folder / f"{sweep.name}_comparisons.md"
    page.write_text(markdown(sweep, records, found), encoding="utf-8")
    return [page, write_csv(folder / f"{sweep.name}_comparisons.csv", columns(found))]


def columns(found: Findings) -> dict[str, list[Any]]:
    """A row for each comparison over all tasks, which alone has a verdict, and on each task."""
    none = Verdict("", np.nan, np.nan)
    rows = [("all", *pair) for pair in zip(found.overall, found.judged, strict=True)]
    rows += [(task, comparison, none) for task, comparison in found.by_task()]
    numbers = [_row(*row) for row in rows]
    return {name: [row[i] for row in numbers] for i, name in enumerate(COLUMNS)}


def _row(task: str, c: Comparison, verdict: Verdict) -> tuple[Any, ...]:
    about = (task, c.first, c.second, len(c.tasks), *c.seeds)
    corrected = (verdict.p_value, verdict.floor, verdict.word)
    return (*about, *c.probability, *c.gain, c.p_value, *corrected)


def markdown(sweep: Sweep, records: Sequence[Record], found: Findings) -> str:
    """The comparisons over all tasks with their verdicts, then those of each task."""
    head = ["comparison", "tasks", findings.LIKELY, "difference", "p", "verdict"]
    over_all = [head, ["---", "---:", "---:", "---:", "---:", "---"]]
    for c, verdict in zip(found.overall, found.judged, strict=True):
        p = findings.show_p(verdict.p_value)
        over_all.append([_who(c), str(len(c.tasks)), *_shown(c), p, findings.WORDS[verdict.word]])
    parts = [f"# {sweep.title}"]
    parts.append(markdown_rows(over_all) if found.overall else findings.NOTHING)
    if found.overall and len(found.tasks) > 1:
        head = ["task", "comparison", findings.LIKELY, "difference", "p"]
        each = [head, ["---", "---", "---:", "---:", "---:"]]
        for task, c in found.by_task():
            each.append([task, _who(c), *_shown(c), findings.show_p(c.p_value)])
        parts += ["Task by task, p-values not corrected:", markdown_rows(each)]
    return "\n\n".join([*parts, LEGEND, *summaries.notes(sweep, records)]) + "\n"


LEGEND = (
    "Of final returns: the probability that a random seed of the first ends above one of the "
    "second on the same task, averaged over tasks, and the difference of means as a share of the "
    "second's, both with 95 % bootstrap intervals; p by exact relabelling, over all tasks "
    "corrected for the number of comparisons (Holm)."
)


def _who(c: Comparison) -> str:
    return f"{c.first} against {c.second}"


def _shown(c: Comparison) -> tuple[str, str]:
    return findings.interval(c.probability), findings.percent(c.gain)
