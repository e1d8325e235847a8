"""Forecast of a sweep: the time and disk that its runs will take, from measured speeds.

Speeds come from finished runs of the same kind in the same folder, made on the same processor, or
else from the first seconds of such a run, as many side by side as there will be.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from gammaprime.runs.directory import CHECKPOINTS, from_json, to_json
from gammaprime.runs.provenance import cpu_model, num_cores
from gammaprime.sweeps.local import start_process

if TYPE_CHECKING:
    from gammaprime.runs.config import RunConfig
    from gammaprime.runs.run import Run
    from gammaprime.sweeps.driver import Job

PROBE_SECONDS = 2.0
"""Seconds of learning by which a kind of run is measured."""
PROBE_TIMEOUT = 180.0
WORTHWHILE = 100_000
"""Steps of one kind below which measuring would take longer than running."""
START_SECONDS = 5.0
"""Start of a run whose kind was not measured: imports, and programs from the cache."""
KEPT_STATES = 3
"""Two checkpoints, and one that is being written."""
MARGIN = 1.2
"""Factor on the disk that is needed; segments of a replay are there twice while they are merged."""

Kind = tuple[str, ...]
Table = Mapping[str, Any]


class Cost(NamedTuple):
    """Speed and size of one kind of run."""

    fps: float
    """Steps a second, without the start; of stored runs with their evaluations."""
    row_bytes_per_step: float
    state_bytes: float
    start_seconds: float = 0.0
    """From the start of the process to the first update: imports and compilation."""
    evaluation_seconds: float = 0.0
    """One evaluation, if its episodes last to the time limit; 0 if ``fps`` includes them."""

    def seconds(self, job: Job, done: int) -> float:
        """Return what a run takes from ``done`` steps to its end, its start included."""
        config = job.config
        left = max(config.steps - done, 0)
        every = config.evaluation.every
        evaluations = -(-left // every) if every else 0
        return self.start_seconds + left / self.fps + evaluations * self.evaluation_seconds


class Forecast(NamedTuple):
    """Totals over the runs that are left."""

    runs: int
    steps: int
    seconds: float | None
    """Over the runs whose cost is known; None if none is."""
    num_bytes: float | None
    costs: Mapping[Kind, Cost]
    unknown: tuple[Kind, ...] = ()
    """The kinds whose cost is not known."""


def kind_of_run(table: Table) -> Kind:
    """Return what the speed of a run depends on most, from its config.json."""
    settings = table["settings"]
    agent = settings["agent"]
    weighting = dict(agent.get("weighting", {})).get("kind")
    names = ("num_envs", "num_steps", "hidden", "num_critics", "policy_delay")
    protocol = settings.get("protocol", {})
    sizes = [str(agent.get(name)) for name in names]
    sizes += [str(protocol.get(name)) for name in ("eval_every", "eval_episodes")]
    return (str(settings["task"]), str(agent["kind"]), str(weighting), *sizes)


def stored_costs(out: Path) -> dict[Kind, Cost]:
    """Return the median cost of each kind of run that was finished here on such a processor."""
    found: dict[Kind, list[Cost]] = {}
    processor = cpu_model()
    for done in sorted(out.glob("*/done")):
        folder = done.parent
        try:
            table, seconds = from_json(folder / "config.json"), from_json(done)["seconds"]
            same = from_json(folder / "manifest.json").get("cpu") == processor
            if table.get("kind") != "train" or not same or not seconds:
                continue
            steps, kind = table["settings"]["steps"], kind_of_run(table)
            size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            cost = Cost(steps / seconds, size / steps, 0.0, START_SECONDS)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError):
            continue
        found.setdefault(kind, []).append(cost)
    return {kind: Cost(*map(median, zip(*costs, strict=True))) for kind, costs in found.items()}


def forecast(jobs: Sequence[Job], out: Path, at_once: int, say: Callable[[str], None]) -> Forecast:
    """Return what the jobs that are left will take; kinds whose cost is not known are measured."""
    left = [job for job in jobs if not job.over]
    costs = stored_costs(out)
    kinds: dict[Kind, list[Job]] = {}
    for job in left:
        kinds.setdefault(kind_of_run(job.config.to_table()), []).append(job)
    new = [
        group[0]
        for kind, group in kinds.items()
        if kind not in costs and sum(job.config.steps for job in group) >= WORTHWHILE
    ]
    if new:
        say(f"measuring {len(new)} kind{'s' if len(new) > 1 else ''} of run, a few seconds each")
        costs |= measure(new, min(at_once, num_cores()))
    steps = {job.path: job.steps_left for job in left}
    begun = {job.path: job.config.steps - job.steps_left for job in left}
    unknown = tuple(kind for kind in kinds if kind not in costs)
    known = [(job, costs[kind]) for kind in kinds if kind in costs for job in kinds[kind]]
    if not known:
        return Forecast(len(left), sum(steps.values()), None, None, costs, unknown)
    seconds = [cost.seconds(job, begun[job.path]) for job, cost in known]
    longest = share_out(seconds, at_once)
    needed = _bytes(known, at_once)
    return Forecast(len(left), sum(steps.values()), longest, needed, costs, unknown)


def share_out(seconds: Sequence[float], at_once: int) -> float:
    """Return the time that runs take, so many at a time: at least that of the longest."""
    return max(sum(seconds) / at_once, max(seconds)) if seconds else 0.0


def seconds_left(jobs: Sequence[Job], costs: Mapping[Kind, Cost], at_once: int) -> float | None:
    """Return the time left of a sweep under way, or None if nothing is known of its speed.

    What was forecast of each run is multiplied by how much longer than forecast the work done so
    far took by the wall-clock, with all starts, compilations and evaluations in it.
    """
    seen = [job for job in jobs if job.trained]
    spent, trained = sum(job.seconds for job in seen), sum(job.trained for job in seen)
    usual = Cost(trained / spent, 0.0, 0.0) if spent else None
    if usual is None:
        told = [job.progress["fps"] for job in jobs if job.progress.get("fps")]
        usual = Cost(sum(told) / len(told), 0.0, 0.0) if told else None
    left, expected = [], 0.0
    for job in jobs:
        cost = costs.get(kind_of_run(job.config.to_table()), usual)
        if cost is None:
            return None
        done = job.progress.get("steps", 0)
        if job.trained:
            expected += cost.seconds(job, job.begun) - cost.seconds(job, job.begun + job.trained)
            expected += cost.start_seconds
        if not job.over:
            waiting = 0.0 if done else cost.start_seconds
            left.append(cost.seconds(job, done) - cost.start_seconds + waiting)
    slower = spent / expected if expected else 1.0
    return slower * share_out(left, at_once)


def _bytes(known: Sequence[tuple[Job, Cost]], at_once: int) -> float:
    stored = sum(
        job.config.steps * cost.row_bytes_per_step + KEPT_STATES * cost.state_bytes
        for job, cost in known
    )
    # A run that is done removes its replay.
    replays = sorted((replay_bytes(job.config) for job, _ in known), reverse=True)
    return stored + sum(replays[:at_once])


def replay_bytes(config: RunConfig) -> int:
    """Return the size of the replay of a run at its end; 0 for a run that has none."""
    from gammaprime.agents import OffPolicy
    from gammaprime.loops.replay import Replay

    if not isinstance(config.agent, OffPolicy) or not isinstance(config.task, str):
        return 0
    one = Replay(1, *_num_inputs_and_actions(config.task))
    size = min(config.agent.replay_size, config.steps)
    return size * sum(field.nbytes for field in one.fields.values())


@cache
def _num_inputs_and_actions(task: str) -> tuple[int, int]:
    from gammaprime import envs

    env = envs.make(task)
    try:
        assert isinstance(env.action, envs.Box)  # off-policy agents act in continuous spaces
        return math.prod(env.observation.shape), math.prod(env.action.shape)
    finally:
        env.close()


def measure(jobs: Iterable[Job], workers: int) -> dict[Kind, Cost]:
    """Return the cost of each job's kind; those that cannot be measured are left out."""
    with ThreadPoolExecutor(workers) as threads:
        found = list(threads.map(_measure, jobs))
    return {kind: cost for kind, cost in found if cost is not None}


def _measure(job: Job) -> tuple[Kind, Cost | None]:
    """Train a run for some seconds in a process of its own and a folder that is thrown away."""
    table = job.config.to_table()
    with tempfile.TemporaryDirectory(prefix="gammaprime-") as folder:
        request: dict[str, Any] = {"config": once_under_way(table), "path": f"{folder}/run"}
        request["probe_seconds"] = PROBE_SECONDS
        with start_process(request, subprocess.PIPE, subprocess.DEVNULL) as process:
            patience = threading.Timer(PROBE_TIMEOUT, process.kill)
            patience.start()
            try:
                assert process.stdout is not None
                return kind_of_run(table), Cost(**json.loads(process.stdout.read()))
            except (OSError, ValueError, TypeError):
                return kind_of_run(table), None
            finally:
                patience.cancel()
                process.kill()


def once_under_way(table: Table) -> dict[str, Any]:
    """Return the configuration of a run whose first updates cost what later ones do.

    Off-policy, actions are random at first, and a density ratio is learned only once the replay
    outgrows the latest states.  A run that is over before that stays as it is.
    """
    settings, agent = table["settings"], table["settings"]["agent"]
    recent_size = dict(agent.get("weighting", {})).get("recent_size", 0)
    names = ("learning_starts", "random_steps")
    start = max(*(agent.get(name, 0) for name in names), recent_size + 1)
    if "learning_starts" not in agent or start > settings["steps"] // 2:
        return dict(table)
    return {**table, "settings": {**settings, "agent": {**agent, "learning_starts": start}}}


def probe(table: Table, path: Path, seconds: float, born: float) -> dict[str, float]:
    """Return speed and size of a run, from some seconds of learning in a folder.

    born: when the process began, by `time.monotonic`.
    """
    from gammaprime.runs.config import RunConfig
    from gammaprime.runs.session import Callback, Update
    from gammaprime.runs.training import train_config

    class Stopwatch(Callback):
        """Takes the time of each update that learns, and then stops the run."""

        def __init__(self) -> None:
            self.row_bytes = 0
            self.marks: list[tuple[float, int]] = []

        def on_update(self, update: Update) -> bool:
            # Off-policy agents first fill their replay, much faster than they learn.
            if any(name.startswith("train/") for name in update.row):
                self.marks.append((time.monotonic(), update.steps))
                row = len(to_json(update.row, indent=None)) + len(
                    to_json(update.clock, indent=None)
                )
                self.row_bytes = max(self.row_bytes, row)
            return len(self.marks) < 3 or self.marks[-1][0] - self.marks[0][0] < seconds

    watch, config = Stopwatch(), RunConfig.from_table(table)
    run = train_config(config, path, [watch], math.inf)
    # The first update compiles; a run that has no other is measured by it.
    marks = watch.marks if len(watch.marks) > 1 else [(born, 0), *watch.marks]
    (then, first), (now, last) = marks[0], marks[-1]
    updates = len(marks) - 1
    events = _size(path / "tensorboard") / run.steps
    return {
        "fps": (last - first) / max(now - then, 1e-9),
        "row_bytes_per_step": watch.row_bytes * updates / max(last - first, 1) + events,
        "state_bytes": _size(path / CHECKPOINTS),
        "start_seconds": max(watch.marks[0][0] - born, 0.0),
        "evaluation_seconds": _time_evaluation(run),
    }


def _time_evaluation(run: Run) -> float:
    """Return the seconds of one evaluation of a run, if its episodes last to the time limit."""
    from gammaprime.runs.training import evaluate

    asked = run.config.resolve().evaluation
    if not asked.every or not asked.episodes:
        return 0.0
    started = time.monotonic()
    scores = evaluate(run, asked.episodes)
    seconds = time.monotonic() - started
    longest = float(scores.length.max())
    return seconds * (run.config.episode_limit or longest) / longest


def _size(folder: Path) -> int:
    """Return the bytes of the files in a folder, without those in the folders in it."""
    return sum(file.stat().st_size for file in folder.glob("*") if file.is_file())


def check_disk(out: Path, needed: float) -> None:
    """Refuse a sweep that the disk cannot hold."""
    folder = out.absolute()
    while not folder.exists():
        folder = folder.parent
    free, needed = shutil.disk_usage(folder).free, needed * MARGIN
    if free < needed:
        raise ValueError(
            f"{out}: {format_bytes(free)} are free, about {format_bytes(needed)} are needed; "
            "make room, or choose another folder with --out, or fewer --seeds or --tasks"
        )


def format_bytes(num_bytes: float) -> str:
    """Return a number of bytes as a text like 14 MB."""
    for unit in ("kB", "MB"):
        num_bytes /= 1000.0
        if num_bytes < 1000.0:
            return f"{num_bytes:,.0f} {unit}"
    return f"{num_bytes / 1000.0:,.1f} GB"
