"""Runs on a Ray cluster: one task for each, which looks after one process on its node.

Where every node sees the results folder, runs are trained in it and go on from their checkpoints
wherever they are started again.  Elsewhere each is trained in a folder of its node, starts over
when that is lost, and its files are brought home when it is done; the driver then keeps its lease.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from gammaprime.suite import lease
from gammaprime.suite.files import write_whole
from gammaprime.suite.folders import CHECKPOINTS
from gammaprime.suite.machine import num_cores
from gammaprime.suite.pool import Outcome, Worker
from gammaprime.suite.worker import DONE, FAILED, HELD, LOST, Order

try:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as error:
    raise ImportError("--ray needs ray: pip install 'gammaprime[ray]'") from error

POLL = 0.2
STOP_SECONDS = 120.0
"""How long a run that was asked to stop may take to save."""
NODE_SECONDS = 60.0


class Report(NamedTuple):
    """What a task tells of its run: how it ended, and its files where they are not at home."""

    code: int
    message: str
    files: dict[str, bytes]


class RayPool:
    """Tasks of one core each on a cluster that is there, or on one made for this sweep.

    As many at once as asked for, which may be more than an autoscaling cluster has now; or else as
    many as there are cores, counted anew as nodes come and go.
    """

    def __init__(self, address: str, root: Path, workers: int | None) -> None:
        root.mkdir(parents=True, exist_ok=True)
        quiet = {"log_to_driver": False, "logging_level": "warning"}
        if address == "local":
            ray.init(num_cpus=workers or num_cores(), include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
        self._workers = workers
        self.size = workers or _cores()
        self.shared = every_node_sees(root)
        self._home = hashlib.sha256(f"{lease.machine()} {root.absolute()}".encode()).hexdigest()
        # In the driver's own node, so that no other node's loss takes it along.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        self._board = Board.options(scheduling_strategy=here).remote()
        self._tasks: dict[str, tuple[Any, Order]] = {}
        self._leases: dict[str, lease.Lease] = {}
        self._lost: set[str] = set()
        self._refused: list[Outcome] = []
        self._beaten = 0.0

    def start(self, order: Order) -> None:
        scratch = None
        if not self.shared:
            try:
                self._leases[order.name] = lease.take(Path(order.path), order.stale)
            except lease.HeldError as error:
                self._refused.append(Outcome(order.name, HELD, str(error)))
                return
            scratch = f"gammaprime-{self._home[:12]}/{order.name}"
        task = attend.remote(order, scratch, self._board)
        self._tasks[order.name] = (task, order)

    def ended(self) -> list[Outcome]:
        self._keep_leases()
        self.size = self._workers or _cores()
        outcomes, self._refused = self._refused, []
        if self._tasks:
            names = {task: name for name, (task, _) in self._tasks.items()}
            ready, _ = ray.wait(list(names), num_returns=len(names), timeout=0)
            outcomes += [self._collect(names[task]) for task in ready]
        return outcomes

    def _collect(self, name: str) -> Outcome:
        task, order = self._tasks.pop(name)
        try:
            report = ray.get(task)
        except ray.exceptions.RayError as error:
            report = Report(FAILED, f"its worker or node was lost ({type(error).__name__})", {})
        if name in self._lost:
            self._lost.remove(name)
            report = Report(LOST, "another process has taken this run", {})
        if report.code == DONE and report.files:
            bring_home(Path(order.path), report.files)
        if name in self._leases:
            self._leases.pop(name).release()
        return Outcome(name, report.code, report.message)

    def _keep_leases(self) -> None:
        if time.monotonic() - self._beaten > lease.BEAT:
            self._beaten = time.monotonic()
            for name, held in self._leases.items():
                # A disk that is full or away for a moment is no reason to give the run up.
                with suppress(OSError):
                    if not held.beat({}) and name not in self._lost:
                        self._lost.add(name)
                        ray.cancel(self._tasks[name][0], force=True, recursive=False)

    def progress(self) -> Mapping[str, dict[str, Any]]:
        try:
            told = ray.get(self._board.read.remote(), timeout=POLL)
        except (ray.exceptions.RayError, TimeoutError):
            return {}
        return {name: progress for name, progress in told.items() if name in self._tasks}

    def stop(self) -> None:
        for task, _ in self._tasks.values():
            ray.cancel(task, force=False, recursive=False)

    def kill(self) -> None:
        for task, _ in self._tasks.values():
            ray.cancel(task, force=True, recursive=False)

    def close(self) -> None:
        ray.shutdown()


def every_node_sees(root: Path) -> bool:
    """Whether a file that is written here can be read on all nodes that the cluster has now."""
    with tempfile.NamedTemporaryFile(dir=root, prefix=".shared-") as token:
        path = str(Path(token.name).absolute())
        nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
        pinned = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
        tasks = [_sees.options(scheduling_strategy=node).remote(path) for node in pinned]
        try:
            return all(ray.get(tasks, timeout=NODE_SECONDS))
        except ray.exceptions.RayError:
            return False


@ray.remote(num_cpus=0, max_retries=0)
def _sees(path: str) -> bool:
    return Path(path).is_file()


def _cores() -> int:
    return max(int(ray.cluster_resources().get("CPU", 1)), 1)


@ray.remote(num_cpus=0, max_restarts=-1)
class Board:
    """Where tasks write how far their runs are."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, Any]] = {}

    def write(self, name: str, progress: dict[str, Any]) -> None:
        self._told[name] = progress

    def read(self) -> dict[str, dict[str, Any]]:
        return self._told


@ray.remote(num_cpus=1, max_retries=0)
def attend(order: Order, scratch: str | None, board: Any) -> Report:
    """On a node: look after the process of one run."""
    return look_after(order, scratch, lambda told: board.write.remote(order.name, told))


def look_after(order: Order, scratch: str | None, tell: Any) -> Report:
    """Train the run of an order to its end; with its files, if it is not trained at home.

    A task that is cancelled is interrupted here: the process then saves and stops.
    """
    if scratch is not None:
        folder = Path(tempfile.gettempdir(), scratch)
        order = replace(order, path=str(folder), stale=None)
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
    files = {}
    if scratch is not None and outcome.code == DONE:
        files = pack(folder)
        shutil.rmtree(folder)
        with suppress(OSError):  # another run of the sweep is still on this node
            folder.parent.rmdir()
    return Report(outcome.code, outcome.message, files)


def pack(folder: Path) -> dict[str, bytes]:
    """The files of a run by their names in its folder."""
    found = {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
    return {name: file.read_bytes() for name, file in found.items() if not name.startswith(".")}


def bring_home(path: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a finished run in the place of what was there of it.

    Cut short, it leaves a run that begins anew, or one that has only its end before it: states are
    written after the metrics that they count on, the proof of each after it, and ``done`` last.
    """
    shutil.rmtree(path / CHECKPOINTS, ignore_errors=True)
    order = sorted(files, key=lambda name: (name == "done", CHECKPOINTS in name, ".json" in name))
    for name in order:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(path / name, files[name])
