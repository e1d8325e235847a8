"""What the runs of every sweep cost, from measured speeds: the arithmetic of docs/scale.md."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gammaprime.runs.config import agent_from
from gammaprime.runs.config import name_of as name_of_agent
from gammaprime.sweeps.driver import Job
from gammaprime.sweeps.forecast import Kind, kind_of_run
from gammaprime.sweeps.spec import Sweep, load_experiment, shipped

NOWHERE = Path("/nonexistent")
"""Runs are planned, not looked for."""

Config = Mapping[str, Any]
Sweeps = Mapping[str, tuple[Sweep, list[Job]]]


class Speeds(NamedTuple):
    """What was measured, with what it was measured on."""

    machine: Mapping[str, Any]
    learning: Mapping[Kind, Mapping[str, float]]
    """Of a run that is never evaluated: steps_per_second, core_share."""
    evaluations: Mapping[Kind, float]
    """Seconds of an evaluation, all of whose episodes last until the time limit."""
    shares: Mapping[Kind, Mapping[str, Any]]
    """Of the time of a run: environment, acting, learning; and seconds_per_gradient_step."""
    crowded: Mapping[Kind, float]
    """Steps per second with such a run on every core of the machine."""
    whole: Mapping[Kind, float]
    """Steps per second of whole runs that were published, evaluations included."""


class Cost(NamedTuple):
    """Seconds of one core for one run."""

    learning: float
    evaluations: float

    @property
    def seconds(self) -> float:
        return self.learning + self.evaluations


def load_speeds(file: Path) -> Speeds:
    """The stored speeds; a file that is not there holds none."""
    table = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    by_kind = [
        {tuple(entry["kind"]): entry["value"] for entry in table.get(name, [])}
        for name in Speeds._fields[1:]
    ]
    return Speeds(table.get("machine", {}), *by_kind)


def dump_speeds(speeds: Speeds) -> str:
    """As JSON, one line for each kind."""
    lines = [f' "machine": {json.dumps(speeds.machine)}']
    for name, kinds in zip(speeds._fields[1:], speeds[1:], strict=True):
        rows = [json.dumps({"kind": kind, "value": value}) for kind, value in kinds.items()]
        body = "".join(f"\n  {row}," for row in rows).rstrip(",")
        lines.append(f' "{name}": [{body}\n ]')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def load_sweeps() -> Sweeps:
    """Every shipped sweep with its runs, each once; those of the paper first.

    Without classic control, whose runs take seconds.
    """
    loaded = [load_experiment(name) for name in shipped() if name != "learning_classic"]
    sweeps = [found for found in loaded if isinstance(found, Sweep)]
    sweeps.sort(key=lambda sweep: not sweep.paper)
    return {sweep.name: (sweep, sweep.jobs(NOWHERE)) for sweep in sweeps}


def without_evaluations(config: Config) -> dict[str, Any]:
    """The same run, never evaluated: evaluations are measured on their own."""
    settings = config["settings"]
    protocol = {**settings["protocol"], "eval_every": 0, "eval_episodes": 1}
    return {**config, "settings": {**settings, "protocol": protocol}}


def name_of(config: Config) -> str:
    """Of an agent with its weighting, as the figures call them."""
    agent = config["settings"]["agent"]
    name = name_of_agent(agent_from(agent)).upper()
    weighted = {"taylor_weight": ", weighted", "averaged_weight": ", averaged"}
    marks = {"density_ratio": "(γ)"} | weighted
    return name + marks.get(agent["weighting"]["kind"], "")


def configs_by_kind(sweeps: Sweeps) -> dict[Kind, Config]:
    """The first run of each kind, sorted by what a reader would look for."""
    found: dict[Kind, Config] = {}
    for _, jobs in sweeps.values():
        for job in jobs:
            table = job.config.to_table()
            found.setdefault(kind_of_run(table), table)
    return dict(sorted(found.items(), key=lambda item: (name_of(item[1]), item[0])))


def learning_kind(config: Config) -> Kind:
    return kind_of_run(without_evaluations(config))


def evaluation_kind(config: Config) -> Kind:
    """What the time of one evaluation depends on, as far as it differs much."""
    settings, protocol = config["settings"], config["settings"]["protocol"]
    sizes = (settings["agent"]["hidden"], protocol["eval_episodes"], protocol["time_limit"])
    return (str(settings["task"]), *map(str, sizes))


def count_evaluations(config: Config) -> int:
    """After each update that crosses a multiple of ``eval_every``, and after the last."""
    settings = config["settings"]
    agent, every = settings["agent"], settings["protocol"]["eval_every"]
    size = agent["num_envs"] * agent["num_steps"]
    total = settings["steps"] // size * size
    if not every:
        return 0
    crossed = min(total // every, total // size)
    return crossed + ((total - size) // every == total // every)


def cost_of_run(config: Config, speeds: Speeds) -> Cost | None:
    """None where something of it was not measured."""
    speed = speeds.learning.get(learning_kind(config))
    evaluation = speeds.evaluations.get(evaluation_kind(config))
    if speed is None or evaluation is None:
        return None
    seconds = config["settings"]["steps"] / speed["steps_per_second"]
    return Cost(seconds, count_evaluations(config) * evaluation)


def wall_clock(seconds: Iterable[float], cores: int) -> float:
    """When the last run ends, if each begins in turn as soon as a core is free."""
    free = [0.0] * cores
    for length in seconds:
        heapq.heapreplace(free, free[0] + length)
    return max(free)
