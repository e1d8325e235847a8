"""Ctrl-C and SIGTERM, handled between two updates instead of inside one."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import suppress
from types import FrameType, MethodType, TracebackType
from typing import Any, Self

HEARD = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """A run that was asked to stop, has saved its state and can be resumed."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class Interrupts:
    """Context in which the first signal only asks to stop; a second Ctrl-C stops at once.

    Inside another one, what that one was asked counts.
    """

    def __init__(self, active: bool) -> None:
        self.asked: int | None = None
        self._active = active
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # Python handles signals in its main thread alone.
        if self._active and threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._hear) for number in HEARD}
            outer = self._before[signal.SIGINT]
            if isinstance(outer, MethodType) and isinstance(outer.__self__, Interrupts):
                self.asked = self.asked or outer.__self__.asked
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.asked is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        first, self.asked = self.asked is None, number
        if first:
            # Standard error may be closed, or missing; a stop must not fail because of it.
            with suppress(OSError, ValueError, AttributeError):
                sys.stderr.write("\nstopping after this update (Ctrl-C again: at once)\n")
