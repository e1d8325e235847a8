"""The end of a report: every run, where the numbers come from, and what the words mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gammaprime.figures import summaries
from gammaprime.figures.markup import Html, table, tag
from gammaprime.figures.options import FigureOptions
from gammaprime.figures.table import show

if TYPE_CHECKING:
    from gammaprime.sweeps.records import Record


def runs(records: Sequence[Record], shown: FigureOptions) -> Html:
    """A row for each run, finished or not."""
    head = ("variant", "task", "folder", "seed", "steps", "return", "return at γ'", "γ'")
    return table("Every run", head, [_run_row(record, shown) for record in records], first=3)


def _run_row(record: Record, shown: FigureOptions) -> list[Html]:
    texts = ["", ""]
    if record.done:
        ends = (summaries.RETURN, summaries.J_GAMMA_PRIME)
        texts = [show(summaries.final_return(record, shown, which)) for which in ends]
    state = f"{record.reached:,}" if record.done else f"{record.reached:,} of {record.steps:,}"
    cells = (str(record.seed), state, *texts, f"{record.gamma_prime:g}")
    return [
        tag("th", record.variant, scope="row", class_="nowrap"),
        tag("td", record.task, class_="nowrap"),
        tag("td", record.path.name, class_="nowrap"),
        *(tag("td", cell, class_="n") for cell in cells),
    ]


def origin(manifests: Sequence[Mapping[str, Any]]) -> Html:
    """What ran where, each different value once."""
    found: dict[str, dict[str, None]] = {}
    for manifest in manifests:
        versions = manifest.get(
            "versions", {k: manifest.get(k) for k in ("python", "numpy", "scipy")}
        )
        facts = {"processor": manifest.get("cpu"), "cores": manifest.get("cores")}
        facts |= {"system": manifest.get("platform"), "gammaprime": manifest.get("gammaprime")}
        for name, value in (facts | versions).items():
            if value is not None:
                found.setdefault(name, {})[str(value)] = None
    items = [
        part
        for name, values in found.items()
        for part in (tag("dt", name), tag("dd", " · ".join(values)))
    ]
    return tag("section", tag("h2", "Where the numbers come from"), tag("dl", *items), id="origin")


def guide() -> Html:
    """What the words of the page mean."""
    items = {
        "Return": "Undiscounted, of one episode; at γ', the same episode's, discounted.",
        "Probability that it ends higher": "Of two random seeds, one of each variant, on the same "
        "task; averaged over tasks. 1/2 is no difference. In brackets: a 95 % interval, from 2000 "
        "bootstrap samples in which seeds are drawn again inside each task.",
        "Difference": "Of the mean final returns, as a share of the second variant's, averaged "
        "over tasks, with its 95 % interval.",
        "p": "The share of all ways to relabel the seeds inside each task that would set the two "
        "variants at least as far apart, counted exactly; over all tasks corrected for the number "
        "of comparisons of a figure (Holm).",
        "Better, worse": "The interval leaves out 1/2 and p is below 0.05. Everything else these "
        "seeds cannot decide.",
    }
    words = [part for name, text in items.items() for part in (tag("dt", name), tag("dd", text))]
    return tag("section", tag("h2", "How to read this"), tag("dl", *words), id="guide")
