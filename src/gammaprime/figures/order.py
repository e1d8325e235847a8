"""Picture of the estimate by order, for choosing an order on your own data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gammaprime.figures import style
from gammaprime.figures.style import Figure

Curve = tuple[ArrayLike, ArrayLike, ArrayLike]
"""Orders, estimate and standard error, as ``estimators.order_curve`` returns them."""


def plot_order_curve(curve: Curve, path: Path | str) -> list[Path]:
    """Write the estimate of V_K by order with two standard errors as PNG and SVG.

    path: of the picture, with or without a suffix; both files are written side by side.

    Paper: fig:errors.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    name = path.stem if path.suffix in (".png", ".svg") else path.name
    return style.save(plot(curve), path.parent, name)


def plot(curve: Curve) -> Figure:
    """Draw the figure, without writing it."""
    orders, estimate, error = (np.asarray(part, dtype=np.float64) for part in curve)
    with style.context():
        figure, (axes,) = style.panels(1, 7.6, 5.0)
        bars: dict[str, Any] = {"color": style.BLUE, "marker": "o", "markersize": 4, "capsize": 3}
        axes.errorbar(orders, estimate, yerr=2.0 * error, **bars)
        axes.set(
            title="What one more order changes, and how surely",
            xlabel="order K",
            ylabel=r"estimate of $V_K$ at episode starts",
        )
        axes.locator_params(axis="x", integer=True)
        style.caption(
            axes,
            "Bars: two standard errors. Go up while the estimate still moves; once the moves that "
            "are left are small beside the bars, a higher order changes nothing you could use.",
            width=100,
        )
        return figure
