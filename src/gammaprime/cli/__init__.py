"""The command line: parses, calls, prints.

The modules of this room that a command does not need are not imported, so that help needs the
standard library alone.  This one imports nothing that takes time: Ctrl-C is handled from `main` on.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

DEBUG = "GAMMAPRIME_DEBUG"
ALLOW_IMPORTS = "GAMMAPRIME_ALLOW_IMPORTS"
ANYWHERE = ("--debug", "--allow-imports")
"""Options that may stand anywhere."""
BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0: done.  1: an unexpected error, such as one that your environment raises.  2: refused.  3: a
    run broke down (NaN or infinity), or runs of a sweep failed.  130, 143: stopped by Ctrl-C or
    SIGTERM.  141: nobody reads what is printed.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    # Manifests name this command, not the program that calls this function.
    before, sys.argv = sys.argv, ["gammaprime", *(word for word in words if word not in ANYWHERE)]
    allowed = os.environ.get(ALLOW_IMPORTS, "")
    try:
        from gammaprime.cli import terminal

        if "--allow-imports" in words:
            os.environ[ALLOW_IMPORTS] = "1"
        with terminal.any_encoding():
            return _answer(sys.argv[1:], "--debug" in words)
    except KeyboardInterrupt:
        print("\ngammaprime: interrupted; the same command starts it again", file=sys.stderr)
        return 130
    finally:
        sys.argv, os.environ[ALLOW_IMPORTS] = before, allowed


def _answer(words: list[str], debug: bool) -> int:
    """Run one command; an error becomes one line and an exit code."""
    from gammaprime.cli import terminal

    try:
        if words[:1] in (["train"], ["resume"], ["run"]):
            # A run goes on when the terminal that shows it is closed.
            with terminal.outlived():
                return _run(words)
        code = _run(words)
        terminal.flush()
        return code
    except BrokenPipeError:  # of `gammaprime list | head -1`
        terminal.discard(sys.stdout)
        return BROKEN_PIPE
    except Exception as error:
        if debug or os.environ.get(DEBUG, "0") not in ("", "0"):
            import traceback

            traceback.print_exc()
        known, message = _describe(error)
        with terminal.outlived():
            print(f"gammaprime: {message}", file=sys.stderr)
        return 2 if known else 1


def _run(words: list[str]) -> int:
    from gammaprime.cli import train

    if words[:1] == ["train"]:
        # tyro reads these: the options are those of the agent.
        return train.train(words[1:])
    arguments = _parser().parse_args(words)
    return arguments.command(arguments) or 0


def _describe(error: Exception) -> tuple[bool, str]:
    """Return whether an error is a refusal of ours, and its line."""
    if isinstance(error, MemoryError):
        what = str(error) or "there is none left"
        return True, f"not enough memory: {what}; ask for smaller sizes"
    if isinstance(error, ValueError | OSError | ImportError):
        return True, str(error)
    return False, f"{type(error).__name__}: {error} (--debug shows the traceback)"


def _parser() -> argparse.ArgumentParser:
    import argparse

    from gammaprime import __version__
    from gammaprime.cli import train

    parser = argparse.ArgumentParser(
        prog="gammaprime", description="Train with one discount, be judged by another."
    )
    parser.add_argument("--version", action="version", version=f"gammaprime {__version__}")
    parser.add_argument("--debug", action="store_true", help=f"show tracebacks; so does {DEBUG}=1")
    parser.add_argument(
        "--allow-imports",
        action="store_true",
        help="let config.json and specs name code, module:Name, which is imported and run",
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_training(commands)
    _add_experiments(commands)
    doctor = commands.add_parser("doctor", help="examine what this machine has for training")
    doctor.set_defaults(command=train.doctor)
    return parser


def _add_training(commands: Any) -> None:
    import argparse
    from pathlib import Path

    from gammaprime.cli import train

    commands.add_parser(
        "train", help="train an agent: gammaprime train ppo|trpo|pg|td3|ddpg|sac --task Hopper-v4"
    )
    folder = argparse.ArgumentParser(add_help=False)
    folder.add_argument("run", type=Path, metavar="RUN", help="the folder of a run")

    resume = commands.add_parser(
        "resume", parents=[folder], help="resume a run that was stopped, or lengthen one"
    )
    resume.add_argument(
        "--steps",
        type=float,
        metavar="N",
        help="total steps, such as 2e6, to lengthen the run: a copy of it goes on in a new folder",
    )
    resume.add_argument(
        "--out", type=Path, metavar="DIR", help="new folder of a lengthened run; default: beside it"
    )
    resume.add_argument(
        "--keep-replay", action="store_true", help="keep the replay when done, to lengthen it again"
    )
    resume.add_argument(
        "--checkpoint-seconds",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="seconds between checkpoints; default: 30",
    )
    resume.add_argument(
        "--threads", type=int, default=1, metavar="N", help="that step the environments; default: 1"
    )
    resume.add_argument(
        "--no-tensorboard", dest="tensorboard", action="store_false", help="write no events"
    )
    resume.add_argument(
        "--no-compilation-cache", dest="cache", action="store_false", help="compile everything anew"
    )
    resume.add_argument(
        "--keep-critic", action="store_true", help="store the critic in policy.npz too"
    )
    resume.set_defaults(command=train.resume)

    evaluate = commands.add_parser("evaluate", parents=[folder], help="evaluate a run's policy")
    evaluate.add_argument("--episodes", type=int, default=10, metavar="N", help="default: 10")
    evaluate.add_argument("--seed", type=int, default=0, help="default: 0")
    evaluate.add_argument(
        "--task", help="another task with the same observations and actions; default: the run's"
    )
    evaluate.add_argument(
        "--time-limit", type=int, metavar="N", help="cut episodes there; default: as the run did"
    )
    _add_best(evaluate)
    evaluate.set_defaults(command=train.evaluate)

    enjoy = commands.add_parser("enjoy", parents=[folder], help="make a video of a run's policy")
    enjoy.add_argument(
        "--video", type=Path, required=True, metavar="FILE", help=".mp4 .gif .webp .png"
    )
    enjoy.add_argument("--seconds", type=float, default=10.0, help="at most; default: 10")
    enjoy.add_argument("--seed", type=int, default=0, help="default: 0")
    _add_best(enjoy)
    enjoy.set_defaults(command=train.enjoy)


def _add_best(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--best", action="store_true", help="the policy that was evaluated best, not the newest"
    )


def _add_experiments(commands: Any) -> None:
    import argparse
    from pathlib import Path

    from gammaprime.cli import sweep
    from gammaprime.sweeps import FIGURES, PAGE, PUBLISHED, RUNS

    listing = commands.add_parser("list", help="list the experiments that ship with the package")
    listing.set_defaults(command=sweep.show_list)
    spec = argparse.ArgumentParser(add_help=False)
    spec.add_argument("spec", metavar="SPEC", help="a name from `gammaprime list`, or a .toml file")
    runs = argparse.ArgumentParser(add_help=False)
    runs.add_argument("--runs", type=Path, default=RUNS, metavar="DIR", help=f"default: {RUNS}")
    changes = argparse.ArgumentParser(add_help=False)
    group = changes.add_argument_group("for sweeps, in the place of what the spec says")
    group.add_argument("--steps", metavar="N", help="steps of every run; may be written 1e5")
    group.add_argument("--seeds", metavar="SEEDS", help="0:3 or 0,1,2")
    group.add_argument("--tasks", nargs="+", metavar="TASK", help="for instance Hopper-v4 Ant-v4")

    run = commands.add_parser(
        "run", parents=[spec, changes], help="run an experiment and store its numbers"
    )
    _add_out(run, RUNS)
    run.add_argument("--force", action="store_true", help="compute again what is already done")
    run.add_argument(
        "--dry-run", action="store_true", help="print the runs and their folders, and stop"
    )
    ways = run.add_argument_group("for sweeps, how they are run; no number depends on it")
    ways.add_argument("--workers", type=int, metavar="N", help="runs at a time; default: cores")
    ways.add_argument("--ray", metavar="ADDRESS", help="a Ray cluster, or `local` for a new one")
    ways.add_argument("--checkpoint-seconds", type=float, metavar="SECONDS", help="default: 30")
    run.set_defaults(command=sweep.run)

    figure = commands.add_parser(
        "figure", parents=[spec, changes, runs], help="draw what `run` has stored"
    )
    _add_out(figure, FIGURES)
    figure.add_argument("--band", choices=("median_std", "iqm"), help="default: the spec's")
    figure.add_argument(
        "--format",
        nargs="+",
        choices=("pdf", "tex"),
        default=(),
        help="besides PNG, SVG, Markdown and CSV: PDF of pictures, LaTeX of tables",
    )
    figure.set_defaults(command=sweep.figure)

    _add_plot(commands)
    report = commands.add_parser("report", help="write one page of everything in a folder of runs")
    report.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=Path(RUNS),
        metavar="DIR",
        help=f"of runs; default: {RUNS}",
    )
    _add_out(report, PAGE)
    report.set_defaults(command=sweep.report)

    publish = commands.add_parser(
        "publish", parents=[spec, runs], help="write figures and small copies of the runs, to keep"
    )
    _add_out(publish, PUBLISHED)
    publish.set_defaults(command=sweep.publish)


def _add_plot(commands: Any) -> None:
    from pathlib import Path

    from gammaprime.cli import sweep
    from gammaprime.sweeps import FIGURES

    plot = commands.add_parser("plot", help="plot learning curves of one or many runs")
    plot.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="runs, or folders of runs")
    plot.add_argument(
        "--metric",
        default="return",
        help="return, J_gamma, J_gamma_prime or length of the training episodes, or any name in "
        "metrics.jsonl such as eval/mean_reward; default: return",
    )
    plot.add_argument("--x", choices=("steps", "seconds"), default="steps", help="default: steps")
    plot.add_argument("--log", action="store_true", help="logarithmic vertical axis")
    plot.add_argument(
        "--smooth",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="a point is the mean over this share of the axis, 0 for none; default: 0.05",
    )
    plot.add_argument("--title", default="", help="default: the metric")
    _add_out(plot, FIGURES / "runs.png")
    plot.set_defaults(command=sweep.plot)


def _add_out(parser: argparse.ArgumentParser, default: Path) -> None:
    from pathlib import Path

    kind = "FILE" if default.suffix else "DIR"
    parser.add_argument(
        "--out", type=Path, default=default, metavar=kind, help=f"default: {default}"
    )
