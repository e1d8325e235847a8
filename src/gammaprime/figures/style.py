"""What all pictures share: colours anyone can tell apart, and the same bytes when drawn twice."""

from __future__ import annotations

import csv
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "figures need matplotlib: pip install 'gammaprime[report]'", name=error.name
    ) from None

# Okabe and Ito: distinct also to colour-blind readers.
BLACK, BLUE, ORANGE, GREEN = "#000000", "#0072B2", "#D55E00", "#009E73"
PURPLE, SKY, YELLOW = "#CC79A7", "#56B4E9", "#E69F00"

RC: dict[str, Any] = {
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.8,
    "svg.hashsalt": "gammaprime",
}


def panels(columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side; call inside ``with style():``."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)
    return figure, list(axes[0])


def style() -> Any:
    """The house style, as a context."""
    return mpl.rc_context(RC)


def caption(axes: Axes, text: str, width: int) -> None:
    """What the reader has to know, under the panel, in lines of at most so many characters."""
    axes.annotate(
        textwrap.fill(text, width),
        xy=(0.0, 0.0),
        xycoords="axes fraction",
        xytext=(0, -44),
        textcoords="offset points",
        fontsize=8.5,
        color="#333333",
        va="top",
        linespacing=1.35,
    )


def quantiles(values: ArrayLike) -> NDArray[np.float64]:
    """The 10 %, 50 % and 90 % points over the first axis.  Shapes: (M, ...) -> (3, ...)."""
    return np.quantile(values, (0.1, 0.5, 0.9), axis=0)


def band(axes: Axes, x: ArrayLike, three: NDArray[np.float64], color: str, **line: Any) -> None:
    """A median with its 10-90 % band.  Shapes: x (K,), three (3, K)."""
    low, median, high = three
    axes.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)
    axes.plot(x, median, color=color, **line)


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """PNG and SVG, without dates or versions: the same numbers give the same bytes."""
    png, svg = folder / f"{name}.png", folder / f"{name}.svg"
    with style():  # the salt and the resolution are read when saving
        figure.savefig(png, metadata={"Software": None})
        figure.savefig(svg, metadata={"Date": None, "Creator": None})
    return [png, svg]


def write_csv(path: Path, columns: Mapping[str, ArrayLike]) -> Path:
    """One named column for each array, every digit kept."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(np.asarray(c).tolist() for c in columns.values()), strict=True))
    return path
