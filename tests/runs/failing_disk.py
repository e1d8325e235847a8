"""Disks that fail at a write, and processes that die there, played in this process."""

import os
from contextlib import contextmanager
from pathlib import Path

import pytest

SYNCED = ((os, "fsync"), (Path, "replace"))
"""What makes a file whole: its bytes are on the disk, then its name is."""


class Killed(BaseException):
    """Nothing that handles errors handles this."""


@contextmanager
def failing_writes(lets_through, writes=SYNCED, error=Killed):
    """So many of these calls go through; every later one fails."""
    left = lets_through

    def failing(function):
        def call(*args, **kwargs):
            nonlocal left
            # The lock of a process that dies is free, which one that lives on has to play.
            is_lock = isinstance(args[0], Path) and args[0].name.startswith(".lock-")
            left -= not is_lock
            if left < 0 and not is_lock:
                raise error
            return function(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in writes:
            patch.setattr(owner, name, failing(vars(owner)[name]))
        yield
