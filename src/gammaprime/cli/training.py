"""The verbs that train agents and look at what they learned."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def add_training(commands: Any) -> None:
    """Their options; those of train are its agents, which `train` reads itself."""
    commands.add_parser(
        "train", help="train an agent: gammaprime train ppo|trpo|pg|td3|ddpg|sac --task Hopper-v4"
    )
    folder = argparse.ArgumentParser(add_help=False)
    folder.add_argument("run", type=Path, metavar="RUN", help="the folder of a run")

    resume = commands.add_parser("resume", parents=[folder], help="go on with a run that stopped")
    resume.add_argument("--checkpoint-seconds", type=float, default=30.0, metavar="SECONDS")
    resume.add_argument("--no-tensorboard", dest="tensorboard", action="store_false")
    resume.add_argument("--no-compilation-cache", dest="cache", action="store_false")
    resume.set_defaults(command=_resume)

    evaluate = commands.add_parser("evaluate", parents=[folder], help="judge a run's policy")
    evaluate.add_argument("--episodes", type=int, default=10, metavar="N", help="default: 10")
    evaluate.add_argument("--seed", type=int, default=0, help="default: 0")
    evaluate.set_defaults(command=_evaluate)

    enjoy = commands.add_parser("enjoy", parents=[folder], help="a video of a run's policy")
    enjoy.add_argument("--video", type=Path, required=True, metavar="FILE", help=".gif .webp .png")
    enjoy.add_argument("--seconds", type=float, default=10.0, help="at most; default: 10")
    enjoy.add_argument("--seed", type=int, default=0, help="default: 0")
    enjoy.set_defaults(command=_enjoy)

    doctor = commands.add_parser("doctor", help="what training will find on this machine")
    doctor.set_defaults(command=_doctor)


def train(words: Sequence[str], root: Path) -> int:
    """Train an agent; its folder is under ``root`` unless another is asked for."""
    if not words or words[0] in ("-h", "--help"):
        print("usage: gammaprime train AGENT --task TASK [--steps N] [--seed N] [--out DIR]")
        print("AGENT: ppo, trpo, pg, td3, ddpg or sac; also trpo-baselines, ddpg-spinning-up")
        print("all options of an agent and its slots: gammaprime train ppo --help")
        return 0 if words else 2
    _prepare_training()
    from gammaprime.cli import command
    from gammaprime.runs import machine
    from gammaprime.runs import old_training as training
    from gammaprime.runs.setup import Setup
    from gammaprime.runs.store import run_path

    agent, asked = command.parse(words)
    if asked.compilation_cache:
        machine.cache_compilations(machine.default_cache())

    def start(callbacks: Sequence[Any]) -> Any:
        out = asked.out
        if out is None:
            setup = Setup(agent, asked.task, asked.steps, asked.seed, asked.protocol)
            out = run_path(root, setup.name, setup.config)
            setup.close()
        print(out, flush=True)
        numbers = (agent, asked.task, asked.steps, asked.seed)
        return training.train(*numbers, out, callbacks, asked.protocol, asked.upkeep)

    return _watch(start)


def _prepare_training() -> None:
    """One thread, before anything that could start more; and all that training needs is here."""
    from gammaprime.runs.threads import use_one_thread

    use_one_thread()
    for name in ("jax", "optax", "gymnasium", "safetensors", "tyro", "rich", "tensorboardX"):
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            raise ImportError(f"training needs {name}: pip install 'gammaprime[train]'")


def _resume(arguments: argparse.Namespace) -> int:
    _prepare_training()
    from gammaprime.runs import machine
    from gammaprime.runs.old_training import resume
    from gammaprime.runs.options import Upkeep

    if arguments.cache:
        machine.cache_compilations(machine.default_cache())
    upkeep = Upkeep(arguments.checkpoint_seconds, arguments.tensorboard)
    return _watch(lambda callbacks: resume(arguments.run, callbacks, upkeep))


def _watch(start: Callable[[Sequence[Any]], Any]) -> int:
    """Start a run with its live line, and tell how it ended."""
    from gammaprime.cli.display import Display
    from gammaprime.loops.rollout import BreakdownError
    from gammaprime.runs.interrupts import Interrupted

    plain, warnings.formatwarning = warnings.formatwarning, _one_line
    try:
        with Display() as display:
            run = start([display])
    except Interrupted as stop:
        print(f"gammaprime: {stop}", file=sys.stderr)
        return stop.exit_code
    except BreakdownError as error:
        print(f"gammaprime: {error}", file=sys.stderr)
        return 3
    finally:
        warnings.formatwarning = plain
    print(f"done, {run.steps} steps; next: gammaprime evaluate {run.path}")
    return 0


def _one_line(message: Warning | str, *where: Any) -> str:
    """A warning for people who did not write the line it comes from."""
    return f"gammaprime: {message}\n"


def _evaluate(arguments: argparse.Namespace) -> None:
    from gammaprime.runs.judge import judge

    for line in judge(arguments.run, arguments.episodes, arguments.seed):
        print(line)


def _enjoy(arguments: argparse.Namespace) -> None:
    from gammaprime.cli import video

    video.record(arguments.run, arguments.video, arguments.seconds, arguments.seed)
    print(arguments.video)


def _doctor(arguments: argparse.Namespace) -> None:
    from gammaprime.cli import doctor

    findings = doctor.examine()
    width = max(len(name) for name, _ in findings)
    for name, finding in findings:
        print(f"{name:<{width}}  {finding}")
