"""The runs of a sweep, each made once: skip what is done, resume what was cut, start the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gammaprime.runs import lease, store
from gammaprime.runs.folders import CHECKPOINTS
from gammaprime.runs.interrupts import Interrupts
from gammaprime.sweeps.pool import GONE, Outcome, Pool
from gammaprime.sweeps.sweep import Planned
from gammaprime.sweeps.worker import DONE, HELD, LOST, SAVED, Order
from gammaprime.sweeps.worker import FAILED as FAILURE

Token = tuple[int, int]

WAITING, RUNNING, ELSEWHERE, FINISHED, FAILED = "waiting", "running", "elsewhere", "done", "failed"
ATTEMPTS = 3
"""Failures in a row, without getting any further, after which a run is left out."""
LOSSES = 20
"""The same of losses of its node, which are not its fault, unless it brings down every node."""
ROUND = 0.3
LOOK_AGAIN = 2.0
"""Seconds between two looks at a run that another process has."""


@dataclass(eq=False)
class Job:
    """One run of a sweep, for all variants that share it."""

    planned: Planned
    path: Path
    state: str = WAITING
    failures: int = 0
    losses: int = 0
    saved: int = 0
    """The step of its newest checkpoint when it last failed."""
    message: str = ""
    progress: dict[str, Any] = field(default_factory=dict)
    looked: float = -float("inf")
    refusals: int = 0
    """How often it was started in vain, because another process had it."""
    unsaved: bool = False
    """Whether it was asked to stop and ended in another way than saved."""

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def title(self) -> str:
        return f"{self.planned.variant} on {self.planned.task}, seed {self.planned.seed}"


def plan(runs: Iterable[Planned], root: Path) -> list[Job]:
    """The runs to be made, each once, in the order of the spec; what is done is marked so."""
    jobs: dict[Path, Job] = {}
    for planned in runs:
        path = planned.path(root)
        if path not in jobs:
            jobs[path] = job = Job(planned, path)
            try:
                if store.is_done(path, planned.config):
                    job.state = FINISHED
            except (ValueError, OSError) as error:
                job.state, job.message = FAILED, str(error)
    return list(jobs.values())


class Schedule:
    """Jobs, the pool that trains them, and what has become of them."""

    def __init__(
        self,
        jobs: list[Job],
        pool: Pool,
        order: Callable[[Job, Token | None], Order],
        say: Callable[[str], None],
        watch: lease.Watch,
    ) -> None:
        self.jobs, self.pool, self.watch = jobs, pool, watch
        self._order, self._say = order, say
        self._by_name = {job.name: job for job in jobs}
        self._stopping = False

    def count(self, *states: str) -> int:
        return sum(job.state in states for job in self.jobs)

    @property
    def over(self) -> bool:
        return self.count(WAITING, RUNNING, ELSEWHERE) == 0

    def run(self, interrupts: Interrupts, show: Callable[[Schedule], None]) -> None:
        """Until every job is done or failed, or a signal asks to stop and all have saved."""
        try:
            while not self.over:
                if interrupts.asked is not None and not self._stopping:
                    self._stopping = True
                    self.pool.stop()
                self.advance()
                show(self)
                if self._stopping and self.count(RUNNING) == 0:
                    return
                time.sleep(ROUND)
        finally:
            if self.count(RUNNING):
                self.pool.kill()

    def advance(self) -> None:
        """One round: what has ended, what can begin, how far the others are."""
        for outcome in self.pool.ended():
            self._settle(self._by_name[outcome.name], outcome)
        now = time.monotonic()
        for job in self.jobs:
            if job.state == ELSEWHERE and now - job.looked > LOOK_AGAIN:
                job.state = WAITING
        room = self.pool.size - self.count(RUNNING)
        waiting = [job for job in self.jobs if job.state == WAITING]
        # `gammaprime train` shows no lease: what it has must not keep the others from their turn.
        for job in sorted(waiting, key=lambda job: job.refusals):
            if room <= 0 or self._stopping:
                break
            try:
                self._begin(job, now)
            except OSError as error:
                self._fail(job, Outcome(job.name, FAILURE, f"could not be started: {error}"))
            room -= job.state == RUNNING
        for name, progress in self.pool.progress().items():
            if progress:
                self._by_name[name].progress = progress

    def _begin(self, job: Job, now: float) -> None:
        """Start a job, unless it was done meanwhile or another process has it."""
        job.looked = now
        if (job.path / "done").is_file():
            job.state = FINISHED
            return
        seen = lease.read(job.path)
        if self.watch.is_free(job.path, seen):
            job.state = RUNNING
            self.pool.start(self._order(job, seen.token if seen is not None else None))
        else:
            job.state = ELSEWHERE
            job.progress = seen.content.get("progress", {}) if seen is not None else {}

    def _settle(self, job: Job, outcome: Outcome) -> None:
        if outcome.code == DONE and (job.path / "done").is_file():
            job.state = FINISHED
            self._say(f"{job.title}: done")
        elif outcome.code in (HELD, LOST):
            job.state, job.looked = ELSEWHERE, time.monotonic()
            job.refusals += 1
        elif self._stopping:
            job.state, job.message = WAITING, outcome.message
            job.unsaved = outcome.code not in SAVED
        else:
            self._fail(job, outcome)

    def _fail(self, job: Job, outcome: Outcome) -> None:
        saved = newest_checkpoint(job.path)
        if saved > job.saved:
            job.failures = job.losses = 0
        if outcome.code == GONE:
            job.losses += 1
        else:
            job.failures += 1
        job.saved, job.message = saved, outcome.message
        given_up = job.failures >= ATTEMPTS or job.losses >= LOSSES
        job.state = FAILED if given_up else WAITING
        if given_up:
            lost = f" and was lost {job.losses} times" if job.losses else ""
            told = f"failed {job.failures} times{lost}"
            self._say(f"{job.title}: {told}, left out: {job.message}")
        else:
            again = f"step {saved:,}" if saved else "the start"
            self._say(f"{job.title}: {job.message}; again from {again}")


def newest_checkpoint(path: Path) -> int:
    """The step from which a run would go on."""
    steps = (int(file.stem) for file in (path / CHECKPOINTS).glob("*.json") if file.stem.isdigit())
    return max(steps, default=0)
