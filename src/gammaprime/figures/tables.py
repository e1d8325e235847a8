"""Tables of a sweep: final returns, every seed, every run.

Rows are computed once.  Each is written as CSV, as Markdown, in the report as HTML and, if asked
for, as LaTeX.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from gammaprime.figures import statistics, summaries
from gammaprime.figures.options import FigureOptions
from gammaprime.figures.statistics import Interval
from gammaprime.figures.style import write_csv
from gammaprime.runs.results import Result


class Cell(NamedTuple):
    """Cell of a table, as it is shown."""

    text: str = ""
    note: str = ""
    """Small text after it."""
    best: bool = False
    """Shown in bold."""
    forest: Interval | None = None
    """Interval between 0 and 1 that the report draws."""


@dataclass(frozen=True)
class Table:
    """Table as it is shown, in Markdown or HTML."""

    label: str
    head: tuple[str, ...]
    rows: list[list[Cell]]
    text_columns: int = 1
    """Number of columns on the left that hold text; the others hold numbers."""

    def markdown(self) -> str:
        """Return the table in Markdown."""
        left, right = self.text_columns, len(self.head) - self.text_columns
        lines = [list(self.head), ["---"] * left + ["---:"] * right]
        for row in self.rows:
            texts = [f"{cell.text} {cell.note}".strip() for cell in row]
            lines.append([f"**{t}**" if c.best else t for t, c in zip(texts, row, strict=True)])
        return "\n".join(f"| {' | '.join(map(_escape, line))} |" for line in lines)

    def latex(self) -> str:
        """Return the table in LaTeX, with the rules of the package booktabs."""
        columns = "l" * self.text_columns + "r" * (len(self.head) - self.text_columns)
        lines = [f"% {self.label}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
        lines += [_row(map(to_latex, self.head)), r"\midrule"]
        for row in self.rows:
            texts = [to_latex(f"{cell.text} {cell.note}".strip()) for cell in row]
            bold = [rf"\textbf{{{t}}}" if c.best else t for t, c in zip(texts, row, strict=True)]
            lines.append(_row(bold))
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _row(texts: Iterable[str]) -> str:
    return " & ".join(texts) + r" \\"


LATEX = {
    **{mark: rf"\{mark}" for mark in "&%#_{}$"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "γ": r"$\gamma$",
    "λ": r"$\lambda$",
    "η": r"$\eta$",
    "Δ": r"$\Delta$",
    "∞": r"$\infty$",
    "±": r"$\pm$",
    "−": r"$-$",
    "–": "--",
    "\N{NO-BREAK SPACE}": "~",
}
"""Characters that LaTeX reads otherwise or whose fonts may lack them."""


def to_latex(text: str) -> str:
    """Return a text as LaTeX; formulas between $ stay as they are."""
    if text.replace(r"\$", "").count("$") >= 2:
        return text
    return "".join(LATEX.get(mark, mark) for mark in text)


def write_latex(file: Path, shown: Sequence[Table], options: FigureOptions) -> list[Path]:
    """Write tables as LaTeX, if that is among the formats; return the file."""
    if "tex" not in options.formats:
        return []
    head = f"% {options.title} (gammaprime figure {options.name}); needs \\usepackage{{booktabs}}"
    file.write_text("\n\n".join([head, *(t.latex() for t in shown)]) + "\n", encoding="utf-8")
    return [file]


class FinalReturn(NamedTuple):
    """Final returns of a variant on a task."""

    task: str
    variant: str
    seeds: int
    """Number of finished seeds."""
    seeds_asked: int
    mean: float
    spread: float
    """Standard deviation over seeds, times the ``spread`` of the figure."""
    best: bool
    """Best of several variants in its table, or tied with it."""
    mean_gamma: float
    """Mean of the returns at γ."""
    mean_gamma_prime: float
    """Mean of the returns at γ'."""
    level: float
    """Return that separates the two levels of the task; NaN if it has only one."""
    above: Interval
    """Share of seeds above the level, or NaN."""

    def text(self) -> str:
        """Return 3601 ± 879, or 3601 if there is only one seed."""
        return show(self.mean) + (f" ± {show(self.spread)}" if self.seeds > 1 else "")

    def cell(self) -> Cell:
        """Return 3601 ± 879 with the number of seeds."""
        if not self.seeds:
            return Cell("–")
        missing = f" of {self.seeds_asked}" if self.seeds < self.seeds_asked else ""
        high = "" if np.isnan(self.level) else f"; {self.seeds * self.above.value:.0f} high"
        return Cell(self.text(), f"({self.seeds}{missing}{high})", self.best)


def draw(options: FigureOptions, results: Sequence[Result], folder: Path) -> list[Path]:
    """Write the final returns as Markdown and CSV.

    Paper: table:td3.
    """
    found = final_returns(results, options)
    shown = return_tables(found, options)
    parts = [f"# {options.title}", *(table.markdown() for table in shown)]
    parts += [legend(options), *summaries.notes(options, results)]
    page = folder / f"{options.name}_table.md"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    rows = write_rows(folder / f"{options.name}_table.csv", FinalReturn, found)
    return [page, rows, *write_latex(folder / f"{options.name}_table.tex", shown, options)]


def draw_seeds(options: FigureOptions, results: Sequence[Result], folder: Path) -> list[Path]:
    """Write the final return of every seed as Markdown."""
    shown = seed_table(results, options)
    about = f"Undiscounted return: a seed's mean over {summaries.describe_final(options)}, and "
    parts = [
        f"# {options.title}",
        shown.markdown(),
        f"{about}the median over seeds.",
        *summaries.notes(options, results),
        f"`gammaprime run {options.name}`",
    ]
    page = folder / f"{options.name}_seeds.md"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return [page, *write_latex(folder / f"{options.name}_seeds.tex", [shown], options)]


def final_returns(results: Sequence[Result], options: FigureOptions) -> list[FinalReturn]:
    """Final returns of every variant on every task."""
    kinds = (summaries.RETURN, summaries.J_GAMMA, summaries.J_GAMMA_PRIME)
    returns, at_gamma, at_gamma_prime = (summaries.finals(results, options, k) for k in kinds)
    found = []
    for group in summaries.groups(results):
        variant, task = key = (group[0].variant, group[0].task)
        seeds = returns[key]
        mean, spread = statistics.mean_spread(seeds, options.spread)
        level = options.levels.get(task, np.nan)
        found.append(
            FinalReturn(
                task,
                variant,
                seeds.size,
                len(group),
                mean,
                spread,
                False,
                statistics.mean_spread(at_gamma[key], 1.0)[0],
                statistics.mean_spread(at_gamma_prime[key], 1.0)[0],
                level,
                statistics.share_above(seeds, level),
            )
        )
    return _mark_best(found, options)


def _mark_best(found: Sequence[FinalReturn], options: FigureOptions) -> list[FinalReturn]:
    best = set()
    for group in options.groups:
        for task in {row.task for row in found}:
            rows = [r for r in found if r.task == task and r.variant in group and r.seeds]
            if len(rows) > 1:
                ties = statistics.ties_with_best([r.mean for r in rows], [r.spread for r in rows])
                best |= {row for row, tie in zip(rows, ties, strict=True) if tie}
    return [row._replace(best=row in best) for row in found]


def return_tables(found: Sequence[FinalReturn], options: FigureOptions) -> list[Table]:
    """Tables of final returns: a row for each task, a column for each variant of a group."""
    cells = {(row.variant, row.task): row.cell() for row in found}
    tasks = list(dict.fromkeys(row.task for row in found))
    tables = []
    for group in options.groups:
        rows = [
            [Cell(task), *(cells.get((variant, task), Cell()) for variant in group)]
            for task in tasks
            if any((variant, task) in cells for variant in group)
        ]
        tables.append(Table(f"Final returns of {', '.join(group)}", ("task", *group), rows))
    return tables


def legend(options: FigureOptions) -> str:
    """Say what a number of the table is, and what a tie is."""
    levels = [f"{show(level)} on {task}" for task, level in options.levels.items()]
    high = f" and of those that end high, above {', '.join(levels)}" if levels else ""
    return (
        f"Undiscounted return: mean ± {_deviations(options.spread)} over seeds of a "
        f"seed's mean over {summaries.describe_final(options)}; in parentheses the number of "
        f"seeds{high}. In bold: the best mean of a row, and every mean that is not below the "
        "best's own lower end."
    )


def seed_table(results: Sequence[Result], options: FigureOptions) -> Table:
    """Final return of every seed; runs that are not finished are left empty."""
    seeds = sorted({result.seed for result in results})
    rows = []
    for group in summaries.groups(results):
        ended = {r.seed: summaries.final_return(r, options) for r in group if r.done}
        values = [ended.get(seed, np.nan) for seed in seeds]
        middle = float(np.median([x for x in values if np.isfinite(x)] or [np.nan]))
        about = [group[0].task, group[0].variant, f"{group[0].steps:,}"]
        rows.append([Cell(text) for text in (*about, *map(show, (middle, *values)))])
    head = ("task", "variant", "steps", "median", *(f"seed {seed}" for seed in seeds))
    return Table("Every seed", head, rows, text_columns=2)


def run_table(results: Sequence[Result], options: FigureOptions) -> Table:
    """Every run, finished or not."""
    head = ("variant", "task", "folder", "seed", "steps", "return", "at γ", "at γ'", "γ'")
    rows = []
    for run in results:
        about = [run.variant, run.task, run.path.name, str(run.seed)]
        steps = f"{run.reached:,}" if run.done else f"{run.reached:,} of {run.steps:,}"
        kinds = (summaries.RETURN, summaries.J_GAMMA, summaries.J_GAMMA_PRIME)
        ends = [show(summaries.final_return(run, options, k)) if run.done else "" for k in kinds]
        rows.append([Cell(text) for text in (*about, steps, *ends, f"{run.gamma_prime:g}")])
    return Table("Every run", head, rows, text_columns=3)


def write_rows(path: Path, kind: type[Any], rows: Sequence[tuple[Any, ...]]) -> Path:
    """Write NamedTuples as CSV; an interval takes three columns, a tuple one."""
    names: list[str] = []
    for field, hint in get_type_hints(kind).items():
        names += [f"{field}_low", field, f"{field}_high"] if hint is Interval else [field]
    return write_csv(path, names, [[x for value in row for x in _flat(value)] for row in rows])


def _flat(value: Any) -> list[Any]:
    if isinstance(value, Interval):
        return list(value)
    if isinstance(value, tuple):
        return [" ".join(map(str, value))]
    return [int(value) if isinstance(value, bool) else value]


def show(number: float) -> str:
    """Show whole numbers from 100 on, three digits below, and nothing for NaN."""
    if np.isnan(number):
        return ""
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


def _deviations(spread: float) -> str:
    """Say how many standard deviations stand behind ±."""
    return "one standard deviation" if spread == 1.0 else f"{spread:g} standard deviations"
