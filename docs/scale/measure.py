"""Measure what docs/scale.md is made from, one thing at a time on one core of a quiet machine.

On Linux, with `pip install 'gammaprime[bullet]'`:

    python docs/scale/measure.py [--out FILE] [WORD ...]

Learning is measured by the probe that `gammaprime run` makes before a sweep, in seconds that pass;
evaluations and where the time goes are measured in this process, in seconds of the processor.
Every figure is stored as soon as it is there, and what the file holds already is skipped, unless
its process had to share the core.  WORDs choose kinds that contain one of them.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from costs import (
    Config,
    Speeds,
    Sweeps,
    configs_by_kind,
    dump_speeds,
    evaluation_kind,
    learning_kind,
    load_speeds,
    load_sweeps,
    name_of,
    without_evaluations,
)

from gammaprime.agents import PPO
from gammaprime.agents.off_policy import OffPolicy
from gammaprime.loops.loop import Loop
from gammaprime.runs import provenance, startup
from gammaprime.runs.config import RunConfig
from gammaprime.runs.directory import write_whole
from gammaprime.runs.environments import Environments
from gammaprime.runs.session import make_loop
from gammaprime.sweeps import forecast
from gammaprime.sweeps.driver import Job

HERE = Path(__file__).resolve().parent
PUBLISHED = HERE.parents[1] / "results/published/runs"
REFERENCE = "HalfCheetah-v4"
"""The task on which every agent's time is taken apart; PPO's is on every task."""
CROWDED = ("PPO", "TD3")
SECONDS = 2.0
ALL_CORES = frozenset(os.sched_getaffinity(0))
WARM_UPDATES = 2
QUIET = 0.9
"""Of its core: with less, a speed is measured again the next time."""


def learning(config: Config) -> dict[str, float] | None:
    """Steps per second of a run that is never evaluated, and the share of a core it had."""
    began, used = time.perf_counter(), _children_seconds()
    speed = probe([config])
    share = (_children_seconds() - used) / (time.perf_counter() - began)
    if speed is None:
        return None
    return {"steps_per_second": speed, "core_share": round(share, 3)}


def crowded(config: Config) -> float | None:
    """Steps per second where every core has such a run."""
    pinned = os.sched_getaffinity(0)
    os.sched_setaffinity(0, ALL_CORES)
    try:
        return probe([config] * len(ALL_CORES))
    finally:
        os.sched_setaffinity(0, pinned)


def probe(configs: list[Config]) -> float | None:
    """Steps per second of one of these runs, made at once."""
    tables = list(map(without_evaluations, configs))
    jobs = [Job(name_of(t), RunConfig.from_table(t), Path("probe")) for t in tables]
    costs = forecast.measure(jobs, len(jobs))
    found = [cost.fps for cost in costs.values()]
    return round(found[0], 1) if found else None


def evaluation(config: Config) -> float:
    """Seconds of one evaluation, all of whose episodes last until the time limit."""
    run = RunConfig.from_table(config)
    world = environments(run)
    try:
        actor = make_loop(run, world.env).actor()
        world.evaluate(actor, run, 0)
        steps, number, began = 0, 0, time.process_time()
        while (seconds := time.process_time() - began) < SECONDS / 2:
            number += 1
            # All rows are stepped until the last of them has ended.
            steps += max(episode.length for episode in world.evaluate(actor, run, number))
        return round(world.env.time_limit * seconds / steps, 4)
    finally:
        world.close()


def shares(config: Config) -> dict[str, float | None]:
    """Where the time of a run goes, files and evaluations apart."""
    run = RunConfig.from_table(forecast.once_under_way(without_evaluations(config)))
    world = environments(run)
    try:
        loop = make_loop(run, world.env)
        updates = 0
        while updates < WARM_UPDATES:
            updates += bool(loop.advance().metrics)
        spent = {"environment": 0.0, "learning": 0.0}
        loop.env.step = _timed(loop.env.step, spent, "environment")
        loop.learn = _timed(loop.learn, spent, "learning")
        rollouts, began = 0, time.process_time()
        while (seconds := time.process_time() - began) < SECONDS:
            loop.advance()
            rollouts += 1
        parts = {name: round(part / seconds, 6) for name, part in spent.items()}
        steps = rollouts * _gradient_steps(loop)
        each = round(spent["learning"] / steps, 8) if steps else None
        acting = round(1.0 - sum(parts.values()), 6)
        return {**parts, "acting": acting, "seconds_per_gradient_step": each}
    finally:
        world.close()


def environments(run: RunConfig) -> Environments:
    """The environments of a run."""
    options = (run.time_limit, run.time_feature, run.stagger)
    return Environments(run.task, run.agent, *options)


def _gradient_steps(loop: Loop) -> int:
    """After each rollout; 0 for agents whose update is not a number of equal ones."""
    agent = loop.agent
    if isinstance(agent, OffPolicy):
        return agent.updates
    return agent.epochs * agent.minibatches if isinstance(agent, PPO) else 0


def _timed(function: Callable[..., Any], spent: dict[str, float], name: str) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        began = time.process_time()
        try:
            return function(*arguments)
        finally:
            spent[name] += time.process_time() - began

    return call


def _children_seconds() -> float:
    times = os.times()
    return times.children_user + times.children_system


def is_taken_apart(config: Config) -> bool:
    """Every agent on one task, and plain PPO as the paper runs it on every task."""
    settings = config["settings"]
    paper = settings["agent"]["num_envs"] == 1
    return settings["task"] == REFERENCE or (name_of(config) == "PPO" and paper)


def is_crowded(config: Config) -> bool:
    return config["settings"]["task"] == REFERENCE and name_of(config) in CROWDED


def wanted(
    sweeps: Sweeps, words: list[str]
) -> list[tuple[str, tuple[str, ...], Callable[[], Any]]]:
    """What there is to measure: the name of the figure, its kind, and how; each once."""
    work: dict[tuple[str, tuple[str, ...]], Callable[[], Any]] = {}
    for config in configs_by_kind(sweeps).values():
        kind, judged = learning_kind(config), evaluation_kind(config)
        if words and not any(word in " ".join((name_of(config), *kind)) for word in words):
            continue
        work.setdefault(("learning", kind), partial(learning, config))
        work.setdefault(("evaluations", judged), partial(evaluation, config))
        if is_taken_apart(config):
            work.setdefault(("shares", kind), partial(shares, config))
        if is_crowded(config):
            work.setdefault(("crowded", kind), partial(crowded, config))
    return [(name, kind, take) for (name, kind), take in work.items()]


def describe() -> dict[str, Any]:
    return {
        "command": "python docs/scale/measure.py",
        "cpu": provenance.cpu_model(),
        "cores": len(ALL_CORES),
        "versions": provenance.versions(),
        "probe_seconds": forecast.PROBE_SECONDS,
    }


def begin(out: Path) -> Speeds:
    """What the file holds, if it comes from a machine like this one."""
    speeds, about = load_speeds(out), describe()
    if speeds.machine and speeds.machine != about:
        raise SystemExit(f"{out}: was measured elsewhere ({speeds.machine}): remove it, or --out")
    whole = {kind: round(cost.fps, 1) for kind, cost in forecast.stored_costs(PUBLISHED).items()}
    return speeds._replace(machine=about, whole=whole)


def is_settled(name: str, value: Any) -> bool:
    return value is not None and (name != "learning" or value["core_share"] >= QUIET)


def store_figure(speeds: Speeds, name: str, kind: tuple[str, ...], value: Any) -> Speeds:
    before: Mapping[tuple[str, ...], Any] = speeds._asdict()[name]
    return speeds._replace(**{name: dict(sorted({**before, kind: value}.items()))})


def main() -> int:
    """Measure what is missing, and store it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="parts of kinds; none means all")
    parser.add_argument("--out", type=Path, default=HERE / "speeds.json", help="file")
    options = parser.parse_args()
    startup.cache_compilations(provenance.default_cache())
    speeds = begin(options.out)
    write_whole(options.out, dump_speeds(speeds).encode())
    work = wanted(load_sweeps(), options.words)
    os.sched_setaffinity(0, {max(ALL_CORES)})
    began = time.perf_counter()
    for number, (name, kind, take) in enumerate(work, start=1):
        if is_settled(name, speeds._asdict()[name].get(kind)):
            continue
        value = take()
        told = "could not be measured" if value is None else value
        seconds = time.perf_counter() - began
        print(f"{number}/{len(work)} {seconds:4.0f} s {name} {' '.join(kind)}: {told}", flush=True)
        if value is not None:
            speeds = store_figure(speeds, name, kind, value)
            write_whole(options.out, dump_speeds(speeds).encode())
    return 0


if __name__ == "__main__":
    before = dict(os.environ)
    startup.use_one_thread()
    if dict(os.environ) != before:
        # NumPy and JAX, imported above, have read how many threads they may have.
        os.execv(sys.executable, [sys.executable, *sys.argv])
    sys.exit(main())
