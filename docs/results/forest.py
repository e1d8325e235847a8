"""One picture of all claims of docs/results.md: how far the seeds agree with each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import claims
from claims import Decision, agreement

from gammaprime.figures import statistics, style
from gammaprime.figures.style import Axes, Figure

NAME = "claims"
TITLE = "How far the seeds agree with each claim"
ROW = 0.155
"""Height in inches of the row of a claim."""
TEXT = {"fontsize": style.PRINTED["ytick.labelsize"], "va": "center_baseline"}
COLOURS = {claims.HOLDS: style.GREEN, claims.FAILS: style.ORANGE}
"""Colours of verdicts that decide; the others are black."""


def draw(groups: Mapping[str, Sequence[Decision]], folder: Path) -> list[Path]:
    """Write the picture of groups of claims as PNG and SVG, and its rows as CSV."""
    names = ("group", "claim", "verdict", "low", "agreement", "high")
    rows = [
        (group, decision.claim.text, decision.verdict, *[f"{x:.3f}" for x in agreement(decision)])
        for group, decisions in groups.items()
        for decision in decisions
    ]
    return [
        *style.save(plot(groups), folder, NAME, style.PRINTED),
        style.write_csv(folder / f"{NAME}.csv", names, rows),
    ]


def plot(groups: Mapping[str, Sequence[Decision]]) -> Figure:
    """Draw a panel for each group, with a row for each claim."""
    sizes = [len(decisions) for decisions in groups.values()]
    with style.context(style.PRINTED):
        height = ROW * sum(sizes) + 0.3 * len(sizes) + 0.9
        figure = Figure(figsize=(style.TEXT_WIDTH, height), layout="constrained")
        panels = figure.subplots(len(sizes), 1, height_ratios=sizes, sharex=True, squeeze=False)
        for axes, (title, decisions) in zip(panels[:, 0], groups.items(), strict=True):
            _draw_group(axes, decisions)
            axes.set_title(title)
        panels[-1, 0].set_xlabel("probability that two seeds differ as the claim says")
        figure.suptitle(TITLE)
        style.head(figure, panels[0, 0])
        style.footnote(figure, _describe())
        return figure


def _draw_group(axes: Axes, decisions: Sequence[Decision]) -> None:
    beside = axes.get_yaxis_transform()
    for i, decision in enumerate(decisions):
        colour = COLOURS.get(decision.verdict, style.BLACK)
        low, value, high = agreement(decision)
        axes.plot([low, high], [i, i], color=colour, linewidth=1.6)
        axes.plot(value, i, "o", color=colour, markersize=4)
        axes.text(1.02, i, decision.verdict, color=colour, transform=beside, **TEXT)
    axes.axvline(0.5, color=style.BLACK, linewidth=0.8, zorder=1)
    texts = [decision.claim.text.rstrip(".") for decision in decisions]
    axes.set_yticks(range(len(texts)), texts)
    axes.set_ylim(len(texts) - 0.4, -0.6)
    axes.set_xlim(0.0, 1.0)


def _describe() -> str:
    return (
        "Dots: the probability that a random seed of one variant and a random seed of the other, "
        f"on the same task, differ as the claim says; lines: its {100 * statistics.COVERAGE:g} % "
        "bootstrap interval. A claim holds if its line lies to the right of 1/2, and does not if "
        "it lies to the left, and its adjusted p-value is below "
        f"{statistics.LEVEL:.2g}; otherwise these seeds cannot decide it."
    )
