"""The commands that train agents and look at what they have learned."""

from __future__ import annotations

import argparse
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gammaprime.sweeps import RUNS

if TYPE_CHECKING:
    from gammaprime.runs.run import Run
    from gammaprime.runs.session import Callback

USAGE = """\
usage: gammaprime train AGENT --task TASK [--steps N] [--seed N] [--out DIR]
AGENT: ppo, trpo, pg, td3, ddpg or sac; also trpo-baselines, ddpg-spinning-up, ppo-cartpole,
       ppo-pendulum, ppo-acrobot, or a class of your own as module:Class
all options of an agent and its slots: gammaprime train ppo --help"""


def train(words: Sequence[str]) -> int:
    """Train an agent, as the words after `gammaprime train` say."""
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if words else 2
    _prepare()
    from gammaprime.cli.options import parse, read_env_kwargs
    from gammaprime.runs import origins, session, training
    from gammaprime.runs.config import RunConfig

    agent, asked = parse(words)
    run_options = (asked.evaluation, asked.time_limit, asked.time_feature, asked.stagger)
    numbers = (agent, asked.task, asked.steps, asked.seed)
    out, env_kwargs = asked.out, read_env_kwargs(asked.env_kwargs)
    if out is None:
        origin = None if asked.init is None else origins.take_parameters(asked.init).origin
        out = RUNS / RunConfig(*numbers, *run_options, origin, env_kwargs).folder

    class Announce(session.Callback):
        """Prints the folder once it is there: what is refused has none."""

        def on_start(self, start: session.Start) -> None:
            print(start.path, flush=True)

    upkeep = (asked.checkpoint_seconds, asked.tensorboard, None, asked.threads)
    return _watch(
        lambda display: training.train(
            *numbers,
            out,
            [Announce(), display],
            *run_options,
            *upkeep,
            progress=False,
            init=asked.init,
            keep_replay=asked.keep_replay,
            keep_critic=asked.keep_critic,
            env_kwargs=env_kwargs,
        ),
        asked.compilation_cache,
    )


def _prepare() -> None:
    """Set one thread before anything could start more, and check that all is installed."""
    from gammaprime.runs import startup

    startup.use_one_thread()
    startup.check_packages()


def resume(arguments: argparse.Namespace) -> int:
    """Resume a run that was stopped, or lengthen one."""
    _prepare()
    from gammaprime.runs import training

    upkeep = (arguments.checkpoint_seconds, arguments.tensorboard, None, arguments.threads)
    longer = {"steps": arguments.steps, "out": arguments.out, "keep_replay": arguments.keep_replay}
    longer["keep_critic"] = arguments.keep_critic
    return _watch(
        lambda display: training.resume(
            arguments.run, [display], *upkeep, progress=False, **longer
        ),
        arguments.cache,
    )


def _watch(start: Callable[[Callback], Run], use_cache: bool) -> int:
    """Start a run with its live line, and tell how it ended."""
    from gammaprime.cli.show import Display
    from gammaprime.loops.rollout import BreakdownError
    from gammaprime.runs import provenance, startup
    from gammaprime.runs.interrupts import Interrupted, Interrupts

    plain = warnings.formatwarning
    warnings.formatwarning = _one_line  # type: ignore[assignment]
    try:
        with Interrupts(active=True), Display() as display:
            if use_cache:
                startup.cache_compilations(provenance.default_cache())
            run = start(display)
    except Interrupted as stop:
        print(f"gammaprime: {stop}", file=sys.stderr)
        return stop.exit_code
    except BreakdownError as error:
        print(f"gammaprime: {error}", file=sys.stderr)
        return 3
    finally:
        warnings.formatwarning = plain
    command = shlex.join(["gammaprime", "evaluate", str(run.path), *run.config.flags])
    print(f"done, {run.steps} steps; next: {command}")
    return 0


def _one_line(message: Warning | str, *where: Any) -> str:
    """Return a warning without the line of code that it comes from."""
    return f"gammaprime: {message}\n"


def evaluate(arguments: argparse.Namespace) -> int:
    """Evaluate a run's newest policy, and print three returns side by side."""
    from gammaprime.loops.rollout import BreakdownError
    from gammaprime.runs import training

    try:
        asked = (arguments.episodes, arguments.seed, arguments.task, arguments.best)
        print(training.evaluate(arguments.run, *asked, arguments.time_limit))
    except BreakdownError as error:
        print(f"gammaprime: {error}", file=sys.stderr)
        return 3
    return 0


def enjoy(arguments: argparse.Namespace) -> None:
    """Make a video of a run's policy."""
    from gammaprime.cli import video

    asked = (arguments.seconds, arguments.seed, arguments.best)
    video.record(arguments.run, arguments.video, *asked)
    print(arguments.video)


def doctor(arguments: argparse.Namespace) -> None:
    """Print what this machine has for training."""
    from gammaprime.cli import doctor

    findings = doctor.examine()
    width = max(len(name) for name, _ in findings)
    for name, finding in findings:
        print(f"{name:<{width}}  {finding}")
