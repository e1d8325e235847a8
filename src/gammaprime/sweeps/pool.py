"""Processes of this machine that train runs, one each, and how they end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from gammaprime.runs import lease
from gammaprime.sweeps.worker import Order

LOG = ".worker.log"
COMMAND = (sys.executable, "-m", "gammaprime.sweeps.worker")
GONE = 78
"""The code of an attempt that was lost with its node: how the process ended, nobody knows."""


class Outcome(NamedTuple):
    """How an attempt at a run ended."""

    name: str
    code: int
    message: str


class Pool(Protocol):
    """Where runs are trained."""

    size: int
    """How many at once."""

    def start(self, order: Order) -> None:
        """Begin with a run; returns at once."""

    def ended(self) -> list[Outcome]:
        """Those that have ended since the last question."""

    def progress(self) -> Mapping[str, dict[str, Any]]:
        """How far those are that run, by their names, where it is known."""

    def stop(self) -> None:
        """Ask all to save and stop; they still end, one by one."""

    def kill(self) -> None:
        """Stop all at once, saved or not."""

    def close(self) -> None:
        """Let go of what the pool itself holds."""


class Worker:
    """One process with one order; what it says is kept beside the run."""

    def __init__(self, order: Order) -> None:
        self.order = order
        path = Path(order.path)
        path.mkdir(parents=True, exist_ok=True)
        self._log = path / LOG
        with self._log.open("ab") as log:
            self._said_before = log.tell()
            self.process = subprocess.Popen(
                COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                # Ctrl-C in a terminal is for whoever looks after the run, who then asks it to stop.
                start_new_session=True,
            )
        give(self.process, order)

    def outcome(self) -> Outcome | None:
        """How it ended, if it has."""
        code = self.process.poll()
        if code is None:
            return None
        self._close()
        return Outcome(self.order.name, code, self._last_words(code))

    def kill(self) -> None:
        """End it at once, saved or not."""
        self.process.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        pipe: Any = self.process.stdin
        # What it did not read before it died cannot be delivered any more.
        with suppress(BrokenPipeError):
            pipe.close()

    def _last_words(self, code: int) -> str:
        if code < 0:
            return f"was killed by signal {-code}"
        try:
            said = self._log.read_bytes()[self._said_before :]
        except OSError:
            said = b""
        told = [line for line in said.decode(errors="replace").splitlines() if line.strip()]
        return told[-1].strip() if told else f"ended with exit code {code}"


def give(process: subprocess.Popen[bytes], order: Order) -> None:
    """Send a process its order.  Its standard input stays open: at its end the run stops."""
    pipe: Any = process.stdin
    # One that has died already is found by its exit code.
    with suppress(BrokenPipeError):
        pipe.write(order.to_line())
        pipe.flush()


class LocalPool:
    """Spawned processes, one core each."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._workers: dict[str, Worker] = {}

    def start(self, order: Order) -> None:
        self._workers[order.name] = Worker(order)

    def ended(self) -> list[Outcome]:
        outcomes = [o for worker in self._workers.values() if (o := worker.outcome()) is not None]
        for outcome in outcomes:
            del self._workers[outcome.name]
        return outcomes

    def progress(self) -> Mapping[str, dict[str, Any]]:
        return dict(self._progress())

    def _progress(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, worker in self._workers.items():
            seen = lease.read(Path(worker.order.path))
            if seen is not None and seen.content.get("pid") == worker.process.pid:
                yield name, seen.content.get("progress", {})

    def stop(self) -> None:
        for worker in self._workers.values():
            worker.process.terminate()

    def kill(self) -> None:
        for worker in self._workers.values():
            worker.kill()
        self._workers.clear()

    def close(self) -> None:
        """Processes that have ended leave nothing."""
