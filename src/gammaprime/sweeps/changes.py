"""What the command line may ask of a sweep: other steps, seeds or tasks, and how it is run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

CHANGES = ("steps", "seeds", "tasks")
WAYS = ("workers", "ray", "checkpoint_seconds")


def add_changes(parser: argparse.ArgumentParser) -> None:
    """Options for a cheaper look, which the figure then tells."""
    group = parser.add_argument_group("for sweeps, in the place of what the spec says")
    group.add_argument("--steps", type=read_steps, metavar="N", help="of every run; 1e5 too")
    group.add_argument("--seeds", type=read_seeds, metavar="SEEDS", help="0:3 or 0,1,2")
    group.add_argument("--tasks", nargs="+", metavar="TASK", help="for instance Hopper-v4 Ant-v4")


def add_ways(parser: argparse.ArgumentParser) -> None:
    """Options that change no number."""
    group = parser.add_argument_group("for sweeps, how they are run")
    group.add_argument("--workers", type=int, metavar="N", help="runs at a time; default: cores")
    group.add_argument("--ray", metavar="ADDRESS", help="a Ray cluster, or `local` for a new one")
    group.add_argument("--checkpoint-seconds", type=float, metavar="SECONDS", help="default: 30")


def given(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Those of these options that were asked for."""
    asked = {name: vars(arguments).get(name) for name in names}
    return {name: value for name, value in asked.items() if value is not None}


def refuse(arguments: argparse.Namespace, name: str) -> None:
    """Tell that an experiment is no sweep, where an option asks for one."""
    for option in given(arguments, (*CHANGES, *WAYS)):
        told = option.replace("_", "-")
        raise ValueError(f"--{told}: is for sweeps of training runs, which {name} is not")


def repeat(arguments: argparse.Namespace, folder: str) -> str:
    """The spec and its changes, as the command that shows the runs wants them."""
    words = [arguments.spec]
    if arguments.steps is not None:
        words += ["--steps", str(arguments.steps)]
    if arguments.seeds is not None:
        words += ["--seeds", ",".join(map(str, arguments.seeds))]
    if arguments.tasks is not None:
        words += ["--tasks", *arguments.tasks]
    return " ".join([*words, folder, str(arguments.out)])


def read_steps(text: str) -> int:
    """1000000 or 1e6."""
    try:
        number = float(text)
    except ValueError:
        number = 0.5
    if not number.is_integer() or number < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number of at least 1")
    return int(number)


def read_seeds(text: str) -> tuple[int, ...]:
    """0:3 is 0,1,2."""
    first, colon, end = text.partition(":")
    try:
        if colon:
            seeds = tuple(range(int(first or 0), int(end)))
        else:
            seeds = tuple(int(number) for number in text.split(","))
    except ValueError:
        seeds = ()
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text!r}: must be like 0:3 or 0,1,2")
    return seeds
