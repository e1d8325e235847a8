"""The command line: parses, calls, prints.

Everything else is imported where it is used, so that help needs the standard library alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gammaprime import __version__
from gammaprime.cli import training
from gammaprime.sweeps import changes

RUNS = Path("results/runs")
FIGURES = Path("results/figures")
REPORT = Path("results/report.html")
PUBLISHED = Path("results/published")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    0: done.  2: refused.  3: a run broke down, its numbers are none.  130, 143: stopped by Ctrl-C
    or SIGTERM.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if words[:1] == ["train"]:
            # tyro reads these: the agents are the options, and they are not imported for help.
            return training.train(words[1:], RUNS)
        arguments = _parser().parse_args(words)
        return arguments.command(arguments) or 0
    except (ValueError, OSError, ImportError) as error:
        print(f"gammaprime: {error}", file=sys.stderr)
        return 2
    except MemoryError as error:
        what = str(error) or "there is none left"
        print(f"gammaprime: not enough memory: {what}; ask for smaller sizes", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ngammaprime: interrupted; the same command starts it again", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gammaprime", description="Train with one discount, be judged by another."
    )
    parser.add_argument("--version", action="version", version=f"gammaprime {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    spec = argparse.ArgumentParser(add_help=False)
    spec.add_argument("spec", metavar="SPEC", help="a name from `gammaprime list`, or a .toml file")

    listing = commands.add_parser("list", help="the experiments that ship with the package")
    listing.set_defaults(command=_list)

    run = commands.add_parser("run", parents=[spec], help="run an experiment and store its numbers")
    run.add_argument("--out", type=Path, default=RUNS, metavar="DIR", help=f"default: {RUNS}")
    run.add_argument(
        "--force", action="store_true", help="run again what is already done, in its place"
    )
    changes.add_changes(run)
    changes.add_ways(run)
    run.set_defaults(command=_run)

    _add_showing(commands, spec)
    training.add_training(commands)
    return parser


def _add_showing(commands: Any, spec: argparse.ArgumentParser) -> None:
    runs = argparse.ArgumentParser(add_help=False)
    runs.add_argument("--runs", type=Path, default=RUNS, metavar="DIR", help=f"default: {RUNS}")

    figure = commands.add_parser("figure", parents=[spec, runs], help="draw what `run` has stored")
    figure.add_argument(
        "--out", type=Path, default=FIGURES, metavar="DIR", help=f"default: {FIGURES}"
    )
    figure.add_argument("--statistic", choices=("median_std", "iqm"), help="default: the spec's")
    changes.add_changes(figure)
    figure.set_defaults(command=_figure)

    report = commands.add_parser("report", help="one page of everything that a folder can show")
    report.add_argument("folder", type=Path, metavar="DIR", help=f"of runs, such as {RUNS}")
    report.add_argument(
        "--out", type=Path, default=REPORT, metavar="FILE", help=f"default: {REPORT}"
    )
    report.set_defaults(command=_report)

    publish = commands.add_parser(
        "publish", parents=[spec, runs], help="figures and small copies of the runs, to be kept"
    )
    publish.add_argument(
        "--out", type=Path, default=PUBLISHED, metavar="DIR", help=f"default: {PUBLISHED}"
    )
    publish.set_defaults(command=_publish)


def _list(arguments: argparse.Namespace) -> None:
    from gammaprime.sweeps import spec

    titles = {name: spec.title(name) for name in spec.shipped()}
    width = max(map(len, titles))
    for name, title in titles.items():
        print(f"{name:<{width}}  {title}")


def _run(arguments: argparse.Namespace) -> int:
    from gammaprime.sweeps import spec

    experiment = spec.load(arguments.spec)
    if isinstance(experiment, spec.Spec):
        return _run_one(arguments, experiment)
    return _run_sweep(arguments, experiment)


def _run_one(arguments: argparse.Namespace, experiment: Any) -> int:
    from gammaprime.cli import progress
    from gammaprime.runs import store
    from gammaprime.sweeps import spec

    changes.refuse(arguments, experiment.name)
    path = store.run_path(arguments.out, experiment.name, experiment.config)
    if not arguments.force and _is_done(path, experiment.config):
        print(f"{path}\nalready done; --force runs it again")
        return 0
    store.make_folder(path, experiment.config)
    if (path / "done").is_file():
        print(f"gammaprime: {path}: --force replaces what was done here", file=sys.stderr)
    started = time.perf_counter()
    data = spec.KINDS[experiment.kind].run(experiment.settings, progress.on_stderr(experiment.name))
    seconds = time.perf_counter() - started
    # What was done before stays until there is something to put in its place.
    command = ["gammaprime", *sys.argv[1:]]
    store.begin(path, experiment.config, store.manifest(command, experiment.config))
    store.finish(path, data, seconds)
    where = "" if arguments.out == RUNS else f" --runs {arguments.out}"
    print(f"{path}\ndone in {seconds:.1f} s; next: gammaprime figure {arguments.spec}{where}")
    return 0


def _is_done(path: Path, config: Any) -> bool:
    from gammaprime.runs import store

    try:
        return store.is_done(path, config)
    except store.FormatError as error:
        raise ValueError(f"{error}, or replace it with --force") from None


def _run_sweep(arguments: argparse.Namespace, sweep: Any) -> int:
    from gammaprime.cli.run_sweep import Way, run_sweep
    from gammaprime.figures import options
    from gammaprime.runs.interrupts import Interrupted
    from gammaprime.sweeps import history
    from gammaprime.sweeps.schedule import plan

    if arguments.force:
        raise ValueError("--force: a sweep repeats nothing; remove the folders of its runs instead")
    # What could not be shown is not trained: as the spec has it, and as it is asked for.
    options.read(sweep)
    sweep = sweep.change(**changes.given(arguments, changes.CHANGES))
    options.read(sweep)
    way = Way(**changes.given(arguments, changes.WAYS))
    jobs = plan(sweep.runs(), arguments.out)
    history.note(arguments.out, arguments.spec, sweep)
    try:
        code = run_sweep(sweep, jobs, arguments.out, way, lambda line: print(line, flush=True))
    except Interrupted as stop:
        print(f"gammaprime: {stop}", file=sys.stderr)
        return stop.exit_code
    print(f"next: gammaprime figure {changes.repeat(arguments, '--runs')}")
    return code


def _figure(arguments: argparse.Namespace) -> None:
    from gammaprime.figures import commands

    changed = changes.given(arguments, changes.CHANGES)
    where = (arguments.runs, arguments.out)
    for file in commands.draw_spec(arguments.spec, changed, *where, arguments.statistic):
        print(file)


def _report(arguments: argparse.Namespace) -> None:
    from gammaprime.figures import commands

    tell = partial(print, "gammaprime:", file=sys.stderr)
    print(commands.write_report(arguments.folder, arguments.out, tell))


def _publish(arguments: argparse.Namespace) -> None:
    from gammaprime.figures import commands
    from gammaprime.sweeps.publish import publish_spec

    for path in publish_spec(arguments.spec, arguments.runs, arguments.out / "runs"):
        print(path)
    for file in commands.draw_spec(arguments.spec, {}, arguments.out / "runs", arguments.out, None):
        print(file)
