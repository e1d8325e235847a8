"""Runs that begin where another one stands: with its whole state, or with its parameters alone.

A run that is lengthened is a new run in a folder of its own.  It begins with copies of the
metrics, the newest checkpoint and the replay, and goes on as if it had been asked for so long; the
run that it comes from is not changed.  ``init`` takes the networks and the scales of observations
and rewards, and begins everything else anew.

Both are part of the configuration (`RunConfig.origin`), so that no figure mixes them with others.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gammaprime.agents import OffPolicy
from gammaprime.loops.loop import OnPolicyLoop, take_part
from gammaprime.loops.off_policy_loop import OffPolicyLoop
from gammaprime.runs import checkpoint, directory, lock
from gammaprime.runs.config import Origin, RunConfig
from gammaprime.runs.metrics import WALL_CLOCK, read_head
from gammaprime.runs.run import Run

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Source:
    """A run that another one begins from, as it stands."""

    path: Path
    config: RunConfig
    saved: checkpoint.Checkpoint
    origin: Origin
    parameters: Arrays | None
    """Leaves of the agent's state that are taken; None if all of the state is."""

    def copy_to(self, path: Path, table: directory.Table) -> None:
        """Put metrics, replay and checkpoint into a folder that has no checkpoint yet."""
        folder = path / directory.CHECKPOINTS
        if self.parameters is not None or checkpoint.load(folder) is not None:
            return
        kept = read_head(
            self.path / directory.METRICS, self.saved.metrics_bytes, self.saved.metrics_sha256
        )
        directory.write_whole(path / directory.METRICS, kept)
        if (self.path / WALL_CLOCK).is_file():
            directory.write_whole(path / WALL_CLOCK, (self.path / WALL_CLOCK).read_bytes())
        self._copy_replay(folder)
        checkpoint.save(folder, self.saved._replace(config_sha256=directory.config_hash(table)))

    def _copy_replay(self, folder: Path) -> None:
        stored = [part.file(folder) for part in self.saved.segments]
        if self.saved.parity is not None:
            stored.append(self.saved.parity.file(folder))
        if not stored:
            return
        stored[0].parent.mkdir(parents=True, exist_ok=True)
        with lock.hold(self.path):  # a process that trains it would remove segments
            for file in stored:
                source = self.path / directory.CHECKPOINTS / file.relative_to(folder)
                shutil.copyfile(source, file)


def take_state(run: Run | str | Path) -> Source:
    """Return all that a run needs to go on; refuse one that has dropped its replay."""
    path, config, saved = _find(run, "run")
    if isinstance(config.agent, OffPolicy) and not saved.segments:
        raise ValueError(
            f"{path}: dropped its replay when it was done, and cannot be lengthened; train with "
            "keep_replay (--keep-replay) to keep it, or begin a new run with its parameters: "
            "gammaprime train ... --init"
        )
    return Source(path, config, saved, _origin("state", path, saved, saved.arrays), None)


def take_parameters(run: Run | str | Path) -> Source:
    """Return the networks of a run, and its scales of observations and rewards."""
    path, config, saved = _find(run, "init")
    loop = OffPolicyLoop if isinstance(config.agent, OffPolicy) else OnPolicyLoop
    leaves = take_part(saved.arrays, "agent")
    taken = {name: x for name, x in leaves.items() if name.startswith(loop.parameters)}
    return Source(path, config, saved, _origin("parameters", path, saved, taken), taken)


def _find(run: Run | str | Path, name: str) -> tuple[Path, RunConfig, checkpoint.Checkpoint]:
    found = run if isinstance(run, Run) else Run.load(run)
    if found.path is None:
        raise ValueError(f"{name}: was kept in memory, and has no folder to begin from")
    saved = checkpoint.load(found.path / directory.CHECKPOINTS)
    if saved is None:
        raise ValueError(f"{name}={str(found.path)!r}: has no checkpoint to begin from")
    return found.path, found.config, saved


def _origin(
    taken: str, path: Path, saved: checkpoint.Checkpoint, arrays: Mapping[str, NDArray[Any]]
) -> Origin:
    table = directory.from_json(path / "config.json")
    del table["settings"]["seed"]
    table["settings"].get("origin", {}).pop("arrays_sha256", None)
    return Origin(taken, saved.step, directory.config_hash(table), _hash(arrays))


def _hash(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the hash of named arrays; files of equal arrays may differ in their headers."""
    whole = hashlib.sha256()
    for name, x in sorted(arrays.items()):
        whole.update(f"{name} {x.dtype.str} {x.shape}\n".encode())
        whole.update(np.ascontiguousarray(x).tobytes())
    return whole.hexdigest()
