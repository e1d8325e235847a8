"""What the seeds of a sweep say, in words and numbers: who beats whom, and how surely."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gammaprime.figures import summaries
from gammaprime.figures.markup import Html, fold, join, table, tag
from gammaprime.figures.options import FigureOptions
from gammaprime.figures.statistics import Interval
from gammaprime.figures.summaries import Comparison, Verdict

if TYPE_CHECKING:
    from gammaprime.sweeps.records import Record

WORDS = {
    "better": "better",
    "worse": "worse",
    "undecided": "these seeds cannot decide",
    "impossible": "too few seeds to decide",
}
LIKELY = "probability that it ends higher"
NOTHING = "No two variants have finished seeds on the same task: nothing to compare."
MANY = 4
"""From so many comparisons on, those that decide nothing share a line."""


class Findings:
    """Every comparison that a sweep asks for and has finished seeds of."""

    def __init__(self, records: Sequence[Record], options: FigureOptions) -> None:
        self.tasks = summaries.tasks_of(records)
        self.returns = summaries.finals(records, options)
        found = (summaries.compare(self.returns, *pair, self.tasks) for pair in options.compare)
        self.overall = [comparison for comparison in found if comparison is not None]
        self.judged = summaries.judge(self.overall)

    def sentences(self) -> Html:
        """A line for each comparison, with its verdict first."""
        if not self.overall:
            return tag("p", NOTHING, class_="small")
        told: list[tuple[str, str]] = []
        shared: dict[tuple[str, str], list[Comparison]] = {}
        for comparison, verdict in zip(self.overall, self.judged, strict=True):
            if len(self.overall) >= MANY and verdict.word in ("undecided", "impossible"):
                shared.setdefault((verdict.word, comparison.second), []).append(comparison)
            else:
                told.append((verdict.word, sentence(comparison, verdict)))
        for (word, second), own in shared.items():
            names = "; ".join(_together(comparison.first) for comparison in own)
            told.append((word, f"{names}: {'each ' if len(own) > 1 else ''}against {second}."))
        return tag("ul", *(tag("li", badge(word), text) for word, text in told))

    def tables(self) -> Html:
        """The numbers of all comparisons, and of each task."""
        if not self.overall:
            return Html("")
        head = ("comparison", "tasks", LIKELY, "difference", "p")
        rows = [
            [
                tag("th", f"{c.first} against {c.second}", scope="row"),
                tag("td", str(len(c.tasks)), class_="n"),
                tag("td", forest(c.probability), interval(c.probability), class_="n"),
                tag("td", percent(c.gain), class_="n"),
                tag("td", show_p(verdict.p_value), class_="n"),
            ]
            for c, verdict in zip(self.overall, self.judged, strict=True)
        ]
        parts = [table("Comparisons over all tasks", head, rows)]
        if len(self.tasks) > 1:
            parts.append(fold("Task by task", self._by_task()))
        return join(parts)

    def by_task(self) -> list[tuple[str, Comparison]]:
        """The same comparisons on each task alone."""
        found = [
            (task, summaries.compare(self.returns, overall.first, overall.second, [task]))
            for task in self.tasks
            for overall in self.overall
        ]
        return [(task, comparison) for task, comparison in found if comparison is not None]

    def _by_task(self) -> Html:
        head = ("task", "comparison", "seeds", LIKELY, "difference", "p")
        rows = [_task_row(task, comparison) for task, comparison in self.by_task()]
        return table("Comparisons on each task, p-values not corrected", head, rows, first=2)


def _task_row(task: str, c: Comparison) -> list[Html]:
    return [
        tag("th", task, scope="row", class_="nowrap"),
        tag("td", f"{c.first} against {c.second}"),
        tag("td", f"{c.seeds[0]}, {c.seeds[1]}", class_="n"),
        tag("td", forest(c.probability), interval(c.probability), class_="n"),
        tag("td", percent(c.gain), class_="n"),
        tag("td", show_p(c.p_value), class_="n"),
    ]


def sentence(c: Comparison, verdict: Verdict) -> str:
    """What one comparison says, after its verdict."""
    p = chance(verdict.p_value)
    told = f"{c.first} ends higher than {c.second} with probability {interval(c.probability)}"
    if verdict.word in ("better", "worse"):
        return f"{told}; {p}."
    if verdict.word == "impossible":
        tasks = "one task" if len(c.tasks) == 1 else f"{len(c.tasks)} tasks"
        seeds = "1 seed" if min(c.seeds) == 1 else f"{min(c.seeds)} seeds"
        floor = chance(verdict.floor)
        return f"{told}. With {seeds} on {tasks}, even seeds entirely apart have {floor}."
    low, _, high = c.probability
    if low > 0.5 or high < 0.5:
        return f"{told}. The interval leaves out 1/2, but {p}."
    return f"{told}. The interval contains 1/2; {p}."


def chance(p_value: float) -> str:
    """p = 0.03, or p < 0.001."""
    number = show_p(p_value)
    return _together(f"p {number}" if number.startswith("<") else f"p = {number}")


def show_p(p_value: float) -> str:
    """0.03, or < 0.001."""
    return "< 0.001" if p_value < 0.001 else f"{p_value:.2g}"


def badge(word: str) -> Html:
    return tag("span", WORDS[word], class_=f"badge {word}")


def interval(three: Interval) -> str:
    """0.84 [0.70, 0.95]."""
    return _together(f"{three.value:.2f} [{three.low:.2f}, {three.high:.2f}]")


def percent(three: Interval) -> str:
    """+12 % [−3, +20]."""
    low, value, high = (f"{100 * share:+.0f}".replace("-", "−") for share in three)
    return _together(f"{value} % [{low}, {high}]")


def _together(text: str) -> str:
    """Not to be broken over lines."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def forest(three: Interval) -> Html:
    """The interval between 0 and 1, with a line at 1/2."""
    low, value, high = (4 + 112 * x for x in three)
    stroke = 'stroke="currentColor"'
    return Html(
        '<svg class="forest" viewBox="0 0 120 16" aria-hidden="true">'
        f'<path d="M4 8H116" {stroke} stroke-opacity=".2"/>'
        f'<path d="M60 1V15" {stroke} stroke-opacity=".55" stroke-dasharray="2 2"/>'
        f'<path d="M{low:.1f} 8H{high:.1f}" {stroke} stroke-width="2.5"/>'
        f'<circle cx="{value:.1f}" cy="8" r="3.5" fill="currentColor"/></svg>'
    )
