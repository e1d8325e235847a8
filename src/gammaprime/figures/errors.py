"""fig:errors: the error of each order, and the best order as noise grows.

The paper shows one MDP.  Here every line is a median over many, and the error is absolute, as
the paper computes it, in units of reward (its text calls it relative: errata S16).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gammaprime.figures import style
from gammaprime.figures.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, Axes, Figure
from gammaprime.typing import FloatArray

Columns = dict[str, NDArray[Any]]

CAPTION_WIDTH = 82


def draw(
    settings: Mapping[str, Any],
    data: Mapping[str, FloatArray],
    folder: Path,
    name: str,
    formats: Sequence[str] = (),
) -> list[Path]:
    """Write both panels as PNG and SVG, and the numbers of each panel as CSV."""
    by_order, by_noise = order_table(data), noise_table(settings, data)
    return [
        *style.save(plot(settings, data), folder, name, formats=formats),
        _write(folder / f"{name}_by_order.csv", by_order),
        _write(folder / f"{name}_by_noise.csv", by_noise),
    ]


def _write(path: Path, table: Columns) -> Path:
    columns = [column.tolist() for column in table.values()]
    return style.write_csv(path, list(table), zip(*columns, strict=True))


def plots(settings: Mapping[str, Any], data: Mapping[str, FloatArray]) -> list[Figure]:
    """Figures of the experiment."""
    return [plot(settings, data)]


def order_table(data: Mapping[str, FloatArray]) -> Columns:
    """Panel (a), one row for each order: bound, expected error, RMSE exact and sampled, one run.

    Relative errors are divided by V_γ'(x_0) of their MDP.
    """
    error = data["sampled_error"]
    num_orders = error.shape[-1]
    target = np.abs(data["target"])[:, None]
    sampled_rmse = np.sqrt((error**2).mean(axis=1))
    table: Columns = {"order": np.arange(num_orders), "bound": data["bound"]}
    table |= _three("expected_error", data["expected_error"])
    table |= _three("expected_relative_error", data["expected_error"] / target)
    table |= _three("rmse_exact", data["rmse"])
    table |= _three("rmse_sampled", sampled_rmse)
    table |= _three("rmse_sampled_relative", sampled_rmse / target)
    return table | _three("one_run", np.abs(error).reshape(-1, num_orders))


def noise_table(settings: Mapping[str, Any], data: Mapping[str, FloatArray]) -> Columns:
    """Panel (b), one row for each noise level: the best order in one run, and in RMSE."""
    table = {"base_noise": np.array(settings["base_noise"])}
    table |= _three("realised_order", data["realised_order"].mean(axis=1))
    return table | _three("rmse_order", data["rmse_order"])


def plot(settings: Mapping[str, Any], data: Mapping[str, FloatArray]) -> Figure:
    """Draw both panels."""
    with style.context():
        figure, (left, right) = style.panels(2, 12.0, 6.0)
        figure.suptitle(
            rf"From $V_\gamma$ to $V_{{\gamma'}}$ with γ = {settings['gamma']:g} and "
            rf"γ' = {settings['gamma_prime']:g}, on {settings['num_mdps']} random MDPs of "
            f"{settings['num_states']} states.  Lines: medians; bands: 10-90 %."
        )
        _plot_errors(left, settings, data)
        _plot_best_order(right, settings, data)
        return figure


def _plot_errors(axes: Axes, settings: Mapping[str, Any], data: Mapping[str, FloatArray]) -> None:
    table = order_table(data)
    order = table["order"]
    axes.plot(order, table["bound"], "--", color=BLACK, lw=1.4, label="bound on the expected error")
    exact = _lines(table, "expected_error")
    style.band(axes, order, exact, BLUE, label="expected error: no sampling")
    runs = _lines(table, "one_run")
    style.band(axes, order, runs, GREEN, linestyle=":", label="sampled error: single runs")
    rmse = _lines(table, "rmse_exact")
    style.band(axes, order, rmse, ORANGE, label="sampled error: RMSE, exact")
    dots: dict[str, Any] = {
        "color": ORANGE,
        "markersize": 4,
        "markerfacecolor": "white",
        "linestyle": "none",
    }
    simulated = "sampled error: RMSE, simulated"
    axes.plot(order, table["rmse_sampled_median"], marker="o", label=simulated, **dots)
    axes.set(
        title="(a) More orders: less bias, down to the noise of sampling",
        xlabel="order K",
        ylabel="absolute error of the value at the start  [reward]",
        yscale="log",
    )
    axes.margins(x=0.015)
    axes.legend(loc="upper right")
    highest, best = data["rmse"][:, -1], data["rmse"].min(axis=1)
    lower = np.abs(data["sampled_error"]).argmin(axis=-1) < order[-1]
    style.caption(
        axes,
        f"A run averages {settings['num_trajectories']} trajectories; {settings['repetitions']} "
        "runs on each MDP. Bands: over MDPs, the green one over all runs. The RMSE falls to a "
        f"floor and stays: on every MDP, K = {order[-1]} is within "
        f"{_percent((highest / best - 1).max())} of the best order. In {_percent(lower.mean())} "
        "of single runs a lower order is best, because the error happens to cross 0 there.",
        width=CAPTION_WIDTH,
    )


def _plot_best_order(
    axes: Axes, settings: Mapping[str, Any], data: Mapping[str, FloatArray]
) -> None:
    table = noise_table(settings, data)
    noise, largest = table["base_noise"], settings["order"]
    marks = {"markersize": 4, "marker": "s"}
    style.band(axes, noise, _lines(table, "rmse_order"), PURPLE, **marks, label="of least RMSE")
    realised = "of least error in a single run\n(mean over the runs on an MDP)"
    marks["marker"] = "o"
    style.band(axes, noise, _lines(table, "realised_order"), BLUE, **marks, label=realised)
    axes.set(
        title="(b) Noisier base estimates: a lower best order",
        xlabel=r"noise σ of the base estimates $V_\gamma(x_t) + \mathcal{N}(0, σ^2)$  [reward]",
        ylabel=f"best order K, from 0 to {largest}",
        ylim=(-0.02 * largest, 1.04 * largest),
    )
    axes.margins(x=0.015)
    axes.legend(loc="upper right", bbox_to_anchor=(1.0, 0.93), title="order", alignment="left")
    extreme = np.isin(data["rmse_order"], (0, largest)).mean()
    style.caption(
        axes,
        "What an order gains in bias² and what it costs in variance shrink alike, so that in RMSE "
        f"all orders pay or none does (in {_percent(extreme)} of all cases). What falls smoothly "
        "is the order that happened to be best in a single run, which is not known beforehand. "
        "Bands: over MDPs.",
        width=CAPTION_WIDTH,
    )


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _three(name: str, values: FloatArray) -> Columns:
    low, median, high = style.quantiles(values)
    return {f"{name}_p10": low, f"{name}_median": median, f"{name}_p90": high}


def _lines(table: Columns, name: str) -> FloatArray:
    return np.stack([table[f"{name}_{part}"] for part in ("p10", "median", "p90")])
