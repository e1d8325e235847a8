"""Runs on a Ray cluster: one task for each, which looks after one process on its node.

Where every node sees the results folder, runs are trained in it and go on from their checkpoints
wherever they are started again.  Elsewhere, and on nodes that come later and do not see it, each is
trained in a folder of its node, starts over when that is lost, and its files are brought home when
it is done; the driver then keeps its lease.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gammaprime.runs import lease
from gammaprime.runs.machine import num_cores
from gammaprime.sweeps.node import POLL, Report, bring_home, look_after, tidy
from gammaprime.sweeps.pool import GONE, Outcome
from gammaprime.sweeps.worker import DONE, FAILED, HELD, LOST, Order

try:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as error:
    raise ImportError("--ray needs ray: pip install 'gammaprime[ray]'") from error

NODE_SECONDS = 60.0
TIDY_SECONDS = 10.0
UNBEGUN = Report(143, "was stopped before it began", {})
UNSEEN = 77
"""The node does not see the results folder; nothing was begun."""
LOSSES = (
    ray.exceptions.NodeDiedError,
    ray.exceptions.LocalRayletDiedError,
    ray.exceptions.WorkerCrashedError,
    ray.exceptions.ObjectLostError,
)
"""What becomes of a task whose node goes, or of what it told."""


class RayPool:
    """Tasks of one core each on a cluster that is there, or on one made for this sweep.

    As many at once as asked for, which may be more than an autoscaling cluster has now; or else as
    many as there are cores, counted anew as nodes come and go.
    """

    def __init__(self, address: str, root: Path, workers: int | None) -> None:
        root.mkdir(parents=True, exist_ok=True)
        quiet = {"log_to_driver": False, "logging_level": "warning"}
        if address == "local":
            # Said, because without an address Ray would join the cluster of RAY_ADDRESS.
            ray.init(
                address="local", num_cpus=workers or num_cores(), include_dashboard=False, **quiet
            )
        else:
            ray.init(address=address, **quiet)
        self._workers = workers
        self.size = workers or _cores()
        # Kept as long as the pool, for nodes that come later.
        handle, token = tempfile.mkstemp(dir=root.absolute(), prefix=".shared-")
        os.close(handle)
        self._token = Path(token)
        self.shared = every_node_sees(self._token)
        self._home = hashlib.sha256(f"{lease.machine()} {root.absolute()}".encode()).hexdigest()
        # In the driver's own node, so that no other node's loss takes it along.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        self._board = Board.options(scheduling_strategy=here).remote()
        self._tasks: dict[str, tuple[Any, Order]] = {}
        self._leases: dict[str, lease.Lease] = {}
        self._lost: set[str] = set()
        self._tidied: list[Any] = []
        self._refused: list[Outcome] = []
        self._beaten = 0.0
        self._stopping = False

    def start(self, order: Order) -> None:
        if self.shared:
            task = attend.remote(order, str(self._token), None, self._board)
            self._tasks[order.name] = (task, order)
        else:
            self._start_apart(order)

    def _start_apart(self, order: Order) -> None:
        """On a disk of its node, while its lease at home is kept here."""
        try:
            self._leases[order.name] = lease.take(Path(order.path), order.stale)
        except lease.HeldError as error:
            self._refused.append(Outcome(order.name, HELD, str(error)))
            return
        task = attend.remote(order, None, self._scratch(order.name), self._board)
        self._tasks[order.name] = (task, order)

    def _scratch(self, name: str) -> str:
        return f"gammaprime-{self._home[:12]}/{name}"

    def ended(self) -> list[Outcome]:
        self._keep_leases()
        self.size = self._workers or _cores()
        outcomes, self._refused = self._refused, []
        if self._tasks:
            names = {task: name for name, (task, _) in self._tasks.items()}
            ready, _ = ray.wait(list(names), num_returns=len(names), timeout=0)
            collected = [self._collect(names[task]) for task in ready]
            outcomes += [outcome for outcome in collected if outcome is not None]
        return outcomes

    def _collect(self, name: str) -> Outcome | None:
        """How a run ended; None where it is started again, on a node without the folder."""
        task, order = self._tasks.pop(name)
        report, held = told_by(task), self._leases.pop(name, None)
        if name in self._lost or not (held is None or held.held):
            self._lost.discard(name)
            report = Report(LOST, "another process has taken this run", {})
        try:
            if report.code == UNSEEN and not self._stopping:
                self._start_apart(order)
                return None
            if report.code == UNSEEN:
                report = UNBEGUN
            if report.code == DONE and report.files:
                bring_home(Path(order.path), report.files)
                self._tidied.append(_on(report.node, _tidy).remote(self._scratch(name)))
        except OSError as error:
            report = Report(FAILED, f"could not be brought home: {error}", {})
        if held is not None:
            # Where this fails it goes stale.
            with suppress(OSError):
                held.release()
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
        self._stopping = True
        for task, _ in self._tasks.values():
            ray.cancel(task, force=False, recursive=False)

    def kill(self) -> None:
        for task, _ in self._tasks.values():
            ray.cancel(task, force=True, recursive=False)

    def close(self) -> None:
        if self._tidied:
            ray.wait(self._tidied, num_returns=len(self._tidied), timeout=TIDY_SECONDS)
        ray.shutdown()
        self._token.unlink(missing_ok=True)


def told_by(task: Any) -> Report:
    """What a task that has ended tells, or what its end says instead."""
    try:
        report: Report = ray.get(task)
        return report
    except ray.exceptions.RayTaskError as error:
        return Report(FAILED, f"its task failed: {error.cause!r}", {})
    except ray.exceptions.TaskCancelledError:
        return UNBEGUN
    except LOSSES as error:
        return Report(GONE, f"its worker or node was lost ({type(error).__name__})", {})
    except ray.exceptions.RayError as error:
        return Report(FAILED, f"Ray gave its task up ({type(error).__name__})", {})


def every_node_sees(token: Path) -> bool:
    """Whether a file that was written here can be read on all nodes that the cluster has now."""
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    tasks = [_on(node, _sees).remote(str(token)) for node in nodes]
    try:
        return all(ray.get(tasks, timeout=NODE_SECONDS))
    except ray.exceptions.RayError:
        return False


def _on(node: str, function: Any) -> Any:
    return function.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))


@ray.remote(num_cpus=0, max_retries=0)
def _sees(path: str) -> bool:
    return Path(path).is_file()


@ray.remote(num_cpus=0, max_retries=0)
def _tidy(scratch: str) -> None:
    tidy(scratch)


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
def attend(order: Order, token: str | None, scratch: str | None, board: Any) -> Report:
    """On a node: look after the process of one run, if it sees the file that it should."""
    if token is not None and not Path(token).is_file():
        return Report(UNSEEN, "its node does not see the results folder", {})
    try:
        report = look_after(order, scratch, lambda told: board.write.remote(order.name, told))
    except OSError as error:
        return Report(FAILED, str(error), {})
    return report._replace(node=ray.get_runtime_context().get_node_id())
