"""Learning curves of any runs: one panel for each task, the seeds of one configuration joined.

A point is the mean over the last share of the axis (``smooth``); a line is the mean over seeds and
its band one standard deviation.  The footnote says both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gammaprime.figures import style
from gammaprime.figures.statistics import window_means
from gammaprime.figures.style import Axes, Figure
from gammaprime.runs.results import History
from gammaprime.types import check_choice, check_fraction, unknown
from gammaprime.typing import FloatArray

FROM_EPISODES = {"return": 2, "J_gamma": 3, "J_gamma_prime": 4, "length": 1}
"""Metrics of the training episodes, and their columns."""
NAMES = {"J_gamma": "J_γ", "J_gamma_prime": "J_γ'", "length": "episode length"}
AXES = {"steps": "environment steps", "seconds": "seconds"}
STEPS = "time/total_timesteps"
SUFFIXES = (".png", ".svg", ".pdf")
NUM_POINTS = 200


@dataclass(frozen=True)
class Options:
    """Metric, axes and smoothing of a plot."""

    metric: str = "return"
    """return, J_gamma, J_gamma_prime or length of the training episodes, or any metric of a run."""
    x: str = "steps"
    """steps or seconds."""
    log: bool = False
    """Logarithmic vertical axis."""
    smooth: float = 0.05
    """Share of the horizontal axis over which a point is the mean; 0 for no smoothing."""
    title: str = ""

    def __post_init__(self) -> None:
        check_choice("x", self.x, tuple(AXES))
        check_fraction("smooth", self.smooth)


class Line(NamedTuple):
    """Runs of one configuration on one task."""

    name: str
    task: str
    grid: FloatArray
    curves: FloatArray
    """(seeds, points); NaN where a seed has not got to."""


def draw(runs: Sequence[History], options: Options, file: Path) -> Path:
    """Write the picture, in the format of the file's suffix."""
    if file.suffix not in SUFFIXES:
        raise ValueError(f"{file}: must end in {', '.join(SUFFIXES)}")
    figure = plot(runs, options)
    file.parent.mkdir(parents=True, exist_ok=True)
    with style.context(style.PRINTED):
        figure.savefig(file, metadata=style.METADATA[file.suffix[1:]])
    return file


def plot(runs: Sequence[History], options: Options) -> Figure:
    """Draw one panel for each task, with one legend."""
    drawn = lines(runs, options)
    tasks = list(dict.fromkeys(line.task for line in drawn))
    chosen = style.looks(dict.fromkeys(line.name for line in drawn))
    with style.context(style.PRINTED):
        figure, axes = style.sheet(len(tasks), options.title or _name(options.metric))
        for task, panel in zip(tasks, axes, strict=True):
            for name, look in chosen.items():
                panel.plot([], [], label=_literal(name), color=look.color, linestyle=look.linestyle)
            for line in drawn:
                if line.task == task:
                    _draw_line(panel, line, chosen[line.name])
            panel.set(title=_literal(task), xlabel=AXES[options.x], ylabel=_name(options.metric))
            panel.set_yscale("log" if options.log else "linear")
            panel.margins(x=0.0)
            if options.x == "steps":
                panel.xaxis.set_major_formatter(style.count_steps)
            panel.locator_params(axis="x", nbins=5)
        style.head(figure, axes[0])
        style.footnote(figure, describe(drawn, options))
        return figure


def _literal(text: str) -> str:
    """Return a text that matplotlib draws as it is: no formula, and valid Unicode."""
    return text.encode("utf-8", "replace").decode().replace("$", r"\$")


def _draw_line(axes: Axes, line: Line, look: style.Look) -> None:
    there = np.isfinite(line.curves).any(axis=0)
    grid, curves = line.grid[there], line.curves[:, there]
    middle, spread = np.nanmean(curves, axis=0), np.nanstd(curves, axis=0)
    if len(curves) > 1:
        ends = middle - spread, middle + spread
        axes.fill_between(grid, *ends, color=look.color, alpha=0.16, linewidth=0)
    axes.plot(grid, middle, color=look.color, linestyle=look.linestyle)


def lines(runs: Sequence[History], options: Options) -> list[Line]:
    """Lines of all runs; those that differ in their seeds alone are one."""
    groups: dict[str, list[History]] = {}
    for run in runs:
        groups.setdefault(repr(sorted(_flatten(run.config).items())), []).append(run)
    names = name_groups([_flatten(group[0].config) for group in groups.values()])
    return [_line(name, group, options) for name, group in zip(names, groups.values(), strict=True)]


def _line(name: str, group: Sequence[History], options: Options) -> Line:
    points = [_points(run, options) for run in group]
    last = max((float(x[-1]) for x, _ in points if len(x)), default=1.0)
    grid = last * np.arange(1, NUM_POINTS + 1) / NUM_POINTS
    curves = np.full((len(group), NUM_POINTS), np.nan)
    for curve, (x, y) in zip(curves, points, strict=True):
        if len(x):
            # Just above 0: the window of a point then holds the latest value alone.
            means = window_means(x, y, grid, max(options.smooth * last, 1e-9))
            reached = grid <= x[-1] + last / NUM_POINTS
            curve[reached] = means[reached]
    return Line(name, group[0].task, grid, curves)


def _points(run: History, options: Options) -> tuple[FloatArray, FloatArray]:
    """Steps or seconds of a run, not decreasing, and the values there."""
    metrics = run.metrics
    if options.metric in FROM_EPISODES:
        order = np.argsort(run.episodes[:, 0], kind="stable")
        x, y = run.episodes[order, 0], run.episodes[order, FROM_EPISODES[options.metric]]
    elif options.metric in metrics:
        x, y = metrics[STEPS].astype(np.float64), metrics[options.metric].astype(np.float64)
        x, y = x[np.isfinite(y)], y[np.isfinite(y)]
    else:
        raise ValueError(f"{run.path}: {unknown('metric', options.metric, _metrics(run))}")
    if options.x == "seconds" and len(x):
        if not len(run.seconds):
            raise ValueError(f"{run.path}: has no wall-clock; plot it against steps")
        steps = metrics[STEPS].astype(np.float64)[: len(run.seconds)]
        x = np.interp(x, np.append(0.0, steps), np.append(0.0, run.seconds))
    return x, y


def _metrics(run: History) -> list[str]:
    return [*FROM_EPISODES, *(name for name in run.metrics if name != STEPS)]


def name_groups(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a name for each configuration: its agent, and what tells it from others of its name.

    Configurations that differ in their tasks alone share a name; panels tell them apart.
    """
    plain = [{key: x for key, x in table.items() if key != "task"} for table in tables]
    names = [str(table.get("agent.kind", "run")) for table in plain]
    keys = sorted(dict.fromkeys(key for table in plain for key in table), key=_rank)
    for key in keys:
        alike: dict[str, list[int]] = {}
        for i, name in enumerate(names):
            alike.setdefault(name, []).append(i)
        for group in alike.values():
            if len({repr(plain[i].get(key)) for i in group}) > 1:
                for i in group:
                    names[i] += _tell(key, plain[i])
    return names


def _rank(key: str) -> tuple[bool, bool, int]:
    """Kinds of slots first, then settings of the agent, then those of its slots and the rest."""
    return not key.endswith(".kind"), not key.startswith("agent."), key.count(".")


def _tell(key: str, table: Mapping[str, Any]) -> str:
    if key not in table:
        return ""
    last = key.split(".")[-1]
    return f", {table[key]}" if last == "kind" else f", {last} {table[key]}"


def _flatten(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return what decides the numbers of a run, but for its seed, by dotted keys."""
    flat: dict[str, Any] = {}

    def add(prefix: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for key, item in value.items():
                add(f"{prefix}.{key}" if prefix else key, item)
        else:
            flat[prefix] = value

    add("", {key: value for key, value in table["settings"].items() if key != "seed"})
    flat.pop("origin.arrays_sha256", None)  # differs between seeds
    return flat


def _name(metric: str) -> str:
    return NAMES.get(metric, metric)


def describe(drawn: Sequence[Line], options: Options) -> str:
    """Say what points, lines and bands are."""
    of = "training episodes" if options.metric in FROM_EPISODES else "updates"
    share = f"{100 * options.smooth:g} % of the axis"
    point = f"the mean over the {of} of the last {share}" if options.smooth else "the latest value"
    seeds = sorted({len(line.curves) for line in drawn})
    if seeds == [1]:
        return f"A point is {point}; one seed each."
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return f"A point is {point}. Lines and bands: mean ± one standard deviation over {count} seeds."
