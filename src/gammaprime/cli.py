"""The command line: parses, calls, prints.

Everything else is imported where it is used, so that help needs the standard library alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gammaprime import __version__

RUNS = Path("results/runs")
FIGURES = Path("results/figures")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it is done, 2 when it was refused, 130 when it was interrupted."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.command(arguments)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        print(f"gammaprime: {error}", file=sys.stderr)
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
    run.add_argument("--force", action="store_true", help="run again what is already done")
    run.set_defaults(command=_run)

    figure = commands.add_parser("figure", parents=[spec], help="draw what `run` has stored")
    figure.add_argument("--runs", type=Path, default=RUNS, metavar="DIR", help=f"default: {RUNS}")
    figure.add_argument(
        "--out", type=Path, default=FIGURES, metavar="DIR", help=f"default: {FIGURES}"
    )
    figure.set_defaults(command=_figure)
    return parser


def _list(arguments: argparse.Namespace) -> None:
    from gammaprime.suite import spec

    experiments = [spec.load(name) for name in spec.shipped()]
    width = max(len(experiment.name) for experiment in experiments)
    for experiment in experiments:
        print(f"{experiment.name:<{width}}  {experiment.title}")


def _run(arguments: argparse.Namespace) -> None:
    from gammaprime.suite import spec, store

    experiment = spec.load(arguments.spec)
    path = store.run_path(arguments.out, experiment.name, experiment.config)
    if store.is_done(path, experiment.config) and not arguments.force:
        print(f"{path}\nalready done; --force runs it again")
        return
    command = ["gammaprime", *sys.argv[1:]]
    store.begin(path, experiment.config, store.manifest(command, experiment.config))
    started = time.perf_counter()
    data = spec.KINDS[experiment.kind].run(experiment.settings, _progress(experiment.name))
    seconds = time.perf_counter() - started
    store.finish(path, data, seconds)
    where = "" if arguments.out == RUNS else f" --runs {arguments.out}"
    print(f"{path}\ndone in {seconds:.1f} s; next: gammaprime figure {arguments.spec}{where}")


def _figure(arguments: argparse.Namespace) -> None:
    from gammaprime import figures
    from gammaprime.suite import spec, store

    experiment = spec.load(arguments.spec)
    path = store.run_path(arguments.runs, experiment.name, experiment.config)
    if not store.is_done(path, experiment.config):
        raise FileNotFoundError(
            f"{path}: no finished run here; first: gammaprime run {arguments.spec}"
        )
    run = store.read(path, experiment.config)
    for file in figures.draw(run.config, run.data, arguments.out, experiment.name):
        print(file)


def _progress(name: str) -> Callable[[int, int], None]:
    """A line on stderr, rewritten in a terminal, and one line for each tenth elsewhere."""
    started = time.perf_counter()
    terminal = sys.stderr.isatty()
    shown = 0

    def report(done: int, total: int) -> None:
        nonlocal shown
        percent = 100 * done // total
        if percent == shown or (not terminal and percent // 10 == shown // 10):
            return
        shown = percent
        left = (time.perf_counter() - started) * (total - done) / done
        text = f"{name}: {percent:3d} %, {done} of {total}, {left:.0f} s left"
        end = "\n" if done == total or not terminal else ""
        print(f"\r{text:<60}" if terminal else text, end=end, file=sys.stderr, flush=True)

    return report
