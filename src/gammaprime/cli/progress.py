"""How far an experiment is, where nothing but the core is installed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable


def on_stderr(name: str) -> Callable[[int, int], None]:
    """A line on stderr, rewritten in a terminal, and one line for each tenth elsewhere."""
    started = time.perf_counter()
    terminal = sys.stderr.isatty()
    shown = 0

    def report(done: int, total: int) -> None:
        nonlocal shown
        percent = 100 * done // total
        if percent == shown or (not terminal and percent // 10 == shown // 10):
            return
        shown = percent
        left = (time.perf_counter() - started) * (total - done) / done
        text = f"{name}: {percent:3d} %, {done} of {total}, {left:.0f} s left"
        end = "\n" if done == total or not terminal else ""
        sys.stderr.write((f"\r{text:<60}" if terminal else text) + end)
        sys.stderr.flush()

    return report
