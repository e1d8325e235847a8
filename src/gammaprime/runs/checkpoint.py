"""Checkpoints: the last two states of a run, of which one is always whole.

    000000040960.safetensors   the arrays; its own header repeats the facts of its manifest
    000000040960.json          written after it: size and hash, the proof that it is whole
    replay/                    transitions, in segments that both name (`runs.segments`)

A checkpoint without its .json was never finished.  The newest one that is whole is loaded, with a
warning for each newer one that is damaged.  Nothing is unpickled or evaluated.

It also holds the hashes of the configuration and of the metrics that it counts on.  Those of
earlier versions do not, and are taken without these checks.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

try:
    from safetensors import SafetensorError
    from safetensors.numpy import load as unpack
    from safetensors.numpy import save as pack
except ImportError as error:
    raise ImportError("checkpoints need safetensors: pip install 'gammaprime[train]'") from error

from gammaprime.runs import segments
from gammaprime.runs.directory import (
    DamagedError,
    from_json,
    remove_leftovers,
    to_json,
    write_whole,
)
from gammaprime.runs.segments import ParityFile, Segment

FORMAT = 1
KEPT = 2
FACTS = ("step", "metrics_bytes", "segments", "parity", "config_sha256", "metrics_sha256")
_NAME = re.compile(r"\d{12}\.json")


class Checkpoint(NamedTuple):
    """State of a run, and the length of its metrics file at that moment."""

    step: int
    metrics_bytes: int
    arrays: dict[str, np.ndarray]
    segments: tuple[Segment, ...] = ()
    """Files of the replay buffer that it needs, stored before it."""
    parity: ParityFile | None = None
    """File from which any one of them can be rebuilt."""
    config_sha256: str | None = None
    """Hash of the configuration of its run."""
    metrics_sha256: str | None = None
    """Hash of the first ``metrics_bytes`` of the metrics."""

    @property
    def facts(self) -> dict[str, Any]:
        """Facts that are both in its manifest and in the header of its data."""
        facts: dict[str, Any] = {"step": self.step, "metrics_bytes": self.metrics_bytes}
        if self.segments:
            facts["segments"] = [list(segment) for segment in self.segments]
        if self.parity is not None:
            facts["parity"] = list(self.parity)
        hashes = {"config_sha256": self.config_sha256, "metrics_sha256": self.metrics_sha256}
        return facts | {name: value for name, value in hashes.items() if value is not None}


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Store a checkpoint, and then remove all but the last two."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = checkpoint.facts
    # In C order: safetensors would store other layouts with their entries shuffled.
    arrays = {name: np.array(x, order="C") for name, x in checkpoint.arrays.items()}
    packed = pack(arrays, metadata={name: json.dumps(value) for name, value in facts.items()})
    data = folder / f"{checkpoint.step:012d}.safetensors"
    write_whole(data, packed)
    promise = {"bytes": len(packed), "sha256": hashlib.sha256(packed).hexdigest()}
    write_whole(data.with_suffix(".json"), to_json({"format": FORMAT, **facts, **promise}))
    _prune(folder)


def load(
    folder: Path, check: Callable[[Checkpoint], None] = lambda checkpoint: None
) -> Checkpoint | None:
    """Return the newest checkpoint that is whole, or None if none was ever finished.

    ``check`` raises `DamagedError` for one that does not fit the other files of its run.
    """
    damaged = []
    for manifest in _manifests(folder):
        try:
            checkpoint = read(manifest)
            check(checkpoint)
        except DamagedError as error:
            damaged.append(str(error))
            continue
        for message in damaged:
            warnings.warn(f"{message}; going back to step {checkpoint.step}", stacklevel=2)
        return checkpoint
    if damaged:
        raise DamagedError(
            f"no checkpoint is whole: {'; '.join(damaged)}; nothing was changed; "
            f"remove {folder} to start the run over"
        )
    return None


def read(manifest: Path) -> Checkpoint:
    """Return one checkpoint, if it is what its manifest says."""
    try:
        promise = from_json(manifest)
    except ValueError as error:
        raise DamagedError(str(error)) from None
    data = manifest.with_suffix(".safetensors")
    _check_promise(manifest, promise)
    if not data.is_file():
        raise DamagedError(f"{data}: is missing")
    if (size := data.stat().st_size) != promise["bytes"]:
        raise DamagedError(f"{data}: has {size} bytes, its manifest says {promise['bytes']}")
    packed = data.read_bytes()
    if hashlib.sha256(packed).hexdigest() != promise["sha256"]:
        raise DamagedError(f"{data}: its hash is not the one in its manifest")
    try:
        arrays, facts = unpack(packed), _facts(packed)
        held = segments.from_list(facts.get("segments", []))
        parity = segments.parity_from_list(facts.get("parity"))
    except (SafetensorError, ValueError, KeyError) as error:
        raise DamagedError(f"{data}: not a checkpoint ({error})") from None
    if facts != {name: promise[name] for name in FACTS if name in promise}:
        raise DamagedError(f"{manifest}: does not say what {data.name} says")
    segments.check(manifest.parent, held, parity)
    hashes = (facts.get("config_sha256"), facts.get("metrics_sha256"))
    return Checkpoint(facts["step"], facts["metrics_bytes"], arrays, held, parity, *hashes)


def set_aside(folder: Path, step: int) -> None:
    """Rename damaged checkpoints that are newer than the step a run resumes from.

    The run writes these steps again; left in place, they would be found damaged each time.
    """
    for manifest in _manifests(folder):
        if int(manifest.stem) > step:
            data = manifest.with_suffix(".safetensors")
            manifest.replace(manifest.with_suffix(".json.damaged"))
            if data.is_file():
                data.replace(data.with_suffix(".safetensors.damaged"))
    remove_leftovers(folder)


def _check_promise(manifest: Path, promise: Mapping[str, Any]) -> None:
    if promise.get("format") != FORMAT:
        raise DamagedError(
            f"{manifest}: format {promise.get('format')!r} is not the {FORMAT} of this version"
        )
    kinds = {"step": int, "metrics_bytes": int, "bytes": int, "sha256": str}
    for name, kind in kinds.items():
        if type(promise.get(name)) is not kind:
            raise DamagedError(f"{manifest}: {name}={promise.get(name)!r} makes no sense")
    if f"{promise['step']:012d}" != manifest.stem:
        raise DamagedError(f"{manifest}: says it is of step {promise['step']}")


def _facts(packed: bytes) -> dict[str, Any]:
    """Return the facts in the header of a safetensors file that `unpack` has accepted."""
    header = json.loads(packed[8 : 8 + int.from_bytes(packed[:8], "little")])
    told = header["__metadata__"]
    return {name: json.loads(told[name]) for name in FACTS if name in told}


def _manifests(folder: Path) -> list[Path]:
    """Return the manifests in a folder, newest first."""
    if not folder.is_dir():
        return []
    return sorted((f for f in folder.iterdir() if _NAME.fullmatch(f.name)), reverse=True)


def _prune(folder: Path) -> None:
    for manifest in _manifests(folder)[KEPT:]:
        # The manifest goes first: data without it counts as never finished.
        manifest.unlink(missing_ok=True)
    kept = {manifest.stem for manifest in _manifests(folder)}
    for data in folder.glob("*.safetensors"):
        if data.stem not in kept:
            data.unlink(missing_ok=True)
    if (folder / segments.REPLAY).is_dir():
        segments.prune(folder, _needed(folder))


def _needed(folder: Path) -> list[Segment | ParityFile]:
    """Return the files of the replay that the kept checkpoints need, if these can be read."""
    needed: list[Segment | ParityFile] = []
    for manifest in _manifests(folder):
        try:
            promise = from_json(manifest)
            needed += segments.from_list(promise.get("segments", []))
            parity = segments.parity_from_list(promise.get("parity"))
        except ValueError:
            continue
        needed += [] if parity is None else [parity]
    return needed
