"""What the process of one run does: train it under its lease, or find out how fast it would be."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gammaprime.loops.rollout import BreakdownError
from gammaprime.runs import lease
from gammaprime.runs.files import to_json
from gammaprime.runs.folders import CHECKPOINTS, BusyError
from gammaprime.runs.interrupts import Interrupted
from gammaprime.runs.old_training import Callback, TrainingRun, Update, train
from gammaprime.runs.options import Protocol, Upkeep, agent_from, from_table
from gammaprime.sweeps.worker import BROKEN, DONE, FAILED, HELD, LOST, Order

RETURN = "rollout/ep_rew_mean"
TENSORBOARD = "tensorboard"


def attempt(order: Order) -> tuple[int, str]:
    """Train the run of an order, or go on with it; how the process should end, and why."""
    reporter, path = Reporter(), Path(order.path)
    upkeep = Upkeep(order.checkpoint_seconds)
    try:
        held = lease.take(path, order.stale)
        with lease.kept(held, lambda: reporter.progress, _give_up, order.beat):
            start(order, [Guard(held, _give_up), reporter], upkeep)
    except (lease.HeldError, BusyError) as error:
        return HELD, str(error)
    except Interrupted as stop:
        return stop.exit_code, str(stop)
    except BreakdownError as error:
        return BROKEN, str(error)
    except (ValueError, OSError, ImportError) as error:
        return FAILED, str(error)
    return DONE, ""


def _give_up() -> None:
    os._exit(LOST)


def start(order: Order, callbacks: Sequence[Callback], upkeep: Upkeep) -> TrainingRun:
    """The training run that an order's configuration describes."""
    settings = order.config["settings"]
    agent, protocol = agent_from(settings["agent"]), from_table(Protocol, settings["protocol"])
    numbers = (settings["task"], settings["steps"], settings["seed"])
    return train(agent, *numbers, order.path, callbacks, protocol, upkeep)


class Guard(Callback):
    """Looks at the lease before a run writes: a process that slept may have lost it meanwhile."""

    def __init__(self, held: lease.Lease, lost: Callable[[], None]) -> None:
        self._lease, self._lost = held, lost

    def before_writing(self) -> None:
        if not self._lease.held:
            self._lost()


class Reporter(Callback):
    """Keeps how far a run is, for its heartbeat to tell."""

    def __init__(self) -> None:
        self.progress: dict[str, Any] = {}
        self._began: tuple[float, int] | None = None

    def on_update(self, update: Update) -> None:
        now = time.monotonic()
        # The first update compiles, and says nothing of the speed.
        if self._began is None:
            self._began = (now, update.steps)
        then, from_step = self._began
        told: dict[str, Any] = {"steps": update.steps, "total": update.total_steps}
        if now > then:
            told["fps"] = (update.steps - from_step) / (now - then)
        if RETURN in update.row:
            told["return"] = update.row[RETURN]
        self.progress = told


class Stopwatch(Callback):
    """Measures some seconds of learning, and then stops the run."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.row_bytes = 0
        self.marks: list[tuple[float, int]] = []

    def on_update(self, update: Update) -> bool:
        # Off-policy agents first fill their replay, much faster than they learn.
        if any(name.startswith("train/") for name in update.row):
            self.marks.append((time.monotonic(), update.steps))
            clock = len(to_json(update.clock, indent=None))
            self.row_bytes = max(self.row_bytes, len(to_json(update.row, indent=None)) + clock)
        return len(self.marks) < 3 or self.marks[-1][0] - self.marks[0][0] < self.seconds


def probe(order: Order) -> dict[str, float]:
    """Speed and size of a run, from its first seconds in a folder that will be thrown away."""
    watch = Stopwatch(order.probe_seconds)
    run = start(order, [watch], Upkeep(float("inf")))
    # The first update compiled; where a run is shorter than that, it is all there is.
    (then, first), (now, last) = watch.marks[0], watch.marks[-1]
    updates = max(len(watch.marks) - 1, 1)
    folder = Path(order.path, CHECKPOINTS)
    events = _size(Path(order.path, TENSORBOARD)) / run.steps
    return {
        "fps": (last - first) / max(now - then, 1e-9),
        "row_bytes_per_step": watch.row_bytes * updates / max(last - first, 1) + events,
        "state_bytes": _size(folder),
    }


def _size(folder: Path) -> int:
    """Bytes of the files in a folder, without those in the folders in it."""
    return sum(file.stat().st_size for file in folder.glob("*") if file.is_file())
