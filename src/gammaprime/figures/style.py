"""Style of all pictures: colours that everybody can tell apart, sizes of a printed page, and files
that are the same bytes when they are drawn again.
"""

from __future__ import annotations

import csv
import textwrap
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gammaprime.typing import FloatArray

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
    from matplotlib.text import Text as Text
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "figures need matplotlib: pip install 'gammaprime[report]'", name=error.name
    ) from None

# Okabe and Ito: distinct also to colour-blind readers.
BLACK, BLUE, ORANGE, GREEN = "#000000", "#0072B2", "#D55E00", "#009E73"
PURPLE, SKY, YELLOW = "#CC79A7", "#56B4E9", "#E69F00"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY, BLACK)
DASHES = ("-", "--", "-.")
"""Dots are kept for lines that lack seeds."""

RC: dict[Any, Any] = {
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
PRINTED: dict[Any, Any] = {
    "savefig.dpi": 260,
    "font.size": 7.5,
    "axes.titlesize": 8,
    "axes.labelsize": 7.5,
    "axes.linewidth": 0.6,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "grid.linewidth": 0.5,
    "legend.fontsize": 7.5,
    "legend.handlelength": 2.4,
    "lines.linewidth": 1.3,
}
"""Sizes of sheets, which are printed as wide as the text."""

TEXT_WIDTH = 6.75
"""Width in inches of the text of a page with two columns."""
MARGIN = 0.012
"""Left edge of title, legend and footnote of a sheet, as a share of its width."""


class Look(NamedTuple):
    """Colour and dashes of a line."""

    color: str
    linestyle: str = "-"


VARIANTS = {
    "PPO": Look(BLUE),
    "PPO, PyBullet": Look(BLUE, "--"),
    "PPO 0.999": Look(BLACK),
    "PPO + time": Look(PURPLE),
    "PPO(K)": Look(ORANGE),
    "weighted PPO(K)": Look(YELLOW),
    "TRPO": Look(GREEN),
    "TD(Δ)": Look(YELLOW),
    "TD(Δ) 0.999": Look(GREEN),
    "PPO 0.99474": Look(BLACK, "--"),
    "PPO 0.99854": Look(PURPLE),
    "centred scan, K = 1": Look(ORANGE, "--"),
    "centred scan, K = 10": Look(ORANGE, "-."),
    "learned terms, K = 1": Look(GREEN, "--"),
    "learned terms, K = 3": Look(GREEN, "-."),
    "control: learned terms unused": Look(PURPLE, "--"),
    "learned terms, K = 1, and weights, K = ∞": Look(SKY, "-."),
    "∇V_K, K = 1": Look(PURPLE, "-."),
    "weights, K = 10": Look(SKY),
    "weights, K = ∞, normalised": Look(YELLOW, "-."),
    "averaged weights, K = 10": Look(YELLOW),
    "plain TRPO": Look(GREEN, "--"),
    "TRPO, weights, K = 10": Look(SKY),
    "TRPO, weights, K = ∞, normalised": Look(YELLOW, "-."),
    "DDPG": Look(SKY),
    "DDPG-v1": Look(SKY, "--"),
    "DDPG-v2": Look(SKY),
    "TD3": Look(BLACK),
    "TD3(γ)": Look(ORANGE),
    "SAC": Look(GREEN),
    "SAC(γ)": Look(PURPLE),
}
"""Looks of the variants of shipped figures: the same in every figure."""

TASKS = {
    f"{name}{ending}": Look(colour, dashes)
    for ending, dashes in (("-v4", "-"), ("-v5", "-"), ("BulletEnv-v0", "--"))
    for name, colour in (
        ("HalfCheetah", BLUE),
        ("Ant", ORANGE),
        ("Walker2d", GREEN),
        ("Walker2D", GREEN),
        ("Hopper", PURPLE),
    )
}
"""Looks of tasks in ablations; PyBullet's are dashed, as in the paper."""


def looks(names: Iterable[str], known: Mapping[str, Look] = VARIANTS) -> dict[str, Look]:
    """Choose a look for each name: the known one, else one by its hash that is still free."""
    free = [Look(colour, dashes) for dashes in DASHES for colour in PALETTE]
    names = list(names)
    chosen = {name: known[name] for name in names if name in known}
    for name in names:
        if name not in chosen:
            start = zlib.crc32(name.encode()) % len(PALETTE)
            order = [*free[start:], *free[:start]]
            unused = [look for look in order if look not in chosen.values()]
            chosen[name] = (unused or order)[0]
    return {name: chosen[name] for name in names}


def context(more: Mapping[Any, Any] | None = None) -> AbstractContextManager[None]:
    """Context in which figures have this style, with ``more`` settings in its place."""
    return mpl.rc_context({**RC, **(more or {})})


def panels(columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Make a figure with panels side by side; call inside ``with context():``."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)
    return figure, list(axes[0])


def count_columns(count: int, most: int = 3) -> int:
    """Number of panels in a row of a sheet with ``count`` panels."""
    return min(2 if count == 4 else most, count)


def sheet(count: int, title: str, most: int = 3, height: float = 1.65) -> tuple[Figure, list[Axes]]:
    """Make a figure as wide as the text of a page; call inside ``with context(PRINTED):``.

    It has at most ``most`` panels in a row, and rows of panels have this ``height`` in inches.
    """
    columns = count_columns(count, most)
    rows = -(-count // columns)
    width = TEXT_WIDTH if columns > 1 else 0.65 * TEXT_WIDTH
    # Title, legend and footnote above and below the panels keep their size.
    figure = Figure(figsize=(width, height * rows + 0.95), layout="constrained")
    axes: list[Axes] = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for unused in axes[count:]:
        unused.remove()
    figure.suptitle(title)
    return figure, axes[:count]


def head(figure: Figure, axes: Axes) -> None:
    """Put the title over all panels, and below it the legend of one of them."""
    handles, labels = axes.get_legend_handles_labels()
    width = figure.get_figwidth()
    columns = max(1, int(width / max(1.1, 0.35 + 0.065 * max(map(len, labels), default=1))))
    rows = -(-len(labels) // columns)
    title = "\n".join(textwrap.wrap(figure.get_suptitle(), int(12 * width)))
    # A sheet has room for a line of each.
    more = 0.152 * (title.count("\n") + max(0, rows - 1))
    figure.set_figheight(figure.get_figheight() + more)
    # Constrained layout leaves no room for a legend here: blank lines of the title do.
    figure.suptitle(title + "\n " * rows, x=MARGIN, ha="left", fontweight="bold", fontsize=9)
    top = 1.0 - (0.075 + 0.152 * (1 + title.count("\n"))) / figure.get_figheight()
    space: dict[str, Any] = {"borderpad": 0.0, "borderaxespad": 0.0, "labelspacing": 0.35}
    place = (MARGIN, top)
    figure.legend(handles, labels, loc="upper left", bbox_to_anchor=place, ncols=columns, **space)


def mark_empty(axes: Axes) -> None:
    """Say that there is nothing to draw in a panel yet."""
    axes.text(0.5, 0.5, "no run yet", transform=axes.transAxes, ha="center", va="center")
    axes.set_xticks([])


def footnote(figure: Figure, text: str) -> None:
    """Put a text under all panels."""
    lines = textwrap.fill(text, int(20 * figure.get_figwidth()))
    figure.supxlabel(lines, x=MARGIN, ha="left", fontsize=6.5, color="#333333")


def caption(axes: Axes, text: str, width: int) -> None:
    """Put a text under a panel, in lines of at most ``width`` characters."""
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


def count_steps(steps: float, _: object = None) -> str:
    """Show a number of steps as 250k or 1.5M."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if abs(steps) >= unit:
            return f"{steps / unit:g}{name}"
    return f"{steps:g}"


def quantiles(values: ArrayLike) -> FloatArray:
    """Quantiles at 10 %, 50 % and 90 % over the first axis.  Shapes: (M, ...) -> (3, ...)."""
    return np.asarray(np.quantile(np.asarray(values), (0.1, 0.5, 0.9), axis=0))


def band(axes: Axes, x: ArrayLike, three: FloatArray, color: str, **line: Any) -> None:
    """Draw a median with its 10-90 % band.  Shapes: x (K,), three (3, K)."""
    low, median, high = three
    axes.fill_between(np.asarray(x), low, high, color=color, alpha=0.18, linewidth=0)
    axes.plot(np.asarray(x), median, color=color, **line)


METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Dates and versions that are left out, so that the same numbers give the same bytes."""


def save(
    figure: Figure,
    folder: Path,
    name: str,
    more: Mapping[Any, Any] | None = None,
    formats: Sequence[str] = (),
) -> list[Path]:
    """Write PNG and SVG, and PDF if it is among the formats."""
    kinds = ["png", "svg", *(["pdf"] if "pdf" in formats else [])]
    files = [folder / f"{name}.{kind}" for kind in kinds]
    with context(more):  # salt and resolution are read when saving
        for kind, file in zip(kinds, files, strict=True):
            figure.savefig(file, metadata=METADATA[kind])
    return files


def write_csv(path: Path, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    """Write rows under the names of their columns, with every digit."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
    return path
