"""The lock on the folder of a run: one process trains it at a time, on one machine or several.

    .lock-000003     JSON: the machine, process and command of its owner, and how far the run is

The file with the highest number counts.  A lock is taken by creating the next number exclusively,
which only one process can do and which every file system supports.  It is released by marking the
file as free: no number is used twice.  A process that finds a higher number, or its own file gone,
has lost the run and must not write to it.

The owner rewrites its file every `BEAT` seconds.  A lock is free when its owner has ended, which
the same machine sees at once; other machines take it over when its file is older than `PATIENCE`
seconds by the clock of the file system.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gammaprime.runs.directory import to_json

BEAT = 2.0
"""Seconds between two heartbeats."""
PATIENCE = 60.0
"""Seconds without a heartbeat after which the lock of another machine is free."""
PREFIX = ".lock-"
LARGEST = 1e15
"""Bound on the absolute value of every number in a lock."""


class BusyError(ValueError):
    """Another process is training the run."""


class LostError(ValueError):
    """Another process has taken over the run, because this one did not report for too long."""


@dataclass(frozen=True)
class Holder:
    """Process that trains a run, and how far it is."""

    host: str
    pid: int
    command: str
    since: str
    progress: Mapping[str, Any]
    """steps, total, fps and return, as far as they are known."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} ({self.command}), since {self.since}"


def read(path: Path) -> Holder | None:
    """Return who holds the lock of a folder, or None if it is free."""
    number = _newest(path)
    content = _content(path, number)
    if not number or not _is_held(_file(path, number), content):
        return None
    return Holder(
        str(content.get("host", "an unknown host")),
        int(content.get("pid", 0)),
        str(content.get("command", "starting")),
        str(content.get("since", "now")),
        dict(content.get("progress", {})),
    )


@contextmanager
def hold(path: Path) -> Iterator[Lock]:
    """Hold the lock of a folder, with a heartbeat; `BusyError` if another process has it.

    The heartbeat has a thread of its own, so that a long update is not taken for a death.
    """
    lock = take(path)
    over = threading.Event()

    def beat() -> None:
        while not over.wait(BEAT):
            # A disk that is full or away for a moment is no reason to give the run up.
            with suppress(OSError):
                lock.beat()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield lock
    finally:
        over.set()
        thread.join()
        # A lock that cannot be released is free as soon as this process ends.
        with suppress(OSError):
            lock.release()


def take(path: Path) -> Lock:
    """Take the lock of a folder, which is made if it is missing; the caller beats and releases."""
    path.mkdir(parents=True, exist_ok=True)
    newest = _newest(path)
    if newest and (holder := read(path)) is not None:
        raise BusyError(f"{path}: is being trained by {holder}")
    lock = Lock(path, newest + 1)
    try:
        with _file(path, lock.number).open("xb") as file:
            file.write(lock.content())
    except FileExistsError:
        raise BusyError(f"{path}: another process has just taken this run") from None
    # Two others may have come and gone since the folder was read, and cleared the number taken.
    if not lock.held:
        _file(path, lock.number).unlink(missing_ok=True)
        raise BusyError(f"{path}: another process has just taken this run")
    for number in _numbers(path):
        if number < lock.number:
            _file(path, number).unlink(missing_ok=True)
    return lock


class Lock:
    """The lock of a folder in the hands of this process, until it is released or lost."""

    def __init__(self, path: Path, number: int) -> None:
        self.path, self.number = path, number
        self.progress: Mapping[str, Any] = {}
        """How far the run is; the next heartbeat tells it."""
        self._owner = {
            **this_process(),
            "host": platform.node(),
            "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200],
            "since": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
        }

    @property
    def held(self) -> bool:
        """True until another process has taken the run."""
        # The file is asked for by name: a listing may miss one that is being replaced.
        return _newest(self.path) <= self.number and _file(self.path, self.number).is_file()

    def check(self) -> None:
        """Raise `LostError` if another process has taken the run; to be called before writing."""
        if not self.held:
            if not self.path.is_dir():
                raise FileNotFoundError(
                    f"{self.path}: was removed while it was trained; nothing of it is saved"
                )
            raise LostError(
                f"{self.path}: was taken over by {read(self.path) or 'another process'}, "
                f"because this one did not report for {PATIENCE:.0f} s"
            )

    def beat(self) -> bool:
        """Tell that the run goes on and how far it is; False if it was lost."""
        if self.held:
            self._write(self.content())
            return True
        return False

    def release(self) -> None:
        """Give the run back."""
        if self.held:
            self._write(to_json({**self._owner, "free": True}, indent=None))

    def content(self) -> bytes:
        """Return the content of the file while the lock is held."""
        return to_json({**self._owner, "progress": dict(self.progress)}, indent=None)

    def _write(self, content: bytes) -> None:
        temporary = self.path / f"{PREFIX}{self.number:06d}.tmp"
        temporary.write_bytes(content)
        temporary.replace(_file(self.path, self.number))


def this_process() -> dict[str, Any]:
    """Return what names this process for `has_ended`."""
    return {"machine": machine(), "pid": os.getpid(), "created": _created(os.getpid())}


def has_ended(file: Path) -> bool:
    """Return whether the process whose `this_process` is in a file ran here and has ended."""
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    if not _makes_sense(content) or content.get("machine") != machine():
        return False
    created = _created(content.get("pid", 0))
    return created is None or abs(created - content.get("created", 0)) >= 1.0


def machine() -> str:
    """Return what names this machine since its last start, and its process numbers."""
    boot, namespace = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    parts = [platform.node()]
    if boot.is_file():
        parts += [boot.read_text().strip(), str(namespace.readlink())]
    return " ".join(parts)


def _is_held(file: Path, content: Mapping[str, Any]) -> bool:
    if content.get("free"):
        return False
    if content.get("machine") == machine():
        created = _created(content.get("pid", 0))
        if created is None:
            return False
        if abs(created - content.get("created", 0)) < 1.0:
            return True
        # Another process with the same number, or a clock that was set since: the beat decides.
    return _age(file) <= PATIENCE


def _created(pid: int) -> float | None:
    """Return when a process of this machine was created, or None if it has ended."""
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.NoSuchProcess:
        return None
    except psutil.AccessDenied:
        return 0.0  # another user's process, which tells only that it is there


def _age(file: Path) -> float:
    """Return the seconds since a file was written, by the clock of its file system.

    Clocks of two machines differ; the times of two files in one folder come from one clock.
    """
    mark = file.with_name(f".clock-{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        mark.touch()
        now = mark.stat().st_mtime
        mark.unlink()
    except OSError:  # the folder may be read, and not written
        now = time.time()
    try:
        return now - file.stat().st_mtime
    except FileNotFoundError:
        return 0.0  # replaced or taken over at this moment


def _content(path: Path, number: int) -> dict[str, Any]:
    """Return what a lock says; nothing if it is being written at this moment."""
    try:
        content = json.loads(_file(path, number).read_bytes())
    except (OSError, ValueError, RecursionError):
        content = {}
    return content if _makes_sense(content) else {}


def _makes_sense(content: Any) -> bool:
    """Return whether the content of a lock is what `Lock.content` writes."""
    if not isinstance(content, dict) or not isinstance(content.get("progress", {}), dict):
        return False
    pid, created = content.get("pid", 1), content.get("created", 0)
    numbers = (pid, created, *content.get("progress", {}).values())
    # NaN is below no limit, and an integer of any size can be compared with one.
    if not all(type(x) in (int, float) and abs(x) < LARGEST for x in numbers):
        return False
    return type(pid) is int and 0 < pid < 2**31


def _newest(path: Path) -> int:
    return max(_numbers(path), default=0)


def _numbers(path: Path) -> list[int]:
    found = (file.name.removeprefix(PREFIX) for file in path.glob(f"{PREFIX}*"))
    return [int(number) for number in found if number.isascii() and number.isdigit()]


def _file(path: Path, number: int) -> Path:
    return path / f"{PREFIX}{number:06d}"
