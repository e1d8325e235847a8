"""From the name of a spec, or a folder of runs, to files: the commands `figure` and `report`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gammaprime import figures
from gammaprime.figures import options
from gammaprime.runs import store
from gammaprime.runs.results import Result
from gammaprime.sweeps import history, spec

if TYPE_CHECKING:
    from gammaprime.sweeps.sweep import Sweep


def draw_spec(
    name: str, changes: Mapping[str, Any], runs: Path, out: Path, band: str | None
) -> list[Path]:
    """Draw an experiment.

    changes: steps, seeds and tasks that replace the spec's.  band: replaces the figure's.
    """
    experiment = spec.load(name)
    if isinstance(experiment, spec.Spec):
        for option in [*changes, *(["statistic"] if band else [])]:
            raise ValueError(
                f"--{option}: is for sweeps of training runs, which {experiment.name} is not"
            )
        return _draw_one(experiment, name, runs, out)
    shown = options.read(experiment)  # all variants that it names must be in the spec itself
    if band and shown.kind == "table":
        raise ValueError(f"--statistic: is for curves and ablations, {experiment.name} is a table")
    sweep = experiment.change(**changes)
    results = _read(sweep, runs)
    if not _has_begun(results):
        raise FileNotFoundError(
            f"{runs}: no run of {sweep.name} has begun here with these steps, seeds and tasks; "
            f"first: gammaprime run {name}"
        )
    return figures.draw_sweep(options.read(sweep, band), results, out)


def _draw_one(experiment: spec.Spec, name: str, runs: Path, out: Path) -> list[Path]:
    path = store.run_path(runs, experiment.name, experiment.config)
    if not store.is_done(path, experiment.config):
        raise FileNotFoundError(f"{path}: no finished run here; first: gammaprime run {name}")
    run = store.read(path, experiment.config)
    return figures.draw_computed(run.config, run.data, out, experiment.name)


def write_report(folder: Path, out: Path, tell: Callable[[str], None]) -> Path:
    """Write the page of everything that was run into a folder and has begun.

    A sweep that can no longer be read is left out; ``tell`` gets the reason, the page its name.
    """
    from gammaprime.figures import report  # it needs jinja2, which figures do not

    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder")
    sweeps: list[tuple[options.FigureOptions, list[Result]]] = []
    left_out: list[str] = []
    for note in history.noted(folder):
        try:
            sweep = history.recall(note)
            shown = options.read(sweep)
            results = _read(sweep, folder)
        except (ValueError, OSError, ImportError) as error:
            left_out.append(note.stem)
            tell(f"left out {note.stem}: {error}")
            continue
        if _has_begun(results):
            sweeps.append((shown, results))
    pictures = [
        report.Picture(name, title, figures.plot_computed(run.config, run.data), run.manifest)
        for name, title, run in history.computed(folder)
    ]
    if not sweeps and not pictures:
        if left_out:
            raise ValueError(f"{folder}: nothing is left to show")
        raise FileNotFoundError(f"{folder}: nothing was run here; first: gammaprime run demo")
    return report.write(out, sweeps, pictures, left_out)


def _read(sweep: Sweep, runs: Path) -> list[Result]:
    # Imported here: it imports the agents, which computed experiments do not need.
    from gammaprime.sweeps.records import read_records

    return [Result(*record) for record in read_records(sweep, runs)]


def _has_begun(results: Sequence[Result]) -> bool:
    return any(result.reached for result in results)
