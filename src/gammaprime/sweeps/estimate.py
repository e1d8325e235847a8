"""What a sweep will cost before it starts: runs, time and disk, from measured speeds.

Speeds come from runs that this folder holds already, of the same kind on the same processor, or
else from the first seconds of such a run, as many side by side as there will be.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from gammaprime.runs import store
from gammaprime.runs.files import from_json
from gammaprime.runs.machine import num_cores
from gammaprime.sweeps.pool import COMMAND, give
from gammaprime.sweeps.schedule import FAILED, FINISHED, Job, newest_checkpoint
from gammaprime.sweeps.worker import Order

PROBE_SECONDS = 2.0
PROBE_TIMEOUT = 180.0
WORTHWHILE = 100_000
"""Steps of one kind below which measuring would take longer than running."""
KEPT_STATES = 3
"""Two checkpoints, and one that is being written."""
MARGIN = 1.2
"""Also for pieces of replays, which are there twice while they are put together."""

Kind = tuple[str, ...]


class Cost(NamedTuple):
    """Of one kind of run."""

    fps: float
    row_bytes_per_step: float
    state_bytes: float


class Forecast(NamedTuple):
    """Of a sweep: of those runs whose kind is known, None where that is none."""

    runs: int
    steps: int
    seconds: float | None
    num_bytes: float | None
    costs: Mapping[Kind, Cost]
    unknown: tuple[Kind, ...] = ()


def kind_of_run(config: Mapping[str, Any]) -> Kind:
    """What the speed of a run depends on, as far as it differs much."""
    settings = config["settings"]
    agent = settings["agent"]
    weighting = dict(agent.get("weighting", {})).get("kind")
    names = ("num_envs", "num_steps", "hidden", "num_critics", "policy_delay")
    protocol = settings.get("protocol", {})
    sizes = [str(agent.get(name)) for name in names]
    sizes += [str(protocol.get(name)) for name in ("eval_every", "eval_episodes")]
    return (str(settings["task"]), str(agent["kind"]), str(weighting), *sizes)


def stored_costs(root: Path) -> dict[Kind, Cost]:
    """Of the runs in a folder that were finished on this kind of processor.

    The median of a kind: one that slept, or had to share its core, tells little of the next.
    """
    found: dict[Kind, list[Cost]] = {}
    processor = store.cpu_model()
    for done in sorted(root.glob("*/done")):
        folder = done.parent
        try:
            config, seconds = from_json(folder / "config.json"), from_json(done)["seconds"]
            same = from_json(folder / "manifest.json").get("cpu") == processor
            if config.get("kind") != "train" or not same or not seconds:
                continue
            steps, kind = config["settings"]["steps"], kind_of_run(config)
        except (OSError, ValueError, KeyError, TypeError):
            continue
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        found.setdefault(kind, []).append(Cost(steps / seconds, size / steps, 0.0))
    return {kind: Cost(*map(median, zip(*costs, strict=True))) for kind, costs in found.items()}


def forecast(jobs: Sequence[Job], root: Path, at_once: int, say: Callable[[str], None]) -> Forecast:
    """What is left to do, and what it will take; kinds that are not known are measured here."""
    left = [job for job in jobs if job.state not in (FINISHED, FAILED)]
    costs = stored_costs(root)
    kinds: dict[Kind, list[Job]] = {}
    for job in left:
        kinds.setdefault(kind_of_run(job.planned.config), []).append(job)
    doubtful = [
        group[0]
        for kind, group in kinds.items()
        if kind not in costs and sum(job.planned.steps for job in group) >= WORTHWHILE
    ]
    if doubtful:
        say(f"measuring {_counted(len(doubtful), 'kind')} of run, a few seconds each")
        costs |= measure(doubtful, min(at_once, num_cores()))
    steps = sum(_steps_left(job) for job in left)
    unknown = tuple(kind for kind in kinds if kind not in costs)
    known = [(job, costs[kind]) for kind in kinds if kind in costs for job in kinds[kind]]
    if not known:
        return Forecast(len(left), steps, None, None, costs, unknown)
    seconds = [_steps_left(job) / cost.fps for job, cost in known]
    longest = max(sum(seconds) / at_once, max(seconds))
    return Forecast(len(left), steps, longest, _bytes(known, at_once), costs, unknown)


def _steps_left(job: Job) -> int:
    return max(job.planned.steps - newest_checkpoint(job.path), 0)


def _bytes(known: Sequence[tuple[Job, Cost]], at_once: int) -> float:
    stored = sum(
        job.planned.steps * cost.row_bytes_per_step + KEPT_STATES * cost.state_bytes
        for job, cost in known
    )
    # A run that is done lets go of its replay.
    replays = sorted((job.planned.replay_bytes for job, _ in known), reverse=True)
    return stored + sum(replays[:at_once])


def measure(jobs: Iterable[Job], workers: int) -> dict[Kind, Cost]:
    """The cost of each job's kind; those that cannot be measured are left out."""
    with ThreadPoolExecutor(workers) as threads:
        found = list(threads.map(_probe, jobs))
    return {kind: cost for kind, cost in found if cost is not None}


def _probe(job: Job) -> tuple[Kind, Cost | None]:
    kind = kind_of_run(job.planned.config)
    with tempfile.TemporaryDirectory(prefix="gammaprime-") as folder:
        order = Order(job.name, f"{folder}/run", once_under_way(job.planned.config))
        order = replace(order, probe_seconds=PROBE_SECONDS)
        with subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            patience = threading.Timer(PROBE_TIMEOUT, process.kill)
            patience.start()
            try:
                give(process, order)
                told: Any = process.stdout
                return kind, Cost(**json.loads(told.read()))
            except (OSError, ValueError, TypeError):
                return kind, None
            finally:
                patience.cancel()
                process.kill()


def once_under_way(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same run, whose first updates cost what almost all of them will.

    Off-policy, actions are random at first, and a density ratio is learned only once the replay
    outgrows the latest states.  A run that is mostly beginning stays as it is.
    """
    settings, agent = config["settings"], config["settings"]["agent"]
    recent_size = dict(agent.get("weighting", {})).get("recent_size", 0)
    names = ("learning_starts", "random_steps")
    start = max(*(agent.get(name, 0) for name in names), recent_size + 1)
    if "learning_starts" not in agent or start > settings["steps"] // 2:
        return dict(config)
    return {**config, "settings": {**settings, "agent": {**agent, "learning_starts": start}}}


def check_disk(root: Path, needed: float) -> None:
    """Refuse what the disk will not hold."""
    folder = root.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < needed * MARGIN:
        raise ValueError(
            f"{root}: {size(free)} are free, about {size(needed * MARGIN)} are needed; "
            "make room, or choose another folder with --out, or fewer --seeds or --tasks"
        )


def size(num_bytes: float) -> str:
    """14 MB."""
    for unit in ("kB", "MB"):
        num_bytes /= 1000.0
        if num_bytes < 1000.0:
            return f"{num_bytes:,.0f} {unit}"
    return f"{num_bytes / 1000.0:,.1f} GB"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
