"""A sweep from its plan to its summary: what `gammaprime run` does with training runs."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gammaprime.cli.display import duration
from gammaprime.cli.sweep_display import SweepDisplay
from gammaprime.runs import lease
from gammaprime.runs.interrupts import Interrupted, Interrupts
from gammaprime.runs.machine import num_cores
from gammaprime.sweeps import estimate
from gammaprime.sweeps.pool import LOG, LocalPool, Pool
from gammaprime.sweeps.schedule import FAILED, FINISHED, Job, Schedule, Token
from gammaprime.sweeps.sweep import Sweep
from gammaprime.sweeps.worker import Order

INCOMPLETE = 3


@dataclass(frozen=True)
class Way:
    """How the runs of a sweep are trained; none of it changes their numbers."""

    workers: int | None = None
    """Runs at a time; as many as there are cores by default."""
    ray: str | None = None
    """The address of a Ray cluster, or "local"; None for processes of this machine."""
    checkpoint_seconds: float = 30.0
    beat: float = lease.BEAT
    patience: float = lease.PATIENCE

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers={self.workers!r}: must be at least 1")
        seconds = self.checkpoint_seconds
        if not (math.isfinite(seconds) and seconds >= 0.0):
            raise ValueError(f"checkpoint_seconds={seconds!r}: must be finite, and 0 or more")


def run_sweep(
    sweep: Sweep, jobs: list[Job], root: Path, way: Way, say: Callable[[str], None]
) -> int:
    """Make the runs of a sweep; 0 if all are done, 3 if some failed, `Interrupted` if stopped.

    jobs: what `gammaprime.sweeps.schedule.plan` makes of the sweep and this folder.
    """
    for line in _opening(sweep, jobs):
        say(line)
    if all(job.state in (FINISHED, FAILED) for job in jobs):
        return _summarise(jobs, say)
    pool = _pool(way, root)
    try:
        cost = estimate.forecast(jobs, root, pool.size, say)
        say(_cost(cost, pool.size))
        if cost.num_bytes is not None:
            estimate.check_disk(root, cost.num_bytes)
        _work(sweep, jobs, pool, way, cost)
    finally:
        pool.close()
    return _summarise(jobs, say)


def _pool(way: Way, root: Path) -> Pool:
    if way.ray is None:
        return LocalPool(way.workers or num_cores())
    from gammaprime.sweeps.ray_pool import RayPool

    return RayPool(way.ray, root, way.workers)


def _work(sweep: Sweep, jobs: list[Job], pool: Pool, way: Way, cost: estimate.Forecast) -> None:
    watch = lease.Watch(way.patience)

    def order(job: Job, stale: Token | None) -> Order:
        what = (job.name, str(job.path.absolute()), job.planned.config, stale)
        return Order(*what, way.beat, way.checkpoint_seconds, command=_command())

    with Interrupts(active=True) as interrupts:
        try:
            with SweepDisplay(sweep.name, cost.costs) as display:
                schedule = Schedule(jobs, pool, order, display.say, watch)
                schedule.run(interrupts, display.show)
        except KeyboardInterrupt:
            raise Interrupted(2, _farewell(jobs, "stopped at once")) from None
        if interrupts.asked is not None and not schedule.over:
            raise Interrupted(interrupts.asked, _farewell(jobs, _stopped(jobs)))


def _opening(sweep: Sweep, jobs: Sequence[Job]) -> list[str]:
    planned = sum(len(v.tasks) for v in sweep.variants) * len(sweep.seeds)
    done = sum(job.state == FINISHED for job in jobs)
    shared = f" ({planned - len(jobs)} shared)" if planned > len(jobs) else ""
    lines = [f"{sweep.name}: {planned} runs{shared}, {done} done, {len(jobs) - done} to do"]
    if sweep.changed:
        told = ", ".join(f"{name} {value}" for name, value in sweep.changed.items())
        lines.append(f"not as the spec has it: {told}")
    return lines


def _cost(cost: estimate.Forecast, size: int) -> str:
    what = f"{cost.runs} runs of {cost.steps:,} steps in all, {size} at a time"
    if cost.seconds is None or cost.num_bytes is None:
        return f"{what}; too short to measure what they take"
    told = f"about {duration(cost.seconds)} and {estimate.size(cost.num_bytes)} of disk"
    if cost.unknown:
        names = sorted({f"{kind[1]} on {kind[0]}" for kind in cost.unknown})
        return f"{what}; {told}, without what could not be measured: {', '.join(names)}"
    speed = cost.steps / max(cost.seconds, 1e-9)
    return f"{what}; measured {speed:,.0f} steps/s together: {told}"


def _summarise(jobs: Sequence[Job], say: Callable[[str], None]) -> int:
    failed = [job for job in jobs if job.state == FAILED]
    say(f"{sum(job.state == FINISHED for job in jobs)} of {len(jobs)} runs done")
    if not failed:
        return 0
    say("missing:")
    for job in failed:
        say(f"  {job.title}: {job.message} (see {job.path / LOG})")
    say(f"to try these again: {' '.join(_command())}")
    return INCOMPLETE


def _stopped(jobs: Sequence[Job]) -> str:
    unsaved = [f"{job.title} ({job.message})" for job in jobs if job.unsaved]
    if not unsaved:
        return "stopped, every run is saved"
    return f"stopped; go back to their last checkpoints: {', '.join(unsaved)}"


def _farewell(jobs: Sequence[Job], how: str) -> str:
    done = sum(job.state == FINISHED for job in jobs)
    return f"{how}; {done} of {len(jobs)} runs are done; go on with: {' '.join(_command())}"


def _command() -> tuple[str, ...]:
    return ("gammaprime", *sys.argv[1:])
