"""Standard output and error: of any encoding, and outlived by runs when they are closed."""

from __future__ import annotations

import codecs
import io
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

SPELLED = {"γ": "gamma", "λ": "lambda", "η": "eta", "σ": "sigma", "μ": "mu", "τ": "tau"}
SPELLED |= {"±": "+-", "−": "-", "∞": "inf", "Δ": "Delta", "·": "*", "…": "...", "Σ": "Sum"}
NARROWEST = 40
"""Columns of the narrowest help: in less, tyro's layout never ends."""


def _spell(error: UnicodeError) -> tuple[str, int]:
    """Return the words for letters that the terminal cannot show."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(SPELLED.get(letter, "?") for letter in letters), error.end


codecs.register_error("gammaprime-spell", _spell)


class Lasting(io.TextIOBase):
    """Text stream that drops what can no longer be written, since a run outlives its terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Encoding of the stream."""
        return self._stream.encoding

    def write(self, text: str) -> int:
        """Write a text, or drop it."""
        try:
            return len(text) if self._stream.closed else self._stream.write(text)
        except OSError:
            discard(self._stream)
            return len(text)

    def flush(self) -> None:
        """Flush what was written, or drop it."""
        try:
            if not self._stream.closed:
                self._stream.flush()
        except OSError:
            discard(self._stream)

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return not self._stream.closed and self._stream.isatty()

    def fileno(self) -> int:
        """Return the number of its file."""
        return self._stream.fileno()


def discard(stream: TextIO) -> None:
    """Send a stream nowhere: what it still holds would fail again when the process ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def flush() -> None:
    """Flush standard output; an error is raised once, and not again when the process ends."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        discard(sys.stdout)
        raise


@contextmanager
def any_encoding() -> Iterator[None]:
    """Spell letters that standard output or error cannot encode."""
    streams = [s for s in (sys.stdout, sys.stderr) if isinstance(s, io.TextIOWrapper)]
    before = [stream.errors for stream in streams]
    for stream in streams:
        stream.reconfigure(errors="gammaprime-spell")
    try:
        yield
    finally:
        for stream, errors in zip(streams, before, strict=True):
            stream.reconfigure(errors=errors)


@contextmanager
def outlived() -> Iterator[None]:
    """Let the terminal be closed, or the disk behind standard output or error be full."""
    before = sys.stdout, sys.stderr
    hangup = None
    if sys.platform != "win32" and threading.current_thread() is threading.main_thread():
        hangup = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # None stands for a stream that was closed before the start.
    sys.stdout, sys.stderr = (Lasting(stream or io.StringIO()) for stream in before)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before
        if hangup is not None:
            signal.signal(signal.SIGHUP, hangup)


@contextmanager
def wide_enough() -> Iterator[None]:
    """Give help at least `NARROWEST` columns."""
    before = os.environ.get("COLUMNS")
    if shutil.get_terminal_size().columns >= NARROWEST:
        yield
        return
    os.environ["COLUMNS"] = str(NARROWEST)
    try:
        yield
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
