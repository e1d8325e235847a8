"""Pictures of discounting: the weight of a reward by order, and under the paper's window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gammaprime.figures import style
from gammaprime.figures.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, YELLOW, Axes, Figure
from gammaprime.typing import FloatArray

SHADES = (BLUE, SKY, GREEN, YELLOW, ORANGE, PURPLE)


def draw(
    settings: Mapping[str, Any],
    data: Mapping[str, FloatArray],
    folder: Path,
    name: str,
    formats: Sequence[str] = (),
) -> list[Path]:
    """Write both pictures, each as PNG and SVG."""
    return [
        *style.save(plot_orders(settings, data), folder, f"{name}_by_order", formats=formats),
        *style.save(plot_window(settings, data), folder, f"{name}_window", formats=formats),
    ]


def plots(settings: Mapping[str, Any], data: Mapping[str, FloatArray]) -> list[Figure]:
    """Figures of the experiment."""
    return [plot_orders(settings, data), plot_window(settings, data)]


def plot_orders(settings: Mapping[str, Any], data: Mapping[str, FloatArray]) -> Figure:
    """Draw w_K(t) for each order, from γ^t to γ'^t."""
    with style.context():
        figure, (axes,) = style.panels(1, 7.6, 5.0)
        *finite, target = data["by_order"]
        for i, (order, curve) in enumerate(zip(settings["orders"], finite, strict=True)):
            label = f"K = {order}" if order else rf"K = 0, $\gamma^t$ (γ = {settings['gamma']:g})"
            axes.plot(data["step"], curve, color=SHADES[i % len(SHADES)], label=label)
        label = rf"K = ∞, $\gamma'^t$ (γ' = {settings['gamma_prime']:g})"
        axes.plot(data["step"], target, "--", color=BLACK, label=label)
        _label(axes, "Each order reaches further, up to the target discount", data)
        style.caption(
            axes,
            "Order K follows the target as long as at most K jumps are likely, about "
            f"{_steps_per_jump(settings):.0f} steps each, and then falls off like the base.",
            width=100,
        )
        return figure


def plot_window(settings: Mapping[str, Any], data: Mapping[str, FloatArray]) -> Figure:
    """Draw the weights under a self-normalised window beside those of the first order."""
    base, first, target = _curve(settings, data, 0), _curve(settings, data, 1), data["by_order"][-1]
    window, lookahead = data["window"], settings["lookahead"]
    factor = window[lookahead] / base[lookahead]
    with style.context():
        figure, (axes,) = style.panels(1, 7.6, 5.0)
        axes.plot(data["step"], target, "--", color=BLACK, label=r"target, $\gamma'^t$")
        axes.plot(data["step"], first, color=SKY, label=r"order 1, $w_1(t)$")
        axes.plot(data["step"], base, color=BLUE, label=r"base, $\gamma^t$")
        label = f"order 1 by a window of {lookahead} steps"
        axes.plot(data["step"], window, color=ORANGE, label=label)
        _label(
            axes, f"A window of {lookahead} steps makes rewards larger, not the view longer", data
        )
        axes.set_xlim(0, min(600, data["step"][-1]))
        style.caption(
            axes,
            f"From {lookahead} steps on, the windowed weight is {factor:.3f} times $\\gamma^t$: "
            "the base, scaled. The scan over the whole trajectory (`expand`) gives $w_1$ itself.",
            width=100,
        )
        return figure


def _label(axes: Axes, title: str, data: Mapping[str, FloatArray]) -> None:
    axes.set(
        title=title,
        xlabel="steps ahead, t",
        ylabel="weight of a reward t steps ahead",
        xlim=(0, data["step"][-1]),
        ylim=(0, None),
    )
    axes.legend(loc="upper right")


def _curve(settings: Mapping[str, Any], data: Mapping[str, FloatArray], order: int) -> FloatArray:
    curve: FloatArray = data["by_order"][list(settings["orders"]).index(order)]
    return curve


def _steps_per_jump(settings: Mapping[str, Any]) -> float:
    gamma, gamma_prime = float(settings["gamma"]), float(settings["gamma_prime"])
    return gamma_prime / (gamma_prime - gamma)
