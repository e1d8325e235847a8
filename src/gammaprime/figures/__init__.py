"""Pictures of what runs have stored.  The only room that imports matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gammaprime.sweeps.records import Record
    from gammaprime.sweeps.sweep import Sweep

KINDS = {"toy": "errors", "weights": "weights"}
"""The module that draws each kind of experiment."""

SWEEPS = {
    "curves": ("curves", "table", "comparisons", "seeds"),
    "ablation": ("ablation", "table", "comparisons", "seeds"),
    "table": ("table", "comparisons", "seeds"),
}
"""The modules that draw each kind of figure of a sweep."""


def draw(
    config: Mapping[str, Any], data: Mapping[str, NDArray[np.float64]], folder: Path, name: str
) -> list[Path]:
    """Draw a finished run into the folder; the files written, pictures first."""
    module = import_module(f"gammaprime.figures.{KINDS[config['kind']]}")
    folder.mkdir(parents=True, exist_ok=True)
    return module.draw(config["settings"], data, folder, name)


def draw_sweep(
    sweep: Sweep, records: Sequence[Record], folder: Path, band: str | None = None
) -> list[Path]:
    """Draw the runs of a sweep, as far as they got, into the folder; the files written.

    band: "median_std" or "iqm", in the place of the spec's.
    """
    from gammaprime.figures import options

    shown = options.read(sweep, band)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name in SWEEPS[shown.kind]:
        files += import_module(f"gammaprime.figures.{name}").draw(sweep, records, folder, shown)
    return files


def plot(config: Mapping[str, Any], data: Mapping[str, NDArray[np.float64]]) -> list[Any]:
    """The figures of a finished run, not yet written anywhere."""
    module = import_module(f"gammaprime.figures.{KINDS[config['kind']]}")
    return module.plots(config["settings"], data)
