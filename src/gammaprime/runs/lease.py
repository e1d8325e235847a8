"""Who is training a run: a lease with a heartbeat, for folders that several machines can see.

    .lease-000003     JSON: machine and process of its owner, its beat, and how far the run is

The file with the highest number counts.  A lease is taken by creating the next number, which only
one process can, and given back by marking it free, also when the run is done: a number is never
used twice.  Whoever finds a higher number, or its own gone, has lost the run and must stop without
writing.

A lease is stale when its owner is no more, which its own machine sees at once; other machines see
no beat for a while on their own clock.  Clocks of two machines are never compared.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from gammaprime.runs.files import to_json

BEAT = 2.0
PATIENCE = 60.0
"""Seconds without a beat after which another machine's lease is stale."""
PREFIX = ".lease-"


class HeldError(RuntimeError):
    """Another process has the run."""


class Seen(NamedTuple):
    """A lease as it was read; one that is still being written is empty."""

    number: int
    content: dict[str, Any]

    @property
    def token(self) -> tuple[int, int]:
        """Changes with every beat and every owner."""
        return self.number, self.content.get("beat", -1)

    @property
    def free(self) -> bool:
        """Given back, or of a process of this machine that is no more."""
        owner = self.content
        if owner.get("free", False):
            return True
        ours = owner.get("machine") == machine()
        return ours and owner.get("started") != process_start(owner.get("pid", 0))


def read(folder: Path) -> Seen | None:
    """The lease that counts, if there ever was one."""
    numbers = _numbers(folder)
    if not numbers:
        return None
    try:
        content = json.loads(_file(folder, numbers[-1]).read_bytes())
    except (OSError, ValueError):
        content = {}
    return Seen(numbers[-1], content if isinstance(content, dict) else {})


class Watch:
    """Remembers when each lease was last seen to change, by its own clock."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self.patience = patience
        self._since: dict[Path, tuple[tuple[int, int], float]] = {}

    def is_free(self, folder: Path, seen: Seen | None) -> bool:
        """Whether nobody has the run, as far as can be told now."""
        if seen is None or seen.free:
            return True
        now = time.monotonic()
        token, since = self._since.setdefault(folder, (seen.token, now))
        if token != seen.token:
            self._since[folder] = (seen.token, now)
            return False
        return now - since > self.patience


class Lease:
    """A run that this process has, until it is released or lost."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder, self.number = folder, number
        self._owner = {
            "machine": machine(),
            "pid": os.getpid(),
            "started": process_start(os.getpid()),
        }
        self._beat = 0

    def beat(self, progress: Mapping[str, Any]) -> bool:
        """Say that the run goes on, and how far it is; False where it was lost to another."""
        if not self.held:
            return False
        self._beat += 1
        self._write({"progress": dict(progress)})
        return True

    @property
    def held(self) -> bool:
        numbers = _numbers(self.folder)
        # Asked for by its name: a listing may miss a file that a beat is replacing right now.
        return max(numbers, default=0) <= self.number and _file(self.folder, self.number).is_file()

    def release(self) -> None:
        """Give the run back."""
        if self.held:
            self._write({"free": True})

    def _write(self, more: Mapping[str, Any]) -> None:
        content = to_json({**self._owner, "beat": self._beat, **more}, indent=None)
        temporary = self.folder / f"{PREFIX}{self.number:06d}.tmp"
        temporary.write_bytes(content)
        temporary.replace(_file(self.folder, self.number))


def take(folder: Path, stale: tuple[int, int] | None = None) -> Lease:
    """Take a run that nobody has, or whose lease somebody has watched go stale."""
    folder.mkdir(parents=True, exist_ok=True)
    seen = read(folder)
    if seen is not None and not (seen.free or seen.token == stale):
        raise HeldError(f"{folder}: another process has this run")
    lease = Lease(folder, seen.number + 1 if seen is not None else 1)
    try:
        with _file(folder, lease.number).open("xb"):
            pass
    except FileExistsError:
        raise HeldError(f"{folder}: another process has just taken this run") from None
    # Two others may have come and gone since it was read, and cleared the number taken here.
    if not lease.beat({}):
        _file(folder, lease.number).unlink(missing_ok=True)
        raise HeldError(f"{folder}: another process has just taken this run")
    for number in _numbers(folder):
        if number < lease.number:
            _file(folder, number).unlink(missing_ok=True)
    return lease


@contextmanager
def kept(
    lease: Lease, progress: Callable[[], Mapping[str, Any]], lost: Callable[[], None], beat: float
) -> Iterator[None]:
    """Beat in a thread of its own, so that a long update is not taken for a death."""
    over = threading.Event()

    def keep() -> None:
        while not over.wait(beat):
            # A disk that is full or away for a moment is no reason to give the run up.
            with suppress(OSError):
                if not lease.beat(progress()):
                    lost()

    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        lease.release()


def machine() -> str:
    """The machine since its last start, as one set of process numbers: containers differ."""
    boot, namespace = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    parts = [platform.node()]
    if boot.is_file():
        parts += [boot.read_text().strip(), str(namespace.readlink())]
    return " ".join(parts)


def process_start(pid: int) -> str | None:
    """When a process of this machine began, so that a number used again is told apart."""
    if Path("/proc/self/stat").is_file():
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        state, *rest = text.rpartition(")")[2].split()
        return None if state == "Z" else rest[18]
    try:
        os.kill(pid, 0)
    except OSError:
        return None
    return "alive"


def _numbers(folder: Path) -> list[int]:
    found = (file.name.removeprefix(PREFIX) for file in folder.glob(f"{PREFIX}*"))
    return sorted(int(number) for number in found if number.isdigit())


def _file(folder: Path, number: int) -> Path:
    return folder / f"{PREFIX}{number:06d}"
