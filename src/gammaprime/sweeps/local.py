"""Processes of this machine that train the runs of a sweep, one process with one thread each.

The process of a run is ``python -P -m gammaprime.sweeps.local``: it reads one line of JSON from its
standard input, trains, and ends with an exit code.  Its standard error is the log of the run.  Its
standard input stays open as long as the driver lives: when it closes, the run saves and stops.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gammaprime.runs import provenance, startup

if TYPE_CHECKING:  # the process of a run sets its threads before NumPy and JAX are imported
    from gammaprime.sweeps.driver import Job

DONE, FAILED, ERROR, BROKEN, BUSY = 0, 1, 2, 3, 75
"""Exit codes.  ERROR is a failure that the same settings and code would repeat."""
SAVED = (DONE, 128 + signal.SIGINT, 128 + signal.SIGTERM)
"""Exit codes of a run that has stored all it did; the last two were asked to stop."""
LOG = ".worker.log"
# -P: a file of the current folder must not be imported in the place of a library.
COMMAND = (sys.executable, "-P", "-m", "gammaprime.sweeps.local")


def start_process(request: Mapping[str, Any], stdout: int, stderr: Any) -> subprocess.Popen[bytes]:
    """Start a process and send it a request; its standard input stays open."""
    process = subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        # Ctrl-C in a terminal is for the driver, which then asks its processes to stop.
        start_new_session=True,
    )
    assert process.stdin is not None
    # A process that has died already is found by its exit code.
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
    return process


class LocalPool:
    """Processes on the cores of this machine."""

    def __init__(self, size: int, checkpoint_seconds: float) -> None:
        self.size = size
        self._seconds = checkpoint_seconds
        self._running: list[tuple[Job, subprocess.Popen[bytes], int]] = []

    def start(self, job: Job) -> None:
        """Train a run in a process of its own, whose log lies beside the run."""
        job.path.mkdir(parents=True, exist_ok=True)
        request: dict[str, Any] = {"config": job.config.to_table()}
        request |= {"path": str(job.path.absolute())}
        request |= {"checkpoint_seconds": self._seconds, "command": provenance.own_command()}
        with (job.path / LOG).open("ab") as log:
            logged = log.tell()
            process = start_process(request, subprocess.DEVNULL, log)
        self._running.append((job, process, logged))

    def ended(self) -> list[tuple[Job, int, str]]:
        """Return the runs that have ended since the last call, their exit codes and reasons."""
        ended = [entry for entry in self._running if entry[1].poll() is not None]
        self._running = [entry for entry in self._running if entry not in ended]
        found = []
        for job, process, logged in ended:
            _close(process)
            found.append((job, process.returncode, _reason(job.path, process.returncode, logged)))
        return found

    def stop(self) -> None:
        """Ask all to save and stop."""
        for _, process, _ in self._running:
            process.terminate()

    def kill(self) -> None:
        """End all at once, saved or not."""
        for _, process, _ in self._running:
            process.kill()
            process.wait()
            _close(process)
        self._running = []

    def close(self) -> None:
        """Do nothing: processes that have ended leave nothing."""


def _close(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    # What it did not read before it died cannot be delivered.
    with suppress(BrokenPipeError):
        process.stdin.close()


def _reason(path: Path, code: int, logged: int) -> str:
    """Return the last line that a process has logged."""
    if code < 0:
        return f"was killed by signal {-code}"
    try:
        said = (path / LOG).read_bytes()[logged:]
    except OSError:
        said = b""
    lines = [line for line in said.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"ended with exit code {code}"


def train_job(table: Mapping[str, Any], path: Path, checkpoint_seconds: float) -> tuple[int, str]:
    """Train the run of a configuration, or resume it; return an exit code and the reason.

    The traceback of a failure goes to the log beside the run.
    """
    from gammaprime.loops.rollout import BreakdownError
    from gammaprime.runs.config import RunConfig
    from gammaprime.runs.interrupts import Interrupted
    from gammaprime.runs.lock import BusyError, LostError
    from gammaprime.runs.training import train_config

    try:
        config = RunConfig.from_table(table)
        train_config(config, path, checkpoint_seconds=checkpoint_seconds)
    except (BusyError, LostError) as error:
        return BUSY, str(error)
    except Interrupted as stop:
        return stop.exit_code, str(stop)
    except Exception as error:
        path.mkdir(parents=True, exist_ok=True)
        with (path / LOG).open("a", encoding="utf-8") as log:
            traceback.print_exc(file=log)
        if isinstance(error, BreakdownError):
            return BROKEN, str(error)
        code = FAILED if isinstance(error, OSError | MemoryError) else ERROR
        ours = isinstance(error, OSError | ValueError | ImportError)
        return code, str(error) if ours else f"{type(error).__name__}: {error}"
    return DONE, ""


def main() -> int:
    """Do what the request on standard input says."""
    born = time.monotonic()
    startup.use_one_thread()
    # Until training handles signals itself there is nothing to save.
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(128 + number))
    request = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_stop_without_driver, daemon=True).start()
    sys.argv = request.get("command") or sys.argv
    warnings.formatwarning = lambda message, *where: f"{message}\n"
    startup.cache_compilations(provenance.default_cache())
    path = Path(request["path"])
    if "probe_seconds" in request:
        from gammaprime.sweeps import forecast

        costs = forecast.probe(request["config"], path, request["probe_seconds"], born)
        sys.stdout.write(json.dumps(costs))
        return DONE
    code, message = train_job(request["config"], path, request["checkpoint_seconds"])
    if message:
        sys.stderr.write(f"{message}\n")
    return code


def _stop_without_driver() -> None:
    # Not through the buffered reader, whose lock would be held when the process ends.
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
