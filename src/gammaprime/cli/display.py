"""What a person sees of a run: one line that lives in a terminal, a few that stay elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from gammaprime.runs.old_training import Callback, Update

REFRESH = 0.2
LOG_SECONDS = 30.0
REMEMBERED = 20.0
"""Seconds over which the speed is measured."""


class Screen:
    """A place on standard error that is drawn anew in a terminal; elsewhere lines, seldom."""

    def __init__(self, opening: str, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self._opening = opening
        self._live: Live | None = None
        self._shown = -float("inf")

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            # Drawn only when it is asked to: a thread of its own would share the core.
            self._live = Live(Text(self._opening), console=self.console, auto_refresh=False)
            self._live.start(refresh=True)
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
        """Whether to show something: not more often than it can be read, and the last always."""
        patience = REFRESH if self._live is not None else LOG_SECONDS
        if now - self._shown < patience and not last:
            return False
        self._shown = now
        return True


class Display(Screen, Callback):
    """Steps, return, steps per second and time left, on standard error."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__("compiling, a few seconds the first time", console)
        self._marks: list[tuple[float, int]] = []
        self._judged = ""
        self._learning = False

    def on_evaluation(self, update: Update) -> None:
        row = update.row
        self._judged = f"evaluated {row['eval/mean_reward']:.1f}"
        three = (
            f"return {row['eval/mean_reward']:.1f}, J_γ {row['eval/mean_reward_gamma']:.1f}, "
            f"J_γ' {row['eval/mean_reward_gamma_prime']:.1f}"
        )
        self.console.print(f"step {update.steps:,}: evaluation of the policy: {three}")

    def on_update(self, update: Update) -> None:
        now = time.monotonic()
        # Exploring is many times faster than what follows: its speed would promise an early end.
        if not self._learning and any(name.startswith("train/") for name in update.row):
            self._learning = True
            self._marks.clear()
        self._marks.append((now, update.steps))
        while len(self._marks) > 2 and now - self._marks[0][0] > REMEMBERED:
            self._marks.pop(0)
        if not self.is_due(now, last=update.steps >= update.total_steps):
            return
        line = self.line(update)
        if self._live is not None:
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
        else:
            self.console.print(line)

    def line(self, update: Update) -> str:
        """All of it, in the width of a terminal."""
        parts = [f"{100 * update.steps // update.total_steps:3d} %", f"step {update.steps:,}"]
        if "rollout/ep_rew_mean" in update.row:
            parts.append(f"return {update.row['rollout/ep_rew_mean']:.1f}")
        if self._judged:
            parts.append(self._judged)
        # The first update compiles: no speed until there is a second.
        if len(self._marks) > 1:
            (then, from_step), (now, to_step) = self._marks[0], self._marks[-1]
            speed = (to_step - from_step) / max(now - then, 1e-9)
            parts.append(f"{speed:,.0f} steps/s")
            left = (update.total_steps - update.steps) / max(speed, 1e-9)
            parts.append(f"{duration(left)} left" if left else "done")
        return "  ".join(parts)


def duration(seconds: float) -> str:
    """42 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
