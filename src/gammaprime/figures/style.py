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
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY, BLACK)

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

MARGIN = 0.012
"""Where title, legend and footnote of a sheet begin, as a share of its width."""


def panels(columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side; call inside ``with style():``."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)
    return figure, list(axes[0])


def sheet(count: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels in rows, each of this size; call inside ``with style():``."""
    columns = min(columns, count)
    rows = -(-count // columns)
    # What stands above and below the panels does not grow with them.
    figure = Figure(figsize=(width * columns, height * rows + 1.3), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def look(i: int) -> dict[str, Any]:
    """Colour and dashes of the i-th line; dots are kept for lines that lack seeds."""
    dashes = ("-", "--", "-.")
    return {
        "color": PALETTE[i % len(PALETTE)],
        "linestyle": dashes[i // len(PALETTE) % len(dashes)],
    }


def head(figure: Figure, title: str, axes: Axes) -> None:
    """A title over all panels, and under it the legend of one of them."""
    handles, labels = axes.get_legend_handles_labels()
    columns = max(1, int(figure.get_figwidth() / 2.2))
    rows = -(-len(labels) // columns)
    # Lines without letters keep the place of the legend, which has no place of its own up there.
    text = "\n".join(textwrap.wrap(title, int(10 * figure.get_figwidth())))
    figure.suptitle(text + "\n " * rows, x=MARGIN, ha="left", fontweight="bold", fontsize=12)
    top = 1.0 - (0.14 + 0.21 * (1 + text.count("\n"))) / figure.get_figheight()
    place = {"loc": "upper left", "bbox_to_anchor": (MARGIN, top)}
    figure.legend(handles, labels, ncols=columns, borderpad=0.0, borderaxespad=0.0, **place)


def footnote(figure: Figure, text: str) -> None:
    """What the reader has to know, under all panels."""
    width = int(15.5 * figure.get_figwidth())
    figure.supxlabel(textwrap.fill(text, width), x=MARGIN, ha="left", fontsize=8.5, color="#333333")


def count_steps(steps: float, _: object = None) -> str:
    """250k, 1.5M: steps as people say them."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if abs(steps) >= unit:
            return f"{steps / unit:g}{name}"
    return f"{steps:g}"


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
