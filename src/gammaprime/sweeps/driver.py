"""Driver of a sweep: skips runs that are done, resumes what was cut, starts the rest.

It prints nothing itself: it calls a `Watcher`.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gammaprime.runs import lock, startup
from gammaprime.runs.directory import CHECKPOINTS, is_done
from gammaprime.runs.interrupts import Interrupted, Interrupts
from gammaprime.runs.provenance import num_cores
from gammaprime.sweeps.local import BUSY, DONE, ERROR, FAILED, SAVED, LocalPool

if TYPE_CHECKING:
    from gammaprime.runs.config import RunConfig
    from gammaprime.sweeps.forecast import Forecast
    from gammaprime.sweeps.spec import Sweep

ATTEMPTS = 3
"""Failures in a row, without getting any further, after which a run is left out."""
ROUND = 0.3
"""Seconds between two rounds."""
LOOK_AGAIN = 2.0
"""Seconds between two looks at the lock of a run."""


class State(StrEnum):
    """State of a job."""

    WAITING = "waiting"
    RUNNING = "running"
    ELSEWHERE = "elsewhere"
    """Another process trains it."""
    DONE = "done"
    FAILED = "failed"


@dataclass(eq=False)
class Job:
    """A run that a sweep plans or executes, for all variants that share it."""

    variant: str
    """The first of these variants."""
    config: RunConfig
    path: Path
    state: State = State.WAITING
    message: str = ""
    """Why it last failed."""
    progress: Mapping[str, Any] = field(default_factory=dict)
    """steps, total, fps and return, as far as they are known."""
    failures: int = 0
    saved: int = 0
    """The step of its newest checkpoint when it last failed."""
    unsaved: bool = False
    """True if it was asked to stop and did not save."""
    looked: float = -math.inf
    """When its lock was last read."""
    started: float | None = None
    """When its process was started here; None while it is not running here."""
    spent: float = 0.0
    """Seconds of its earlier processes here."""
    begun: int = 0
    """The step that it was first resumed from here."""

    @property
    def title(self) -> str:
        """Variant, task and seed in words."""
        return f"{self.variant} on {self.config.task}, seed {self.config.seed}"

    @property
    def over(self) -> bool:
        """True if it is done or failed."""
        return self.state in (State.DONE, State.FAILED)

    @property
    def seconds(self) -> float:
        """Wall-clock that this driver has spent on it, with starts and evaluations."""
        return self.spent + (0.0 if self.started is None else time.monotonic() - self.started)

    @property
    def trained(self) -> int:
        """Steps that were trained in these seconds, as far as is known."""
        if not self.seconds:
            return 0
        now = self.config.total_steps if self.state is State.DONE else self.progress.get("steps", 0)
        return max(now - self.begun, 0)

    @property
    def steps_left(self) -> int:
        """Steps after the newest checkpoint."""
        return max(self.config.steps - newest_checkpoint(self.path), 0)


def newest_checkpoint(path: Path) -> int:
    """Return the step from which a run would resume."""
    names = (file.stem for file in (path / CHECKPOINTS).glob("*.json"))
    return max((int(name) for name in names if name.isascii() and name.isdigit()), default=0)


def plan(configs: Iterable[tuple[str, RunConfig]], out: Path) -> list[Job]:
    """Return one job for each run, in the order of the spec; what is done is marked so."""
    jobs: dict[Path, Job] = {}
    for variant, config in configs:
        path = out / config.folder
        if path not in jobs:
            jobs[path] = job = Job(variant, config, path)
            try:
                if is_done(path, config.to_table()):
                    job.state = State.DONE
            except (ValueError, OSError) as error:
                job.state, job.message = State.FAILED, str(error)
    return list(jobs.values())


class Pool(Protocol):
    """A place where runs are trained."""

    @property
    def size(self) -> int:
        """Runs at a time."""

    def start(self, job: Job) -> None:
        """Begin to train a run; return at once."""

    def ended(self) -> list[tuple[Job, int, str]]:
        """Return the runs that have ended since the last call, their exit codes and reasons."""

    def stop(self) -> None:
        """Ask all to save and stop; they still end, one by one."""

    def kill(self) -> None:
        """End all at once, saved or not."""

    def close(self) -> None:
        """Release what the pool itself holds."""


class Watcher:
    """Watches a sweep; override what you need."""

    def on_plan(self, sweep: Sweep, jobs: Sequence[Job]) -> None:
        """Called first, with every run of the sweep."""

    def on_forecast(self, cost: Forecast, size: int) -> None:
        """Called with what the runs will take, ``size`` at a time, before the first starts."""

    def on_event(self, text: str) -> None:
        """Called when a run is done or has failed, with a line that says so."""

    def on_round(self, driver: Driver) -> None:
        """Called several times a second while runs are trained."""


class Driver:
    """Jobs, the pool that trains them, and the rules for trying again."""

    def __init__(self, jobs: Sequence[Job], pool: Pool, watcher: Watcher) -> None:
        self.jobs, self.pool, self.watcher = jobs, pool, watcher
        self._stopping = False

    def count(self, *states: State) -> int:
        """Return the number of jobs in these states."""
        return sum(job.state in states for job in self.jobs)

    @property
    def over(self) -> bool:
        """True if every job is done or failed."""
        return all(job.over for job in self.jobs)

    def run(self, interrupts: Interrupts) -> None:
        """Train until every job is over, or a signal asks to stop and all have saved."""
        try:
            while not self.over:
                if interrupts.asked is not None and not self._stopping:
                    self._stopping = True
                    self.pool.stop()
                self.advance()
                self.watcher.on_round(self)
                if self._stopping and not self.count(State.RUNNING):
                    return
                time.sleep(ROUND)
        finally:
            if self.count(State.RUNNING):
                self.pool.kill()

    def advance(self) -> None:
        """Do one round: settle what has ended, look at what others train, start what can be."""
        for job, code, message in self.pool.ended():
            self._settle(job, code, message)
        now = time.monotonic()
        room = self.pool.size - self.count(State.RUNNING)
        for job in self.jobs:
            if job.over or now - job.looked <= LOOK_AGAIN:
                continue
            if job.state is State.RUNNING:
                holder = self._look(job)
                job.progress = holder.progress if holder else job.progress
            elif room > 0 and not self._stopping:
                room -= self._begin(job)

    def _look(self, job: Job) -> lock.Holder | None:
        job.looked = time.monotonic()
        return lock.read(job.path)

    def _begin(self, job: Job) -> bool:
        """Start a job, unless it was done meanwhile or another process trains it."""
        try:
            if (job.path / "done").is_file():
                job.state = State.DONE
            elif (holder := self._look(job)) is not None:
                job.state, job.progress = State.ELSEWHERE, holder.progress
            else:
                if not job.seconds:
                    job.begun = newest_checkpoint(job.path)
                self.pool.start(job)
                job.state, job.started = State.RUNNING, time.monotonic()
        except lock.BusyError:
            job.state = State.ELSEWHERE
        except OSError as error:
            self._fail(job, FAILED, f"could not be started: {error}")
        return job.state is State.RUNNING

    def _settle(self, job: Job, code: int, message: str) -> None:
        job.spent, job.started = job.seconds, None
        if code == DONE and (job.path / "done").is_file():
            job.state = State.DONE
            self.watcher.on_event(f"{job.title}: done")
        elif code == BUSY:
            job.state, job.looked = State.ELSEWHERE, time.monotonic()
        elif self._stopping:
            job.state, job.message = State.WAITING, message
            job.unsaved = code not in SAVED
        else:
            self._fail(job, code, message)

    def _fail(self, job: Job, code: int, message: str) -> None:
        saved = newest_checkpoint(job.path)
        job.failures = 1 if saved > job.saved else job.failures + 1
        job.saved, job.message, job.looked = saved, message, -math.inf
        if code == ERROR or job.failures >= ATTEMPTS:
            job.state = State.FAILED
            times = "" if job.failures == 1 else f" {job.failures} times"
            self.watcher.on_event(f"{job.title}: failed{times}, left out: {message}")
        else:
            job.state = State.WAITING
            again = f"step {saved:,}" if saved else "the start"
            self.watcher.on_event(f"{job.title}: {message}; again from {again}")


def run(
    sweep: Sweep,
    out: Path,
    workers: int | None,
    ray: str | None,
    checkpoint_seconds: float,
    watcher: Watcher,
) -> list[Job]:
    """Train the runs of a sweep that are not done; see `Sweep.run`."""
    from gammaprime.sweeps import forecast, report

    if workers is not None and workers < 1:
        raise ValueError(f"workers={workers!r}: must be at least 1")
    if not (math.isfinite(checkpoint_seconds) and checkpoint_seconds >= 0.0):
        raise ValueError(
            f"checkpoint_seconds={checkpoint_seconds!r}: must be finite, and 0 or more"
        )
    jobs = plan(sweep.configs(), out)
    over = all(job.over for job in jobs)
    if not over:
        startup.check_packages()
    report.write_note(sweep, out)
    watcher.on_plan(sweep, jobs)
    if over:
        return jobs
    pool = _make_pool(out, workers, ray, checkpoint_seconds)
    try:
        cost = forecast.forecast(jobs, out, pool.size, watcher.on_event)
        watcher.on_forecast(cost, pool.size)
        if cost.num_bytes is not None:
            forecast.check_disk(out, cost.num_bytes)
        _drive(Driver(jobs, pool, watcher))
    finally:
        pool.close()
    return jobs


def _make_pool(out: Path, workers: int | None, ray: str | None, checkpoint_seconds: float) -> Pool:
    if ray is None:
        return LocalPool(workers or num_cores(), checkpoint_seconds)
    from gammaprime.sweeps.ray import RayPool

    return RayPool(ray, out, workers, checkpoint_seconds)


def _drive(driver: Driver) -> None:
    """Run a driver to its end; `Interrupted` if a signal stops it before."""
    with Interrupts(active=True) as interrupts:
        try:
            driver.run(interrupts)
        except KeyboardInterrupt:
            raise Interrupted(signal.SIGINT, f"stopped at once; {_done(driver)}") from None
        if interrupts.asked is not None and not driver.over:
            unsaved = [f"{job.title} ({job.message})" for job in driver.jobs if job.unsaved]
            back = f"; go back to their last checkpoints: {', '.join(unsaved)}"
            how = f"stopped{back}" if unsaved else "stopped, every run is saved"
            raise Interrupted(interrupts.asked, f"{how}; {_done(driver)}")


def _done(driver: Driver) -> str:
    return f"{driver.count(State.DONE)} of {len(driver.jobs)} runs are done"
