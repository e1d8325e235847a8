"""Live displays on standard error: redrawn in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gammaprime.runs.progress import REFRESH, Pace, duration
from gammaprime.runs.session import Callback, Start, Update
from gammaprime.sweeps.driver import Driver, Job, State, Watcher
from gammaprime.sweeps.forecast import Cost, Forecast, Kind, format_bytes, seconds_left
from gammaprime.sweeps.spec import Sweep

LOG_SECONDS = 30.0
"""Seconds between two lines elsewhere."""
ROWS = 20
"""Most runs in the table of a sweep; its headline counts all."""


class Screen:
    """A place on standard error that is redrawn in a terminal; elsewhere lines, seldom."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self._live: Live | None = None
        self._shown = -float("inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def is_due(self, now: float, last: bool) -> bool:
        """Return whether to draw: not more often than it can be read, but always at the end."""
        seconds = REFRESH if self.console.is_terminal else LOG_SECONDS
        if now - self._shown < seconds and not last:
            return False
        self._shown = now
        return True

    def draw(self, picture: RenderableType) -> None:
        """Redraw the live display, in a terminal."""
        if self._live is None:
            # Drawn only on request: a thread of its own would share the core.
            self._live = Live(picture, console=self.console, auto_refresh=False)
            self._live.start(refresh=True)
        else:
            self._live.update(picture, refresh=True)


class Display(Screen, Callback):
    """Steps, return, steps per second and time left of a run."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console)
        self._pace = Pace()

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.draw(Text("compiling, a few seconds the first time"))
        return self

    def on_start(self, start: Start) -> None:
        """Print what will be trained, with which discounts."""
        self.console.print(str(start), soft_wrap=True)

    def on_evaluation(self, update: Update) -> None:
        """Print the three returns of an evaluation."""
        self.console.print(self._pace.evaluated(update))

    def on_update(self, update: Update) -> None:
        """Show how far the run is."""
        now = time.monotonic()
        self._pace.add(update, now)
        if not self.is_due(now, last=update.steps >= update.total_steps):
            return
        line = self._pace.line(update)
        if self.console.is_terminal:
            self.draw(Text(line, no_wrap=True, overflow="ellipsis"))
        else:
            self.console.print(line)


class SweepDisplay(Screen, Watcher):
    """Plan and forecast of a sweep on standard output, then a live table of what runs."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console)
        self.name = ""
        self.costs: Mapping[Kind, Cost] = {}

    def on_plan(self, sweep: Sweep, jobs: Sequence[Job]) -> None:
        """Print how many runs there are, and what differs from the spec."""
        self.name = sweep.name
        planned = sum(len(own) for variant in sweep.variants for own in variant.seeds)
        done = sum(job.state is State.DONE for job in jobs)
        shared = f" ({planned - len(jobs)} shared)" if planned > len(jobs) else ""
        print(f"{sweep.name}: {planned} runs{shared}, {done} done, {len(jobs) - done} to do")
        if sweep.changed:
            told = ", ".join(f"{name} {value}" for name, value in sweep.changed.items())
            print(f"not as the spec has it: {told}")

    def on_forecast(self, cost: Forecast, size: int) -> None:
        """Print what the runs will take."""
        self.costs = cost.costs
        print(forecast_line(cost, size), flush=True)

    def on_event(self, text: str) -> None:
        """Print a line that stays, above the table."""
        self.console.print(Text(text), soft_wrap=True)

    def on_round(self, driver: Driver) -> None:
        """Show the state of the sweep."""
        if not self.is_due(time.monotonic(), last=driver.over):
            return
        if self.console.is_terminal:
            self.draw(self.table(driver))
        else:
            self.on_event(self.headline(driver))

    def headline(self, driver: Driver) -> str:
        """Return the state of the whole sweep in a line."""
        counts = {state: driver.count(state) for state in State}
        parts = [f"{self.name}: {counts[State.DONE]} of {len(driver.jobs)} runs done"]
        told = (State.RUNNING, State.ELSEWHERE, State.FAILED)
        parts += [f"{counts[state]} {state}" for state in told if counts[state]]
        running = [job for job in driver.jobs if job.state is State.RUNNING]
        if speed := sum(job.progress.get("fps", 0.0) for job in running):
            parts.append(f"{speed:,.0f} steps/s")
        left = seconds_left(driver.jobs, self.costs, driver.pool.size)
        if left is not None and not driver.over:
            parts.append(f"about {duration(left)} left")
        return ", ".join(parts)

    def table(self, driver: Driver) -> Group:
        """Return the headline, and the runs that are trained now, here or elsewhere."""
        headline = Text(self.headline(driver), no_wrap=True, overflow="ellipsis")
        active = (State.RUNNING, State.ELSEWHERE)
        shown = [job for job in driver.jobs if job.state in active][:ROWS]
        if not shown:
            return Group(headline)
        table = Table(box=None, pad_edge=False)
        for name in ("variant", "task", "seed"):
            table.add_column(name, no_wrap=True)
        for name in ("done", "return", "steps/s", "left"):
            table.add_column(name, justify="right", no_wrap=True)
        for job in shown:
            config = job.config
            table.add_row(job.variant, str(config.task), str(config.seed), *cells(job))
        return Group(headline, table)


def cells(job: Job) -> tuple[str, str, str, str]:
    """Return progress, return, speed and time left of a run."""
    told = job.progress
    if not {"steps", "total"} <= set(told):
        return ("elsewhere" if job.state is State.ELSEWHERE else "starting", "", "", "")
    percent = f"{100 * told['steps'] // max(told['total'], 1)} %"
    reward = f"{told['return']:.1f}" if "return" in told else ""
    speed = told.get("fps", 0.0)
    if not speed:
        return percent, reward, "", ""
    left = duration((told["total"] - told["steps"]) / max(speed, 1e-3))
    return percent, reward, f"{speed:,.0f}", left


def forecast_line(cost: Forecast, size: int) -> str:
    """Return what the runs of a sweep will take, ``size`` at a time."""
    what = f"{cost.runs} runs of {cost.steps:,} steps in all, {size} at a time"
    if cost.seconds is None or cost.num_bytes is None:
        return f"{what}; too short to measure what they take"
    told = f"about {duration(cost.seconds)} and {format_bytes(cost.num_bytes)} of disk"
    if cost.unknown:
        names = sorted({f"{kind[1]} on {kind[0]}" for kind in cost.unknown})
        return f"{what}; {told}, without what could not be measured: {', '.join(names)}"
    speed = cost.steps / max(cost.seconds, 1e-9)
    return f"{what}; measured {speed:,.0f} steps/s together: {told}"
