"""What a person sees of a sweep: a table that lives in a terminal, a few lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from gammaprime.cli.display import Screen, duration
from gammaprime.sweeps.estimate import Cost, Kind, kind_of_run
from gammaprime.sweeps.schedule import ELSEWHERE, FAILED, FINISHED, RUNNING, Job, Schedule

ROWS = 20
"""Runs in the table; of more than these, the title tells the number."""


class SweepDisplay(Screen):
    """Progress, return, steps per second and time left of every run that runs, on stderr."""

    def __init__(
        self, name: str, costs: Mapping[Kind, Cost], console: Console | None = None
    ) -> None:
        super().__init__(name, console)
        self.name, self.costs = name, costs

    def say(self, text: str) -> None:
        """A line that stays, above the table."""
        self.console.print(Text(text), soft_wrap=True)

    def show(self, schedule: Schedule) -> None:
        """The state of things, not more often than it can be read."""
        if not self.is_due(time.monotonic(), last=schedule.over):
            return
        if self._live is not None:
            self._live.update(self.table(schedule), refresh=True)
        else:
            self.say(self.headline(schedule))

    def headline(self, schedule: Schedule) -> str:
        """The whole sweep in a line."""
        total, done = len(schedule.jobs), schedule.count(FINISHED)
        parts = [f"{self.name}: {done} of {total} runs done"]
        for state, word in ((RUNNING, "running"), (ELSEWHERE, "elsewhere"), (FAILED, "failed")):
            if number := schedule.count(state):
                parts.append(f"{number} {word}")
        running = [job for job in schedule.jobs if job.state == RUNNING]
        if speed := sum(job.progress.get("fps", 0.0) for job in running):
            parts.append(f"{speed:,.0f} steps/s")
        left = self.seconds_left(schedule)
        if left is not None and not schedule.over:
            parts.append(f"about {duration(left)} left")
        return ", ".join(parts)

    def table(self, schedule: Schedule) -> Group:
        """The headline, and those that run now, here or elsewhere."""
        headline = Text(self.headline(schedule), no_wrap=True, overflow="ellipsis")
        shown = [job for job in schedule.jobs if job.state in (RUNNING, ELSEWHERE)][:ROWS]
        if not shown:
            return Group(headline)
        table = Table(box=None, pad_edge=False)
        for name in ("variant", "task", "seed"):
            table.add_column(name, no_wrap=True)
        for name in ("done", "return", "steps/s", "left"):
            table.add_column(name, justify="right", no_wrap=True)
        for job in shown:
            table.add_row(job.planned.variant, job.planned.task, str(job.planned.seed), *cells(job))
        return Group(headline, table)

    def seconds_left(self, schedule: Schedule) -> float | None:
        """From the speed of each run, of its kind, or of any that is known; None before that."""
        speeds = [job.progress["fps"] for job in schedule.jobs if job.progress.get("fps")]
        usual = sum(speeds) / len(speeds) if speeds else None
        seconds = []
        for job in schedule.jobs:
            if job.state in (FINISHED, FAILED):
                continue
            cost = self.costs.get(kind_of_run(job.planned.config))
            speed = job.progress.get("fps") or (cost.fps if cost is not None else usual)
            if speed is None:
                return None
            seconds.append(max(job.planned.steps - job.progress.get("steps", 0), 0) / speed)
        return max(sum(seconds) / schedule.pool.size, max(seconds)) if seconds else 0.0


def cells(job: Job) -> tuple[str, str, str, str]:
    """Progress, return, speed and time left of a run."""
    told = job.progress
    if not told:
        return ("elsewhere" if job.state == ELSEWHERE else "starting", "", "", "")
    percent = f"{100 * told['steps'] // max(told['total'], 1)} %"
    reward = f"{told['return']:.1f}" if "return" in told else ""
    speed = told.get("fps", 0.0)
    if not speed:
        return percent, reward, "", ""
    left = duration((told["total"] - told["steps"]) / speed)
    return percent, reward, f"{speed:,.0f}", left
