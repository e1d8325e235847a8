"""Runs on a Ray cluster: each is one task, which trains it in a worker process of its own.

Where the nodes see the results folder, runs are trained in it.  Otherwise each is trained in a
folder of its node, its files are the return value of its task, and the driver holds the lock of the
run.  Ray itself starts a task again whose worker or node is lost: the run then resumes from shared
storage, or begins again.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, chdir
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gammaprime.runs import lock, provenance, startup
from gammaprime.runs.directory import CHECKPOINTS, to_json, write_whole
from gammaprime.sweeps.local import BUSY, FAILED, LOG, train_job

if TYPE_CHECKING:
    from gammaprime.sweeps.driver import Job

try:
    import ray
except ImportError as error:
    raise ImportError("--ray needs ray: pip install 'gammaprime[ray]'") from error

LOSSES = 20
"""Times that Ray starts a run again whose worker or node was lost."""
ENVIRONMENT = {**startup.ONE_THREAD, "XLA_FLAGS": startup.XLA_FLAGS, "JAX_PLATFORMS": "cpu"}

Files = dict[str, bytes]


class RayPool:
    """Tasks of one core each, on a cluster that is there or on one made for this sweep.

    As many at once as asked for, which may be more than a cluster that grows on demand has now; by
    default as many as there are cores, counted again as nodes come and go.
    """

    def __init__(
        self, address: str, out: Path, workers: int | None, checkpoint_seconds: float
    ) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self._workers, self._seconds = workers, checkpoint_seconds
        self._tasks: dict[Any, tuple[Job, lock.Lock | None, ExitStack]] = {}
        self.shared = True
        """False once a node was met that does not see the results folder."""
        with ExitStack() as stack:
            # Ray lets its workers import from the folder in which it is started: an empty one.
            with chdir(stack.enter_context(tempfile.TemporaryDirectory(prefix="gammaprime-"))):
                _connect(address, workers)
            stack.callback(ray.shutdown)
            self._token = _make_token(out.absolute())
            stack.callback(self._token.unlink, missing_ok=True)
            self._opened = stack.pop_all()

    @property
    def size(self) -> int:
        """Runs at a time."""
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        return self._workers or max(int(resources.get("CPU", 1)), 1)

    def start(self, job: Job) -> None:
        """Give a run to the cluster."""
        held, files, stack = None, None, ExitStack()
        if not self.shared:
            held = stack.enter_context(lock.hold(job.path))
            files = pack(job.path)
        settings = (self._seconds, provenance.own_command())
        where = (str(job.path.absolute()), str(self._token), files)
        task = train_on_node.remote(job.config.to_table(), *where, *settings)
        self._tasks[task] = (job, held, stack)

    def ended(self) -> list[tuple[Job, int, str]]:
        """Return the runs that have ended since the last call, their exit codes and reasons."""
        if not self._tasks:
            return []
        ready, _ = ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=0)
        return [self._collect(task) for task in ready]

    def _collect(self, task: Any) -> tuple[Job, int, str]:
        job, held, stack = self._tasks.pop(task)
        with stack:
            try:
                code, message, files, seen = ray.get(task)
                self.shared &= seen
                if held is not None:
                    held.check()
                    bring_home(job.path, files)
                return job, code, message
            except lock.LostError as error:
                return job, BUSY, str(error)
            except OSError as error:
                return job, FAILED, f"could not be brought home: {error}"
            except ray.exceptions.TaskCancelledError:
                return job, 128 + signal.SIGTERM, "was stopped before it began"
            except ray.exceptions.RayError as error:
                return job, FAILED, f"Ray gave it up ({type(error).__name__})"

    def stop(self) -> None:
        """Ask all to save and stop: Ray interrupts their tasks."""
        for task in self._tasks:
            ray.cancel(task, force=False, recursive=False)

    def kill(self) -> None:
        """End all at once, saved or not."""
        for task in self._tasks:
            ray.cancel(task, force=True, recursive=False)

    def close(self) -> None:
        """Leave the cluster, and release the locks of runs that were killed."""
        for _, _, stack in self._tasks.values():
            stack.close()
        self._opened.close()


def _make_token(out: Path) -> Path:
    """Make a file that only nodes see which see the results folder; remove those of the dead."""
    for stale in out.glob(".shared-*"):
        if lock.has_ended(stale):
            stale.unlink(missing_ok=True)
    with tempfile.NamedTemporaryFile(dir=out, prefix=".shared-", delete=False) as file:
        file.write(to_json(lock.this_process()))
    return Path(file.name)


def _connect(address: str, workers: int | None) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
    options["runtime_env"] = {"env_vars": ENVIRONMENT}
    if address == "local":
        options |= {"num_cpus": workers or provenance.num_cores(), "include_dashboard": False}
    # "local" is passed on, because without an address Ray would join the cluster of RAY_ADDRESS.
    ray.init(address=address, **options)


# Ray ends a worker process after max_calls: every run has a process of its own.
@ray.remote(num_cpus=1, max_calls=1, max_retries=LOSSES)
def train_on_node(
    table: Mapping[str, Any],
    path: str,
    token: str,
    files: Files | None,
    checkpoint_seconds: float,
    command: list[str],
) -> tuple[int, str, Files, bool]:
    """Train a run; return exit code, reason, its files, and whether the node sees its folder."""
    sys.argv = command or sys.argv
    if files is None and not Path(token).is_file():
        return BUSY, "its node does not see the results folder", {}, False
    startup.cache_compilations(provenance.default_cache())
    if files is None:
        return *train_job(table, Path(path), checkpoint_seconds), {}, True
    with tempfile.TemporaryDirectory(prefix="gammaprime-") as scratch:
        folder = Path(scratch, Path(path).name)
        bring_home(folder, files)
        return *train_job(table, folder, checkpoint_seconds), pack(folder), True


def pack(folder: Path) -> Files:
    """Return the files of a run by their names in its folder, with its log, without its lock."""
    found = {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
    kept = [name for name in found if not name.startswith(".") or name == LOG]
    return {name: found[name].read_bytes() for name in kept}


def bring_home(path: Path, files: Files) -> None:
    """Replace the files of a run.

    Cut short, it leaves a run that begins again, or one that only has to be marked as done: first
    the configuration, checkpoints after the metrics that they count on, the manifest of each after
    its arrays, and ``done`` last.
    """

    def rank(name: str) -> tuple[bool, ...]:
        return name == "done", CHECKPOINTS in name, name != "config.json", ".json" in name

    shutil.rmtree(path / CHECKPOINTS, ignore_errors=True)
    for name in sorted(files, key=rank):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(path / name, files[name])
