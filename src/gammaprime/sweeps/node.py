"""On a node of a cluster: the process of one run is looked after, and its files sent home."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from gammaprime.runs import lease
from gammaprime.runs.files import write_whole
from gammaprime.runs.folders import CHECKPOINTS
from gammaprime.sweeps.pool import Worker
from gammaprime.sweeps.worker import DONE, Order

POLL = 0.2
STOP_SECONDS = 120.0
"""How long a run that was asked to stop may take to save."""


class Report(NamedTuple):
    """What a task tells of its run: how it ended, and its files where they are not at home."""

    code: int
    message: str
    files: dict[str, bytes]
    node: str = ""


def look_after(
    order: Order, scratch: str | None, tell: Callable[[dict[str, Any]], object]
) -> Report:
    """Train the run of an order to its end; with its files, if it is not trained at home.

    A task that is cancelled is interrupted here: the process then saves and stops.
    """
    if scratch is not None:
        folder = _folder(scratch)
        # The lease at home keeps others away.  One that is found here was left by a task that is
        # gone, maybe before this machine was started anew, when nobody could tell any more.
        seen = lease.read(folder)
        order = replace(order, path=str(folder), stale=seen.token if seen is not None else None)
    worker = Worker(order)
    try:
        told: dict[str, Any] = {}
        while (outcome := worker.outcome()) is None:
            seen = lease.read(Path(order.path))
            now = seen.content.get("progress", {}) if seen is not None else {}
            if now and now != told:
                told = now
                tell(told)
            time.sleep(POLL)
    except KeyboardInterrupt:
        worker.process.terminate()
        return Report(worker.process.wait(STOP_SECONDS), "stopped", {})
    finally:
        if worker.process.poll() is None:
            worker.kill()
    # They stay here too, until they are known to be at home.
    files = pack(folder) if scratch is not None and outcome.code == DONE else {}
    return Report(outcome.code, outcome.message, files)


def _folder(scratch: str) -> Path:
    return Path(tempfile.gettempdir(), scratch)


def tidy(scratch: str) -> None:
    """On a node: remove a run that is at home."""
    folder = _folder(scratch)
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # another run of the sweep is still on this node
        folder.parent.rmdir()


def pack(folder: Path) -> dict[str, bytes]:
    """The files of a run by their names in its folder."""
    found = {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
    return {name: file.read_bytes() for name, file in found.items() if not name.startswith(".")}


def bring_home(path: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a finished run in the place of what was there of it.

    Cut short, it leaves a run that begins anew, or one that has only its end before it: first
    whose folder it is, states after the metrics that they count on, the proof of each after it,
    and ``done`` last.
    """

    def rank(name: str) -> tuple[bool, ...]:
        return name == "done", CHECKPOINTS in name, name != "config.json", ".json" in name

    shutil.rmtree(path / CHECKPOINTS, ignore_errors=True)
    for name in sorted(files, key=rank):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(path / name, files[name])
