"""The process of one run of a sweep: ``python -m gammaprime.sweeps.worker``, its order on stdin.

The order is one line of JSON.  Standard input stays open as long as somebody looks after the run:
when it ends, because a driver was killed, the run saves its state and stops.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import warnings
from dataclasses import asdict, dataclass
from typing import Any

from gammaprime.runs import threads
from gammaprime.runs.lease import BEAT

DONE, FAILED, BROKEN, HELD, LOST = 0, 1, 3, 75, 76
"""Exit codes."""
SAVED = (DONE, 130, 143)
"""Exit codes of a run that has stored all it did, the last two where it was asked to stop."""


@dataclass(frozen=True)
class Order:
    """A run to be trained in a folder."""

    name: str
    path: str
    config: dict[str, Any]
    stale: tuple[int, int] | None = None
    """The lease that was watched until it went stale, if there is one."""
    beat: float = BEAT
    checkpoint_seconds: float = 30.0
    cache: bool = True
    command: tuple[str, ...] = ("gammaprime",)
    """What the sweep was started with, for the manifest."""
    probe_seconds: float = 0.0
    """If more than 0: train so long, and then tell how fast it was and what it stores."""

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Order:
        table = json.loads(line)
        lists = {key: tuple(value) for key, value in table.items() if isinstance(value, list)}
        return cls(**table | lists)


def main() -> int:
    """Do what the order says."""
    threads.use_one_thread()
    # Until training hears signals itself there is nothing to save.
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(128 + number))
    order = Order.from_line(sys.stdin.buffer.readline())
    threading.Thread(target=_stop_when_alone, daemon=True).start()
    sys.argv = list(order.command)
    warnings.formatwarning = lambda message, *where: f"{message}\n"
    from gammaprime.runs import machine
    from gammaprime.sweeps import attempt

    if order.cache:
        machine.cache_compilations(machine.default_cache())
    if order.probe_seconds > 0:
        sys.stdout.write(json.dumps(attempt.probe(order)))
        return DONE
    code, message = attempt.attempt(order)
    if message:
        sys.stderr.write(f"{message}\n")
    return code


def _stop_when_alone() -> None:
    # Not through the buffered reader, whose lock would be held when the process ends.
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
