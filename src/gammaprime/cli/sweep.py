"""The commands that run experiments and show what they have stored."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from gammaprime.sweeps.driver import Job
    from gammaprime.sweeps.spec import Computation, Sweep

INCOMPLETE = 3
CHANGES = ("steps", "seeds", "tasks")
WAYS = ("workers", "ray", "checkpoint_seconds")


def show_list(arguments: argparse.Namespace) -> None:
    """Print name and title of every experiment that ships."""
    from gammaprime.sweeps import spec

    titles = {name: spec.read_title(name) for name in spec.shipped()}
    width = max(map(len, titles))
    for name, title in titles.items():
        print(f"{name:<{width}}  {title}")


def run(arguments: argparse.Namespace) -> int:
    """Run an experiment."""
    from gammaprime.sweeps.spec import Sweep, load_experiment

    experiment = load_experiment(arguments.spec)
    if isinstance(experiment, Sweep):
        return _run_sweep(arguments, experiment)
    return _run_computation(arguments, experiment)


def _given(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Return those of these options that were given."""
    asked = {name: vars(arguments).get(name) for name in names}
    return {name: value for name, value in asked.items() if value is not None}


def _run_computation(arguments: argparse.Namespace, experiment: Computation) -> int:
    from gammaprime.runs.directory import FormatError, check_owner, is_done

    for name in _given(arguments, (*CHANGES, *WAYS)):
        option = name.replace("_", "-")
        raise ValueError(f"--{option}: is for sweeps of training runs, not for {experiment.name}")
    path = experiment.path(arguments.out)
    if arguments.dry_run:
        print(f"{path}\nnothing was started")
        return 0
    try:
        if not arguments.force and is_done(path, experiment.config):
            print(f"{path}\nalready done; --force runs it again")
            return 0
    except FormatError as error:
        raise ValueError(f"{error}, or replace it with --force") from None
    check_owner(path, experiment.config)
    if (path / "done").is_file():
        print(f"gammaprime: {path}: --force replaces what was done here", file=sys.stderr)
    experiment.run(arguments.out, arguments.force, progress_line(experiment.name))
    print(f"{path}\ndone; next: {shlex.join(_next_figure(arguments))}")
    return 0


def _run_sweep(arguments: argparse.Namespace, experiment: Sweep) -> int:
    from gammaprime.cli.show import SweepDisplay
    from gammaprime.runs.interrupts import Interrupted
    from gammaprime.sweeps.driver import State

    if arguments.force:
        raise ValueError("--force: a sweep repeats nothing; remove the folders of its runs instead")
    sweep = experiment.change(**_given(arguments, CHANGES))
    if arguments.dry_run:
        return _print_plan(sweep, arguments.out)
    flags = next((config.flags for _, config in sweep.configs() if config.flags), [])
    command = shlex.join([*sys.argv, *flags])
    try:
        with SweepDisplay() as display:
            jobs = sweep.run(arguments.out, watcher=display, **_given(arguments, WAYS))
    except Interrupted as stop:
        print(f"gammaprime: {stop}; go on with: {command}", file=sys.stderr)
        return stop.exit_code
    failed = [job for job in jobs if job.state is State.FAILED]
    print(f"{len(jobs) - len(failed)} of {len(jobs)} runs done")
    if failed:
        _print_missing(failed, command)
    print(f"next: {shlex.join([*_next_figure(arguments), *flags])}")
    return INCOMPLETE if failed else 0


def _print_plan(sweep: Sweep, out: Path) -> int:
    """Print every run of a sweep with its state and its folder; nothing is written."""
    from gammaprime.sweeps.driver import State

    jobs = sweep.jobs(out)
    for job in jobs:
        state = f"{job.state} ({job.message})" if job.message else str(job.state)
        print(f"{job.title}: {job.config.total_steps:,} steps, {state}, {job.path}")
    done = sum(job.state is State.DONE for job in jobs)
    print(f"{len(jobs)} runs, {done} done; nothing was started")
    return 0


def _print_missing(failed: Sequence[Job], command: str) -> None:
    from gammaprime.sweeps.local import LOG

    print("missing:")
    for job in failed:
        print(f"  {job.title}: {job.message} (see {job.path / LOG})")
    print(f"to try these again: {command}")


def _next_figure(arguments: argparse.Namespace) -> list[str]:
    """Return the words of the command that draws what was run."""
    words = ["gammaprime", "figure", arguments.spec]
    for name, value in _given(arguments, CHANGES).items():
        words += [f"--{name}", *(value if isinstance(value, list) else [value])]
    return [*words, "--runs", str(arguments.out)]


def progress_line(name: str) -> Callable[[int, int], None]:
    """Return a callback that shows progress on stderr; elsewhere than in a terminal, each tenth."""
    started = time.perf_counter()
    terminal = sys.stderr.isatty()
    shown = 0

    def progress(done: int, total: int) -> None:
        nonlocal shown
        percent = 100 * done // total
        if percent == shown or (not terminal and percent // 10 == shown // 10):
            return
        shown = percent
        left = (time.perf_counter() - started) * (total - done) / done
        text = f"{name}: {percent:3d} %, {done} of {total}, {left:.0f} s left"
        end = "\n" if done == total or not terminal else ""
        sys.stderr.write((f"\r{text:<60}" if terminal else text) + end)
        sys.stderr.flush()

    return progress


def figure(arguments: argparse.Namespace) -> None:
    """Draw what the runs of an experiment have stored."""
    from gammaprime.sweeps.spec import load_experiment

    experiment = load_experiment(arguments.spec).change(**_given(arguments, CHANGES))
    asked = (arguments.runs, arguments.out, arguments.band, arguments.format)
    for file in experiment.figure(*asked):
        print(file)


def plot(arguments: argparse.Namespace) -> None:
    """Plot the learning curves of runs."""
    from gammaprime.figures import plots
    from gammaprime.runs.results import find_runs, read_history

    asked = vars(arguments)
    options = plots.Options(**{name: asked[name] for name in plots.Options.__dataclass_fields__})
    runs = [read_history(path) for path in find_runs(arguments.runs)]
    print(plots.draw(runs, options, arguments.out))


def report(arguments: argparse.Namespace) -> None:
    """Write one page of everything in a folder of runs."""
    from gammaprime.sweeps.report import report

    say = partial(print, "gammaprime:", file=sys.stderr)
    print(report(arguments.folder, arguments.out, say))


def publish(arguments: argparse.Namespace) -> None:
    """Write figures and small copies of the runs of a sweep."""
    from gammaprime.sweeps.publish import publish
    from gammaprime.sweeps.spec import Sweep, load_experiment

    sweep = load_experiment(arguments.spec)
    if not isinstance(sweep, Sweep):
        raise ValueError(f"{sweep.name}: is computed, not trained; publish its figure instead")
    runs = arguments.out / "runs"
    for path in [*publish(sweep, arguments.runs, runs), *sweep.figure(runs, arguments.out)]:
        print(path)
