"""Progress of a run: how far it is, how fast, how long to go; a line for Python and notebooks."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import TextIO

from gammaprime.runs.session import Callback, Start, Update

REMEMBERED = 20.0
"""Seconds over which the speed of a run is measured."""
REFRESH = 0.2
"""Seconds between two drawings."""


class Pace:
    """Speed of a run over its last seconds, and the line that tells it."""

    def __init__(self) -> None:
        self._marks: list[tuple[float, int]] = []
        self._evaluated = ""
        self._learning = False

    def evaluated(self, update: Update) -> str:
        """Note an evaluation, and return the line that tells its three returns."""
        row = update.row
        self._evaluated = f"evaluated {row['eval/mean_reward']:.1f}"
        three = (
            f"return {row['eval/mean_reward']:.1f}, J_γ {row['eval/mean_reward_gamma']:.1f}, "
            f"J_γ' {row['eval/mean_reward_gamma_prime']:.1f}"
        )
        return f"step {update.steps:,}: evaluation of the policy: {three}"

    def add(self, update: Update, now: float) -> None:
        """Note when an update ended."""
        # Exploring is many times faster than learning: its speed would promise an early end.
        if not self._learning and any(name.startswith("train/") for name in update.row):
            self._learning = True
            self._marks.clear()
        self._marks.append((now, update.steps))
        while len(self._marks) > 2 and now - self._marks[0][0] > REMEMBERED:
            self._marks.pop(0)

    def line(self, update: Update) -> str:
        """Return the state of the run in the width of a terminal."""
        parts = [f"{100 * update.steps // update.total_steps:3d} %", f"step {update.steps:,}"]
        if "rollout/ep_rew_mean" in update.row:
            parts.append(f"return {update.row['rollout/ep_rew_mean']:.1f}")
        if self._evaluated:
            parts.append(self._evaluated)
        # The first update compiles: there is no speed before the second.
        if len(self._marks) > 1:
            (then, from_step), (now, to_step) = self._marks[0], self._marks[-1]
            speed = (to_step - from_step) / max(now - then, 1e-9)
            parts.append(f"{speed:,.0f} steps/s")
            left = (update.total_steps - update.steps) / max(speed, 1e-9)
            parts.append(f"{duration(left)} left" if left else "done")
        return "  ".join(parts)


class ProgressLine(Callback):
    """One line on standard error that is written over, in a terminal or a notebook."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._pace = Pace()
        self._shown, self._width = -float("inf"), 0

    def on_start(self, start: Start) -> None:
        """Print what will be trained, with which discounts."""
        self._write(f"{start}\n")

    def on_evaluation(self, update: Update) -> None:
        """Note the return of an evaluation."""
        self._pace.evaluated(update)

    def on_update(self, update: Update) -> None:
        """Write the line again, not more often than it can be read."""
        now, last = time.monotonic(), update.steps >= update.total_steps
        self._pace.add(update, now)
        if now - self._shown < REFRESH and not last:
            return
        text = self._pace.line(update)
        self._write(f"\r{text:<{self._width}}" + ("\n" if last else ""))
        self._shown, self._width = now, len(text)

    def _write(self, text: str) -> None:
        # A run goes on where nobody reads this, and where standard error is closed or missing.
        with suppress(OSError, ValueError, AttributeError):
            self._stream.write(text)
            self._stream.flush()


def is_watched() -> bool:
    """Return whether somebody sees standard error: in a terminal or a notebook."""
    if "ipykernel" in sys.modules:
        return True
    # Without a standard error at the start of Python it is None.
    return sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()


def duration(seconds: float) -> str:
    """Return a time as a text like 42 s, 3 min 20 s or 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
