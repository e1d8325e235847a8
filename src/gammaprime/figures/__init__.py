"""Figures, tables and the report of what runs have stored.

The only room that imports matplotlib and jinja2; it needs neither agents nor simulators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gammaprime.figures.options import FigureOptions
from gammaprime.runs.results import Result
from gammaprime.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_sweep(options: FigureOptions, results: Sequence[Result], folder: Path) -> list[Path]:
    """Draw the runs of a sweep, as far as they got; return the files, pictures first."""
    from gammaprime.figures import ablations, comparisons, curves, finals, profiles, tables

    folder.mkdir(parents=True, exist_ok=True)
    pictures = {
        "curves": [curves.draw, profiles.draw],
        "finals": [finals.draw],
        "ablation": [ablations.draw],
        "table": [profiles.draw],
    }
    parts = [*pictures[options.kind], tables.draw, comparisons.draw, tables.draw_seeds]
    return [file for draw in parts for file in draw(options, results, folder)]


def draw_computed(
    config: Mapping[str, Any],
    data: Mapping[str, FloatArray],
    folder: Path,
    name: str,
    formats: Sequence[str] = (),
) -> list[Path]:
    """Draw a computed experiment from its configuration and arrays; return the files."""
    from gammaprime.figures import errors, weights

    folder.mkdir(parents=True, exist_ok=True)
    draw = {"toy": errors.draw, "weights": weights.draw}[config["kind"]]
    return draw(config["settings"], data, folder, name, formats)


def plot_computed(config: Mapping[str, Any], data: Mapping[str, FloatArray]) -> list[Figure]:
    """Figures of a computed experiment, not yet written."""
    from gammaprime.figures import errors, weights

    plots = {"toy": errors.plots, "weights": weights.plots}[config["kind"]]
    return plots(config["settings"], data)
